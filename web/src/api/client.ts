// Requests to the HTTP API. Every request carries the bearer in the header Authorization; there are no cookies.

import { bearer, rejectBearer } from "../state/auth";

/** A refusal or failure as a problem document (RFC 9457), or a server that does not answer. */
export class ApiProblem extends Error {
  constructor(
    /** The HTTP status; 0 if the server does not answer. */
    readonly status: number,
    message: string,
    readonly hint?: string,
  ) {
    super(message);
  }
}

/** Message of the page when no connection can be made. */
export const NO_ANSWER = "the daemon does not answer";
export const NO_ANSWER_HINT = "run any llm command in a terminal to start it";

/** Time for which a request that changes something waits for its answer, in milliseconds. */
const WRITE_MS = 20_000;

/** Sends a request, with the bearer of all browsers or with `own`. Throws an ApiProblem unless the answer is a success. */
export async function send(path: string, init: RequestInit = {}, own?: string): Promise<Response> {
  const used = own ?? bearer.value;
  const headers = new Headers(init.headers);
  if (used) headers.set("authorization", `Bearer ${used}`);
  if (init.body) headers.set("content-type", "application/json");
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (init.signal?.aborted) throw isTimeout(init.signal.reason) ? timedOut() : error;
    throw new ApiProblem(0, NO_ANSWER, NO_ANSWER_HINT);
  }
  if (response.ok) return response;
  const problem = await readProblem(response);
  if (problem.status === 401 && own === undefined) rejectBearer(used);
  throw problem;
}

async function readProblem(response: Response): Promise<ApiProblem> {
  try {
    const body = await response.json();
    const text = (value: unknown) => (typeof value === "string" ? value : undefined);
    const message = text(body.message) ?? text(body.detail) ?? text(body.title);
    const hint = text(body.hint);
    // Some hints name a request: they are for programs.
    const forPeople = hint?.includes("/v1/") ? undefined : hint;
    return new ApiProblem(response.status, message ?? `HTTP ${response.status}`, forPeople);
  } catch {
    return new ApiProblem(response.status, `the server answered with HTTP ${response.status}`);
  }
}

export async function get<T>(path: string, signal?: AbortSignal, own?: string): Promise<T> {
  const response = await send(path, { signal }, own);
  return response.json();
}

const isTimeout = (error: unknown) => error instanceof DOMException && error.name === "TimeoutError";
const timedOut = () => new ApiProblem(0, "the daemon has not answered in time", "the request may still be processed: check before you try again");

/** Sends what changes something. `ms` is how long the answer may take. */
export async function write<T>(method: string, path: string, body?: unknown, own?: string, ms = WRITE_MS): Promise<T | undefined> {
  const signal = AbortSignal.timeout(ms);
  const response = await send(path, { method, body: body === undefined ? undefined : JSON.stringify(body), signal }, own);
  if (response.status === 204) return undefined;
  try {
    return await response.json();
  } catch (error) {
    throw isTimeout(error) ? timedOut() : error;
  }
}

/** Path of a session in the API. */
export const sessionPath = (id: string, rest = "") => `/v1/sessions/${encodeURIComponent(id)}${rest}`;

/** Says an error in words. */
export function describe(error: unknown): { message: string; hint?: string } {
  if (error instanceof ApiProblem) return { message: error.message, hint: error.hint };
  return { message: error instanceof Error ? error.message : String(error) };
}
