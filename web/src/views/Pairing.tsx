import { code } from "../state/pairing";
import { useTitle } from "./title";

/** Shows the code that the person compares with the terminal. */
export function Pairing() {
  useTitle();
  return (
    <main class="sign-in">
      <h1>Compare this code</h1>
      <p class="pairing-code">{code.value}</p>
      <p>
        The terminal that runs <code>aish web --approve</code> shows a code too. If it is the same, confirm it there: this
        browser may then allow tool calls of your sessions. If it is another one, press n.
      </p>
      <p class="quiet">Waiting for the terminal …</p>
    </main>
  );
}
