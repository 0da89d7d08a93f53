// Shares: sessions as pages that others can read.

import { get, sessionPath, write } from "../api/client";
import type { SharePreview, ShareList, ShareResult, ShareView } from "../api/types";
import { refreshSoon } from "./sessions";

/** Time that sharing may take, in milliseconds: pages and recordings may go to a bucket. */
export const SHARE_MS = 300_000;

/** The shares of all sessions, newest first. */
export async function loadShares(signal?: AbortSignal): Promise<ShareView[]> {
  const { shares } = await get<ShareList>("/v1/shares", signal);
  return shares.toReversed();
}

/** Parts of a share in addition to prompts and answers. */
export interface ShareOptions {
  with_output: boolean;
  recordings: boolean;
}

/** Returns the preview of a share. Publishes nothing. */
export async function previewShare(id: string, options: ShareOptions): Promise<SharePreview | undefined> {
  return write<SharePreview>("POST", sessionPath(id, "/share"), options, undefined, SHARE_MS);
}

/** Publishes the content of a preview. Fails with 409 if the session has changed since. */
export async function publishShare(id: string, options: ShareOptions, digest: string): Promise<ShareView | undefined> {
  const result = await write<ShareResult>("POST", sessionPath(id, "/share"), { ...options, digest }, undefined, SHARE_MS);
  refreshSoon();
  return result?.share;
}

/** Removes all shares of a session. */
export async function removeShares(id: string) {
  await write("POST", sessionPath(id, "/unshare"), undefined, undefined, SHARE_MS);
  refreshSoon();
}

/** Who reaches a page on the server at this host, in words: a name of the machine itself leads nowhere else. */
export function reachWords(host: string): string {
  const isLoopback = host === "localhost" || host === "[::1]" || /^127(\.\d+){3}$/.test(host);
  return isLoopback ? "This server can be reached from this machine only." : "Anyone on the network who knows the address can read it.";
}

/** The whole address of a share, for others. */
export const shareAddress = (share: ShareView) => share.url ?? new URL(share.path ?? "/", location.origin).href;
