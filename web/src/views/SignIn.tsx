import { accessProblem } from "../state/auth";
import { visible } from "../text/visible";
import { useTitle } from "./title";

/** Says how the page gets access to the daemon. */
export function SignIn() {
  useTitle();
  return (
    <main class="sign-in">
      <h1>Open this page from a terminal</h1>
      {accessProblem.value && <p class="problem">{visible(accessProblem.value)}</p>}
      <p>The page has no access to your sessions, or its access has ended. Run one of these in a terminal:</p>
      <pre>
        <code>aish web</code>
      </pre>
      <pre>
        <code>aish-helper web</code>
      </pre>
      <p>The command opens the page with a ticket that works once and for one minute. Text that you have typed here is kept.</p>
    </main>
  );
}
