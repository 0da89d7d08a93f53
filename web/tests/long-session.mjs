// Writes the journal of a long session, as docs/journal.md describes it.

export const LONG_SESSION = "019b0000-0000-7000-8000-00000000abcd";
export const HEAVY_SESSION = "019b0000-0000-7000-8000-00000000abce";
const START_MS = 1_790_000_000_000;
/** The first number of the heavy session: its records have other ids than those of the long one. */
const HEAVY_START = 2_000_000;

/** A UUIDv7 of the session's time, which grows with the number. */
function uuid(number, kind) {
  const time = (START_MS + number * 1000).toString(16).padStart(12, "0");
  const rest = number.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8${kind}00-${rest}`;
}

/** Lines of the journal: `count` messages, prompts and answers in turn. */
export const longSession = (count) => session(LONG_SESSION, 0, count, "");

/** A session with answers so long that a page of messages has few of them. */
export const heavySession = (count) => session(HEAVY_SESSION, HEAVY_START, count, "one of many words ".repeat(12_000));

function session(id, start, count, more) {
  const lines = [record(start, "session", { session: id, shell: null }, {})];
  for (let n = start + 1; n <= start + count; n += 2) {
    const ids = { session: id, prompt: uuid(n, "1") };
    const number = (n - start + 1) / 2;
    const prompt = `Prompt number ${number}: what is in this directory?`;
    lines.push(record(n, "user", { prompt, rendered: prompt, shell: null, cwd: "/tmp" }, ids));
    const text = [
      `Answer number ${number} with **bold text**, \`code\` and a list:`,
      "", "- one", "- two", "- three", "", "```sh", "ls -l", "```", "", "CMD: ls -la", "", more,
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

/** The same, of the heavy session. */
export const heavyRecordId = (number) => uuid(HEAVY_START + number, "3");
