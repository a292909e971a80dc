// The tool outline: lists the headings of a Markdown file, with the lines of their sections.
import { Headings } from "./headings.js";
import { Lines } from "./lines.js";
import { Outline } from "./outline.js";
import { exportTools } from "./skillhost-kit.js";

// The maximum size of a file in bytes. Guards against: a call that exceeds its limits on time or
// memory.
const MAX_FILE_BYTES = 1 << 20;

export const tools = exportTools({
  name: "outline",
  title: "Outline a Markdown file",
  description:
    "List the headings of a Markdown file in a skill. Each has the `offset` and the `limit` with which " +
    "read_skill_file reads its section, so that you can read only the part of a long file that you need.",
  skill: "skill_name",
  path: "path",
  input: {
    type: "object",
    properties: {
      skill_name: { type: "string", description: "Name of the skill" },
      path: {
        type: "string",
        description: "Path of a Markdown file in the skill's folder",
        default: "SKILL.md",
      },
      max_level: {
        type: "integer",
        description: "Deepest level of headings to list: 2 lists # and ##",
        minimum: 1,
        maximum: 6,
        default: 6,
      },
      from_line: {
        type: "integer",
        description: "List no headings before this line, to continue a truncated answer",
        minimum: 1,
        default: 1,
      },
      max_headings: {
        type: "integer",
        description: "Maximum number of headings to list",
        minimum: 1,
        maximum: 500,
        default: 100,
      },
    },
    required: ["skill_name"],
  },
  output: {
    type: "object",
    properties: {
      path: { type: "string" },
      lines: { type: "integer", minimum: 0, description: "Lines of the file" },
      headings: {
        type: "array",
        items: {
          type: "object",
          properties: {
            level: { type: "integer", minimum: 1, maximum: 6 },
            text: { type: "string", description: "The heading without marks, at most 200 characters" },
            first_line: { type: "integer", minimum: 1 },
            last_line: { type: "integer", minimum: 1, description: "The last line of the section" },
          },
          required: ["level", "text", "first_line", "last_line"],
        },
      },
      headings_found: { type: "integer", minimum: 0, description: "Of these levels, in the whole file" },
      nested: {
        type: "integer",
        minimum: 0,
        description: "Headings in block quotes and lists, which have no section and are not listed",
      },
      truncated: { type: "boolean", description: "Whether there are more headings after these" },
    },
    required: ["path", "lines", "headings", "headings_found", "nested", "truncated"],
  },
  call({ path = "SKILL.md", max_level = 6, from_line = 1, max_headings = 100 }, folder) {
    const text = folder.readText(path, MAX_FILE_BYTES);
    return new Outline(path, new Headings(text), new Lines(text)).answer(
      max_level,
      from_line,
      max_headings,
    );
  },
});
