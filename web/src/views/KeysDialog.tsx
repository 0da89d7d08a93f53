import { KEYS, isHelpOpen } from "../state/keys";
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
    </Dialog>
  );
}
