import { useEffect, useRef, useState } from "preact/hooks";
import type { Token } from "marked";
import type { ProposalView } from "../api/types";
import { number } from "../text/format";
import { Blocks } from "../text/markdown";
import { portion } from "../text/portion";
import { ShownText } from "../text/segments";
import { CommandBlock } from "./CodeBlock";

/** Characters of a finished answer that are read at first, and more in each frame if all of it is wanted. */
const FOLD = 40_000;
/** Elements that are shown at first, and more in each frame. */
const ELEMENTS = 400;
/** Elements of a command. */
const COMMAND_ELEMENTS = 6;

type Unit = { command: string } | { tokens: Token[] };

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
  // All of it at once would stop the page for as long as that takes.
  const [steps, setSteps] = useState(1);
  const isEnd = wasLive.current;
  const isFolded = !isEnd && text.length > FOLD * steps;
  shown.current ??= new ShownText();
  const units: Unit[] = shown.current
    .parts(isFolded && !isWhole ? text.slice(0, FOLD) : text, proposals, isEnd ? Infinity : FOLD * steps)
    .map(({ segment, tokens }) => (segment.kind === "command" ? { command: segment.text } : { tokens }));
  const [part, isCut] = limited(units, ELEMENTS * steps, isEnd);
  const hasMore = isCut || isFolded;
  useEffect(() => {
    if (!isWhole || !hasMore) return;
    const frame = requestAnimationFrame(() => setSteps(steps + 1));
    return () => cancelAnimationFrame(frame);
  }, [isWhole, hasMore, steps]);
  const more = hasMore && !isWhole && (
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

/** Returns the first or the last parts, with about as many elements as allowed, and whether there are more. */
function limited(units: Unit[], allowed: number, isEnd: boolean): [Unit[], boolean] {
  const part: Unit[] = [];
  let left = allowed;
  let isCut = false;
  for (const unit of isEnd ? units.toReversed() : units) {
    isCut ||= left <= 0;
    if (isCut) break;
    if ("command" in unit) {
      part.push(unit);
      left -= COMMAND_ELEMENTS;
    } else {
      const shown = portion(unit.tokens, left, isEnd);
      part.push(shown);
      ({ left, isCut } = shown);
    }
  }
  return [isEnd ? part.reverse() : part, isCut];
}
