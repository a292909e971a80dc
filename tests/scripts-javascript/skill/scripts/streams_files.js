const fs = require("fs");
const input = fs.createReadStream("data/page.md", { encoding: "utf8" });
let text = "";
input.on("data", (part) => { text += part; });
input.on("end", () => {
  const out = fs.createWriteStream("upper.md");
  out.write(text.toUpperCase().slice(0, 8));
  out.end("\nend\n", () => console.log(fs.readFileSync("upper.md", "utf8")));
});
fs.createReadStream("missing").on("error", (error) => console.log(error.code, error.message));
