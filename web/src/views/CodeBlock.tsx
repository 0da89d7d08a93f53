import { visible } from "../text/visible";
import { CopyButton } from "./CopyButton";

/** A code block of an answer. */
export function CodeBlock({ text, language }: { text: string; language: string }) {
  return (
    <div class="code">
      <div class="code-head">
        <span>{visible(language) || "text"}</span>
        <CopyButton text={text} of="the code" />
      </div>
      <pre>
        <code>{visible(text)}</code>
      </pre>
    </div>
  );
}

/** A command that the model proposed. The page never runs it. */
export function CommandBlock({ text }: { text: string }) {
  return (
    <div class="code command">
      <div class="code-head">
        <span>Proposed command</span>
        <CopyButton text={text} of="the command" />
      </div>
      <pre>
        <code>{visible(text)}</code>
      </pre>
    </div>
  );
}
