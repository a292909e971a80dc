// The tool `parity`, by which the kits of all languages are compared.
import { Failure, exportTools, log, variable } from "./skillhost-kit.js";

// The most bytes and names that it asks for.
const BYTES = 64;
// More than a call has memory.
const WHOLE = 2 ** 30;
const NAMES = 12;

export const tools = exportTools({
  name: "parity",
  description: "Compare the kits.",
  skill: "skill_name",
  path: "path",
  input: {
    type: "object",
    properties: {
      skill_name: { type: "string", description: "Name of the skill" },
      action: { type: "string", description: "What to do" },
      path: { type: "string", description: "A path, or what the action is about" },
    },
    required: ["skill_name", "action"],
  },
  call({ action, path = "." }, folder) {
    switch (action) {
      case "list":
        return folder.list(path, NAMES).join("\n");
      case "files":
        return folder.files(path, NAMES).join("\n");
      case "bytes":
        return folder.readBytes(path, BYTES).join(" ");
      case "text":
        return folder.readText(path, BYTES);
      case "whole":
        return folder.readText(path, WHOLE);
      case "answer":
        return folder.answerFile(path, BYTES);
      case "record":
        return { text: "a text", details: { path } };
      case "log":
        log(path);
        return "logged";
      case "variable":
        return variable(path) ?? "not set";
      case "invalid-arguments":
        throw Failure.invalidArguments(path);
      case "not-found":
        throw Failure.notFound(path);
      case "refused":
        throw Failure.refused(path);
      case "unreadable":
        throw Failure.unreadable(path);
      default:
        throw Failure.failed(path);
    }
  },
});
