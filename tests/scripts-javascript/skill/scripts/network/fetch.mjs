// What scripts do most with `fetch`.
const [plain, secure] = process.argv.slice(2);

const response = await fetch(`${plain}/granted/json?page=1#part`);
console.log(response.status, response.statusText, response.ok, response.redirected, response.bodyUsed);
console.log(response.headers.get("Content-Type"), response.headers.get("none"), response.headers.getSetCookie());
console.log(await response.json(), response.bodyUsed);
await response.text().catch((error) => console.log(error.name));

const missing = await fetch(new URL("/granted/missing", plain));
console.log(missing.status, missing.ok, await missing.text());

const posted = await fetch(`${secure}/echo`, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ path: "posted" }),
});
console.log(await posted.json());

const followed = await fetch(`${plain}/granted/redirect`);
console.log(followed.status, followed.redirected, new URL(followed.url).pathname, await followed.text());
const manual = await fetch(`${plain}/granted/redirect`, { redirect: "manual" });
console.log(manual.status, manual.headers.get("location"));
await fetch(`${plain}/granted/redirect`, { redirect: "error" }).catch((error) => console.log(error.name, error.message));

let size = 0;
let chunks = 0;
const large = await fetch(`${plain}/granted/large`, { method: "put", body: new Uint8Array([1, 2, 3]) });
for await (const chunk of large.body) {
  size += chunk.length;
  chunks += 1;
}
console.log(size, chunks > 1);

const reader = (await fetch(`${plain}/granted/plain`)).body.getReader();
const { done, value } = await reader.read();
console.log(done, new TextDecoder().decode(value), (await reader.read()).done);

const request = new Request(`${plain}/granted/headers`, { headers: new Headers({ "X-One": "1", accept: "text/plain" }) });
request.headers.append("x-one", "2");
const sent = await (await fetch(request)).json();
console.log(sent["x-one"], sent.accept, request.method);

const copy = await fetch(`${plain}/granted/plain`);
console.log(await Promise.all([copy.clone().text(), copy.text()]));
console.log((await (await fetch(`${plain}/granted/plain`)).arrayBuffer()).byteLength);
console.log((await fetch(`${plain}/granted/plain`, { method: "HEAD" })).status);
await fetch("nothing").catch((error) => console.log(error.name, error.message));
