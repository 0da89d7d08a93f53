import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiProblem, describe, sessionPath, write } from "../api/client";
import type { Question, QuestionView } from "../api/types";
import { text } from "../state/items";
import { isComposing } from "../state/keys";
import { checkPairing, pairing, unpaired } from "../state/pairing";
import type { SessionModel } from "../state/session";
import { attachCommand } from "../text/format";
import { visible } from "../text/visible";
import { CopyButton } from "./CopyButton";

/** Time after which a question can be answered: a key or a click that was meant for something else comes before. */
const SETTLE_MS = 500;

/** The open questions of the running answer. */
export function Questions({ model }: { model: SessionModel }) {
  const { questions } = model.status.value;
  const ids = questions.map((question) => question.question_id).join(" ");
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!ids) return;
    void checkPairing();
    // A low view scrolls as a whole, and the question may be below it.
    section.current?.scrollIntoView({ block: "nearest" });
  }, [ids]);
  if (questions.length === 0 || !model.isBusy()) return null;
  const command = attachCommand(model.id);
  // Pairing does not help where only the terminal can approve.
  const canPair = questions.some((question) => !question.terminal_reason);
  // The line above a single question is part of it: its keys are those of the question.
  const press = (event: KeyboardEvent) => {
    const { key, repeat, ctrlKey, metaKey, altKey, target } = event;
    const shown = section.current?.querySelectorAll(".question") ?? [];
    if (shown.length !== 1 || shown[0]!.contains(target as Node)) return;
    const same = new KeyboardEvent("keydown", { key, repeat, ctrlKey, metaKey, altKey, cancelable: true });
    if (!shown[0]!.dispatchEvent(same)) event.preventDefault();
  };
  return (
    <section class="questions" ref={section} aria-label="Open questions" onKeyDown={press}>
      <p class="where">
        {pairing.value && canPair ? "Answer here, or in the terminal:" : "Answer in the terminal:"} <code>{command}</code>{" "}
        <CopyButton text={command} of="the terminal command" />
        {!pairing.value && canPair && (
          <>
            {" "}
            Or pair this browser: <code>aish web --approve</code>
          </>
        )}
      </p>
      {questions.map((question) =>
        question.view ? (
          <Approval key={question.question_id} session={model.id} question={question} view={question.view} />
        ) : (
          <Elicitation key={question.question_id} question={question} />
        ),
      )}
    </section>
  );
}

const OPERATION_WORDS: Record<string, string> = { read: "reads", write: "writes", destructive: "may destroy data" };

/** The session whose question had the focus when it was closed. */
let answered: string | null = null;

const promptField = () => document.querySelector<HTMLTextAreaElement>("#prompt");
const promptText = () => promptField()?.value ?? "";

interface Props {
  session: string;
  question: Question;
  view: QuestionView;
}

function Approval({ session, question, view }: Props) {
  const [isSettled, setSettled] = useState(false);
  const [isRead, setRead] = useState(false);
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState<{ message: string; hint?: string } | null>(null);
  const own = pairing.value;
  const group = useRef<HTMLDivElement>(null);
  const reason = useRef<HTMLInputElement>(null);
  const end = useRef<HTMLDivElement>(null);

  useEffect(() => {
    const timer = setTimeout(() => setSettled(true), SETTLE_MS);
    return () => clearTimeout(timer);
  }, []);

  useEffect(() => {
    // The question before it was answered here, and nothing was typed since.
    const isFree = document.activeElement === document.body || (document.activeElement?.id === "prompt" && !promptText());
    if (answered === session && isFree) group.current?.focus();
    answered = null;
  }, []);
  // The focus does not get lost with the question, and with it what the next key means.
  useLayoutEffect(
    () => () => {
      if (!group.current?.contains(document.activeElement)) return;
      answered = session;
      queueMicrotask(() => (document.querySelector<HTMLElement>(".question[tabindex]") ?? promptField())?.focus());
    },
    [],
  );

  // As in the terminal, nothing is approved that was not shown to its end.
  useEffect(() => {
    const observer = new IntersectionObserver((seen) => {
      if (seen.some((entry) => entry.isIntersecting)) setRead(true);
    });
    if (end.current) observer.observe(end.current);
    return () => observer.disconnect();
  }, []);

  const can = (word: string) => own !== null && isSettled && !isSending && question.answers.includes(word);
  const canApprove = can("yes") && isRead;

  const answer = async (word: "yes" | "no") => {
    if (!own || !(word === "yes" ? canApprove : can("no"))) return;
    setSending(true);
    setProblem(null);
    const value = word === "no" ? reason.current?.value.trim() || undefined : undefined;
    try {
      const path = sessionPath(session, `/questions/${encodeURIComponent(question.question_id)}`);
      await write("POST", path, { digest: question.digest, answer: word, value }, own);
    } catch (error) {
      const isUnpaired = error instanceof ApiProblem && error.status === 401;
      if (isUnpaired) unpaired(own);
      setProblem(isUnpaired ? { message: "this browser is no longer paired" } : describe(error));
      setSending(false);
    }
  };

  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === reason.current) return;
    const word = { y: "yes", n: "no" }[event.key] as "yes" | "no" | undefined;
    if (!word) return;
    // Also a key that does not count: n alone would begin a session.
    event.preventDefault();
    if (!event.repeat && !isComposing(event)) void answer(word);
  };

  return (
    <div class="question" ref={group} role="group" aria-label={`Question about ${view.tool}`} tabIndex={0} onKeyDown={press}>
      <h2>
        May the tool <code>{view.tool}</code> be called?
      </h2>
      {question.terminal_reason && (
        <p class="where">Only the terminal can approve this: {question.terminal_reason}.</p>
      )}
      <dl>
        <dt>Operation</dt>
        <dd>
          {OPERATION_WORDS[view.operation] ?? visible(view.operation)}
          {view.of > 1 && `, call ${view.number} of ${view.of}`}
        </dd>
        {view.facts.map(([name, words]) => (
          <Fact key={name} name={name} words={words} />
        ))}
      </dl>
      <div ref={end} class="end" />
      {own && question.answers.length > 0 && (
        <div class="answers">
          {question.answers.includes("yes") && (
            <button type="button" class="primary" disabled={!canApprove} onClick={() => answer("yes")}>
              Approve <kbd>y</kbd>
            </button>
          )}
          <button type="button" disabled={!can("no")} onClick={() => answer("no")}>
            Deny <kbd>n</kbd>
          </button>
          <input ref={reason} aria-label="Reason for denying" placeholder="Reason for denying (optional)" maxLength={2000} />
          {can("yes") && !isRead && <span>Read the question to its end first.</span>}
        </div>
      )}
      {problem && (
        <p class="problem" role="alert">
          {visible(problem.message)}
          {problem.hint && <span class="hint">: {visible(problem.hint)}</span>}
        </p>
      )}
    </div>
  );
}

/** Facts whose text keeps its lines, in the letters of code. */
const CODE = [
  "Arguments",
  "Would send",
  "Changes",
  "The tool has changed",
  "Description by the server",
  "Declared by the server",
  "Server",
  "On",
  "In",
];

function Fact({ name, words }: { name: string; words: string }) {
  const isAlarm = ["Danger", "Warning", "New", "The tool has changed"].includes(name);
  return (
    <>
      <dt>{name}</dt>
      <dd class={isAlarm ? "alarm" : undefined}>{CODE.includes(name) ? <pre>{visible(words)}</pre> : visible(words)}</dd>
    </>
  );
}

function Elicitation({ question }: { question: Question }) {
  const { shown } = question;
  return (
    <div class="question">
      <h2>
        The server <code>{visible(text(shown.server))}</code> asks
      </h2>
      <p>{visible(text(shown.message))}</p>
      {text(shown.url) && (
        <p>
          It wants to open: <code>{visible(text(shown.url))}</code>
        </p>
      )}
      <p class="where">Answer it in the terminal.</p>
    </div>
  );
}
