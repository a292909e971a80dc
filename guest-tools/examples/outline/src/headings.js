// Finds the headings of a Markdown text, as CommonMark defines them. Headings in block quotes and
// lists are only counted.
import MarkdownIt from "markdown-it";

// The maximum numbers of characters of a heading's source, and of its text in the answer. Guards
// against: a file that is one long heading.
const MAX_SOURCE_CHARS = 1000;
const MAX_TEXT_CHARS = 200;

// Parses blocks without their content.
const blocks = new MarkdownIt("commonmark");
blocks.core.ruler.enableOnly(["normalize", "block"]);
// Parses the content of a heading.
const inlines = new MarkdownIt("commonmark");

// The headings of a text, in order. Lines are counted from 0, as by the parser.
export class Headings {
  #env = {};

  constructor(text) {
    const state = new blocks.core.State(withoutFrontmatter(text), blocks, this.#env);
    state.tokens = new HeadingTokens();
    blocks.core.process(state);
    // Each heading has `level`, `line` and `source`.
    this.list = state.tokens.headings;
    // The number of headings in block quotes and lists. They have no section of the file.
    this.nested = state.tokens.nested;
  }

  // Returns the text of a heading without its markup.
  text({ source }) {
    const [{ children }] = inlines.parseInline(source, this.#env);
    const text = plainText(children).replace(/\s+/g, " ").trim();
    return text.length > MAX_TEXT_CHARS ? truncate(text, MAX_TEXT_CHARS) + "…" : text;
  }
}

// The parser's list of tokens. Keeps the headings and drops all other tokens, to save memory. This
// works because the parser only appends to the list.
class HeadingTokens extends Array {
  headings = [];
  nested = 0;
  #open;
  #inline;

  push(token) {
    switch (token.type) {
      case "heading_open":
        this.#open = token;
        break;
      case "inline":
        this.#inline = token;
        break;
      case "heading_close":
        if (this.#open.level > 0) {
          this.nested += 1;
        } else {
          this.headings.push({
            level: Number(token.tag.slice(1)),
            line: this.#open.map[0],
            source: truncate(this.#inline.content, MAX_SOURCE_CHARS),
          });
        }
    }
    return this.length;
  }
}

// Replaces the lines of the YAML frontmatter with empty lines. As for the host, the frontmatter
// begins with a first line of three hyphens, and ends with a line of three hyphens or dots.
function withoutFrontmatter(text) {
  let start = endOfLine(text, 0);
  if (!/^---[ \t\r\n]*$/.test(text.slice(0, start))) {
    return text;
  }
  while (start < text.length) {
    const end = endOfLine(text, start);
    if (/^(---|\.\.\.)[ \t\r\n]*$/.test(text.slice(start, end))) {
      return text.slice(0, end).replace(/[^\r\n]+/g, "") + text.slice(end);
    }
    start = end;
  }
  return text;
}

function endOfLine(text, start) {
  const lineFeed = text.indexOf("\n", start);
  return lineFeed < 0 ? text.length : lineFeed + 1;
}

function plainText(tokens) {
  return tokens.map(({ type, content, children }) => {
    switch (type) {
      case "text":
      case "code_inline":
        return content;
      case "image":
        return plainText(children);
      case "softbreak":
      case "hardbreak":
        return " ";
      default:
        return "";
    }
  }).join("");
}

// Returns the beginning of a text. Drops an incomplete character at its end.
function truncate(text, length) {
  return text.slice(0, length).replace(/[\uD800-\uDBFF]$/, "");
}
