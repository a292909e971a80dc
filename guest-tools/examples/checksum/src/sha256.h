// SHA-256 as in FIPS 180-4.

#ifndef SHA256_H
#define SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

typedef struct {
    uint32_t state[8];
    uint64_t length; // bytes so far
    uint8_t block[64];
} sha256;

void sha256_start(sha256 *hash);
void sha256_add(sha256 *hash, const uint8_t *bytes, size_t length);
void sha256_end(sha256 *hash, uint8_t digest[SHA256_BYTES]);

#endif
