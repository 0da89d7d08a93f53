// Portions of a Markdown text whose elements are limited: a table or a list of thousands is one block.

import type { Token, Tokens } from "marked";

/** Elements of a code block. */
const CODE_ELEMENTS = 6;

export interface Portion {
  tokens: Token[];
  /** Elements that may still follow. */
  left: number;
  isCut: boolean;
}

/** Returns the first or the last of the tokens, with about as many elements as allowed, but not nothing. */
export function portion(tokens: Token[], allowed: number, isEnd: boolean): Portion {
  const part: Token[] = [];
  let left = allowed;
  let isCut = false;
  for (const token of isEnd ? tokens.toReversed() : tokens) {
    if (left <= 0) {
      if (token.type === "space") continue;
      isCut = true;
      break;
    }
    const size = elements(token);
    const shown = size > left ? shorter(token, left, isEnd) : token;
    isCut ||= shown !== token;
    part.push(shown);
    left -= size;
  }
  return { tokens: isEnd ? part.reverse() : part, left, isCut };
}

const counted = new WeakMap<Token, number>();

/** About how many elements a token has. */
function elements(token: Token): number {
  const known = counted.get(token);
  if (known !== undefined) return known;
  const count = token.type === "code" ? CODE_ELEMENTS : token.type === "space" ? 0 : 1 + inner(token);
  counted.set(token, count);
  return count;
}

function inner(token: Token): number {
  const all = (tokens: Token[]) => tokens.reduce((sum, part) => sum + (part.type === "text" && !("tokens" in part) ? 0 : elements(part)), 0);
  if (token.type === "list") return all((token as Tokens.List).items);
  if (token.type !== "table") return all(("tokens" in token && token.tokens) || []);
  const { header, rows } = token as Tokens.Table;
  return (rows.length + 1) * (header.length + 1);
}

/** Returns a token without some of its rows, items or blocks, where it has any. */
function shorter(token: Token, left: number, isEnd: boolean): Token {
  const some = <T>(all: T[], count: number) => (isEnd ? all.slice(-count) : all.slice(0, count));
  if (token.type === "table") {
    const table = token as Tokens.Table;
    const rows = some(table.rows, Math.max(1, Math.floor(left / (table.header.length + 1))));
    return rows.length < table.rows.length ? { ...table, rows } : table;
  }
  if (token.type === "list") {
    const list = token as Tokens.List;
    const { tokens, isCut } = portion(list.items, left, isEnd);
    if (!isCut) return list;
    const start = typeof list.start === "number" && isEnd ? list.start + list.items.length - tokens.length : list.start;
    return { ...list, items: tokens as Tokens.ListItem[], start };
  }
  if (token.type !== "blockquote" && token.type !== "list_item") return token;
  const { tokens, isCut } = portion(token.tokens ?? [], left, isEnd);
  return isCut ? { ...token, tokens } : token;
}
