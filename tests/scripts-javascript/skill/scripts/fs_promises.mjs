import { readFile, writeFile, mkdir, readdir, stat, rm, access, mkdtemp, open } from "node:fs/promises";
import { promises as fsp, constants } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
await mkdir("made/deep", { recursive: true });
await Promise.all(["a", "b", "c"].map((name) => writeFile(`made/${name}.txt`, name.repeat(3))));
console.log((await readdir("made")).sort(), (await stat("made/a.txt")).size, await readFile("made/b.txt", "utf8"));
await access("made/a.txt", constants.R_OK);
try { await fsp.readFile("none"); } catch (error) { console.log(error.code, error.path); }
const temporary = await mkdtemp(join(tmpdir(), "x-"));
await writeFile(join(temporary, "t"), "t");
const handle = await open("made/a.txt", "r");
console.log((await handle.readFile()).length); await handle.close();
await rm("made/c.txt"); await rm(temporary, { recursive: true });
console.log((await readdir("made", { withFileTypes: true })).map((entry) => `${entry.name}${entry.isDirectory() ? "/" : ""}`).sort());
