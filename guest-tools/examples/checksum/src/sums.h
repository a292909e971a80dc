// Reads lists of digests in the format of sha256sum: a line with a digest and a path for each file.

#ifndef SUMS_H
#define SUMS_H

#include <stdbool.h>

#include "digest.h"
#include "skillhost_kit.h"

typedef struct {
    algorithm algorithm;
    char digest[DIGEST_CAPACITY];
    char *listed; // the path in the list
    char *path;   // the path in the skill; NULL if the listed path is absolute
} sum;

typedef struct {
    sum *sums;
    size_t count;
} sums;

// Reads a list. Its paths are relative to the list's folder. Returns false and fails the answer if
// the list cannot be read.
bool sums_read(const sh_folder *folder, const char *path, sums *list, sh_answer *answer);

#endif
