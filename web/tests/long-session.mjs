// Writes the journal of a long session, as docs/journal.md describes it.

export const LONG_SESSION = "019b0000-0000-7000-8000-00000000abcd";
const START_MS = 1_790_000_000_000;

/** A UUIDv7 of the session's time, which grows with the number. */
function uuid(number, kind) {
  const time = (START_MS + number * 1000).toString(16).padStart(12, "0");
  const rest = number.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8${kind}00-${rest}`;
}

/** Lines of the journal: `count` messages, prompts and answers in turn. */
export function longSession(count) {
  const lines = [record(0, "session", { session: LONG_SESSION, shell: null }, {})];
  for (let n = 1; n <= count; n += 2) {
    const ids = { session: LONG_SESSION, prompt: uuid(n, "1") };
    const prompt = `Prompt number ${(n + 1) / 2}: what is in this directory?`;
    lines.push(record(n, "user", { prompt, rendered: prompt, shell: null, cwd: "/tmp" }, ids));
    const text = [
      `Answer number ${(n + 1) / 2} with **bold text**, \`code\` and a list:`,
      "", "- one", "- two", "- three", "", "```sh", "ls -l", "```", "", "CMD: ls -la", "",
    ].join("\n");
    const answer = { text, model: "local", finish: "stop", prompt_tokens: 100, completion_tokens: 20, duration_ms: 900 };
    lines.push(record(n + 1, "assistant", answer, { ...ids, turn: uuid(n, "2") }));
  }
  return `${lines.join("\n")}\n`;
}

function record(number, type, fields, ids) {
  return JSON.stringify({ v: 2, id: uuid(number, "3"), timestamp_ms: START_MS + number * 1000, type, ids, ...fields });
}

/** Id of the record with this number. */
export const recordId = (number) => uuid(number, "3");
