const fs = require("fs");
const template = fs.readFileSync(`${__dirname}/../data/letter.tmpl`, "utf8");
const render = (t, v) => t.replace(/\{\{#(\w+)\}\}(.*?)\{\{\/\1\}\}/gs, (_, k, body) => (v[k] ? body : "")).replace(/\{\{(\w+)\}\}/g, (_, k) => v[k] ?? "");
console.log(render(template, { name: "Ada", count: 3, plural: true }));
const html = fs.readFileSync("data/page.md", "utf8").replace(/^# (.*)$/m, "<h1>$1</h1>").replace(/^## (.*)$/gm, "<h2>$1</h2>").replace(/\[(?<text>[^\]]+)\]\((?<to>[^)]+)\)/g, '<a href="$<to>">$<text></a>').replace(/\*(.+?)\*/g, "<em>$1</em>");
fs.writeFileSync("page.html", html); console.log(html);
