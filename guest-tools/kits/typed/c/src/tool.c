// The functions of wit/: look up the meaning of a word in a skill's glossary.
//
// name: look-up-term
// version: 0.1.0
// description: A tool for agent skills

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The build generates this file from wit/.
#include "glossary.h"

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

static glossary_string_t text_of(struct part part) {
    glossary_string_t text;
    glossary_string_dup_n(&text, part.start, part.length);
    return text;
}

// Sets `err` to a text, formatted as by printf. Returns false.
static bool fail(glossary_string_t *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool fail(glossary_string_t *err, const char *format, ...) {
    char *text;
    va_list values;
    va_start(values, format);
    int length = vasprintf(&text, format, values);
    va_end(values);
    if (length < 0) abort();
    glossary_string_dup_n(err, text, (size_t)length);
    return false;
}

bool exports_local_glossary_terms_look_up_term(glossary_string_t *skill_name,
                                               glossary_string_t *term,
                                               glossary_string_t *maybe_file_path,
                                               exports_local_glossary_terms_entry_t *entry,
                                               glossary_string_t *err) {
    struct part wanted = trim((const char *)term->ptr, term->len);
    if (wanted.length == 0) return fail(err, "The term is empty.");
    struct part path = {"glossary.txt", strlen("glossary.txt")};
    if (maybe_file_path != NULL)
        path = (struct part){(const char *)maybe_file_path->ptr, maybe_file_path->len};

    // The sandbox has only the skill's folder.
    char name[4096];
    snprintf(name, sizeof name, "/skills/%.*s/%.*s", (int)skill_name->len,
             (const char *)skill_name->ptr, (int)path.length, path.start);
    FILE *file = fopen(name, "r");
    if (file == NULL)
        return fail(err, "%.*s: %s", (int)path.length, path.start,
                    errno == ENOENT ? "not found" : "cannot be read");

    char listed[2048] = "", *line = NULL;
    size_t used = 0, room = 0;
    int terms = 0;
    // With this locale, mbstowcs finds text that is not UTF-8, which no answer can hold.
    setlocale(LC_CTYPE, "C.UTF-8");
    while (getline(&line, &room, file) >= 0) {
        if (mbstowcs(NULL, line, 0) == (size_t)-1)
            return fail(err, "%.*s: not valid UTF-8 text", (int)path.length, path.start);
        char *colon = strchr(line, ':');
        if (line[0] == '#' || colon == NULL) continue;
        struct part found = trim(line, (size_t)(colon - line));
        if (same(found, wanted)) {
            entry->term = text_of(found);
            entry->meaning = text_of(trim(colon + 1, strlen(colon + 1)));
            return true;
        }
        if (terms < LISTED && used + found.length + 2 < sizeof listed)
            used += (size_t)snprintf(listed + used, sizeof listed - used, "%s%.*s",
                                     terms++ > 0 ? ", " : "", (int)found.length, found.start);
    }
    if (ferror(file)) return fail(err, "%.*s: cannot be read", (int)path.length, path.start);
    return fail(err, "%.*s has no term '%.*s'. It has: %s.", (int)path.length, path.start,
                (int)wanted.length, wanted.start, listed);
}
