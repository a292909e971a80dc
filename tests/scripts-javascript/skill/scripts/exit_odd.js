// Ends with odd exit codes, and runs on after the event before the end.
const [how] = process.argv.slice(2);
const codes = { error: new Error("no disk"), text: "abc", object: {}, fraction: 2.5, nan: NaN, flag: true, empty: "", decimal: "5.5" };
if (how === "main") {
  (async () => { throw new Error("no disk"); })().catch(process.exit);
} else if (how === "property") {
  try { process.exitCode = codes.error; } catch (error) { console.log(error.code, process.exitCode); }
  process.exitCode = "6";
} else if (how === "large") {
  process.exit(4294967297);
} else if (how === "negative") {
  process.exit(-1);
} else if (how === "twice") {
  let left = 2;
  process.on("beforeExit", () => { if (left-- > 0) setTimeout(() => console.log("left", left), 1); });
} else if (how === "undefined") {
  process.exitCode = 3;
  process.exit(undefined);
} else if (how === "no code") {
  process.exitCode = 3;
  process.exit();
} else if (how === "in exit") {
  process.on("exit", () => { throw new Error("late"); });
  process.exit(3);
} else if (how === "zero at exit") {
  process.on("exit", () => { throw new Error("late"); });
  process.exitCode = 0;
} else if (how === "at exit") {
  process.on("exit", () => { throw new Error("late"); });
} else if (how === "monitor") {
  process.on("uncaughtExceptionMonitor", (error, origin) => console.log(error.message, origin));
  throw new Error("seen");
} else if (how === "handler") {
  process.on("exit", (code) => console.log("exit", code));
  process.on("uncaughtException", () => { throw new Error("again"); });
  throw new Error("first");
} else {
  try { process.exit(codes[how]); } catch (error) { console.log(error.name, error.code); }
}
