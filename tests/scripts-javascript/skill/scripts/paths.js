const path = require("path");
console.log(path.join("/a", "..", "b", "./c.txt"), path.normalize("/x//y/../z/"), path.extname("f.tar.gz"), path.basename("/q/w.html", ".html"));
console.log(path.parse("/home/u/file.txt"), path.format({ dir: "/d", name: "n", ext: ".e" }), path.isAbsolute("a"), path.sep);
console.log(path.relative("/a/b/c", "/a/d"), path.dirname("/a/b/c"), path.posix.join("a", "b"), path.resolve("/a", "../b"));
