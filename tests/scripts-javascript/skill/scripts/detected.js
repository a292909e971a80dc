import { basename } from "node:path";
console.log(basename("/a/module.js"), typeof require);
export default 1;
