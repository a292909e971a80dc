// The TypeScript SDK as a client: does everything that an agent does, and exits with 0 if
// everything works. Arguments: a configuration file for clients, the program's folder, and the era
// of the protocol.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { newClient, sdk, serverOf, transport } from "./connect.mjs";

const PATIENCE = 60_000;
const GONE = 100;
const CANCELS = 3;
const RUNNING = 250_000;

const [file, folder, era] = process.argv.slice(2);
const modern = era === "modern";
const server = serverOf(file);
const audit = path.join(folder, "audit.jsonl");

const text = (result) => {
  assert.equal(result.content.length, 1);
  return result.content[0].text;
};
const call = (client, name, args = {}, options) =>
  client.callTool({ name, arguments: args }, options);

async function listAll(client) {
  const { tools } = await client.listTools(undefined, { cacheMode: "refresh" });
  return tools;
}

const skillsOffered = (tools) =>
  tools.find((tool) => tool.name === "read_skill").inputSchema.properties.skill_name.enum;

async function calls(client) {
  const skill = { skill_name: "calculator" };
  for (const [name, args, seen] of [
    ["read_file_in_skill", { ...skill, file_path: "examples/basic.py" }, "def add"],
    ["get_skill", skill, '"documentation"'],
    ["read_skill_file", { ...skill, path: "examples/basic.py", limit: 2 }, "def add"],
    ["read_skill", skill, "# Calculator"],
    ["list_skills", {}, '"calculator"'],
    ["list_files_in_skill", skill, "examples/basic.py"],
  ]) {
    const result = await call(client, name, args);
    assert.ok(!result.isError, name);
    assert.ok(text(result).includes(seen), `${name}: ${text(result)}`);
  }
  const result = await call(client, "list_skills");
  assert.deepEqual(JSON.parse(text(result)), result.structuredContent);
}

async function errors(client) {
  const outside = { skill_name: "calculator", file_path: "../weather/SKILL.md" };
  const result = await call(client, "read_file_in_skill", outside);
  assert.equal(result.isError, true);
  const [words, help, ...more] = result.content;
  assert.ok(words.text.startsWith("ERROR: Path traversal detected"));
  // The host's help is a block of its own.
  assert.ok(help.text.includes('skill_name "weather" and file_path "SKILL.md"'), help.text);
  assert.deepEqual(more, []);
  await assert.rejects(call(client, "no_such_tool"), { code: -32602 });
  const uri = "skill://calculator/no/such";
  const isNotFound = (error) => error instanceof sdk.ResourceNotFoundError && error.uri === uri;
  await assert.rejects(client.readResource({ uri }), isNotFound);
}

async function resources(client) {
  const uri = "skill://calculator/SKILL.md";
  const { contents } = await client.readResource({ uri });
  assert.equal(contents.length, 1);
  const skill = path.join(folder, "skills/calculator/SKILL.md");
  assert.equal(contents[0].text, fs.readFileSync(skill, "utf8"));
  const listed = await client.listResources();
  assert.ok(listed.resources.some((resource) => resource.uri === uri));
}

// The last part has no line feed: it is empty, or an incomplete record.
const ended = () =>
  fs
    .readFileSync(audit, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line))
    .filter((record) => record.tool === "hostile_compute");

// Cancels calls that never end by themselves, and waits for their records, which are written when
// the guests have ended.
async function cancellation(client) {
  const late = [];
  for (let attempt = 0; attempt < CANCELS; attempt++) {
    const abort = new AbortController();
    const options = { signal: abort.signal };
    const calling = call(client, "hostile_compute", { skill_name: "calculator" }, options);
    const given = assert.rejects(calling);
    await sleep(500);
    assert.equal(ended().length, attempt, "it has not run");
    abort.abort();
    const cancelled = Date.now();
    await given;
    const deadline = Date.now() + PATIENCE;
    while (ended().length === attempt) {
      assert.ok(Date.now() < deadline, "the guest is not gone");
      await sleep(5);
    }
    const record = ended().at(-1);
    assert.equal(record.outcome, "cancelled");
    assert.ok(record.duration_us > RUNNING, JSON.stringify(record));
    late.push(fs.statSync(audit).mtimeMs - cancelled);
  }
  const median = late.toSorted((a, b) => a - b)[Math.floor(CANCELS / 2)];
  assert.ok(median < GONE, `gone after ${late} ms`);
  // The session still works.
  assert.ok(!(await call(client, "list_skills")).isError);
  return late;
}

// Adds a skill, and checks that the client is notified and lists the skill.
async function changes(client) {
  assert.ok(!skillsOffered(await listAll(client)).includes("added"));
  const told = new Promise((resolve) =>
    client.setNotificationHandler("notifications/tools/list_changed", resolve),
  );
  if (modern) {
    await client.listen({ toolsListChanged: true });
  }
  const skill = path.join(folder, "skills/added");
  fs.mkdirSync(skill);
  const document = "---\nname: added\ndescription: New.\n---\nRead me.\n";
  fs.writeFileSync(path.join(skill, "SKILL.md"), document);
  const late = sleep(PATIENCE, undefined, { ref: false }).then(() => {
    throw new Error("it was not told");
  });
  await Promise.race([told, late]);
  assert.ok(skillsOffered(await listAll(client)).includes("added"));
  const result = await call(client, "read_skill", { skill_name: "added" });
  assert.equal(text(result).trim(), "Read me.");
}

// Checks that the server refuses a missing and a wrong token.
async function refused() {
  for (const headers of [{}, { Authorization: "Bearer another-token-than-that-one" }]) {
    await assert.rejects(newClient(modern).connect(transport(server, folder, headers)));
  }
}

const client = newClient(modern);
await client.connect(transport(server, folder));
const revision = client.getNegotiatedProtocolVersion();
assert.equal(revision, modern ? "2026-07-28" : "2025-11-25");
const names = (await listAll(client)).map((tool) => tool.name);
assert.equal(new Set(names).size, names.length);
for (const name of [
  "read_file_in_skill",
  "get_skill",
  "read_skill_file",
  "read_skill",
  "list_skills",
  "list_files_in_skill",
]) {
  assert.ok(names.includes(name), `${name} is not listed`);
}
await calls(client);
await errors(client);
await resources(client);
const late = await cancellation(client);
let did = `listed ${names.length} tools, called six, read a resource, saw errors, `;
did += `cancelled (${late.map((ms) => ms.toFixed(0)).join(", ")} ms)`;
await changes(client);
did += ", was told of a new skill";
await client.close();
if (server.url) {
  await refused();
  did += ", was refused without the token";
}
console.log(`  typescript, ${server.url ? "HTTP" : "stdio"}, ${revision}: ${did}`);
