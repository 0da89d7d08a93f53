import { KEYS, hasLetterKeys, isHelpOpen, setLetterKeys } from "../state/keys";
import { Dialog } from "./Dialog";

export function KeysDialog() {
  return (
    <Dialog
      title="Keys"
      onClose={() => {
        isHelpOpen.value = false;
      }}
    >
      <dl class="keys">
        {KEYS.map(([key, meaning]) => (
          <div>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd>Enter</kbd>
          </dt>
          <dd>In the prompt: send. Shift-Enter begins a new line.</dd>
        </div>
      </dl>
      <label class="check">
        <input type="checkbox" checked={hasLetterKeys.value} onChange={(event) => setLetterKeys(event.currentTarget.checked)} />
        Use single characters as keys
      </label>
    </Dialog>
  );
}
