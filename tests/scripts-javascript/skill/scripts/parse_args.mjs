import { parseArgs } from "node:util";
try {
  const { values, positionals, tokens } = parseArgs({
    options: { verbose: { type: "boolean", short: "v" }, out: { type: "string", short: "o", default: "a.txt" }, tag: { type: "string", multiple: true } },
    allowPositionals: true, tokens: true,
  });
  console.log({ ...values }, positionals, tokens.length);
} catch (error) {
  console.log(error.code, error.message);
  process.exitCode = 2;
}
