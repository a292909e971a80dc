import describe, { Square, counter, increment, config } from "./lib/shapes.mjs";
import * as shapes from "./lib/shapes.mjs";
import format, { title } from "./lib/format.js";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
increment();
console.log(describe(new Square(4)), counter, config.name, Object.keys(shapes));
console.log(title("from commonjs"), format.calls(), path.basename(fileURLToPath(import.meta.url)), path.basename(import.meta.dirname));
const require = createRequire(import.meta.url);
console.log(require("../data/config.json").tags, typeof require("fs").readFileSync);
const { default: lazy } = await import("./lib/folder/index.js");
console.log(lazy, typeof this);
try { await import("./none.mjs"); } catch (error) { console.log(error.code); }
