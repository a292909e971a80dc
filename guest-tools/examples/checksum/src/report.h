// Collects the finding for each file, and answers with a text for the model and a record for
// programs.

#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "digest.h"
#include "skillhost_kit.h"

typedef enum { GIVEN, MATCHES, DIFFERS, MISSING, UNREADABLE, STATUS_COUNT } status;

// JSON Schema of the record.
extern const char report_schema[];

typedef struct {
    sh_buffer text, files;
    int counts[STATUS_COUNT]; // the number of files with each status
    int listed, max_listed;   // the number of files in the text, and its maximum
    bool truncated;
} report;

// The finding for a file. `digest` and `expected` may be NULL. `reason` is set for an unreadable
// file.
typedef struct {
    const char *path;
    status status;
    algorithm algorithm;
    const char *digest, *expected, *reason;
    uint64_t size;
} finding;

// Counts a file, and lists it unless the report is full.
void report_add(report *report, const finding *finding);
// Returns whether the report has the maximum number of files.
bool report_is_full(const report *report);
// Answers the call with the report. `has_summary` adds a line with the numbers of files.
bool report_answer(report *report, bool has_summary, sh_answer *answer);

#endif
