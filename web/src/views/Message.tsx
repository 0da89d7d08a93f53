import { Component } from "preact";
import { useState } from "preact/hooks";
import type { Fields } from "../api/types";
import { CONTINUED_SHOWN, type CommandOutput, FINISH_WORDS, type Item, commandWords, isContinued, optionalNumber, optionalText, text } from "../state/items";
import { sessionAddress } from "../state/route";
import { cost, duration, fullTime, number, plural, shortTime } from "../text/format";
import { visible } from "../text/visible";
import { Answer } from "./Answer";
import { CopyButton } from "./CopyButton";
import { Output } from "./Output";
import { ReplayHere } from "./Replay";
import { ToolCall } from "./ToolCall";

interface Props {
  item: Item;
  session: string;
  /** What the address names in this message: a call by its index, -1 for the message itself, or nothing. */
  target: number | null;
  /** Whether it is a prompt that has no answer and gets none. */
  isUnanswered?: boolean;
  /** Whether it has calls that get no result any more. */
  isOver?: boolean;
}

const NAMES = { user: "You", waiting: "You", assistant: "Answer", tool: "Tool result", command: "Command", notice: "Notice" } as const;

function nameOf({ kind, isSummary, text }: Item): string {
  if (isSummary) return "Summary of the older part";
  return isContinued(kind, text) ? CONTINUED_SHOWN : NAMES[kind];
}

/** Characters of a prompt that are shown at first. */
export const FOLD = 8000;

function Message({ item, session, target, isUnanswered, isOver = false }: Props) {
  if (item.kind === "notice") {
    return (
      <div class="message notice" data-message={item.key} tabIndex={-1}>
        {visible(item.text)}
      </div>
    );
  }
  return (
    <article
      class={`message ${item.kind}${target === -1 ? " target" : ""}`}
      data-message={item.key}
      aria-label={`${nameOf(item)}, ${shortTime(item.timestampMs)}`}
      tabIndex={-1}
    >
      <Head item={item} session={session} />
      <Body item={item} />
      {(isUnanswered || item.kind === "waiting") && <p class="problem">Not answered: it was cancelled, it failed, or the daemon ended before its answer.</p>}
      {item.calls.map((call, i) => (
        <ToolCall key={i} call={call} session={session} isTarget={target === i} isOver={isOver} />
      ))}
      {item.kind === "assistant" && !item.isLive && <AnswerFacts detail={item.detail} />}
    </article>
  );
}

/** Is made again only when its message has changed, or when the address names it. */
export class MessageView extends Component<Props> {
  override shouldComponentUpdate(next: Props) {
    const { item, target, isUnanswered, isOver } = this.props;
    return next.item !== item || next.target !== target || next.isUnanswered !== isUnanswered || next.isOver !== isOver;
  }

  override render() {
    return <Message {...this.props} />;
  }
}

function Head({ item, session }: { item: Item; session: string }) {
  return (
    <div class="message-head">
      <h2>{nameOf(item)}</h2>
      {item.recordId ? (
        <a class="time" href={sessionAddress(session, item.recordId)} title="Show the record">
          <time dateTime={new Date(item.timestampMs).toISOString()} title={fullTime(item.timestampMs)}>
            {shortTime(item.timestampMs)}
          </time>
        </a>
      ) : (
        <span class="time">now</span>
      )}
      <ReplayHere item={item} />
      {!item.isLive && item.text && !isContinued(item.kind, item.text) && <CopyMenu item={item} />}
    </div>
  );
}

function CopyMenu({ item }: { item: Item }) {
  const json = () =>
    JSON.stringify(
      { record_id: item.recordId, role: item.kind, timestamp_ms: item.timestampMs, content: item.text, detail: item.detail },
      null,
      2,
    );
  return (
    <span class="message-actions">
      <CopyButton text={item.text} of={item.kind === "assistant" ? "the answer as Markdown" : "the text"} />
      {item.kind === "assistant" && <CopyButton text={json()} label="JSON" of="of the answer: copy" />}
    </span>
  );
}

function Body({ item }: { item: Item }) {
  switch (item.kind) {
    case "command":
      return <CommandFacts detail={item.detail} />;
    case "tool":
      return <Output text={item.text} />;
    case "user":
    case "waiting":
      if (isContinued(item.kind, item.text)) return null;
      return <Prompt item={item} />;
    default:
      return <Answer text={item.text} proposals={item.proposals} isLive={item.isLive} />;
  }
}

function Prompt({ item }: { item: Item }) {
  const [isWhole, setWhole] = useState(false);
  const isFolded = !isWhole && item.text.length > FOLD;
  return (
    <>
      <div class="prompt-text">{visible(isFolded ? item.text.slice(0, FOLD) : item.text)}</div>
      {isFolded && (
        <button type="button" class="more" onClick={() => setWhole(true)}>
          Show all {number(item.text.length)} characters
        </button>
      )}
      {item.omitted > 0 && <p class="quiet">{plural(item.omitted, "byte")} of the prompt are not shown.</p>}
    </>
  );
}

function AnswerFacts({ detail }: { detail: Fields }) {
  const finish = FINISH_WORDS[text(detail.finish)];
  const error = optionalText(detail.error);
  const tokens = [optionalNumber(detail.prompt_tokens), optionalNumber(detail.completion_tokens)];
  const omitted = optionalNumber(detail.omitted);
  const dollars = optionalNumber(detail.cost);
  const ms = optionalNumber(detail.duration_ms);
  const facts = [
    optionalText(detail.model) && visible(text(detail.model)),
    ms !== undefined && duration(ms),
    tokens[0] !== undefined && `${number(tokens[0])} tokens in`,
    tokens[1] !== undefined && `${number(tokens[1])} out`,
    // A request that failed before it had used anything has cost nothing that is worth a word.
    dollars !== undefined && (dollars > 0 || tokens.some(Boolean)) && `${cost(dollars)}${detail.cost_estimated ? " (estimated)" : ""}`,
  ].filter(Boolean);
  return (
    <>
      {finish && (
        <p class="problem">
          {finish} {error && visible(error)}
        </p>
      )}
      {!!omitted && <p class="problem">{plural(omitted, "byte")} of the answer were not kept.</p>}
      {facts.length > 0 && <p class="answer-facts">{facts.join(" · ")}</p>}
    </>
  );
}

function CommandFacts({ detail }: { detail: Fields }) {
  const output = detail.output as CommandOutput;
  return (
    <>
      <p class="command-words">
        {visible(commandWords(detail))}: <code>{visible(text(detail.command))}</code>
      </p>
      {output?.head && <Output text={output.head} />}
      {!!output?.omitted && <p class="quiet">{plural(output.omitted, "byte")} are left out.</p>}
      {output?.tail && <Output text={output.tail} />}
    </>
  );
}
