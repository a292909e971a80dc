// The headings of a Markdown text, as CommonMark has them. The parser says what is a heading
// and what only looks like one; here stands which of them count.
import MarkdownIt from "markdown-it";

// Characters of a heading that are read, and of its text that are given. Meets: a file that
// is one heading.
const LONGEST_SOURCE = 1000;
const LONGEST_TEXT = 200;

// Finds blocks, and does not read what stands in them.
const blocks = new MarkdownIt("commonmark");
blocks.core.ruler.enableOnly(["normalize", "block"]);
// Reads what stands in a heading.
const inlines = new MarkdownIt("commonmark");

// The headings of a text, in its order. Lines are counted from 0, as the parser counts them.
export class Headings {
  #env = {};

  constructor(text) {
    const state = new blocks.core.State(withoutFrontmatter(text), blocks, this.#env);
    state.tokens = new Found();
    blocks.core.process(state);
    // Each has `level`, `line` and `source`.
    this.list = state.tokens.headings;
    // How many there are in block quotes and lists: no part of the file is theirs.
    this.nested = state.tokens.nested;
  }

  // A heading as a reader sees it.
  text({ source }) {
    const [{ children }] = inlines.parseInline(source, this.#env);
    const text = plain(children).replace(/\s+/g, " ").trim();
    return text.length > LONGEST_TEXT ? cut(text, LONGEST_TEXT) + "…" : text;
  }
}

// What the parser puts out: headings are taken out of it, and all else is dropped, so that a
// long file is never held in pieces. The parser itself only ever appends.
class Found extends Array {
  headings = [];
  nested = 0;
  #opened;
  #inline;

  push(token) {
    switch (token.type) {
      case "heading_open":
        this.#opened = token;
        break;
      case "inline":
        this.#inline = token;
        break;
      case "heading_close":
        if (this.#opened.level > 0) {
          this.nested += 1;
        } else {
          this.headings.push({
            level: Number(token.tag.slice(1)),
            line: this.#opened.map[0],
            source: cut(this.#inline.content, LONGEST_SOURCE),
          });
        }
    }
    return this.length;
  }
}

// A text whose YAML frontmatter is empty lines. It is found as the host finds it: from a first
// line of three hyphens to the next one, or to one of three dots.
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
  const feed = text.indexOf("\n", start);
  return feed < 0 ? text.length : feed + 1;
}

function plain(tokens) {
  return tokens.map(({ type, content, children }) => {
    switch (type) {
      case "text":
      case "code_inline":
        return content;
      case "image":
        return plain(children);
      case "softbreak":
      case "hardbreak":
        return " ";
      default:
        return "";
    }
  }).join("");
}

// The beginning of a text, without half a character at its end.
function cut(text, length) {
  return text.slice(0, length).replace(/[\uD800-\uDBFF]$/, "");
}
