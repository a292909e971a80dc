// Maps the parser's lines to the file's lines. For read_skill_file, a line ends with a line feed;
// for Markdown, a carriage return alone ends a line, too.

export class Lines {
  // The file's line for each of the parser's lines. Undefined if the numbers are the same.
  #fileLines;

  constructor(text) {
    const lineFeeds = text.split("\n").length - 1;
    // The number of lines in the file. The text after the last line feed is a line unless it is empty.
    this.count = lineFeeds + (text === "" || text.endsWith("\n") ? 0 : 1);
    if (/\r(?!\n)/.test(text)) {
      let line = 1;
      this.#fileLines = [1];
      for (const [end] of text.matchAll(/\r\n|\r|\n/g)) {
        line += end === "\r" ? 0 : 1;
        this.#fileLines.push(line);
      }
    }
    // The number of lines for the parser.
    this.parsed = this.#fileLines ? this.#fileLines.length - /[\r\n]$/.test(text) : this.count;
  }

  // Returns the file's line, from 1, for one of the parser's lines, from 0.
  fileLine(line) {
    return this.#fileLines ? this.#fileLines[line] : line + 1;
  }
}
