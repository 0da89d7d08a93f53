// A text that a tab keeps over a reload. Without storage it lives until the page is left.

import { signal } from "@preact/signals";

export function tabValue(key: string) {
  const value = signal<string | null>(read(key));
  const store = (next: string | null) => {
    value.value = next;
    try {
      if (next) sessionStorage.setItem(key, next);
      else sessionStorage.removeItem(key);
    } catch {
      // The storage may be switched off.
    }
  };
  return { value, store };
}

function read(key: string): string | null {
  try {
    return sessionStorage.getItem(key);
  } catch {
    return null;
  }
}
