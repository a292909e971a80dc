// CRC-32 as in zip, gzip and PNG, with the reflected polynomial EDB88320.

#ifndef CRC32_H
#define CRC32_H

#include <stddef.h>
#include <stdint.h>

// Returns the sum of the previous bytes and these bytes. `previous` is the sum of the previous
// bytes, or 0.
uint32_t crc32(uint32_t previous, const uint8_t *bytes, size_t length);

#endif
