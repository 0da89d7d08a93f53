// The objects of the HTTP API that the page uses, as src/api/types.rs defines them.

export type SessionState = "idle" | "running" | "waiting";

export interface SessionView {
  id: string;
  title: string;
  prompts: number;
  updated_ms: number;
  status: SessionState;
  share_state: "private" | "shared";
  excerpt?: string;
  /** Id of the record that the excerpt is from. */
  excerpt_record_id?: string;
}

export interface SessionList {
  sessions: SessionView[];
  next_offset?: number;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  cost?: number;
  is_estimated: boolean;
}

export interface SessionDetail extends SessionView {
  settings: { model?: string; prompt?: string; tools?: string };
  records: number;
  usage: Usage;
  cwd?: string;
  next_cursor: string;
}

export interface SessionChange {
  title?: string;
  model?: string;
  prompt?: string;
  tools?: string;
}

export type Role = "user" | "assistant" | "tool" | "command";

export interface ToolCallView {
  id: string;
  name: string;
  arguments: string;
}

/** Fields of a record that only some types have. */
export type Fields = Record<string, unknown>;

/** Lines of an answer that propose commands; the first line has the number 0. */
export interface ProposalView {
  first_line: number;
  lines: number;
  commands: string[];
}

export interface MessageView {
  id: string;
  record_id: string;
  number: number;
  role: Role;
  timestamp_ms: number;
  content: string;
  omitted: number;
  tool_calls?: ToolCallView[];
  proposals?: ProposalView[];
  /** Whether it is an answer that summarizes the older part of the session. */
  is_summary?: boolean;
  detail: Fields;
}

export interface MessagePage {
  messages: MessageView[];
  next_before?: number;
  next_cursor: string;
}

/** A prompt, an answer, a tool call, a command, or a change of the rules. */
export interface ActivityView {
  record_id: string;
  timestamp_ms: number;
  type: string;
  status: string;
  server: string | null;
  tool: string | null;
  text: string;
  duration_ms: number | null;
  decided_by: string | null;
  session_id: string | null;
}

export interface ActivityList {
  activities: ActivityView[];
}

export interface OutlineEntry {
  number: number;
  id: string;
  text: string;
  timestamp_ms: number;
}

export interface Outline {
  prompts: OutlineEntry[];
}

export interface ChainEntry {
  number: number;
  record_id: string;
  type: string;
  text: string;
}

export interface RecordView {
  number: number;
  record: Fields;
  chain: ChainEntry[];
}

/** Preview of a share of a session. */
export interface SharePreview {
  digest: string;
  title: string;
  messages: number;
  /** Number and total duration of the recordings, if they were asked for. */
  recordings?: number;
  recordings_ms?: number;
  /** Description of the omitted or replaced parts. */
  removed: string[];
  /** Where the page goes, in words. */
  place: string;
}

export interface ShareResult extends SharePreview {
  share?: ShareView;
}

export interface ShareView {
  id: string;
  /** Of a page on this machine. */
  path?: string;
  /** Of a page in a bucket. */
  url?: string;
  /** Where the page is, in words. */
  place: string;
  session_id: string;
  title: string;
  created_ms: number;
  /** False if publishing was interrupted. */
  is_published: boolean;
  /** True if the session is shared after each answer. */
  is_automatic: boolean;
}

export interface ShareList {
  shares: ShareView[];
}

/** A recording of a terminal whose shell has used the session. */
export interface RecordingView {
  id: string;
  started_ms: number;
  duration_ms: number;
  cols: number;
  rows: number;
  source: "relay" | "tmux" | "unknown";
  is_recording: boolean;
  commands: RecordedCommand[];
}

/** A command of the recorded shell; its start counts from that of the recording. */
export interface RecordedCommand {
  text: string | null;
  start_ms: number;
  duration_ms: number | null;
  exit: number | null;
}

export interface RecordingList {
  recordings: RecordingView[];
}

export interface ModelView {
  name: string;
  model: string;
  is_default: boolean;
}

export interface ToolList {
  tools: { name: string; description: string; operation: string }[];
  toolsets: string[];
  prompts: string[];
}

/** A question about a tool call, or of an MCP server. */
export interface Question {
  question_id: string;
  kind: "approval" | "elicitation";
  /** SHA-256 of the shown view; an answer counts only with it. */
  digest: string;
  /** Answers that a paired browser may give. */
  answers: string[];
  /** Why some answers are possible in the terminal only. */
  terminal_reason?: string | null;
  view: QuestionView | null;
  shown: Fields;
}

/** View of a question about a tool call. Its texts have stand-ins for everything invisible. */
export interface QuestionView {
  tool: string;
  operation: string;
  number: number;
  of: number;
  facts: [name: string, text: string][];
}

export interface NewPairing {
  bearer: string;
  code: string;
}

export interface PairingView {
  state: "none" | "waiting" | "paired";
  bearer?: string;
}

export interface StatusPayload {
  status: SessionState;
  /** Id of the prompt that is answered. */
  message_id?: string | null;
  prompt?: string;
  started_ms?: number;
  terminal?: string;
  /** Ids of the prompts that wait for their turn, in order. */
  waiting: string[];
  failure?: { message_id?: string | null; message: string; hint?: string | null } | null;
  questions: Question[];
}

export interface EventEnvelope {
  type: string;
  session_id: string;
  seq: number;
  ts: string;
  payload: Fields;
}
