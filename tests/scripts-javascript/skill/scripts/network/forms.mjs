// Bodies of forms.
const [plain] = process.argv.slice(2);
const post = async (body, headers) => (await fetch(`${plain}/granted/form`, { method: "POST", body, headers })).text();

console.log(await post(new URLSearchParams({ a: "1 2", b: "\u00e9" })));
console.log(await post("text"));
console.log(await post(new Uint8Array([65, 66])));
console.log(await post(new Blob(["a ", "blob"], { type: "text/csv" })));
console.log(await post("a=1", { "content-type": "application/x-www-form-urlencoded" }));

const form = new FormData();
form.append("name", "a value");
form.append("file", new Blob(["1,2\n"], { type: "text/csv" }), "data.csv");
form.set("name", "another");
console.log([...form.keys()], form.get("name"), form.get("file").name);
const [type, ...lines] = (await post(form)).split(/\r?\n/);
const boundary = type.split("boundary=")[1];
console.log(type.split(";")[0]);
console.log(lines.map((line) => line.replace(boundary, "BOUNDARY")));
