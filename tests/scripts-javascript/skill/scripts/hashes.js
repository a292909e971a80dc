const crypto = require("node:crypto");
const fs = require("fs");
for (const name of ["md5", "sha1", "sha256", "sha512", "sha384"]) console.log(name, crypto.createHash(name).update("hello ").update(Buffer.from("world")).digest("hex"));
console.log(crypto.createHash("sha256").update(fs.readFileSync("data/page.md")).digest("base64"));
console.log(crypto.createHmac("sha256", "key").update("message").digest("hex"), crypto.createHash("sha1").update("x").digest().length);
console.log(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/.test(crypto.randomUUID()), crypto.randomBytes(16).length, crypto.randomInt(5) < 5);
console.log(crypto.timingSafeEqual(Buffer.from("a"), Buffer.from("a")), crypto.randomUUID() !== crypto.randomUUID());
