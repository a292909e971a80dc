// CRC-32, as zip, gzip and PNG have it: the reflected polynomial EDB88320.

#ifndef CRC32_H
#define CRC32_H

#include <stddef.h>
#include <stdint.h>

// The sum of what stood before (0 for nothing) with these bytes after it.
uint32_t crc32(uint32_t before, const uint8_t *bytes, size_t length);

#endif
