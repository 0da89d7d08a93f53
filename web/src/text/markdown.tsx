// Markdown tokens as elements. HTML is shown as text, images are links, and only safe links can be followed.

import { Component, type ComponentChildren, type VNode } from "preact";
import type { Token, Tokens } from "marked";
import { CodeBlock } from "../views/CodeBlock";
import { decodeEntities } from "./entities";
import { RAW_PART } from "./lexer";
import { visible } from "./visible";

const SAFE_PROTOCOLS = ["http:", "https:", "mailto:"];

/** Returns the address if it is absolute and of a safe protocol. */
export function safeHref(href: string): string | null {
  // Browsers ignore tabs and line feeds within an address.
  // A text with any control is not an address.
  if (/[\u0000-\u0020\u007f-\u009f]/.test(href)) return null;
  try {
    const url = new URL(href);
    return SAFE_PROTOCOLS.includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** A token or a row of a table keeps its element, so that unchanged parts of an answer that grows are not compared again. */
const made = new WeakMap<object, VNode | string | null>();

function keep<T extends VNode | string | null>(of: object, make: () => T): T {
  const known = made.get(of) as T | undefined;
  if (known !== undefined) return known;
  const element = make();
  made.set(of, element);
  return element;
}

export function Blocks({ tokens }: { tokens: Token[] }) {
  return <>{blocks(tokens, 0)}</>;
}

/** Levels of quotes and lists that are shown as such. */
const DEEPEST = 12;

const blocks = (tokens: Token[], depth: number) => tokens.map((token) => block(token, depth));

const block = (token: Token, depth: number): VNode | string | null =>
  keep(token, () => (depth > DEEPEST ? <p class="md-raw">{visible(token.raw)}</p> : makeBlock(token, depth)));

/** Text that may grow. What is new is appended to its node: a new value, which Preact would set, ends a selection in it. */
class Words extends Component<{ text: string }> {
  override shouldComponentUpdate({ text }: { text: string }) {
    const node = this.base as Node | undefined;
    if (!(node instanceof Text)) return true;
    if (text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
    else node.data = text;
    return false;
  }

  override render() {
    return this.props.text;
  }
}

const plain = (text: string) => visible(decodeEntities(text));
const words = (text: string) => <Words text={plain(text)} />;

function makeBlock(token: Token, depth: number): VNode | string | null {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "code":
      return <CodeBlock text={token.text} language={(token.lang ?? "").split(/\s/)[0] ?? ""} />;
    case "heading":
      // A heading without words is none to a screen reader.
      if (!token.text.trim()) return null;
      return <h3 class={`md-h${token.depth}`}>{inline(token.tokens, token.text)}</h3>;
    case "hr":
      return <hr />;
    case "blockquote":
      return <blockquote>{blocks(token.tokens ?? [], depth + 1)}</blockquote>;
    case "list":
      return list(token as Tokens.List, depth);
    case "table":
      return table(token as Tokens.Table);
    case "html":
      return <p class="md-raw">{visible(token.raw.trimEnd())}</p>;
    case RAW_PART:
      // The end of the paragraph is the last line end.
      return <p class="md-raw part">{visible(token.raw.replace(/\n$/, ""))}</p>;
    case "paragraph":
      return <p>{inline(token.tokens, token.text)}</p>;
    case "text":
      return <>{inline((token as Tokens.Text).tokens, token.text)}</>;
    default:
      return <>{plain(token.raw)}</>;
  }
}

function list(token: Tokens.List, depth: number) {
  const items = token.items.map((item) =>
    keep(item, () => (
      <li>
        {item.task && (item.checked ? "☑ " : "☐ ")}
        {blocks(item.tokens.filter((part) => part.type !== "checkbox"), depth + 1)}
      </li>
    )),
  );
  if (!token.ordered) return <ul>{items}</ul>;
  return <ol start={typeof token.start === "number" ? token.start : 1}>{items}</ol>;
}

function table(token: Tokens.Table) {
  const aligned = (align: string | null) => (align && align !== "left" ? `align-${align}` : undefined);
  const cells = (row: Tokens.TableCell[], Tag: "th" | "td") =>
    row.map((cell) => <Tag class={aligned(cell.align)}>{inline(cell.tokens, cell.text)}</Tag>);
  return (
    <div class="md-table" role="group" aria-label="Table" tabIndex={0}>
      <table>
        <thead>
          <tr>{cells(token.header, "th")}</tr>
        </thead>
        <tbody>
          {token.rows.map((row) => keep(row, () => <tr>{cells(row, "td")}</tr>))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: Token[] | undefined, text: string): ComponentChildren {
  return tokens ? tokens.map(span) : words(text);
}

function span(token: Token): ComponentChildren {
  switch (token.type) {
    case "strong":
      return <strong>{inline(token.tokens, token.text)}</strong>;
    case "em":
      return <em>{inline(token.tokens, token.text)}</em>;
    case "del":
      // Shared pages strike out text between double tildes only.
      if (!token.raw.startsWith("~~")) return <>~{inline(token.tokens, token.text)}~</>;
      return <del>{inline(token.tokens, token.text)}</del>;
    case "codespan":
      return <code>{visible(token.text)}</code>;
    case "br":
      return <br />;
    case "link":
      return link(token.href, inline(token.tokens && withoutImages(token.tokens), token.text), token.raw);
    case "image":
      return link(token.href, `image: ${plain(token.text || token.href)}`, token.raw);
    case "html":
      return visible(token.raw);
    case "escape":
      return visible(token.text);
    case "text":
      return token.tokens ? token.tokens.map(span) : words(token.text);
    case "checkbox":
      return null;
    default:
      return plain(token.raw);
  }
}

/** Replaces images by their alternative text: a link must not contain another one. */
function withoutImages(tokens: Token[]): Token[] {
  return tokens.map((token) => {
    if (token.type === "image") return { type: "text", raw: token.raw, text: token.text || token.href };
    return "tokens" in token && token.tokens ? { ...token, tokens: withoutImages(token.tokens) } : token;
  });
}

function link(href: string, content: ComponentChildren, raw: string): ComponentChildren {
  const safe = safeHref(decodeEntities(href));
  if (!safe) return plain(raw);
  return (
    <a href={safe} title={visible(safe)} target="_blank" rel="noopener noreferrer">
      {content}
    </a>
  );
}
