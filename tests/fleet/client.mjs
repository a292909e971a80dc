// The TypeScript SDK as a client that makes many calls and continues after errors. Arguments: the
// server's URL, the token, the era of the protocol, the number of the first call, the number of
// calls, and the file for the results.
import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { newClient, transport } from "../clients/node/connect.mjs";

const SESSIONS = 8;
// A call is lost if it has no answer and no error by then.
const PATIENCE = 45_000;
const FILES = 500;

const [url, token, era, first, count, file] = process.argv.slice(2);
const server = { url, headers: { Authorization: `Bearer ${token}` } };
const results = {
  answered: [], failed: [], wrong: [], lost: [], errors: {}, connections_failed: 0,
};

const trace = (number) => (number + 1).toString(16).padStart(32, "0");

// Returns the file that a call reads, and what its answer must be.
function asked(number) {
  if (number % 20 === 7) {
    return [`none-${number}.txt`, null];
  }
  const file = (number * 7919) % FILES;
  return [`file-${file}.txt`, `file ${file} of the fleet\n`.repeat((file % 60) + 1)];
}

async function call(client, number) {
  const [path, expected] = asked(number);
  const result = await client.callTool(
    {
      name: "read_file_in_skill",
      arguments: { skill_name: "fleet", file_path: path },
      _meta: { traceparent: `00-${trace(number)}-00f067aa0ba902b7-01` },
    },
    { timeout: PATIENCE },
  );
  const { text } = result.content[0];
  const isRight =
    expected === null
      ? result.isError && text.startsWith("ERROR:") && text.includes(path)
      : !result.isError && text === expected;
  if (!isRight) {
    results.wrong.push(`${path}: ${text.slice(0, 200)}`);
  }
  results.answered.push(trace(number));
}

function fail(number, error) {
  const text = `${error}`;
  if (/timed? ?out/i.test(text)) {
    results.lost.push(trace(number));
  }
  results.failed.push(trace(number));
  const key = `typescript: ${text.replaceAll("\n", " ").slice(0, 90)}`;
  results.errors[key] = (results.errors[key] ?? 0) + 1;
}

// Makes calls on one session, and opens another one after an error.
async function session(numbers) {
  while (numbers.length > 0) {
    const client = newClient(era === "modern");
    try {
      await client.connect(transport(server));
    } catch {
      results.connections_failed += 1;
      await sleep(50);
      continue;
    }
    let hasFailed = false;
    while (numbers.length > 0 && !hasFailed) {
      const number = numbers.pop();
      try {
        await call(client, number);
      } catch (error) {
        fail(number, error);
        hasFailed = true;
      }
    }
    await client.close().catch(() => {});
  }
}

const sessions = Array.from({ length: SESSIONS }, () => []);
for (let at = 0; at < Number(count); at++) {
  sessions[at % SESSIONS].unshift(Number(first) + at);
}
await Promise.all(sessions.map(session));
fs.writeFileSync(file, JSON.stringify(results));
process.exit(0);
