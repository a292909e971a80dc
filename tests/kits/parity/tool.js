// The tool `parity`, by which the kits of all languages are compared.
import { get, post, request } from "./skillhost-http.js";
import { Failure, exportTools, log, variable } from "./skillhost-kit.js";

// The most bytes and names that it asks for.
const BYTES = 64;
// A limit that no file reaches, because it exceeds the memory of a call.
const UNLIMITED = 2 ** 30;
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
        return folder.readText(path, UNLIMITED);
      case "answer":
        return folder.answerFile(path, BYTES);
      case "record":
        return { text: "a text", details: { path } };
      case "log":
        log(path);
        return "logged";
      case "variable":
        return variable(path) ?? "not set";
      case "get":
      case "secret": {
        const headers = action === "get" ? {} : { authorization: `Bearer ${variable("TOKEN") ?? ""}` };
        const response = get(path, { headers });
        return `${response.status} ${response.headers.get("x-kind") ?? "-"} ${response.text()}`;
      }
      case "post":
        return post(path, { json: { path: "a knot" } }).json().echo;
      case "stream": {
        let size = 0;
        for (const chunk of request("PUT", path, { body: "a body" }).stream()) {
          size += chunk.length;
        }
        return `${size} bytes`;
      }
      case "kind":
        try {
          get(path).text();
          return "no error";
        } catch (error) {
          return error.kind;
        }
      case "fetch":
        return (async () => {
          const responses = await Promise.all([1, 2].map(() => fetch(path)));
          return (await Promise.all(responses.map((it) => it.text()))).join(" ");
        })();
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
