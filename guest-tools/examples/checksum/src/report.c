#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const status_names[STATUS_COUNT] = {
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
    "   \"description\": \"The requested files; with a list, its files that do not match\","
    "   \"items\": {\"type\": \"object\","
    "    \"properties\": {"
    "     \"path\": {\"type\": \"string\", \"description\": \"Path in the skill\"},"
    "     \"status\": {\"type\": \"string\","
    "      \"enum\": [\"given\", \"matches\", \"differs\", \"missing\", \"unreadable\"]},"
    "     \"algorithm\": {\"type\": \"string\", \"enum\": [\"sha256\", \"crc32\"]},"
    "     \"digest\": {\"type\": \"string\", \"description\": \"In hex\"},"
    "     \"expected\": {\"type\": \"string\", \"description\": \"The expected digest\"},"
    "     \"size\": {\"type\": \"integer\", \"minimum\": 0, \"description\": \"Bytes\"},"
    "     \"reason\": {\"type\": \"string\", \"description\": \"The reason why it cannot be read\"}},"
    "    \"required\": [\"path\", \"status\", \"algorithm\"]}},"
    "  \"given\": {\"type\": \"integer\", \"minimum\": 0},"
    "  \"matching\": {\"type\": \"integer\", \"minimum\": 0},"
    "  \"differing\": {\"type\": \"integer\", \"minimum\": 0},"
    "  \"missing\": {\"type\": \"integer\", \"minimum\": 0},"
    "  \"unreadable\": {\"type\": \"integer\", \"minimum\": 0},"
    "  \"truncated\": {\"type\": \"boolean\", \"description\": \"Whether there is more than this\"}},"
    " \"required\": [\"files\", \"given\", \"matching\", \"differing\", \"missing\", \"unreadable\","
    "  \"truncated\"]}";

static void append_text(sh_buffer *buffer, const char *text) {
    sh_append(buffer, text, strlen(text));
}

static void append_format(sh_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append_format(sh_buffer *buffer, const char *format, ...) {
    char text[160];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    append_text(buffer, text);
}

// Appends a path on one line: control characters, such as line breaks, become `?`.
static void append_path(sh_buffer *buffer, const char *path) {
    for (; *path != '\0'; path++) {
        bool is_control = (unsigned char)*path < 0x20 || *path == 0x7F;
        sh_append(buffer, is_control ? "?" : path, 1);
    }
}

static void append_line(sh_buffer *text, const finding *finding) {
    switch (finding->status) {
    case GIVEN:
        append_format(text, "%s  ", finding->digest);
        append_path(text, finding->path);
        break;
    default:
        append_format(text, "%s: ", status_names[finding->status]);
        append_path(text, finding->path);
    }
    if (finding->status == DIFFERS)
        append_format(text, ": expected %s, found %s", finding->expected, finding->digest);
    if (finding->status == UNREADABLE) append_format(text, ": %s", finding->reason);
    append_text(text, "\n");
}

static void append_property(sh_buffer *record, const char *key, const char *value) {
    if (value == NULL) return;
    append_format(record, ", \"%s\": ", key);
    sh_append_json(record, value, strlen(value));
}

static void append_record(sh_buffer *record, const finding *finding) {
    append_text(record, record->length ? ", {\"path\": " : "{\"path\": ");
    sh_append_json(record, finding->path, strlen(finding->path));
    append_property(record, "status", status_names[finding->status]);
    append_property(record, "algorithm", algorithms[finding->algorithm].name);
    append_property(record, "digest", finding->digest);
    append_property(record, "expected", finding->expected);
    if (finding->digest) append_format(record, ", \"size\": %llu", (unsigned long long)finding->size);
    if (finding->status == UNREADABLE) append_property(record, "reason", finding->reason);
    append_text(record, "}");
}

bool report_is_full(const report *report) {
    return report->listed == report->max_listed;
}

void report_add(report *report, const finding *finding) {
    report->counts[finding->status]++;
    if (report_is_full(report)) {
        report->truncated = true;
        return;
    }
    report->listed++;
    append_line(&report->text, finding);
    append_record(&report->files, finding);
}

static void append_summary(const report *report, sh_buffer *text) {
    const int *counts = report->counts;
    int files = 0;
    for (int status = 0; status < STATUS_COUNT; status++) files += counts[status];
    const char *noun = files == 1 ? "file" : "files";
    if (counts[GIVEN] + counts[UNREADABLE] == files) {
        append_format(text, "%d %s", files, noun);
    } else {
        append_format(text, "%d of %d %s %s", counts[MATCHES], files, noun,
              counts[MATCHES] == 1 ? "matches" : "match");
    }
    if (counts[DIFFERS] > 0)
        append_format(text, "; %d %s", counts[DIFFERS], counts[DIFFERS] == 1 ? "differs" : "differ");
    if (counts[MISSING] > 0) append_format(text, "; %d missing", counts[MISSING]);
    if (counts[UNREADABLE] > 0) append_format(text, "; %d unreadable", counts[UNREADABLE]);
    if (report->truncated)
        append_text(text, "; there is more: name a part of the skill with path, or raise max_results");
}

bool report_answer(report *report, bool has_summary, sh_answer *answer) {
    sh_buffer text = report->text, record = {0};
    if (has_summary) {
        append_summary(report, &text);
    } else {
        text.length--; // the last line feed
    }
    append_text(&record, "{\"files\": [");
    sh_append(&record, report->files.bytes, report->files.length);
    append_text(&record, "]");
    static const char *const keys[STATUS_COUNT] = {"given", "matching", "differing", "missing",
                                               "unreadable"};
    for (int status = 0; status < STATUS_COUNT; status++)
        append_format(&record, ", \"%s\": %d", keys[status], report->counts[status]);
    append_format(&record, ", \"truncated\": %s}", report->truncated ? "true" : "false");
    sh_append(&record, "", 1);
    return sh_answer_record(answer, text.bytes, text.length, record.bytes);
}
