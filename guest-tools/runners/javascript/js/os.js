// `os`: the machine as a script sees it, with fixed values for the sandbox.
const process = require("process");

module.exports = {
  EOL: "\n",
  devNull: "/dev/null",
  arch: () => process.arch,
  availableParallelism: () => 1,
  constants: { signals: {}, errno: {} },
  cpus: () => [{ model: "sandbox", speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } }],
  endianness: () => "LE",
  freemem: () => 64 << 20,
  homedir: () => process.env.HOME,
  hostname: () => "sandbox",
  loadavg: () => [0, 0, 0],
  machine: () => process.arch,
  networkInterfaces: () => ({}),
  platform: () => process.platform,
  release: () => "0",
  tmpdir: () => process.env.TMPDIR ?? "/tmp",
  totalmem: () => 64 << 20,
  type: () => "Linux",
  uptime: () => process.uptime(),
  userInfo: () => ({ username: "sandbox", uid: 1000, gid: 1000, shell: null, homedir: process.env.HOME }),
  version: () => "0",
};
