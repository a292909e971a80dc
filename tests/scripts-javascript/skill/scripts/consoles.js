console.group("Group"); console.info("inside"); console.group(); console.log("deeper\nlines"); console.groupEnd(); console.groupEnd(); console.log("out");
console.count(); console.count("x"); console.count(); console.countReset(); console.count();
console.dir({ a: { b: { c: { d: 1 } } } }, { depth: null }); console.assert(1 === 1, "no"); console.error("error %s", "here"); console.warn("warned"); console.debug("debug");
console.table(new Map([["k", 1]])); console.table([{ a: 1, b: "x" }, { a: 2, c: true }]); console.table({ r1: { v: 1 }, r2: { v: 2 } }); console.log(); console.log("");
