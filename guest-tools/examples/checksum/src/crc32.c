#include "crc32.h"

uint32_t crc32(uint32_t previous, const uint8_t *bytes, size_t length) {
    static uint32_t table[256];
    if (table[1] == 0) {
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t sum = n;
            for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320 : 0);
            table[n] = sum;
        }
    }
    uint32_t sum = ~previous;
    for (size_t i = 0; i < length; i++) sum = sum >> 8 ^ table[(sum ^ bytes[i]) & 0xFF];
    return ~sum;
}
