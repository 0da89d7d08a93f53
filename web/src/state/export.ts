// A whole session as text.

import { get, sessionPath } from "../api/client";
import type { MessagePage, MessageView, RecordView } from "../api/types";
import { WAITING, text } from "./items";

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
  const parts = messages.map(messageAsMarkdown);
  return `# ${title.replace(/\s+/g, " ")}\n\n${parts.filter(Boolean).join("\n\n")}\n`;
}

/** A fence that the text does not contain. */
function fenced(content: string): string {
  const longest = Math.max(2, ...[...content.matchAll(/`+/g)].map((run) => run[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${content.trimEnd()}\n${fence}`;
}

function messageAsMarkdown(message: MessageView): string {
  switch (message.role) {
    case "user":
      return `## Prompt${message.detail.type === WAITING ? " (not answered)" : ""}\n\n${message.content}`;
    case "assistant":
      return message.content.trim() && `## Answer\n\n${message.content}`;
    case "tool":
      return `### Tool: ${text(message.detail.name)} (${text(message.detail.status)})\n\n${fenced(message.content)}`;
    case "command":
      return `### Command\n\n${fenced(text(message.detail.command))}`;
  }
}
