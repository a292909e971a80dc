#include "digest.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "crc32.h"
#include "sha256.h"

const algorithm_info algorithms[ALGORITHM_COUNT] = {
    [SHA256] = {"sha256", 64},
    [CRC32] = {"crc32", 8},
};

algorithm algorithm_with_digits(size_t digits) {
    algorithm candidate = 0;
    while (candidate < ALGORITHM_COUNT && algorithms[candidate].digits != digits) candidate++;
    return candidate;
}

size_t count_hex_digits(const char *text) {
    size_t digits = 0;
    while (isxdigit((unsigned char)text[digits])) digits++;
    return digits;
}

int compute_digest(int file, algorithm algorithm, uint64_t *bytes_left,
                   char digest[DIGEST_CAPACITY], uint64_t *size) {
    static uint8_t chunk[1 << 18];
    sha256 hash;
    uint32_t sum = 0;
    ssize_t count;
    sha256_start(&hash);
    *size = 0;
    while ((count = read(file, chunk, sizeof chunk)) > 0) {
        if ((uint64_t)count > *bytes_left) return EFBIG;
        *bytes_left -= (uint64_t)count;
        *size += (uint64_t)count;
        if (algorithm == CRC32) {
            sum = crc32(sum, chunk, (size_t)count);
        } else {
            sha256_add(&hash, chunk, (size_t)count);
        }
    }
    if (count < 0) return errno;
    if (algorithm == CRC32) {
        snprintf(digest, DIGEST_CAPACITY, "%08x", (unsigned)sum);
        return 0;
    }
    uint8_t bytes[SHA256_BYTES];
    sha256_end(&hash, bytes);
    for (size_t n = 0; n < sizeof bytes; n++) snprintf(digest + 2 * n, 3, "%02x", bytes[n]);
    return 0;
}
