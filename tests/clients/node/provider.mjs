// An OpenID provider for tests, by oidc-provider: it logs everybody in as alice, and gives
// access tokens for one resource. Arguments: its port and the resource.
import crypto from "node:crypto";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(path.join(process.env.NODE_MODULES, "package.json"));
const { Provider, errors } = await import(pathToFileURL(require.resolve("oidc-provider")).href);

const [port, resource] = process.argv.slice(2);
const SCOPE = "skills:read";

const { privateKey } = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" });
const key = { ...privateKey.export({ format: "jwk" }), kid: "one", alg: "ES256", use: "sig" };

const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: [key] },
  cookies: { keys: ["only for tests"] },
  scopes: ["openid", "offline_access", SCOPE],
  clientDefaults: { id_token_signed_response_alg: "ES256" },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (_, interaction) => `/login/${interaction.uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo(_, asked) {
        if (asked !== resource) {
          throw new errors.InvalidTarget();
        }
        return { scope: SCOPE, audience: resource, accessTokenFormat: "jwt",
                 jwt: { sign: { alg: "ES256" } } };
      },
    },
  },
  async loadExistingGrant({ oidc }) {
    const grant = new provider.Grant({
      clientId: oidc.client.clientId,
      accountId: oidc.session.accountId,
    });
    grant.addOIDCScope(`openid offline_access ${SCOPE}`);
    grant.addResourceScope(resource, SCOPE);
    await grant.save();
    return grant;
  },
});

provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith("/login/")) {
    return next();
  }
  ctx.respond = false;
  // A client of this machine is asked for its consent, too.
  const answer = { login: { accountId: "alice" }, consent: {} };
  return provider.interactionFinished(ctx.req, ctx.res, answer);
});

const server = provider.listen(Number(port), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${port}`);
});
process.on("SIGTERM", () => {
  server.close();
  server.closeAllConnections();
});
