// How the TypeScript SDK's clients find their server and connect to it.
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(path.join(process.env.NODE_MODULES, "package.json"));
export const load = (name) => import(pathToFileURL(require.resolve(name)).href);
export const sdk = await load("@modelcontextprotocol/client");
const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");

// The server in a configuration file for clients.
export const serverOf = (file) => JSON.parse(fs.readFileSync(file, "utf8")).mcpServers.skillhost;

export function transport(server, folder, headers = server.headers) {
  if (server.command) {
    return new StdioClientTransport({
      command: server.command,
      args: server.args,
      cwd: folder,
      env: { PATH: process.env.PATH, HOME: process.env.HOME },
    });
  }
  return new sdk.StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers } });
}

// A client of the newest or of the previous revision of the protocol.
export function newClient(modern) {
  const mode = modern ? { pin: "2026-07-28" } : "legacy";
  return new sdk.Client({ name: "tests", version: "1" }, { versionNegotiation: { mode } });
}
