// `console`: writes to the call's stdout and stderr.
const STDOUT = 1;
const STDERR = 2;
const counts = new Map();
const times = new Map();
let indent = "";

function writeLine(fd, args) {
  // Most lines have only strings and numbers, and need no `util`, which is slow to load.
  const needsNoFormat = args.every(isPrimitive) && !(args.length > 1 && typeof args[0] === "string" && args[0].includes("%"));
  let text = needsNoFormat ? args.map(primitiveText).join(" ") : require("util").format(...args);
  if (indent) {
    text = indent + text.replaceAll("\n", `\n${indent}`);
  }
  native.output(fd, `${text}\n`.toWellFormed());
}

const isPrimitive = (value) => value == null || ["string", "number", "boolean"].includes(typeof value);
const primitiveText = (value) => (Object.is(value, -0) ? "-0" : `${value}`);

const elapsedText = (label) => {
  const elapsed = native.clock() - (times.get(label) ?? native.clock());
  return elapsed >= 1000 ? `${(elapsed / 1000).toFixed(3)}s` : `${elapsed.toFixed(3)}ms`;
};

function table(rows, columns) {
  if (rows === null || typeof rows !== "object") {
    return writeLine(STDOUT, [rows]);
  }
  const print = (value) => require("util").inspect(value, { depth: value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 2 ? -1 : 0, maxArrayLength: 3, breakLength: Infinity });
  const isMap = rows instanceof Map;
  const isSet = rows instanceof Set;
  const head = isMap || isSet ? "(iteration index)" : "(index)";
  const entries = isMap ? [...rows].map((pair, number) => [number, pair]) : isSet ? [...rows].map((value, number) => [number, value]) : Object.entries(rows);
  const names = [];
  let hasValues = false;
  const lines = entries.map(([key, row]) => {
    const cells = { [head]: String(key) };
    if (isMap) {
      return { ...cells, Key: print(row[0]), Values: print(row[1]) };
    }
    if (row !== null && typeof row === "object") {
      for (const name of columns ?? Object.keys(row)) {
        names.includes(name) || names.push(name);
        cells[`c${name}`] = Object.hasOwn(row, name) ? print(row[name]) : "";
      }
    } else {
      hasValues = true;
      cells.Values = print(row);
    }
    return cells;
  });
  const keys = [head, ...(isMap ? ["Key"] : names.map((name) => `c${name}`)), ...(isMap || hasValues ? ["Values"] : [])];
  const titles = [head, ...(isMap ? ["Key"] : names), ...(isMap || hasValues ? ["Values"] : [])];
  const width = (text) => [...text].length;
  const widths = keys.map((key, at) => Math.max(width(titles[at]), ...lines.map((cells) => width(cells[key] ?? ""))) + 2);
  // Node 20 and later align the text to the left.
  const row = (cells) => `│${cells.map((cell, at) => ` ${cell}${" ".repeat(widths[at] - width(cell) - 1)}`).join("│")}│`;
  const rule = (left, middle, right) => left + widths.map((width) => "─".repeat(width)).join(middle) + right;
  writeLine(STDOUT, [[
    rule("┌", "┬", "┐"),
    row(titles),
    rule("├", "┼", "┤"),
    ...lines.map((cells) => row(keys.map((key) => cells[key] ?? ""))),
    rule("└", "┴", "┘"),
  ].join("\n")]);
}

const out = (...args) => writeLine(STDOUT, args);
const error = (...args) => writeLine(STDERR, args);
const group = (...args) => {
  if (args.length > 0) {
    out(...args);
  }
  indent += "  ";
};

module.exports = {
  log: out,
  info: out,
  debug: out,
  error,
  warn: error,
  trace(...args) {
    const stack = new Error().stack.split("\n").slice(1).join("\n");
    error(`Trace: ${require("util").format(...args)}\n${stack}`);
  },
  dir: (value, options) => out(require("util").inspect(value, { customInspect: false, ...options })),
  dirxml: out,
  table,
  group,
  groupCollapsed: group,
  groupEnd() {
    indent = indent.slice(2);
  },
  assert(value, ...args) {
    if (!value) {
      args.length > 0 && typeof args[0] === "string" ? error(`Assertion failed: ${args[0]}`, ...args.slice(1)) : error("Assertion failed", ...args);
    }
  },
  count(label = "default") {
    counts.set(label, (counts.get(label) ?? 0) + 1);
    out(`${label}: ${counts.get(label)}`);
  },
  countReset: (label = "default") => void counts.delete(label),
  time: (label = "default") => void times.set(label, native.clock()),
  timeLog: (label = "default", ...args) => out(`${label}: ${elapsedText(label)}`, ...args),
  timeEnd(label = "default") {
    out(`${label}: ${elapsedText(label)}`);
    times.delete(label);
  },
  clear() {},
};
