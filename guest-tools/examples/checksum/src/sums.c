#include "sums.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// The maximum size of a list in bytes.
#define MAX_LIST_BYTES (4 << 20)
// The maximum number of files in a list. Guards against: a call that exceeds its time limit.
#define MAX_FILES 10000

// Returns the path in the skill of a path in a list. `base` is the list's folder. Returns NULL for an
// absolute path.
static char *path_in_skill(const char *base, size_t length, const char *listed) {
    // Joined with the folder, an absolute path would name another file.
    if (listed[0] == '/' || listed[0] == '\\' ||
        (isalpha((unsigned char)listed[0]) && listed[1] == ':'))
        return NULL;
    while (listed[0] == '.' && listed[1] == '/') listed += 2;
    sh_buffer path = {0};
    sh_append(&path, base, length);
    sh_append(&path, listed, strlen(listed) + 1);
    return path.bytes;
}

// Reads a line of a list. Returns false if the line is invalid.
static bool read_line(const char *line, sum *sum) {
    size_t digits = count_hex_digits(line);
    sum->algorithm = algorithm_with_digits(digits);
    if (sum->algorithm == ALGORITHM_COUNT || line[digits] != ' ') return false;
    for (size_t n = 0; n < digits; n++) sum->digest[n] = (char)tolower((unsigned char)line[n]);
    sum->digest[digits] = '\0';
    // After the space comes a second space or a star.
    const char *listed = line + digits + 1;
    if (*listed == ' ' || *listed == '*') listed++;
    sum->listed = strdup(listed);
    return *listed != '\0';
}

bool sums_read(const sh_folder *folder, const char *path, sums *list, sh_answer *answer) {
    char *text;
    size_t size;
    if (!sh_read_text(folder, path, MAX_LIST_BYTES, &text, &size, answer)) return false;
    const char *slash = strrchr(path, '/');
    size_t base = slash ? (size_t)(slash - path) + 1 : 0;
    *list = (sums){0};
    int number = 0;
    for (char *line = text, *end = text + size; line < end; number++) {
        char *line_feed = memchr(line, '\n', (size_t)(end - line));
        char *next = line_feed ? line_feed + 1 : end;
        size_t length = (size_t)((line_feed ? line_feed : end) - line);
        if (length > 0 && line[length - 1] == '\r') length--;
        line[length] = '\0';
        if (line[0] != '\0' && line[0] != '#') {
            sum sum = {0};
            if (strlen(line) != length || !read_line(line, &sum))
                return sh_fail(answer, SH_UNREADABLE,
                               "%s: line %d is not a digest followed by a path, as in the output "
                               "of sha256sum", path, number + 1);
            if (list->count == MAX_FILES)
                return sh_fail(answer, SH_UNREADABLE, "%s: lists more than %d files", path, MAX_FILES);
            if (list->count % 64 == 0)
                list->sums = realloc(list->sums, (list->count + 64) * sizeof sum);
            if (list->sums == NULL) abort();
            sum.path = path_in_skill(path, base, sum.listed);
            list->sums[list->count++] = sum;
        }
        line = next;
    }
    if (list->count == 0) return sh_fail(answer, SH_UNREADABLE, "%s: lists no files", path);
    return true;
}
