import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { describe, sessionPath, write } from "../api/client";
import type { SessionChange, SessionDetail } from "../api/types";
import { choices, loadChoices } from "../state/choices";
import { type Problem, changeDraft, draftOf, joined } from "../state/drafts";
import { showNote } from "../state/announce";
import { isComposing } from "../state/keys";
import type { SessionModel } from "../state/session";
import { isJustCreated } from "../state/sessions";
import { visible } from "../text/visible";
import { Questions } from "./Questions";

/** Characters of a prompt that a note about it has. */
const NOTED = 60;

/** Writes prompts and chooses the settings of the session. */
export function Composer({ model }: { model: SessionModel }) {
  const draft = draftOf(model.id);
  const { words, sent, problem: unsent } = draft.value;
  const isSending = sent !== "";
  const [problem, setProblem] = useState<Problem | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const { failure } = model.status.value;
  const isBusy = model.isBusy();

  const isConnected = model.connection.value === "live";
  useEffect(() => {
    if (isConnected) setProblem(null);
  }, [isConnected]);

  useLayoutEffect(() => {
    const area = field.current;
    if (!area) return;
    area.style.height = "";
    // Without text the style sheet knows the height; to ask for it would lay out the page while it opens.
    if (words) area.style.height = `${area.scrollHeight + 2}px`;
  }, [words]);

  useLayoutEffect(() => {
    // The next key is meant for the prompt.
    if (isJustCreated(model.id)) field.current?.focus();
  }, []);

  const isNew = model.isLoaded.value && model.items.value.length === 0;
  useEffect(() => {
    if (isNew) field.current?.focus();
  }, [isNew]);

  const submit = async () => {
    if (isSending || !words.trim()) return;
    setProblem(null);
    changeDraft(model.id, { words: "", sent: words, problem: undefined });
    // Not at the end: the user may be elsewhere then.
    field.current?.focus();
    try {
      await write("POST", sessionPath(model.id, "/messages"), { content: words });
      changeDraft(model.id, { sent: "" });
      // Another session may be shown by now.
      if (field.current) document.dispatchEvent(new CustomEvent("aish:end"));
    } catch (error) {
      const problem = describe(error);
      // Why a prompt is in the field again stays until it is sent.
      changeDraft(model.id, { words: joined(words, draft.value.words), sent: "", problem });
      if (!field.current) showNote(`“${words.trim().slice(0, NOTED)}” was not sent: ${problem.message}. It is in the field of its session.`, true);
    }
  };

  const cancel = async () => {
    try {
      await write("POST", sessionPath(model.id, "/cancel"));
    } catch (error) {
      setProblem(describe(error));
    }
  };

  // The answer says itself why it failed; what can be done about it is here.
  const isTold = failure && model.items.value.some(({ detail }) => detail.error === failure.message);
  const failed = failure && isTold ? { ...failure, message: "The last answer failed" } : failure;
  const shown = problem ?? unsent ?? failed ?? model.problem.value;
  return (
    <div class="composer">
      <Questions model={model} />
      {shown && (
        <p class="problem" role="alert">
          {visible(shown.message)}
          {shown.hint && <span class="hint">: {visible(shown.hint)}</span>}
        </p>
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <label class="off-screen" for="prompt">
          Prompt
        </label>
        <textarea
          id="prompt"
          ref={field}
          rows={1}
          placeholder="Write a prompt"
          value={words}
          onInput={(event) => {
            const { value } = event.currentTarget;
            changeDraft(model.id, value ? { words: value } : { words: "", problem: undefined });
          }}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || isComposing(event)) return;
            event.preventDefault();
            void submit();
          }}
        />
        <div class="composer-foot">
          <Settings model={model} onProblem={setProblem} />
          <div class="composer-actions">
            {isBusy && <Cancel onCancel={cancel} onLeave={() => field.current?.focus()} />}
            <button type="submit" class="primary" disabled={isSending || !words.trim()}>
              {isSending ? "Sending…" : "Send"}
            </button>
          </div>
        </div>
      </form>
    </div>
  );
}

/** Cancels the answer. It vanishes with the answer; `onLeave` takes the focus then. */
function Cancel({ onCancel, onLeave }: { onCancel: () => void; onLeave: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(
    () => () => {
      if (button.current && button.current === document.activeElement) onLeave();
    },
    [],
  );
  return (
    <button type="button" ref={button} onClick={onCancel}>
      Cancel
    </button>
  );
}

interface SettingsProps {
  model: SessionModel;
  onProblem: (problem: Problem | null) => void;
}

type Choice = [value: string, label: string];

function Settings({ model, onProblem }: SettingsProps) {
  useEffect(loadChoices, []);
  const { models, packs, toolsets } = choices.value;
  const settings = model.detail.value?.settings ?? {};
  const standard = models.find((known) => known.is_default)?.name;
  const apply = async (setting: SessionChange) => {
    onProblem(null);
    try {
      const detail = await write<SessionDetail>("PATCH", sessionPath(model.id), setting);
      if (detail) model.detail.value = detail;
    } catch (error) {
      onProblem(describe(error));
      // The select shows the setting that is in force.
      if (model.detail.value) model.detail.value = { ...model.detail.value };
    }
  };
  const named = (names: string[]): Choice[] => names.map((name) => [name, name]);
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="settings-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        Settings
      </button>
      <div class={isOpen ? "settings open" : "settings"}>
        <Select
          id="set-model"
          label="Model"
          value={settings.model ?? ""}
          options={[["", standard ? `default (${standard})` : "default"], ...named(models.map((known) => known.name))]}
          onChange={(value) => apply({ model: value })}
        />
        <Select
          id="set-prompt"
          label="Prompt pack"
          value={settings.prompt ?? ""}
          options={[["", "default"], ["none", "none"], ...named(packs)]}
          onChange={(value) => apply({ prompt: value })}
        />
        <Select
          id="set-tools"
          label="Tools"
          value={settings.tools ?? ""}
          options={[["", "all"], ["none", "none"], ...named(toolsets)]}
          onChange={(value) => apply({ tools: value })}
        />
      </div>
    </>
  );
}

interface SelectProps {
  id: string;
  label: string;
  value: string;
  options: Choice[];
  onChange: (value: string) => void;
}

function Select({ id, label, value, options, onChange }: SelectProps) {
  const all: Choice[] = options.some(([known]) => known === value) ? options : [...options, [value, value]];
  return (
    <span class="setting">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {all.map(([choice, words]) => (
          <option key={choice} value={choice} selected={choice === value}>
            {visible(words)}
          </option>
        ))}
      </select>
    </span>
  );
}
