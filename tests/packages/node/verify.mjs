// Verifies a sigstore bundle by a public key, without a transparency log: verify.mjs BUNDLE KEY.
import { createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(process.env.PACKAGES_MODULES + "/");
const { bundleFromJSON } = require("@sigstore/bundle");
const { toSignedEntity, Verifier } = require("@sigstore/verify");

const [bundle, key] = process.argv.slice(2).map((file) => readFileSync(file, "utf8"));
const publicKey = createPublicKey(key);
const trusted = {
  certificateAuthorities: [],
  timestampAuthorities: [],
  tlogs: [],
  ctlogs: [],
  publicKey: () => ({ publicKey, validFor: () => true }),
};
const verifier = new Verifier(trusted, { ctlogThreshold: 0, tlogThreshold: 0, timestampThreshold: 0 });
verifier.verify(toSignedEntity(bundleFromJSON(JSON.parse(bundle))));
