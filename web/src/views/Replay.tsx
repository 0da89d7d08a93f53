import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { describe } from "../api/client";
import type { RecordedCommand, RecordingView } from "../api/types";
import { PlayerLink } from "../replay/link";
import type { FromFrame } from "../replay/messages";
import type { Item } from "../state/items";
import { isReplayOpen, loadCast, loadRecordings, placeOf, recordings, replayed } from "../state/replay";
import { clockTime, duration, fullTime } from "../text/format";
import { visible } from "../text/visible";

type Problem = { message: string; hint?: string };

/** Time within which the frame must say that it is there, in milliseconds. */
const FRAME_MS = 15_000;
/** Commands that are listed at most, and characters of each. */
const MAX_COMMANDS = 300;
const MAX_TEXT = 300;

const SOURCE_WORDS = { relay: "", tmux: ", tmux", unknown: "" };

/** The recordings of the session beside its messages. */
export function ReplayPanel({ session }: { session: string }) {
  const panel = useRef<HTMLElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isLoaded, setLoaded] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    const before = document.activeElement;
    heading.current?.focus();
    loadRecordings(session, abort.signal)
      .then(() => setLoaded(true))
      .catch((error) => {
        if (!abort.signal.aborted) setProblem(describe(error));
      });
    return () => {
      abort.abort();
      if (replayed.value) replayed.value = { recording: replayed.value.recording };
      if (!panel.current?.contains(document.activeElement)) return;
      const again = before instanceof HTMLElement && before !== document.body && before.isConnected ? before : null;
      (again ?? document.getElementById("replay-button") ?? document.getElementById("prompt"))?.focus();
    };
  }, []);
  const shown = replayed.value;
  const all = recordings.value;
  return (
    <section class="replay" ref={panel} aria-labelledby="replay-title">
      <div class="dialog-head">
        <h2 id="replay-title" ref={heading} tabIndex={-1}>
          Replay
        </h2>
        <button type="button" class="small" onClick={closeReplay}>
          Close
        </button>
      </div>
      {all.length > 1 && (
        <>
          <label class="off-screen" for="recording">
            Recording
          </label>
          <select
            id="recording"
            value={shown?.recording.id}
            onChange={(event) => {
              const recording = all.find(({ id }) => id === event.currentTarget.value);
              if (recording) replayed.value = { recording };
            }}
          >
            {all.map((recording) => (
              <option key={recording.id} value={recording.id} selected={recording.id === shown?.recording.id}>
                {recordingWords(recording)}
              </option>
            ))}
          </select>
        </>
      )}
      {all.length === 1 && shown && <p class="quiet">{recordingWords(shown.recording)}</p>}
      {problem && <ProblemLine problem={problem} />}
      {isLoaded && !shown && <p class="quiet">No terminal that uses this session was recorded. In a terminal: aish record.</p>}
      {shown && <Player key={shown.recording.id} session={session} recording={shown.recording} />}
    </section>
  );
}

const closeReplay = () => {
  isReplayOpen.value = false;
};

function recordingWords({ started_ms, duration_ms, source, is_recording }: RecordingView): string {
  return `${fullTime(started_ms)}, ${duration(duration_ms)}${SOURCE_WORDS[source] ?? ""}${is_recording ? ", not ended" : ""}`;
}

function ProblemLine({ problem }: { problem: Problem }) {
  return (
    <p class="problem" role="alert">
      {visible(problem.message)}
      {problem.hint && <span class="hint"> {visible(problem.hint)}</span>}
    </p>
  );
}

/** One recording: the frame with the player, and the commands. */
function Player({ session, recording }: { session: string; recording: RecordingView }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const link = useRef<PlayerLink | null>(null);
  const [state, setState] = useState<"loading" | "shown" | Problem>("loading");
  const [position, setPosition] = useState(0);
  const wish = replayed.value;
  const used = useRef(wish);
  // Before anything else can happen: the frame says only once that it is there.
  useLayoutEffect(() => {
    if (!frame.current) return;
    const abort = new AbortController();
    const fail = (message: string) => setState({ message: `The recording cannot be shown: ${message}.` });
    const timer = setTimeout(() => fail("the player did not start"), FRAME_MS);
    const receive = (message: FromFrame) => {
      if (message.type === "shown") setState("shown");
      else if (message.type === "time") setPosition(message.ms);
      else if (message.type === "error") fail(message.text);
      else closeReplay();
    };
    const made = new PlayerLink(frame.current, receive, () => clearTimeout(timer));
    link.current = made;
    loadCast(session, recording.id, abort.signal)
      .then((cast) => made.show(cast, used.current?.ms))
      .catch((error) => {
        clearTimeout(timer);
        if (!abort.signal.aborted) setState(describe(error));
      });
    return () => {
      clearTimeout(timer);
      abort.abort();
      made.close();
    };
  }, []);
  const seek = (ms: number) => {
    link.current?.send({ type: "seek", ms });
    frame.current?.scrollIntoView({ block: "nearest" });
  };
  useEffect(() => {
    if (wish !== used.current && wish?.ms !== undefined) seek(wish.ms);
    used.current = wish;
  }, [wish]);
  const isBroken = typeof state === "object";
  return (
    <>
      {isBroken && <ProblemLine problem={state} />}
      {!isBroken && (
        <div class="player">
          {/* The sandbox has no origin: what a terminal printed cannot reach the page or the daemon. */}
          <iframe ref={frame} class="player-frame" sandbox="allow-scripts" src="/replay" title="Replay of a recording" />
          {state === "loading" && (
            <p class="player-state" role="status">
              The recording is loading…
            </p>
          )}
        </div>
      )}
      <Commands commands={recording.commands} position={position} isReady={state === "shown"} onSeek={seek} />
    </>
  );
}

interface CommandsProps {
  commands: RecordedCommand[];
  position: number;
  isReady: boolean;
  onSeek: (ms: number) => void;
}

function Commands({ commands, position, isReady, onSeek }: CommandsProps) {
  const current = commands.findLastIndex(({ start_ms }) => start_ms <= position + 1);
  if (commands.length === 0) return <p class="quiet">The recording has no commands.</p>;
  return (
    <div class="replay-commands">
      <h3 id="replay-commands">Commands</h3>
      <ol aria-labelledby="replay-commands">
        {commands.slice(0, MAX_COMMANDS).map((command, i) => (
          <li key={i}>
            <button
              type="button"
              disabled={!isReady}
              aria-current={isReady && i === current ? "true" : undefined}
              onClick={() => onSeek(command.start_ms)}
            >
              <span class="replay-time">{clockTime(command.start_ms)}</span>{" "}
              <code>{command.text ? visible(command.text.slice(0, MAX_TEXT)) : "(not recorded)"}</code>{" "}
              <span class={command.exit ? "replay-facts bad" : "replay-facts"}>{commandFacts(command)}</span>
            </button>
          </li>
        ))}
      </ol>
      {commands.length > MAX_COMMANDS && (
        <p class="quiet">
          There are {commands.length - MAX_COMMANDS} more. In the player, ] goes to the next command.
        </p>
      )}
    </div>
  );
}

function commandFacts({ duration_ms, exit }: RecordedCommand): string {
  if (duration_ms === null && exit === null) return "no end";
  return [duration_ms !== null && duration(duration_ms), exit !== null && `exit code ${exit}`].filter(Boolean).join(", ");
}

/** Goes to the place of a prompt or a command, while a replay is open. */
export function ReplayHere({ item }: { item: Item }) {
  if (!isReplayOpen.value) return null;
  const place = placeOf(item);
  if (!place) return null;
  return (
    <button
      type="button"
      class="small replay-here"
      onClick={() => {
        replayed.value = place;
      }}
    >
      <span aria-hidden="true">▶ </span>Replay here
    </button>
  );
}
