// The tool look_up_term: looks up the meaning of a word in a skill's glossary.
//
// The component's metadata has the following properties, and `authors`, `license` and `source` if
// you add them here.
// name: look-up-term
// version: 0.1.0
// description: A tool for agent skills

#include "skillhost_kit.h"

#include <ctype.h>
#include <string.h>

// The maximum size of a glossary in bytes.
#define LARGEST (1 << 20)
// The maximum number of terms to list when a term is not found.
#define LISTED 50

// A part of a line, without the white space around it.
struct part {
    const char *start;
    size_t length;
};

static struct part trim(const char *start, size_t length) {
    while (length > 0 && isspace((unsigned char)start[0])) start++, length--;
    while (length > 0 && isspace((unsigned char)start[length - 1])) length--;
    return (struct part){start, length};
}

static bool same(struct part a, struct part b) {
    if (a.length != b.length) return false;
    for (size_t i = 0; i < a.length; i++)
        if (tolower((unsigned char)a.start[i]) != tolower((unsigned char)b.start[i])) return false;
    return true;
}

static bool look_up_term(const char *arguments, const sh_folder *folder, sh_answer *answer) {
    const char *given = sh_string(arguments, "term");
    const char *file = sh_string(arguments, "file_path");
    if (file == NULL) file = "glossary.txt";
    struct part term = trim(given, strlen(given));
    if (term.length == 0) return sh_fail(answer, SH_INVALID_ARGUMENTS, "The term is empty.");

    char *text;
    size_t size;
    if (!sh_read_text(folder, file, LARGEST, &text, &size, answer)) return false;

    sh_buffer listed = {0};
    int terms = 0;
    for (const char *line = text, *end = text + size; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL) stop = end;
        const char *colon = memchr(line, ':', (size_t)(stop - line));
        if (line[0] != '#' && colon != NULL) {
            struct part name = trim(line, (size_t)(colon - line));
            if (same(name, term)) {
                struct part meaning = trim(colon + 1, (size_t)(stop - colon - 1));
                return sh_answer_text(answer, meaning.start, meaning.length);
            }
            if (terms++ < LISTED) {
                if (terms > 1) sh_append(&listed, ", ", 2);
                sh_append(&listed, name.start, name.length);
            }
        }
        line = stop + 1;
    }
    return sh_fail(answer, SH_NOT_FOUND, "%s has no term '%.*s'. It has: %.*s.", file,
                   (int)term.length, term.start, (int)listed.length,
                   listed.length ? listed.bytes : "");
}

const sh_tool sh_tools[] = {
    {
        .name = "look_up_term",
        .title = "Look up a term",
        .description = "Look up what a term means in a skill's glossary.",
        .skill = "skill_name",
        .path = "file_path",
        .input =
            "{\"type\": \"object\","
            " \"properties\": {"
            "  \"skill_name\": {\"type\": \"string\", \"description\": \"Name of the skill\"},"
            "  \"term\": {\"type\": \"string\","
            "   \"description\": \"The term, in upper or lower case\"},"
            "  \"file_path\": {\"type\": \"string\", \"default\": \"glossary.txt\","
            "   \"description\": \"Path of the glossary in the skill's folder\"}},"
            " \"required\": [\"skill_name\", \"term\"]}",
        .call = look_up_term,
    },
};
const size_t sh_tool_count = sizeof sh_tools / sizeof sh_tools[0];
