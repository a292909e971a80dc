// The functions of `wit/`: look up the meaning of a word in a skill's glossary.
//
// Each interface is an exported object with its name, and names are in camel case. A `Failure` that
// a function throws is the `err` of its result.
import { Failure, skillFolder } from "./skillhost-folder.js";

// The maximum number of terms to list when a term is not found.
const LISTED = 50;

export const terms = {
  lookUpTerm(skillName, term, filePath = "glossary.txt") {
    const wanted = term.trim();
    if (wanted === "") {
      throw Failure.failed("The term is empty.");
    }
    const found = [];
    for (const line of skillFolder(skillName).readText(filePath).split(/\r?\n/)) {
      const colon = line.indexOf(":");
      if (line.startsWith("#") || colon < 0) {
        continue;
      }
      const name = line.slice(0, colon).trim();
      if (name.toLowerCase() === wanted.toLowerCase()) {
        return { term: name, meaning: line.slice(colon + 1).trim() };
      }
      found.push(name);
    }
    const listed = found.slice(0, LISTED).join(", ");
    throw Failure.failed(`${filePath} has no term '${wanted}'. It has: ${listed}.`);
  },
};
