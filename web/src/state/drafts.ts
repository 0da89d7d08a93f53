// Prompts that are typed and not sent, kept in the tab's session storage.

const key = (session: string) => `aish.draft.${session}`;

export function readDraft(session: string): string {
  try {
    return sessionStorage.getItem(key(session)) ?? "";
  } catch {
    return "";
  }
}

export function storeDraft(session: string, text: string) {
  try {
    if (text) sessionStorage.setItem(key(session), text);
    else sessionStorage.removeItem(key(session));
  } catch {
    // Without storage the text is lost only with the page.
  }
}
