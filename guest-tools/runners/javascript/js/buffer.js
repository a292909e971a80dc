// `buffer`: the package `buffer`, with the encoding `base64url` and newer names of methods.
const buffer = require("buffer/index");
const { Buffer } = buffer;
const isBase64Url = (encoding) => typeof encoding === "string" && encoding.toLowerCase() === "base64url";

const { from, isEncoding, byteLength } = Buffer;
const { toString } = Buffer.prototype;
Buffer.from = (value, encoding, length) => from(value, isBase64Url(encoding) ? "base64" : encoding, length);
Buffer.isEncoding = (encoding) => isBase64Url(encoding) || isEncoding(encoding);
Buffer.byteLength = (value, encoding) => byteLength(value, isBase64Url(encoding) ? "base64" : encoding);
Buffer.prototype.toString = function (encoding, ...range) {
  if (isBase64Url(encoding)) {
    return toString.call(this, "base64", ...range).replace(/=+$/, "").replaceAll("+", "-").replaceAll("/", "_");
  }
  if (encoding === undefined || /^utf-?8$/i.test(encoding)) {
    const part = range.length > 0 ? this.subarray(...range) : this;
    return native.decode(new Uint8Array(part.buffer, part.byteOffset, part.length), false);
  }
  return toString.call(this, encoding, ...range);
};
// Add Node's newer names of methods: `readUint8` besides `readUInt8`.
for (const name of ["Uint8", "Uint16LE", "Uint16BE", "Uint32LE", "Uint32BE"]) {
  Buffer.prototype[`read${name}`] ??= Buffer.prototype[`read${name.replace("Uint", "UInt")}`];
  Buffer.prototype[`write${name}`] ??= Buffer.prototype[`write${name.replace("Uint", "UInt")}`];
}

module.exports = { ...buffer, get atob() { return atob; }, get btoa() { return btoa; } };
