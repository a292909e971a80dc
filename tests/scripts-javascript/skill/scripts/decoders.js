// Decodes and encodes texts in pieces, and refuses wrong ones.
const fs = require("fs");
const { StringDecoder } = require("string_decoder");

const text = "a€😀é𝒳 – \ufeffb";
const caught = (run) => {
  try {
    return run();
  } catch (error) {
    return `${error.name} ${error.code}`;
  }
};
for (const encoding of ["utf8", "utf-8", "utf16le", "ucs2", "base64", "base64url", "hex", "latin1", "ascii"]) {
  for (const size of [1, 2, 3, 5]) {
    const bytes = Buffer.from(text, /^(base64|hex)/.test(encoding) ? "utf8" : encoding);
    const decoder = new StringDecoder(encoding);
    const pieces = [];
    for (let at = 0; at < bytes.length; at += size) {
      pieces.push(decoder.write(bytes.subarray(at, at + size)));
    }
    pieces.push(decoder.end());
    console.log(encoding, decoder.encoding, size, JSON.stringify(size === 1 ? pieces.join("") : pieces));
  }
}
const decoder = new StringDecoder();
console.log(JSON.stringify([[0xe2, 0x82, 0x41], [0xff, 0xe2], [0xf0, 0x9f]].map((bytes) => decoder.write(Buffer.from(bytes)))), JSON.stringify(decoder.end()));
const odd = new StringDecoder("utf16le");
console.log(JSON.stringify([odd.write(Buffer.from([0x61])), odd.write(Buffer.from([0, 0x3d, 0xd8])), odd.write(Buffer.from([0])), odd.end(Buffer.from([0xde, 0x62]))]));
const reused = Buffer.from([0xe2, 0x82]);
const keeping = new StringDecoder();
keeping.write(reused);
reused.fill(0);
console.log(keeping.write(Buffer.from([0xac])));
console.log(caught(() => new StringDecoder("none")), new StringDecoder("hex").write("as it is"));

const decode = (label, options, ...pieces) => caught(() => {
  const decoder = new TextDecoder(label, options);
  return JSON.stringify([decoder.encoding, ...pieces.map((bytes, at) => decoder.decode(new Uint8Array(bytes), { stream: at < pieces.length - 1 }))]);
});
console.log(decode("utf-16le", {}, [0xff, 0xfe, 97, 0]));
console.log(decode("utf-16le", {}, [0xff], [0xfe, 97], [0, 0x3d, 0xd8, 0], [0xde]));
console.log(decode("utf-16le", { ignoreBOM: true }, [0xff, 0xfe, 97, 0]));
console.log(decode("utf-16le", {}, [0x3d, 0xd8, 97, 0, 98]));
console.log(decode("utf-16le", { fatal: true }, [97, 0, 98]));
console.log(decode("utf8", {}, [0xef, 0xbb], [0xbf, 97], [0xef, 0xbb, 0xbf]));
console.log(decode("utf-8", { fatal: true }, [0xe2, 0x82], [0xac]));
console.log(decode("utf-8", { fatal: true }, [0xff], []));
console.log(decode("utf-8", { fatal: true }, [0xe2, 0x82], []));
console.log(decode("utf-8", {}, [97, 0xe2, 0x82], []));
console.log(decode("none", {}));
const twice = new TextDecoder();
console.log([1, 2].map(() => twice.decode(Buffer.from("\ufeffx")).length));

const encoded = (text, size) => {
  const target = new Uint8Array(size);
  return JSON.stringify([new TextEncoder().encodeInto(text, target), [...target]]);
};
console.log(encoded("a😀b", 4), encoded("a😀b", 5), encoded("a😀b", 9), encoded("é€", 1), encoded("x\ud800y", 4));
for (const text of ["aGk=", "aGk", " a G\nk= ", "", "*", "a", "aG=k", "aGk==", "aGk_"]) {
  console.log(JSON.stringify(text), caught(() => JSON.stringify(atob(text))));
}
console.log(btoa("\xff"), btoa(12), caught(() => btoa("€")), caught(() => btoa("a\u0100")));

(async () => {
  fs.writeFileSync("stream.txt", text);
  for (const encoding of ["base64", "hex", "utf8", "utf16le"]) {
    let all = "";
    for await (const chunk of fs.createReadStream("stream.txt", { encoding, highWaterMark: 4 })) {
      all += chunk;
    }
    console.log(encoding, JSON.stringify(all));
  }
})();
