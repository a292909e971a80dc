const fs = require("fs");
fs.readFile("data/page.md", "utf8", (error, text) => {
  console.log(error, text.length);
  fs.readFile("none", (error, data) => {
    console.log(error.code, data);
    fs.writeFile("cb.txt", "x", (error) => { console.log("written", error); fs.exists("cb.txt", (is) => console.log("exists", is)); });
  });
});
console.log("sync end");
