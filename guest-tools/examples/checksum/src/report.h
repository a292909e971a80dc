// What was found of each file, as text for the model and as a record for programs.

#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "digest.h"
#include "skillhost_kit.h"

typedef enum { GIVEN, MATCHES, DIFFERS, MISSING, UNREADABLE, STATUSES } status;

// JSON Schema of the record.
extern const char report_schema[];

typedef struct {
    sh_buffer text, files;
    int counts[STATUSES];
    int shown, most;
    bool truncated;
} report;

// One file. `digest` and `expected` may be NULL, `reason` says why it is unreadable.
typedef struct {
    const char *path;
    status status;
    algorithm algorithm;
    const char *digest, *expected, *reason;
    uint64_t size;
} finding;

// Counts a file, and shows it, if there is room for more.
void report_add(report *report, const finding *finding);
// Whether there is no room for more.
bool report_full(const report *report);
// The answer: with a summary, where there may have been several files.
bool report_end(report *report, bool summary, sh_answer *answer);

#endif
