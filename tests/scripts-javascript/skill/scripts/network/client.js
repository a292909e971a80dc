// The clients of `node:http` and `node:https`.
const http = require("http");
const https = require("node:https");
const [plain, secure] = process.argv.slice(2);

function read(response, next) {
  let data = "";
  response.setEncoding("utf8");
  response.on("data", (chunk) => (data += chunk));
  response.on("end", () => next(data));
}

http.get(`${plain}/granted/json`, (response) => {
  console.log(response.statusCode, response.headers["content-type"], response.headers["set-cookie"]);
  read(response, (data) => {
    console.log(JSON.parse(data));
    post();
  });
});

function post() {
  const body = JSON.stringify({ path: "caf\u00e9" });
  const { hostname, port } = new URL(secure);
  const request = https.request(
    { hostname, port, path: "/echo", method: "POST", headers: { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) } },
    (response) => read(response, (data) => {
      console.log(data);
      redirect();
    }),
  );
  request.on("error", (error) => console.log("failed", error.message));
  request.write(body);
  request.end();
}

function redirect() {
  http.get(new URL("/granted/redirect", plain), { auth: "a:b" }, (response) => {
    response.resume();
    response.on("end", () => {
      console.log(response.statusCode, response.headers.location, response.complete);
      iterate();
    });
  });
}

async function iterate() {
  const response = await new Promise((resolve, reject) => http.get(`${plain}/granted/plain`, resolve).on("error", reject));
  const chunks = [];
  for await (const chunk of response) {
    chunks.push(chunk);
  }
  console.log(Buffer.concat(chunks).toString());
  http.get("http://localhost:1/", () => {}).on("error", (error) => console.log("failed", error instanceof Error));
  const slow = http.get(`${plain}/granted/slow`, { timeout: 50 });
  slow.on("timeout", () => slow.destroy());
  slow.on("error", (error) => console.log(error.code));
}
