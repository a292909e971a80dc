// Lists of digests, as sha256sum writes them: a line for each file, a digest and a path.

#ifndef SUMS_H
#define SUMS_H

#include <stdbool.h>

#include "digest.h"
#include "skillhost_kit.h"

typedef struct {
    algorithm algorithm;
    char digest[DIGEST_ROOM];
    char *listed; // as it stands in the list
    char *path;   // in the skill; NULL: no path in any folder
} sum;

typedef struct {
    sum *sums;
    size_t count;
} sums;

// Reads a list. Its paths are relative to the folder that it lies in.
bool sums_read(const sh_folder *folder, const char *path, sums *list, sh_answer *answer);

#endif
