#include "sums.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// Largest list that is read.
#define LARGEST (4 << 20)
// Files that a list may name. Meets: a call that takes longer than it may.
#define MOST 10000

// The path that a list in the folder `base` means by `listed`.
static char *in_skill(const char *base, size_t length, const char *listed) {
    // Put behind the folder, such a path would be another one.
    if (listed[0] == '/' || listed[0] == '\\' ||
        (isalpha((unsigned char)listed[0]) && listed[1] == ':'))
        return NULL;
    while (listed[0] == '.' && listed[1] == '/') listed += 2;
    sh_buffer path = {0};
    sh_append(&path, base, length);
    sh_append(&path, listed, strlen(listed) + 1);
    return path.bytes;
}

// Reads a line of a list. False: it is none.
static bool read_line(const char *line, sum *sum) {
    size_t digits = hex_digits(line);
    sum->algorithm = by_digits(digits);
    if (sum->algorithm == ALGORITHMS || line[digits] != ' ') return false;
    for (size_t n = 0; n < digits; n++) sum->digest[n] = (char)tolower((unsigned char)line[n]);
    sum->digest[digits] = '\0';
    // Behind the space stands another, or a star.
    const char *listed = line + digits + 1;
    if (*listed == ' ' || *listed == '*') listed++;
    sum->listed = strdup(listed);
    return *listed != '\0';
}

bool sums_read(const sh_folder *folder, const char *path, sums *list, sh_answer *answer) {
    char *text;
    size_t size;
    if (!sh_read_text(folder, path, LARGEST, &text, &size, answer)) return false;
    const char *slash = strrchr(path, '/');
    size_t base = slash ? (size_t)(slash - path) + 1 : 0;
    *list = (sums){0};
    int number = 0;
    for (char *line = text, *end = text + size; line < end; number++) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        char *next = stop ? stop + 1 : end;
        size_t length = (size_t)((stop ? stop : end) - line);
        if (length > 0 && line[length - 1] == '\r') length--;
        line[length] = '\0';
        if (line[0] != '\0' && line[0] != '#') {
            sum sum = {0};
            if (strlen(line) != length || !read_line(line, &sum))
                return sh_fail(answer, SH_UNREADABLE,
                               "%s: line %d is no digest with a path behind it, as sha256sum "
                               "writes them", path, number + 1);
            if (list->count == MOST)
                return sh_fail(answer, SH_UNREADABLE, "%s: lists more than %d files", path, MOST);
            if (list->count % 64 == 0)
                list->sums = realloc(list->sums, (list->count + 64) * sizeof sum);
            if (list->sums == NULL) abort();
            sum.path = in_skill(path, base, sum.listed);
            list->sums[list->count++] = sum;
        }
        line = next;
    }
    if (list->count == 0) return sh_fail(answer, SH_UNREADABLE, "%s: lists no file", path);
    return true;
}
