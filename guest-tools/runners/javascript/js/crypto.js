// `crypto`: digests, HMACs and random numbers. Ciphers, keys and signatures are unsupported.
const unsupported = require("unsupported");
const HASHES = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];

const bytesOf = (data, encoding) => {
  if (typeof data === "string") {
    return Buffer.from(data, encoding);
  }
  if (data instanceof ArrayBuffer) {
    return new Uint8Array(data);
  }
  if (!ArrayBuffer.isView(data)) {
    const error = new TypeError(`The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${require("util").inspect(data)}`);
    throw Object.assign(error, { code: "ERR_INVALID_ARG_TYPE" });
  }
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
};

class Hash {
  constructor(algorithm, key) {
    this._algorithm = algorithm.toLowerCase().replace("-", "");
    this._key = key;
    this._parts = [];
    if (!HASHES.includes(this._algorithm)) {
      throw new Error(`Digest method not supported: the sandbox has ${HASHES.join(", ")}`);
    }
  }
  update(data, encoding) {
    if (this._isDone) {
      throw Object.assign(new Error("Digest already called"), { code: "ERR_CRYPTO_HASH_FINALIZED" });
    }
    this._parts.push(Buffer.from(bytesOf(data, encoding)));
    return this;
  }
  copy() {
    const copy = new Hash(this._algorithm, this._key);
    copy._parts = [...this._parts];
    return copy;
  }
  digest(encoding) {
    if (this._isDone) {
      throw Object.assign(new Error("Digest already called"), { code: "ERR_CRYPTO_HASH_FINALIZED" });
    }
    this._isDone = true;
    const bytes = this._parts.length === 1 ? this._parts[0] : Buffer.concat(this._parts);
    const digest = Buffer.from(native.digest(this._algorithm, new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length), this._key));
    return encoding && encoding !== "buffer" ? digest.toString(encoding) : digest;
  }
  // The methods of a stream.
  write(data, encoding) {
    this.update(data, encoding);
    return true;
  }
  end() {}
  on() {
    return this;
  }
}

const randomBytes = (length, callback) => {
  const bytes = Buffer.from(native.random(length));
  return callback ? void setImmediate(callback, null, bytes) : bytes;
};
const randomUUID = () => {
  const bytes = randomBytes(16);
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
};
const getRandomValues = (array) => {
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(new Uint8Array(native.random(array.byteLength)));
  return array;
};
function randomInt(min, max, callback) {
  if (max === undefined || typeof max === "function") {
    [min, max, callback] = [0, min, max];
  }
  const range = max - min;
  // The largest multiple of the range: larger numbers would make some results more likely.
  const limit = 2 ** 48 - (2 ** 48 % range);
  let random;
  do {
    random = randomBytes(6).readUIntBE(0, 6);
  } while (random >= limit);
  const result = min + (random % range);
  return callback ? void setImmediate(callback, null, result) : result;
}

module.exports = {
  createHash: (algorithm) => new Hash(algorithm),
  createHmac: (algorithm, key) => new Hash(algorithm, new Uint8Array(bytesOf(key))),
  hash: (algorithm, data, encoding = "hex") => new Hash(algorithm).update(data).digest(encoding),
  getHashes: () => [...HASHES],
  randomBytes,
  randomFillSync: getRandomValues,
  randomInt,
  randomUUID,
  getRandomValues,
  timingSafeEqual(one, other) {
    if (one.byteLength !== other.byteLength) {
      throw new RangeError("Input buffers must have the same byte length");
    }
    let differs = 0;
    one.forEach((byte, at) => {
      differs |= byte ^ other[at];
    });
    return differs === 0;
  },
  webcrypto: {
    getRandomValues,
    randomUUID,
    subtle: {
      digest: async (algorithm, data) =>
        native.digest((algorithm.name ?? algorithm).toLowerCase().replace("-", ""), new Uint8Array(bytesOf(data))),
    },
  },
};
for (const name of ["createCipheriv", "createDecipheriv", "createSign", "createVerify", "generateKeyPairSync", "pbkdf2Sync", "scryptSync"]) {
  module.exports[name] = () => {
    throw unsupported.error(`crypto.${name}`, "NATIVE");
  };
}
