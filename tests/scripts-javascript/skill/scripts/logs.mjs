import { readFileSync, writeFileSync } from "node:fs";
const pattern = /^(?<time>\S+) (?<level>[A-Z]+) (?<text>.*)$/u;
const lines = readFileSync("data/app.log", "utf8").trimEnd().split("\n").map((line) => pattern.exec(line).groups);
const counts = [...lines.reduce((m, l) => m.set(l.level, (m.get(l.level) ?? 0) + 1), new Map())];
console.log(counts, lines[1], lines.findLast((l) => l.level === "INFO").text, lines.at(-1).time);
console.log(lines.map((l) => new Date(l.time).toISOString()), (new Date(lines[3].time) - new Date(lines[0].time)) / 1000, "5120ms".match(/(?<=\d{2})\d+(?=ms)/)[0], /\p{Lu}\p{Ll}+/u.exec("straße Öl")[0]);
writeFileSync("errors.txt", lines.filter((l) => l.level === "ERROR").map((l) => `${l.time}\t${l.text}`).join("\n"));
