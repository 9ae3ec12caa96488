// The vector types that CUDA has built in.
#pragma once

#include <cstdint>

// clang-format off
#define EMULATOR_VECTORS(scalar, name, a1, a2, a4)                                                              \
  struct name##1 { scalar x; };                                                                                 \
  struct alignas(a2) name##2 { scalar x, y; };                                                                  \
  struct name##3 { scalar x, y, z; };                                                                           \
  struct alignas(a4) name##4 { scalar x, y, z, w; };                                                            \
  static inline name##1 make_##name##1(scalar x) { return {x}; }                                                \
  static inline name##2 make_##name##2(scalar x, scalar y) { return {x, y}; }                                   \
  static inline name##3 make_##name##3(scalar x, scalar y, scalar z) { return {x, y, z}; }                      \
  static inline name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }
// clang-format on

EMULATOR_VECTORS(signed char, char, 1, 2, 4)
EMULATOR_VECTORS(unsigned char, uchar, 1, 2, 4)
EMULATOR_VECTORS(short, short, 2, 4, 8)
EMULATOR_VECTORS(unsigned short, ushort, 2, 4, 8)
EMULATOR_VECTORS(int, int, 4, 8, 16)
EMULATOR_VECTORS(unsigned, uint, 4, 8, 16)
EMULATOR_VECTORS(long long, longlong, 8, 16, 16)
EMULATOR_VECTORS(unsigned long long, ulonglong, 8, 16, 16)
EMULATOR_VECTORS(float, float, 4, 8, 16)
EMULATOR_VECTORS(double, double, 8, 16, 16)
#undef EMULATOR_VECTORS

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
