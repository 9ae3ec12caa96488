// Random numbers as a function of their place, the same bits as internal/random's: Philox4x32-10 (Salmon, Moraes, Dror and
// Shaw, SC 2011), counted by (column / 4, row, step, stream); word column % 4 belongs to the column.
#pragma once
#include "device.cuh"

struct PhiloxWords {
  uint32_t word[4];
};

// The words of the four columns 4 * fours .. 4 * fours + 3.
DEVICE PhiloxWords philox(uint64_t seed, uint32_t fours, uint32_t row, uint32_t step, uint32_t stream) {
  uint32_t a = fours, b = row, c = step, d = stream;
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const uint32_t high_p = __umulhi(a, 0xD2511F53u), low_p = a * 0xD2511F53u;
    const uint32_t high_q = __umulhi(c, 0xCD9E8D57u), low_q = c * 0xCD9E8D57u;
    a = high_q ^ b ^ k0, b = low_q, c = high_p ^ d ^ k1, d = low_p;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{a, b, c, d}};
}

// A number from 0 to 1, without 1, of 24 bits; exact.
DEVICE float uniform(uint32_t word) { return float(word >> 8) * 0x1p-24f; }
