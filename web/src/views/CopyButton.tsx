import { useState } from "preact/hooks";
import { copyText } from "../text/clipboard";

/** Time for which the button says that it has copied, in milliseconds. */
const SAID_MS = 1500;

export function CopyButton({ text, label = "Copy", of }: { text: string; label?: string; of?: string }) {
  const [said, setSaid] = useState<string | null>(null);
  const copy = async () => {
    setSaid((await copyText(text)) ? "Copied" : "Not copied");
    setTimeout(() => setSaid(null), SAID_MS);
  };
  return (
    <button type="button" class="small" onClick={copy} aria-label={of && !said ? `${label} ${of}` : undefined}>
      {said ?? label}
    </button>
  );
}
