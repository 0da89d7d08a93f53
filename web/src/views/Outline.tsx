import { useEffect, useRef, useState } from "preact/hooks";
import { describe, get, sessionPath } from "../api/client";
import type { Outline, OutlineEntry } from "../api/types";
import { logFilter } from "../state/filters";
import { isOutlineOpen } from "../state/keys";
import { leaveRecord } from "../state/route";
import type { SessionModel } from "../state/session";
import { shortTime } from "../text/format";
import { visible } from "../text/visible";
import { Dialog } from "./Dialog";

/** Prompts that are shown at first; the field finds the others. */
const SHOWN = 100;

/** The prompts of the session, to jump to one. */
export function OutlineDialog({ model }: { model: SessionModel }) {
  const [prompts, setPrompts] = useState<OutlineEntry[] | null>(null);
  const [problem, setProblem] = useState("");
  const [words, setWords] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const close = () => {
    isOutlineOpen.value = false;
  };
  useEffect(() => {
    get<Outline>(sessionPath(model.id, "/outline"))
      .then((outline) => setPrompts(outline.prompts.reverse()))
      .catch((error) => setProblem(describe(error).message));
    field.current?.focus();
  }, []);
  const wanted = words.trim().toLowerCase();
  const found = (prompts ?? []).filter((prompt) => prompt.text.toLowerCase().includes(wanted));
  const jump = (prompt: OutlineEntry) => {
    close();
    leaveRecord();
    logFilter.value = "";
    void model.showPrompt(prompt);
  };
  return (
    <Dialog title="Prompts" onClose={close}>
      <label class="off-screen" for="outline-words">
        Filter the prompts
      </label>
      <input
        ref={field}
        id="outline-words"
        type="search"
        placeholder="Filter the prompts"
        autocomplete="off"
        onInput={(event) => setWords(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && found[0]) jump(found[0]);
        }}
      />
      {problem && <p class="problem">{visible(problem)}</p>}
      {prompts && found.length === 0 && <p class="quiet">{wanted ? "No prompt has these words." : "There are no prompts yet."}</p>}
      <ol class="outline">
        {found.slice(0, SHOWN).map((prompt) => (
          <li key={prompt.id}>
            <button type="button" onClick={() => jump(prompt)}>
              <span>{visible(prompt.text) || "(empty)"}</span>
              <time>{shortTime(prompt.timestamp_ms)}</time>
            </button>
          </li>
        ))}
      </ol>
      {found.length > SHOWN && <p class="quiet">The newest {SHOWN} are shown. Type words to find older ones.</p>}
    </Dialog>
  );
}
