// Where the parser's lines are in the file. To read_skill_file a line ends with a line feed; to
// Markdown also with a carriage return alone.

export class Lines {
  // The file's line of each of the parser's, where they differ.
  #places;

  constructor(text) {
    const feeds = text.split("\n").length - 1;
    // The lines of the file. What stands behind the last line feed is one if it is not empty.
    this.count = feeds + (text === "" || text.endsWith("\n") ? 0 : 1);
    if (/\r(?!\n)/.test(text)) {
      let line = 1;
      this.#places = [1];
      for (const [end] of text.matchAll(/\r\n|\r|\n/g)) {
        line += end === "\r" ? 0 : 1;
        this.#places.push(line);
      }
    }
    // How many lines the parser sees.
    this.parsed = this.#places ? this.#places.length - /[\r\n]$/.test(text) : this.count;
  }

  // The file's line, from 1, of a line of the parser's, from 0.
  place(line) {
    return this.#places ? this.#places[line] : line + 1;
  }
}
