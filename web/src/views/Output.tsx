import { useEffect, useState } from "preact/hooks";
import { ansiSpans } from "../text/ansi";
import { number } from "../text/format";
import { visible } from "../text/visible";

const LINES = 20;
const CHARACTERS = 4000;
/** Coloured spans that one output has at most; what follows is plain. */
const SPANS = 200;

interface Props {
  text: string;
  /** Whether it is unfolded: what the address names may be anywhere in it. */
  isWhole?: boolean;
  /** Whether there is more that is not loaded. */
  isPart?: boolean;
}

/** Output of a program: with its colours, folded if it is long. */
export function Output({ text, isWhole = false, isPart }: Props) {
  const [isOpen, setOpen] = useState(isWhole);
  useEffect(() => {
    if (isWhole) setOpen(true);
  }, [isWhole]);
  const lines = text.split("\n");
  const hasLines = lines.length > LINES + 3;
  const isLong = hasLines || text.length > CHARACTERS;
  const size = hasLines ? `${number(lines.length)} ${isPart ? "loaded " : ""}lines` : `${number(text.length)} ${isPart ? "loaded " : ""}characters`;
  const part = isLong && !isOpen ? lines.slice(0, LINES).join("\n").slice(0, CHARACTERS) : text;
  return (
    <div class="output">
      <pre>
        <code>{spans(part)}</code>
      </pre>
      {isLong && (
        <button type="button" class="more" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Fold" : `Show all ${size}`}
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
