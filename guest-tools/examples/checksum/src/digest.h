// Computes digests of files, in hex.

#ifndef DIGEST_H
#define DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { SHA256, CRC32, ALGORITHM_COUNT } algorithm;

// The size of a buffer for the longest digest and a NUL.
#define DIGEST_CAPACITY 65

typedef struct {
    const char *name;
    size_t digits; // hex digits of a digest
} algorithm_info;

// The algorithms' names and digits, by algorithm.
extern const algorithm_info algorithms[ALGORITHM_COUNT];

// Returns the algorithm whose digests have this number of hex digits, or ALGORITHM_COUNT.
algorithm algorithm_with_digits(size_t digits);

// Returns the number of hex digits at the beginning of a text.
size_t count_hex_digits(const char *text);

// Computes the digest of an open file, and its size. Subtracts the size from `*bytes_left`. Returns
// 0 or an errno: EFBIG if the file is larger than `*bytes_left`.
int compute_digest(int file, algorithm algorithm, uint64_t *bytes_left,
                   char digest[DIGEST_CAPACITY], uint64_t *size);

#endif
