// Server-sent events read with fetch, because EventSource cannot send the header Authorization.

/** One event as it was received. */
export interface ServerEvent {
  id: string | null;
  data: string;
}

/** Cuts a text stream into events. Lines end with LF, CRLF or CR. */
export class EventParser {
  private rest = "";
  private data: string[] = [];
  private id: string | null = null;

  /** Returns the events that are complete with this chunk. */
  push(chunk: string): ServerEvent[] {
    const text = this.rest + chunk;
    const events: ServerEvent[] = [];
    let start = 0;
    for (;;) {
      const end = nextLineEnd(text, start);
      if (end < 0) break;
      const isPair = text[end] === "\r" && text[end + 1] === "\n";
      // A CR at the end of the chunk may be half of a CRLF.
      if (text[end] === "\r" && end + 1 === text.length) break;
      this.line(text.slice(start, end), events);
      start = end + (isPair ? 2 : 1);
    }
    this.rest = text.slice(start);
    return events;
  }

  private line(line: string, events: ServerEvent[]) {
    if (line === "") {
      if (this.data.length > 0) events.push({ id: this.id, data: this.data.join("\n") });
      this.data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.data.push(value);
    if (field === "id" && !value.includes("\0")) this.id = value;
  }
}

function nextLineEnd(text: string, from: number): number {
  const lf = text.indexOf("\n", from);
  const cr = text.indexOf("\r", from);
  if (lf < 0 || cr < 0) return Math.max(lf, cr);
  return Math.min(lf, cr);
}
