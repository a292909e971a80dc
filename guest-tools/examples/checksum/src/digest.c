#include "digest.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "crc32.h"
#include "sha256.h"

const algorithm_facts algorithm_of[ALGORITHMS] = {
    [SHA256] = {"sha256", 64},
    [CRC32] = {"crc32", 8},
};

algorithm by_digits(size_t digits) {
    algorithm found = 0;
    while (found < ALGORITHMS && algorithm_of[found].digits != digits) found++;
    return found;
}

size_t hex_digits(const char *text) {
    size_t digits = 0;
    while (isxdigit((unsigned char)text[digits])) digits++;
    return digits;
}

int digest_of(int file, algorithm algorithm, uint64_t *left, char digest[DIGEST_ROOM],
              uint64_t *size) {
    static uint8_t part[1 << 18];
    sha256 hash;
    uint32_t sum = 0;
    ssize_t got;
    sha256_start(&hash);
    *size = 0;
    while ((got = read(file, part, sizeof part)) > 0) {
        if ((uint64_t)got > *left) return EFBIG;
        *left -= (uint64_t)got;
        *size += (uint64_t)got;
        if (algorithm == CRC32) {
            sum = crc32(sum, part, (size_t)got);
        } else {
            sha256_add(&hash, part, (size_t)got);
        }
    }
    if (got < 0) return errno;
    if (algorithm == CRC32) {
        snprintf(digest, DIGEST_ROOM, "%08x", (unsigned)sum);
        return 0;
    }
    uint8_t bytes[SHA256_BYTES];
    sha256_end(&hash, bytes);
    for (size_t n = 0; n < sizeof bytes; n++) snprintf(digest + 2 * n, 3, "%02x", bytes[n]);
    return 0;
}
