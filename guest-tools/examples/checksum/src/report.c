#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const words[STATUSES] = {
    [GIVEN] = "given",
    [MATCHES] = "matches",
    [DIFFERS] = "differs",
    [MISSING] = "missing",
    [UNREADABLE] = "unreadable",
};

const char report_schema[] =
    "{\"type\": \"object\","
    " \"properties\": {"
    "  \"files\": {\"type\": \"array\","
    "   \"description\": \"The files asked for; with a list, those of it that do not match\","
    "   \"items\": {\"type\": \"object\","
    "    \"properties\": {"
    "     \"path\": {\"type\": \"string\", \"description\": \"Path in the skill\"},"
    "     \"status\": {\"type\": \"string\","
    "      \"enum\": [\"given\", \"matches\", \"differs\", \"missing\", \"unreadable\"]},"
    "     \"algorithm\": {\"type\": \"string\", \"enum\": [\"sha256\", \"crc32\"]},"
    "     \"digest\": {\"type\": \"string\", \"description\": \"In hex\"},"
    "     \"expected\": {\"type\": \"string\", \"description\": \"The digest that it should have\"},"
    "     \"size\": {\"type\": \"integer\", \"minimum\": 0, \"description\": \"Bytes\"},"
    "     \"reason\": {\"type\": \"string\", \"description\": \"Why it cannot be read\"}},"
    "    \"required\": [\"path\", \"status\", \"algorithm\"]}},"
    "  \"given\": {\"type\": \"integer\", \"minimum\": 0},"
    "  \"matching\": {\"type\": \"integer\", \"minimum\": 0},"
    "  \"differing\": {\"type\": \"integer\", \"minimum\": 0},"
    "  \"missing\": {\"type\": \"integer\", \"minimum\": 0},"
    "  \"unreadable\": {\"type\": \"integer\", \"minimum\": 0},"
    "  \"truncated\": {\"type\": \"boolean\", \"description\": \"Whether there is more than this\"}},"
    " \"required\": [\"files\", \"given\", \"matching\", \"differing\", \"missing\", \"unreadable\","
    "  \"truncated\"]}";

static void put(sh_buffer *buffer, const char *text) {
    sh_append(buffer, text, strlen(text));
}

static void print(sh_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void print(sh_buffer *buffer, const char *format, ...) {
    char text[160];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    put(buffer, text);
}

// A line of text is one file: a name with a line break in it would be two.
static void put_path(sh_buffer *buffer, const char *path) {
    for (; *path != '\0'; path++) {
        bool control = (unsigned char)*path < 0x20 || *path == 0x7F;
        sh_append(buffer, control ? "?" : path, 1);
    }
}

static void put_line(sh_buffer *text, const finding *found) {
    switch (found->status) {
    case GIVEN:
        print(text, "%s  ", found->digest);
        put_path(text, found->path);
        break;
    default:
        print(text, "%s: ", words[found->status]);
        put_path(text, found->path);
    }
    if (found->status == DIFFERS)
        print(text, ": expected %s, found %s", found->expected, found->digest);
    if (found->status == UNREADABLE) print(text, ": %s", found->reason);
    put(text, "\n");
}

static void put_text(sh_buffer *record, const char *key, const char *value) {
    if (value == NULL) return;
    print(record, ", \"%s\": ", key);
    sh_append_json(record, value, strlen(value));
}

static void put_file(sh_buffer *record, const finding *found) {
    put(record, record->length ? ", {\"path\": " : "{\"path\": ");
    sh_append_json(record, found->path, strlen(found->path));
    put_text(record, "status", words[found->status]);
    put_text(record, "algorithm", algorithm_of[found->algorithm].name);
    put_text(record, "digest", found->digest);
    put_text(record, "expected", found->expected);
    if (found->digest) print(record, ", \"size\": %llu", (unsigned long long)found->size);
    if (found->status == UNREADABLE) put_text(record, "reason", found->reason);
    put(record, "}");
}

bool report_full(const report *report) {
    return report->shown == report->most;
}

void report_add(report *report, const finding *found) {
    report->counts[found->status]++;
    if (report_full(report)) {
        report->truncated = true;
        return;
    }
    report->shown++;
    put_line(&report->text, found);
    put_file(&report->files, found);
}

static void put_summary(const report *report, sh_buffer *text) {
    const int *counts = report->counts;
    int files = 0;
    for (int n = 0; n < STATUSES; n++) files += counts[n];
    const char *noun = files == 1 ? "file" : "files";
    if (counts[GIVEN] + counts[UNREADABLE] == files) {
        print(text, "%d %s", files, noun);
    } else {
        print(text, "%d of %d %s %s", counts[MATCHES], files, noun,
              counts[MATCHES] == 1 ? "matches" : "match");
    }
    if (counts[DIFFERS] > 0)
        print(text, "; %d %s", counts[DIFFERS], counts[DIFFERS] == 1 ? "differs" : "differ");
    if (counts[MISSING] > 0) print(text, "; %d missing", counts[MISSING]);
    if (counts[UNREADABLE] > 0) print(text, "; %d unreadable", counts[UNREADABLE]);
    if (report->truncated)
        put(text, "; there is more: ask for a part of the skill, or for more with max_results");
}

bool report_end(report *report, bool summary, sh_answer *answer) {
    sh_buffer text = report->text, record = {0};
    if (summary) {
        put_summary(report, &text);
    } else {
        text.length--; // the last line's end
    }
    put(&record, "{\"files\": [");
    sh_append(&record, report->files.bytes, report->files.length);
    put(&record, "]");
    static const char *const keys[STATUSES] = {"given", "matching", "differing", "missing",
                                               "unreadable"};
    for (int n = 0; n < STATUSES; n++) print(&record, ", \"%s\": %d", keys[n], report->counts[n]);
    print(&record, ", \"truncated\": %s}", report->truncated ? "true" : "false");
    sh_append(&record, "", 1);
    return sh_answer_record(answer, text.bytes, text.length, record.bytes);
}
