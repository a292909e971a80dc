const os = require("os");
const path = require("path");
console.log(process.cwd() === path.resolve("."), process.env.HOME === os.homedir(), os.EOL === "\n", os.tmpdir() === process.env.TMPDIR, process.platform, typeof process.pid, process.env.NOT_THERE);
process.env.NEW = "1"; console.log(process.env.NEW, "NEW" in process.env, path.basename(process.argv[1]), process.argv.length, typeof process.version, typeof process.hrtime.bigint(), process.uptime() > 0);
process.chdir("data"); console.log(path.basename(process.cwd()), require("fs").existsSync("page.md"), typeof performance.now(), process.exitCode, typeof process.memoryUsage().rss);
