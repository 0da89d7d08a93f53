// The page's end of the connection to the frame of the player.

import { type FromFrame, IDLE_MS, type Load, type ToFrame, isReady, readFromFrame } from "./messages";

/** Hands a recording to a frame as soon as both are there. */
export class PlayerLink {
  private isReady = false;
  private load: Load | null = null;
  private port: MessagePort | null = null;

  constructor(
    private readonly frame: HTMLIFrameElement,
    private readonly receive: (message: FromFrame) => void,
    private readonly onReady: () => void,
  ) {
    addEventListener("message", this.ready);
  }

  private readonly ready = (event: MessageEvent) => {
    if (event.source !== this.frame.contentWindow || !isReady(event.data)) return;
    this.isReady = true;
    this.onReady();
    this.begin();
  };

  /** Shows a recording. May be called once. */
  show(cast: ArrayBuffer, startMs?: number) {
    this.load = { type: "load", cast, startMs, idleMs: IDLE_MS };
    this.begin();
  }

  private begin() {
    const { load } = this;
    if (!this.isReady || !load) return;
    const { port1, port2 } = new MessageChannel();
    this.load = null;
    this.port = port1;
    port1.onmessage = (event) => {
      const message = readFromFrame(event.data);
      if (message) this.receive(message);
    };
    // A sandboxed frame has no origin that could be named here. It gets nothing but the recording.
    this.frame.contentWindow?.postMessage(load, "*", [port2, load.cast]);
  }

  send(message: ToFrame) {
    // Before the recording is handed over, a place in it is where it starts.
    if (this.load && message.type === "seek") this.load.startMs = message.ms;
    this.port?.postMessage(message);
  }

  close() {
    removeEventListener("message", this.ready);
    this.port?.close();
  }
}
