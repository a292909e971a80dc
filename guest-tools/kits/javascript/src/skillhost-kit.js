// Connects a tool's function with the interface skillhost:tool.
//
// `exportTools` takes one object for each tool: its name, its description for the model, the JSON
// Schema of its arguments, and the function that answers a call. The function returns a text for
// the model, or { text, details } with a record for programs, or a promise of either. It throws a
// `Failure` if it has no answer.
import { textFromFile } from "skillhost:tool/answer@0.1.1";
import { getEnvironment } from "wasi:cli/environment@0.2.0";

import { Failure, Folder, OUTSIDE, checkPath, mounted, unreadable } from "./skillhost-folder.js";

export { Failure, Folder, LARGEST, checkPath } from "./skillhost-folder.js";

// The default maximum size of a file to answer with, in bytes.
const MAX_ANSWER_BYTES = 1 << 24;

// A folder whose files can be answers.
class ToolFolder extends Folder {
  // Returns an answer whose text is a file of at most `limit` bytes. The host reads the file,
  // which is much faster for large files.
  answerFile(path, limit = MAX_ANSWER_BYTES) {
    checkPath(path);
    try {
      textFromFile(path, BigInt(limit));
    } catch (error) {
      throw unreadable(path, error, limit);
    }
    return { text: "" };
  }
}

// The globals of Node.js and browsers that npm packages often use.
const PLATFORM_GLOBALS = /^(Buffer|process|require|module|__dirname|__filename|setImmediate|window|document|Intl|WebAssembly|fetch)\b/;

// Writes a line to the operator's log, which `skillhost --log info` shows.
export function log(text) {
  console.error(String(text));
}

// Returns the value of an environment variable, or undefined if the operator did not set it.
export function variable(name) {
  return getEnvironment().find(([key]) => key === name)?.[1];
}

// Returns the object that a component exports as `tools`.
export function exportTools(...tools) {
  tools.forEach(check);
  return {
    definitions: () => tools.map(definition),
    call(name, args, folder) {
      const tool = tools.find((tool) => tool.name === name);
      try {
        const answer = tool.call(JSON.parse(args), tool.skill && open(folder));
        if (answer instanceof Promise) {
          // The call waits for it.
          return answer.then(outputOf).catch((error) => fail(name, error));
        }
        return outputOf(answer);
      } catch (error) {
        fail(name, error);
      }
    },
  };
}

function outputOf(answer) {
  if (typeof answer === "string") {
    return { text: answer };
  }
  if (typeof answer?.text !== "string") {
    throw new TypeError("it returns neither a text nor { text, details }");
  }
  return withJson(answer);
}

// Throws the failure of a call.
function fail(name, error) {
  // An error of a request has its failure.
  const failure = error instanceof Failure ? error : error?.failure;
  if (failure instanceof Failure) {
    const { kind, message, details } = failure;
    throw withJson({ kind, message, details });
  }
  // The operator's log gets the stack: `skillhost --log info call …`.
  console.error(error?.stack ?? String(error));
  throw { kind: "failed", message: `${name} failed: ${error}${hint(error)}` };
}

function hint(error) {
  if (error instanceof TypeError && error.message.startsWith("NetworkError")) {
    return ": the functions of `skillhost-http.js` say why";
  }
  const isPlatformGlobal = error instanceof ReferenceError && PLATFORM_GLOBALS.test(error.message);
  return isPlatformGlobal ? ": Node.js or a browser has it, and a tool has neither" : "";
}

function withJson(answer) {
  const details = answer.details === undefined ? undefined : JSON.stringify(answer.details);
  return { ...answer, details };
}

// Checks a tool's object when the component is built, so that no call finds the mistake.
function check(tool) {
  for (const [key, type] of [
    ["name", "string"],
    ["description", "string"],
    ["input", "object"],
    ["call", "function"],
  ]) {
    if (typeof tool[key] !== type) {
      throw new TypeError(`the tool ${tool.name ?? "without a name"} needs \`${key}\` of the type ${type}`);
    }
  }
  for (const key of ["skill", "path"]) {
    if (tool[key] !== undefined && !(tool[key] in (tool.input.properties ?? {}))) {
      throw new TypeError(
        `the tool ${tool.name}: \`${key}\` names ${tool[key]}, which is not a property of its schema`,
      );
    }
  }
}

function definition(tool) {
  return {
    name: tool.name,
    title: tool.title ?? "",
    description: tool.description,
    inputSchema: JSON.stringify(tool.input),
    outputSchema: tool.output && JSON.stringify(tool.output),
    folder: tool.skill && {
      skillProperty: tool.skill,
      enumerate: tool.listSkills ?? false,
      pathProperty: tool.path,
      skillOptional: false,
    },
    modelReads: "text",
  };
}

function open(folder) {
  switch (folder.tag) {
    case "open": {
      const { mount, skill, path } = folder.val;
      return new ToolFolder(mounted(mount), skill, path);
    }
    case "unknown-skill":
      throw Failure.notFound("There is no skill of that name. list_skills lists all skills.");
    case "unreadable":
      throw Failure.unreadable("The skill's folder cannot be read.");
    case "no-home":
      throw Failure.invalidArguments("Name a skill: no home folder is configured.");
    case "outside":
      throw Failure.refused(OUTSIDE);
    default:
      throw Failure.failed("This tool was not given a folder to read.");
  }
}
