// Makes characters visible that would otherwise change how the text around them is shown.

/** Controls except tab and line feed, format characters and separators of lines and paragraphs, as on a shared page
 * (src/share/page.rs). A joiner is part of emoji and of some scripts. */
const HIDDEN = /(?![\t\n\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Replaces each hidden character by its code, such as ⟨U+202E⟩. */
export function visible(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(HIDDEN, (char) => {
    const code = (char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    return `⟨U+${code}⟩`;
  });
}
