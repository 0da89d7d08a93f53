import { useState } from "preact/hooks";
import { ansiSpans } from "../text/ansi";
import { number } from "../text/format";
import { visible } from "../text/visible";

const LINES = 20;
const CHARACTERS = 4000;
/** Coloured spans that one output has at most; what follows is plain. */
const SPANS = 200;

/** Output of a program: with its colours, folded if it is long. */
export function Output({ text }: { text: string }) {
  const [isOpen, setOpen] = useState(false);
  const lines = text.split("\n");
  const isLong = lines.length > LINES + 3 || text.length > CHARACTERS;
  const part = isLong && !isOpen ? lines.slice(0, LINES).join("\n").slice(0, CHARACTERS) : text;
  return (
    <div class="output">
      <pre>
        <code>{spans(part)}</code>
      </pre>
      {isLong && (
        <button type="button" class="more" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Fold" : `Show all ${number(lines.length)} lines`}
        </button>
      )}
    </div>
  );
}

function spans(text: string) {
  const all = ansiSpans(text);
  const coloured = all.slice(0, SPANS);
  const rest = all.slice(SPANS).map((span) => span.text).join("");
  return [
    ...coloured.map(({ text: words, classes }) => (classes ? <span class={classes}>{visible(words)}</span> : visible(words))),
    visible(rest),
  ];
}
