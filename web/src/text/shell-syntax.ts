// Whether zsh would ask for another line after a text, as src/safety/shell_syntax.rs estimates it: it decides which lines of an
// answer belong to a proposed command. Both have the same cases in their tests.

type Construct =
  | "'" | "$'" | '"' | "`"
  /** `${…}`, in which an apostrophe is a quote or, within double quotes, is not. */
  | "${" | '"${'
  /** A substitution or the parentheses of an array or pattern; with `!` where a command is expected after it. */
  | "$(" | "!$(" | "group" | "!group"
  | "subshell" | "arithmetic" | "condition" | "{"
  | "if" | "then" | "while" | "for" | "foreach" | "do" | "case" | "pattern" | "branch";

const TEXTS: (Construct | undefined)[] = ["'", "$'", '"', "`", "${", '"${'];
const NO_COMMANDS: (Construct | undefined)[] = ["group", "!group", "arithmetic", "condition", "case", "pattern"];
const HEREDOC_END = " \t;&|<>()";

export class SyntaxScanner {
  private open: Construct[] = [];
  private heredocs: { delimiter: string; hasTabs: boolean }[] = [];
  isInHeredoc = false;
  /** The unquoted characters of the current word, and whether it has quotes or expansions. */
  private word = "";
  private isQuoted = false;
  /** The current word does not name a command. */
  private isArgument = false;
  /** After an operator, the name of a function or `\` that requires more. */
  private isDangling = false;
  /** The next word is the number of `repeat` or the name of a `function`. */
  private isOperand = false;
  private chars: string[] = [];
  private at = 0;

  get isComplete(): boolean {
    return this.open.length === 0 && this.heredocs.length === 0 && !this.isDangling;
  }

  private get top(): Construct | undefined {
    return this.open[this.open.length - 1];
  }

  /** The next character, if it is one of these. */
  private take(wanted: string): string | undefined {
    const next = this.chars[this.at];
    if (next === undefined || !wanted.includes(next)) return undefined;
    this.at += 1;
    return next;
  }

  /** Handles one line, without its LF. */
  pushLine(line: string) {
    const heredoc = this.heredocs[0];
    if (this.isInHeredoc && heredoc) {
      if ((heredoc.hasTabs ? line.replace(/^\t+/, "") : line) === heredoc.delimiter) {
        this.heredocs.shift();
        this.isInHeredoc = this.heredocs.length > 0;
      }
      return;
    }
    this.chars = [...line];
    for (this.at = 0; this.at < this.chars.length; ) {
      const c = this.chars[this.at++] ?? "";
      const { top } = this;
      if (top === "'") this.closeAt(c === "'");
      else if (top === "$'" || top === "`") {
        if (c === "\\") this.at += 1;
        else this.closeAt(c === top[top.length - 1]);
      } else if (TEXTS.includes(top)) this.inText(c);
      else {
        if (c === "#" && this.startsComment()) break;
        if (c === "\\" && this.at === this.chars.length) {
          this.isDangling = true;
          return;
        }
        this.inCode(c);
      }
    }
    if (TEXTS.includes(this.top)) return;
    this.endWord();
    this.isArgument = false;
    this.isInHeredoc = this.heredocs.length > 0;
  }

  private startsComment(): boolean {
    const isExpression = ["arithmetic", "condition", "group", "!group"].includes(this.top ?? "");
    return !this.word && !this.isQuoted && !isExpression;
  }

  private closeAt(isEnd: boolean) {
    if (isEnd) this.open.pop();
  }

  private quoteWord(construct?: Construct) {
    this.isQuoted = true;
    this.isDangling = false;
    if (construct) this.open.push(construct);
  }

  /** Handles a character in `"…"` or `${…}`. */
  private inText(c: string) {
    const isDouble = this.top === '"';
    if (c === "\\") this.at += 1;
    else if (c === (isDouble ? '"' : "}")) this.open.pop();
    else if (c === '"' || c === "`") this.open.push(c);
    else if (c === "'" && this.top === "${") this.open.push("'");
    else if (c === "$") this.expansion();
  }

  /** Handles what follows a `$`. */
  private expansion() {
    const isInDouble = this.top === '"' || this.top === '"${';
    if (this.take("(")) {
      if (this.take("(")) this.open.push("arithmetic", "arithmetic");
      else {
        this.open.push(this.isArgument ? "$(" : "!$(");
        this.word = "";
        this.isQuoted = this.isArgument = false;
      }
    } else if (this.take("{")) this.open.push(isInDouble ? '"${' : "${");
    else if (!isInDouble && this.take("'")) this.open.push("$'");
    // `$#` and `$$` are no comment and no expansion of what follows.
    else this.take("#$");
  }

  /** Handles an unquoted character. */
  private inCode(c: string) {
    const startsWord = !this.word && !this.isQuoted;
    const next = this.chars[this.at];
    if (c === " " || c === "\t") this.endWord();
    else if (c === "\\") {
      this.at += 1;
      this.quoteWord();
    } else if (c === "'" || c === '"' || c === "`") this.quoteWord(c);
    else if (c === "$") {
      this.quoteWord();
      this.expansion();
    } else if (c === "(") this.parenthesis(startsWord);
    else if (c === ")") this.closeParenthesis();
    else if (c === "<" || c === ">") this.redirection(c);
    else if (c === ";" || c === "&" || c === "|") this.separator(c);
    else if (c === "{" && startsWord && !this.isArgument && this.takesCommands() && /^[\t\n\f\r ]?$/.test(next ?? "")) {
      // The short form of a loop or condition.
      if (this.top === "if" || this.top === "while" || this.top === "for") this.open.pop();
      this.open.push("{");
      this.isDangling = false;
    } else if (c === "}" && startsWord && this.top === "{") this.close();
    // Reserved words are short; longer words need not be kept whole.
    else if (this.word.length <= 8) this.word += c;
  }

  private parenthesis(startsWord: boolean) {
    const takesCommands = this.takesCommands();
    // Optional: the `)` after the pattern ends it in any case.
    if (startsWord && this.top === "pattern") return;
    if (takesCommands && !startsWord && this.take(")")) {
      // A function: its body follows.
      this.endWord();
      this.isArgument = false;
      this.isDangling = true;
      return;
    }
    const isFor = this.top === "for";
    const isExpected = (!this.isArgument || isFor) && startsWord && takesCommands;
    if (isExpected && this.take("(")) this.open.push("arithmetic", "arithmetic");
    else if (isExpected && !isFor) this.open.push("subshell");
    else {
      // `for NAME (WORDS) COMMAND` is a loop without a list that `do` begins.
      if (isFor && startsWord) this.open.pop();
      this.open.push(!this.isArgument || isFor ? "!group" : "group");
    }
    this.isDangling = false;
    this.word = "";
  }

  private closeParenthesis() {
    this.endWord();
    const { top } = this;
    if (top === "$(" || top === "!$(") {
      this.isArgument = top === "$(";
      this.isQuoted = true;
      this.open.pop();
    } else if (top === "group" || top === "!group") {
      this.isArgument = top === "group";
      this.open.pop();
    } else if (top === "subshell" || top === "arithmetic") this.close();
    else if (top === "pattern") this.replace("branch");
  }

  private redirection(c: string) {
    if (["arithmetic", "condition", "pattern"].includes(this.top ?? "")) return;
    this.endWord();
    // The file is not a command.
    const isArgument = this.isArgument;
    this.isArgument = true;
    if (this.take("(")) {
      this.open.push(isArgument ? "$(" : "!$(");
      this.isArgument = false;
    } else if (c === "<" && this.take("<")) {
      if (this.take("<")) return;
      const hasTabs = !!this.take("-");
      this.heredocs.push({ delimiter: this.delimiter(), hasTabs });
    } else while (this.take("<>&|!"));
  }

  /** Reads the delimiter of a here-document and removes its quotes. */
  private delimiter(): string {
    while (this.take(" \t"));
    let delimiter = "";
    let quote = "";
    for (; this.at < this.chars.length; this.at += 1) {
      const c = this.chars[this.at] ?? "";
      if (!quote && HEREDOC_END.includes(c)) break;
      if (!quote && (c === "'" || c === '"')) quote = c;
      else if (c === quote) quote = "";
      else if (!quote && c === "\\") delimiter += this.chars[++this.at] ?? "";
      else delimiter += c;
    }
    return delimiter;
  }

  private separator(c: string) {
    this.endWord();
    if (["pattern", "group", "!group", "condition"].includes(this.top ?? "")) return;
    if (this.top === "branch" && c === ";" && this.take(";&|")) {
      this.open.pop();
      this.open.push("pattern");
    }
    if (c === "&" && this.take(">")) {
      this.isArgument = true;
      return;
    }
    const isDoubled = !!this.take(c);
    if (c === "|" || (c === "&" && isDoubled)) {
      this.take("&");
      this.isDangling = true;
    } else if (c === "&") this.take("|!");
    this.isArgument = false;
  }

  private takesCommands(): boolean {
    return !NO_COMMANDS.includes(this.top);
  }

  private endWord() {
    const { word, isQuoted, isOperand, top } = this;
    this.word = "";
    this.isQuoted = false;
    if (!word && !isQuoted) return;
    this.isOperand = false;
    if (isOperand) return;
    this.isDangling = false;
    if (!isQuoted && word === "]]" && top === "condition") this.close();
    else if (!isQuoted && word === "in" && top === "case") this.replace("pattern");
    else if (!isQuoted && word === "esac" && top === "pattern") this.close();
    else if (!this.takesCommands() || this.isArgument) return;
    else if (isQuoted) this.isArgument = true;
    else {
      // The short form `for NAME in WORDS; COMMAND`.
      if (top === "for" && word !== "do") this.open.pop();
      this.reserved(word);
    }
  }

  /** Handles an unquoted word in the place of a command. */
  private reserved(word: string) {
    const { top } = this;
    switch (word) {
      case "if":
        this.open.push("if");
        return;
      case "then":
        if (top === "if") this.replace("then");
        return;
      case "while":
      case "until":
        this.open.push("while");
        return;
      case "do":
        if (top === "while" || top === "for") this.replace("do");
        else this.open.push("do");
        return;
      case "elif":
        if (top === "then") this.replace("if");
        else this.open.push("if");
        return;
      case "else":
      case "!":
      case "time":
        return;
      case "repeat":
        this.isOperand = true;
        return;
      case "[[":
        this.open.push("condition");
        return;
      case "for":
      case "select":
      case "foreach":
      case "case":
        this.open.push(word === "select" ? "for" : word);
        this.isArgument = true;
        return;
      case "function":
        this.isDangling = this.isOperand = true;
        return;
    }
    const ends: Record<string, Construct> = { fi: "then", done: "do", end: "foreach", esac: "branch" };
    if (top && ends[word] === top) this.close();
    else this.isArgument = true;
  }

  private replace(construct: Construct) {
    this.close();
    this.open.push(construct);
  }

  private close() {
    this.open.pop();
    this.isArgument = false;
  }
}
