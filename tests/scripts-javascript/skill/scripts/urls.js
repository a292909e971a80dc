const url = new URL("https://user:pa%20ss@Example.org:8080/a/../b path?x=1&y=two#frag");
console.log(url.href, url.host, url.pathname, url.search, url.hash, url.origin, url.username, url.password);
url.searchParams.append("z", "a b&c"); url.searchParams.delete("x"); url.port = "443"; url.hash = "";
console.log(String(url), [...url.searchParams], url.searchParams.get("y"));
const params = new URLSearchParams({ q: "été", page: 2 }); params.set("q", "new"); params.sort();
console.log(params.toString(), new URLSearchParams("a=1&a=2").getAll("a"), params.has("page"));
console.log(url, params);
try { new URL("not a url"); } catch (error) { console.log(error.code, error.name); }
const { fileURLToPath, pathToFileURL } = require("url");
console.log(fileURLToPath("file:///a%20b/c"), pathToFileURL("/x y/#z").href, new URL("../up?q", "https://e.org/a/b/c").href);
console.log(encodeURIComponent("ä/ö ?"), decodeURIComponent("%C3%A4"), require("querystring").parse("a=1&b=x%20y&a=2").a, require("querystring").stringify({ a: [1, 2], b: "c d" }));
