const b = Buffer.from("Grüße, 世界 🎉");
console.log(b.length, b.toString("hex"), b.toString("base64"), b.toString("base64url"), b.subarray(0, 4).toString());
console.log(Buffer.concat([Buffer.from("a"), Buffer.alloc(2, "z")]).toString(), Buffer.from("aGk=", "base64").toString(), Buffer.from("ff00", "hex"), Buffer.compare(Buffer.from("a"), Buffer.from("b")));
const w = Buffer.alloc(16); w.writeUInt32BE(0xdeadbeef, 0); w.writeInt16LE(-2, 4); w.writeDoubleBE(1.5, 8);
console.log(w, w.readUInt32BE(0).toString(16), w.readInt16LE(4), w.readDoubleBE(8), w.equals(Buffer.from(w)), Buffer.isBuffer(w), Buffer.byteLength("世"));
console.log(b.indexOf("世"), b.includes("🎉"), JSON.stringify(Buffer.from("ab")), [...Buffer.from("xyz").entries()][2], Buffer.from([256, -1, 3.7]), b.slice(-4).toString());
console.log(new TextDecoder().decode(new TextEncoder().encode("€")), btoa("hi"), atob("aGk="), Buffer.from("latin é", "latin1").length, new TextDecoder("utf-16le").decode(Buffer.from("hi", "utf16le")));
