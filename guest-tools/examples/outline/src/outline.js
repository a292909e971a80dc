// Finds the sections of a file and formats the answer.

export class Outline {
  constructor(path, headings, lines) {
    this.path = path;
    this.headings = headings;
    this.lines = lines;
    setLastLines(headings.list, lines.parsed - 1);
  }

  answer(maxLevel, fromLine, maxHeadings) {
    const matching = this.headings.list.filter(({ level }) => level <= maxLevel);
    const remaining = matching.filter(({ line }) => this.lines.fileLine(line) >= fromLine);
    const listed = remaining.slice(0, maxHeadings).map((heading) => ({
      level: heading.level,
      text: this.headings.text(heading),
      first_line: this.lines.fileLine(heading.line),
      last_line: this.lines.fileLine(heading.lastLine),
    }));
    const details = {
      path: this.path,
      lines: this.lines.count,
      headings: listed,
      headings_found: matching.length,
      nested: this.headings.nested,
      truncated: listed.length < remaining.length,
    };
    const next = details.truncated ? this.lines.fileLine(remaining[maxHeadings].line) : undefined;
    return { text: answerText(details, next), details };
  }
}

// Sets the last line of each section. A section ends before the next heading of the same or a higher
// level, or at the end of the file.
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

function answerText({ path, lines, headings, headings_found: found, nested, truncated }, next) {
  const rows = headings.map(({ level, text, first_line: first, last_line: last }) => [
    String(first),
    String(last - first + 1),
    `${"#".repeat(level)} ${text}`.trim(),
  ]);
  const output = [];
  if (rows.length > 0) {
    rows.unshift(["offset", "limit", "heading"]);
    const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column].length)));
    for (const [offset, limit, heading] of rows) {
      output.push(`${offset.padStart(widths[0])}  ${limit.padStart(widths[1])}  ${heading}`);
    }
    output.push("");
  }
  const count = headings.length < found ? `${headings.length} of ${counted(found, "heading")}` : counted(found, "heading");
  output.push(`${count}; ${path} has ${counted(lines, "line")}`);
  if (truncated) {
    output.push(`There are more: continue with \`from_line\` ${next}, or set \`max_level\` lower.`);
  }
  if (nested > 0) {
    output.push(`${counted(nested, "heading")} in block quotes and lists left out`);
  }
  return output.join("\n");
}

function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
