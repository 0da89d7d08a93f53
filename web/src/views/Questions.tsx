import type { Fields, Question } from "../api/types";
import type { SessionModel } from "../state/session";
import { text } from "../state/items";
import { visible } from "../text/visible";
import { attachCommand } from "./SessionHeader";
import { CopyButton } from "./CopyButton";
import { Output } from "./Output";

/** The open questions of the running answer. They are answered in the terminal only. */
export function Questions({ model }: { model: SessionModel }) {
  const { questions } = model.status.value;
  if (questions.length === 0) return null;
  const command = attachCommand(model.id);
  return (
    <section class="questions" aria-label="Open questions">
      <p class="where">
        Answer in the terminal: <code>{command}</code> <CopyButton text={command} of="the terminal command" />
      </p>
      {questions.map((question) =>
        question.kind === "approval" ? (
          <Approval key={question.question_id} question={question} />
        ) : (
          <Elicitation key={question.question_id} question={question} />
        ),
      )}
    </section>
  );
}

const OPERATION_WORDS: Record<string, string> = { read: "reads", write: "writes", destructive: "may destroy data" };

function Approval({ question }: { question: Question }) {
  const { shown } = question;
  const tool = (shown.tool ?? {}) as Fields;
  const intent = (shown.intent ?? {}) as Fields;
  const operation = text(shown.operation);
  return (
    <div class="question">
      <h2>
        May the tool <code>{visible(text(tool.name))}</code> be called?
      </h2>
      <dl>
        <dt>Operation</dt>
        <dd>{OPERATION_WORDS[operation] ?? visible(operation)}</dd>
        {text(intent.reason) && <Fact name="Reason of the model" value={text(intent.reason)} />}
        {text(shown.why) && <Fact name="Asked because" value={text(shown.why)} />}
        {text(shown.warning) && <Fact name="Warning" value={text(shown.warning)} />}
        {text(shown.target) && <Fact name="Server" value={text(shown.target)} />}
        <dt>Arguments</dt>
        <dd>
          <Output text={text(shown.arguments)} />
        </dd>
        {text(shown.preview) && (
          <>
            <dt>Would send</dt>
            <dd>
              <Output text={text(shown.preview)} />
            </dd>
          </>
        )}
      </dl>
    </div>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{visible(value)}</dd>
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
    </div>
  );
}
