// Imports JSON with attributes, which Node demands.
import config from '../data/config.json' with { type: 'json' };
import both from "./lib/both.json" with { "type": "json", }; import other from "./lib/folder/other.json"
  with {
    type: "json"
  };
export { default as again } from "../data/config.json" with { type: "json" };
import { createRequire } from "node:module";

const text = `
import config from '../data/config.json' with { type: 'json' };
`;
console.log(config, both, other, text);
const dynamic = await import("./lib/both.json", { with: { type: "json" } });
console.log(dynamic.default, "import('x', { with: { type: 'json' } })");
const path = "./lib/folder/other.json";
console.log((await import(
  path,
  { with: { type: "json" } },
)).default);
console.log(await createRequire(import.meta.url)("./lib/attributes.cjs").load());
console.log(new Error("line").stack.match(/import_attributes\.mjs:(\d+)/)[1]);
// Node warns that importing JSON is experimental.
console.error("end");
