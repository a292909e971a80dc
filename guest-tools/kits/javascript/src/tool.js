// The tool look_up_term: looks up the meaning of a word in a skill's glossary.
import { Failure, exportTools } from "./skillhost-kit.js";

// The maximum number of terms to list when a term is not found.
const LISTED = 50;

export const tools = exportTools({
  name: "look_up_term",
  title: "Look up a term",
  description: "Look up what a term means in a skill's glossary.",
  skill: "skill_name",
  path: "file_path",
  input: {
    type: "object",
    properties: {
      skill_name: { type: "string", description: "Name of the skill" },
      term: { type: "string", description: "The term, in upper or lower case" },
      file_path: {
        type: "string",
        description: "Path of the glossary in the skill's folder",
        default: "glossary.txt",
      },
    },
    required: ["skill_name", "term"],
  },
  call({ term, file_path = "glossary.txt" }, folder) {
    const wanted = term.trim().toLowerCase();
    if (wanted === "") {
      throw Failure.invalidArguments("The term is empty.");
    }
    const terms = [];
    for (const line of folder.readText(file_path).split(/\r?\n/)) {
      const colon = line.indexOf(":");
      if (line.startsWith("#") || colon < 0) {
        continue;
      }
      const name = line.slice(0, colon).trim();
      if (name.toLowerCase() === wanted) {
        return line.slice(colon + 1).trim();
      }
      terms.push(name);
    }
    const listed = terms.slice(0, LISTED).join(", ");
    throw Failure.notFound(`${file_path} has no term '${term.trim()}'. It has: ${listed}.`);
  },
});
