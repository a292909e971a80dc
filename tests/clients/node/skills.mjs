// The TypeScript SDK's client of the skills extension: lists the skills, which fails if it
// refuses one entry, and reads each SKILL.md, which it compares with its entry. Exits with
// 0 if all of it works. Arguments: a configuration file for clients, and the program's folder.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";

import { load, newClient, serverOf, transport } from "./connect.mjs";

const [file, folder] = process.argv.slice(2);
const { SkillsClient } = await load("@modelcontextprotocol/client/ext/skills");

const server = serverOf(file);
const client = newClient(true);
await client.connect(transport(server, folder));
const skillsClient = new SkillsClient(client);
const { skills } = await skillsClient.list();
// What skills.py expects: each folder, and its skill's name in the listing.
const expected = JSON.parse(fs.readFileSync(path.join(folder, "listed.json"), "utf8"));
const listed = skills.map((skill) => [skill.uri.split("/")[2], skill.frontmatter.name]);
assert.deepEqual(new Map(listed.sort()), new Map(Object.entries(expected).sort()));

const changed = JSON.parse(fs.readFileSync(path.join(folder, "changed.json"), "utf8"));
const refused = [];
for (const skill of skills) {
  try {
    const { text, verified } = await skillsClient.read(skill);
    assert.ok(verified && text.startsWith("---\n"), skill.uri);
  } catch (error) {
    assert.equal(error.reason, "frontmatter", `${skill.uri}: ${error}`);
    refused.push(skill.uri.split("/")[2]);
  }
}
assert.deepEqual(refused.sort(), changed.sort());
await client.close();
const over = server.url ? "HTTP" : "stdio";
console.log(`  TypeScript, ${over}: listed ${skills.length} skills, verified all but ${refused.length}`);
