// Digests of files, in hex.

#ifndef DIGEST_H
#define DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { SHA256, CRC32, ALGORITHMS } algorithm;

// Digits of the longest digest, and a NUL.
#define DIGEST_ROOM 65

typedef struct {
    const char *name;
    size_t digits;
} algorithm_facts;

extern const algorithm_facts algorithm_of[ALGORITHMS];

// The algorithm whose digests have so many digits; ALGORITHMS: none has.
algorithm by_digits(size_t digits);

// Hex digits that a text begins with.
size_t hex_digits(const char *text);

// Reads an open file to its end. 0, or an errno: EFBIG where it is larger than *left, which
// the file's size is taken off.
int digest_of(int file, algorithm algorithm, uint64_t *left, char digest[DIGEST_ROOM],
              uint64_t *size);

#endif
