// Shares: sessions as pages that others can read.

import { get, sessionPath, write } from "../api/client";
import type { SharePreview, ShareList, ShareResult, ShareView } from "../api/types";
import { refreshSoon } from "./sessions";

/** The shares of all sessions, newest first. */
export async function loadShares(signal?: AbortSignal): Promise<ShareView[]> {
  const { shares } = await get<ShareList>("/v1/shares", signal);
  return shares.toReversed();
}

/** What a share shows besides prompts and answers. */
export interface ShareOptions {
  with_output: boolean;
  recordings: boolean;
}

/** Returns what a share would show. Publishes nothing. */
export async function previewShare(id: string, options: ShareOptions): Promise<SharePreview | undefined> {
  return write<SharePreview>("POST", sessionPath(id, "/share"), options);
}

/** Publishes what a preview has shown. Fails with 409 if the session has changed since. */
export async function publishShare(id: string, options: ShareOptions, digest: string): Promise<ShareView | undefined> {
  const result = await write<ShareResult>("POST", sessionPath(id, "/share"), { ...options, digest });
  refreshSoon();
  return result?.share;
}

/** Removes all shares of a session. */
export async function removeShares(id: string) {
  await write("POST", sessionPath(id, "/unshare"));
  refreshSoon();
}

/** The whole address of a share, for others. */
export const shareAddress = (share: ShareView) => share.url ?? new URL(share.path ?? "/", location.origin).href;
