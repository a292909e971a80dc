// Sections, and what is answered of them.

export class Outline {
  constructor(path, headings, lines) {
    this.path = path;
    this.headings = headings;
    this.lines = lines;
    setLastLines(headings.list, lines.parsed - 1);
  }

  answer(maxLevel, fromLine, most) {
    const wanted = this.headings.list.filter(({ level }) => level <= maxLevel);
    const behind = wanted.filter(({ line }) => this.lines.place(line) >= fromLine);
    const given = behind.slice(0, most).map((heading) => ({
      level: heading.level,
      text: this.headings.text(heading),
      first_line: this.lines.place(heading.line),
      last_line: this.lines.place(heading.lastLine),
    }));
    const details = {
      path: this.path,
      lines: this.lines.count,
      headings: given,
      headings_found: wanted.length,
      nested: this.headings.nested,
      truncated: given.length < behind.length,
    };
    const next = details.truncated ? this.lines.place(behind[most].line) : undefined;
    return { text: text(details, next), details };
  }
}

// A section goes on to the next heading of its level or a higher one, or to the end.
function setLastLines(headings, end) {
  const open = [];
  for (const heading of headings) {
    while (open.length > 0 && open.at(-1).level >= heading.level) {
      open.pop().lastLine = heading.line - 1;
    }
    open.push(heading);
  }
  for (const heading of open) {
    heading.lastLine = end;
  }
}

function text({ path, lines, headings, headings_found: found, nested, truncated }, next) {
  const rows = headings.map(({ level, text, first_line: first, last_line: last }) => [
    String(first),
    String(last - first + 1),
    `${"#".repeat(level)} ${text}`.trim(),
  ]);
  const said = [];
  if (rows.length > 0) {
    rows.unshift(["offset", "limit", "heading"]);
    const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column].length)));
    for (const [offset, limit, heading] of rows) {
      said.push(`${offset.padStart(widths[0])}  ${limit.padStart(widths[1])}  ${heading}`);
    }
    said.push("");
  }
  const shown = headings.length < found ? `${headings.length} of ${counted(found, "heading")}` : counted(found, "heading");
  said.push(`${shown}; ${path} has ${counted(lines, "line")}`);
  if (truncated) {
    said.push(`There are more: go on with \`from_line\` ${next}, or set \`max_level\` lower.`);
  }
  if (nested > 0) {
    said.push(`${counted(nested, "heading")} in block quotes and lists left out`);
  }
  return said.join("\n");
}

function counted(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}
