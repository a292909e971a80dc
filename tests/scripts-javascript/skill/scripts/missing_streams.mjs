// Catches the error of a missing file in a loop, and goes on.
import fs from "node:fs";
import readline from "node:readline";

const pause = () => new Promise((resolve) => setTimeout(resolve, 2));
try {
  for await (const chunk of fs.createReadStream("none.txt")) {
    console.log(chunk);
  }
} catch (error) {
  console.log(error.code, error.syscall, error.message);
}
await pause();
try {
  for await (const line of readline.createInterface({ input: fs.createReadStream("none.txt") })) {
    console.log(line);
  }
} catch (error) {
  console.log(error.code);
}
await pause();
const heard = fs.createReadStream("none.txt");
heard.on("error", (error) => console.log("listener", error.code));
await pause();
const both = fs.createReadStream("none.txt", "utf8");
both.on("error", (error) => console.log("listener of a loop", error.code));
let caught;
try {
  for await (const chunk of both) {
    console.log(chunk);
  }
} catch (error) {
  caught = error;
}
await pause();
console.log("loop", caught.code);
console.log("end");
if (process.argv[2] === "unheard") {
  fs.createReadStream("none.txt").on("data", () => {});
  await pause();
  console.log("not reached");
}
