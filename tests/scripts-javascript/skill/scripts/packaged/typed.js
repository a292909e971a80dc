import fs from "fs";
import { basename } from "path";
console.log(basename(import.meta.filename), fs.existsSync("SKILL.md"));
export {};
