// The TypeScript SDK's own OAuth client: logs in and calls. Argument: the server's address.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(path.join(process.env.NODE_MODULES, "package.json"));
const sdk = await import(pathToFileURL(require.resolve("@modelcontextprotocol/client")).href);

const url = new URL(process.argv[2]);
const REDIRECT = "http://127.0.0.1:9/callback";

// Follows a login as a browser does, with its cookies, until it leads back.
async function browse(start) {
  const cookies = new Map();
  let address = start;
  for (let step = 0; step < 20; step++) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const answer = await fetch(address, { redirect: "manual", headers: { cookie } });
    for (const set of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(set);
      cookies.set(name, value);
    }
    const location = answer.headers.get("location");
    assert.ok(location, `${answer.status} ${await answer.text()}`);
    address = new URL(location, address);
    if (address.href.startsWith(REDIRECT)) {
      return address.searchParams;
    }
  }
  throw new Error("the login does not end");
}

const kept = {};
let callback;
const provider = {
  redirectUrl: REDIRECT,
  clientMetadata: {
    client_name: "tests",
    redirect_uris: [REDIRECT],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  saveDiscoveryState: (state) => void (kept.discovery = state),
  discoveryState: () => kept.discovery,
  async redirectToAuthorization(address) {
    callback = await browse(address);
  },
};

const newClient = () => new sdk.Client({ name: "tests", version: "1" });
const newTransport = () => new sdk.StreamableHTTPClientTransport(url, { authProvider: provider });

const first = newTransport();
await assert.rejects(newClient().connect(first), sdk.UnauthorizedError);
await first.finishAuth(callback);
assert.ok(kept.tokens.access_token);

const client = newClient();
await client.connect(newTransport());
const { tools } = await client.listTools();
assert.deepEqual(tools.map((tool) => tool.name), ["read_skill"]);
const read = await client.callTool({
  name: "read_skill",
  arguments: { skill_name: "calculator" },
});
assert.match(read.content[0].text, /# Calculator/);
const hidden = await client.callTool({
  name: "read_skill",
  arguments: { skill_name: "data_analysis" },
});
assert.equal(hidden.isError, true);
await client.close();
