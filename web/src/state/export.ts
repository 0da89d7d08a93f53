// A whole session as text.

import { get, sessionPath } from "../api/client";
import type { MessagePage, MessageView, RecordView } from "../api/types";
import { ansiSpans, withoutEscapes } from "../text/ansi";
import { type CommandOutput, FINISH_WORDS, CONTINUED_SHOWN, STATUS_WORDS, afterTurns, commandWords, isContinued, kindOf, optionalText, text } from "./items";

const PAGE = 200;

async function allMessages(id: string): Promise<MessageView[]> {
  const pages: MessageView[][] = [];
  let before: number | undefined;
  do {
    const query: string = before === undefined ? "" : `&before=${before}`;
    const page: MessagePage = await get<MessagePage>(sessionPath(id, `/messages?limit=${PAGE}${query}`));
    pages.unshift(page.messages.reverse());
    before = page.next_before;
  } while (before !== undefined);
  return pages.flat();
}

export async function sessionAsJson(id: string): Promise<string> {
  return JSON.stringify({ session_id: id, messages: await allMessages(id) }, null, 2);
}

export async function sessionAsMarkdown(id: string, title: string): Promise<string> {
  const messages = await allMessages(id);
  // Pages of messages have only the beginning of a long result.
  for (const message of messages) {
    if (message.omitted === 0) continue;
    const { record } = await get<RecordView>(sessionPath(id, `/records/${encodeURIComponent(message.record_id)}`));
    message.content = text(record.text);
  }
  const parts = afterTurns(messages, kindOf).map(messageAsMarkdown);
  return `# ${withoutEscapes(title).replace(/\s+/g, " ")}\n\n${parts.filter(Boolean).join("\n\n")}\n`;
}

/** A fence that the text does not contain. */
function fenced(content: string): string {
  const longest = Math.max(2, ...[...content.matchAll(/`+/g)].map((run) => run[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${content.trimEnd()}\n${fence}`;
}

/** Output as a terminal shows it, without its escapes. */
const plain = (output: string) => ansiSpans(output).map((span) => span.text).join("");

const paragraphs = (...parts: (string | undefined | false)[]) => parts.filter((part) => part && part.trim()).join("\n\n");

export function messageAsMarkdown(message: MessageView): string {
  const { role, content, detail, is_summary, tool_calls = [] } = message;
  const error = withoutEscapes(text(detail.error));
  switch (role) {
    case "user":
      if (isContinued(role, content)) return `## ${CONTINUED_SHOWN}`;
      return `## Prompt${kindOf(message) === "waiting" ? " (not answered)" : ""}\n\n${withoutEscapes(content)}`;
    case "assistant": {
      const calls = tool_calls.map((call) => `### Call: ${call.name}\n\n${fenced(call.arguments)}`);
      const ended = [FINISH_WORDS[text(detail.finish)], error].filter(Boolean).join(" ");
      const parts = paragraphs(content, ended, ...calls);
      return parts && `## ${is_summary ? "Summary of the older part" : "Answer"}\n\n${parts}`;
    }
    case "tool": {
      const status = text(detail.status);
      const reason = optionalText(detail.reason);
      const result = content.trim() && fenced(plain(content));
      return paragraphs(`### Result: ${text(detail.name)} (${STATUS_WORDS[status] ?? status})`, error, reason && `Reason: ${reason}`, result);
    }
    case "command": {
      const output = detail.output as CommandOutput;
      const shown = [output?.head, output?.omitted ? `[${output.omitted} bytes are left out]` : "", output?.tail].filter(Boolean).join("\n");
      return paragraphs(`### Command: ${commandWords(detail)}`, fenced(text(detail.command)), shown.trim() && fenced(plain(shown)));
    }
  }
}
