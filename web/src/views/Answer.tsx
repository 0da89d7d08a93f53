import { useRef, useState } from "preact/hooks";
import type { Token } from "marked";
import type { ProposalView } from "../api/types";
import { number } from "../text/format";
import { Blocks } from "../text/markdown";
import { ShownText } from "../text/segments";
import { CommandBlock } from "./CodeBlock";

/** Characters of a finished answer that are read at first. */
const FOLD = 40_000;
/** Blocks, such as paragraphs and lists, that are shown at first. */
const MAX_BLOCKS = 120;

type Unit = { command: string } | { tokens: Token[]; blocks: number };

interface Props {
  text: string;
  /** None while the answer runs: its commands are text until it has ended. */
  proposals: ProposalView[];
  isLive: boolean;
}

/** The text of an answer. Of a long one that is running, the end is shown; of another, the beginning. */
export function Answer({ text, proposals, isLive }: Props) {
  const shown = useRef<ShownText | null>(null);
  // An answer that was watched until its end keeps showing its end.
  const wasLive = useRef(isLive);
  const [isWhole, setWhole] = useState(false);
  const isEnd = wasLive.current;
  const isFolded = !isWhole && !isEnd && text.length > FOLD;
  shown.current ??= new ShownText();
  const units: Unit[] = shown.current
    .parts(isFolded ? text.slice(0, FOLD) : text, proposals)
    .map(({ segment, tokens }) =>
      segment.kind === "command" ? { command: segment.text } : { tokens, blocks: tokens.length },
    );
  const [part, isCut] = isWhole ? [units, false] : limited(units, isEnd);
  const more = (isCut || isFolded) && (
    <button type="button" class="more" onClick={() => setWhole(true)}>
      Show all {number(text.length)} characters
    </button>
  );
  return (
    <>
      {isEnd && more}
      <div class="answer">
        {part.map((unit) => ("command" in unit ? <CommandBlock text={unit.command} /> : <Blocks tokens={unit.tokens} />))}
      </div>
      {!isEnd && more}
    </>
  );
}

/** Returns the first or the last blocks, and whether there are more. */
function limited(units: Unit[], isEnd: boolean): [Unit[], boolean] {
  const part: Unit[] = [];
  let left = MAX_BLOCKS;
  for (const unit of isEnd ? units.toReversed() : units) {
    if (left <= 0) return [isEnd ? part.reverse() : part, true];
    if ("command" in unit || unit.blocks <= left) part.push(unit);
    else {
      const tokens = isEnd ? unit.tokens.slice(-left) : unit.tokens.slice(0, left);
      part.push({ tokens, blocks: left });
      return [isEnd ? part.reverse() : part, true];
    }
    left -= "command" in unit ? 1 : unit.blocks;
  }
  return [isEnd ? part.reverse() : part, false];
}
