// Functions of float32 as the C library has them, or off by some units in the last place, as those of devices are. By
// how many follows from the argument. Exact are zeros, infinities, what functions have at zero, and bounds that they do
// not pass.
#include <cmath>
#include <cstring>

#include "thread.h"

namespace emulator {

int ulps = 0;

namespace {

__attribute__((noinline)) float shifted(float y, float x, float lowest, float highest) {
  uint32_t hash, bits;
  std::memcpy(&hash, &x, sizeof hash);
  std::memcpy(&bits, &y, sizeof bits);
  if (x == 0.0f || !std::isnormal(y) || y == lowest || y == highest) return y;
  hash = (hash ^ hash >> 16) * 0x7feb352du;
  hash = (hash ^ hash >> 15) * 0x846ca68bu;
  hash ^= hash >> 16;
  bits += hash % (2 * unsigned(ulps) + 1) - unsigned(ulps);
  float moved;
  std::memcpy(&moved, &bits, sizeof moved);
  return std::isnormal(moved) ? std::fmin(highest, std::fmax(lowest, moved)) : y;
}

float near(float y, float x, float lowest = -HUGE_VALF, float highest = HUGE_VALF) {
  return __builtin_expect(ulps != 0, 0) ? shifted(y, x, lowest, highest) : y;
}

}  // namespace

float exp_near(float x) { return near(::expf(x), x); }
float exp2_near(float x) { return near(::exp2f(x), x); }
float expm1_near(float x) { return near(::expm1f(x), x, -1.0f); }
float log_near(float x) { return near(::logf(x), x); }
float log2_near(float x) { return near(::log2f(x), x); }
float log1p_near(float x) { return near(::log1pf(x), x); }
float tanh_near(float x) { return near(::tanhf(x), x, -1.0f, 1.0f); }
float normcdf_near(float x) { return near(float(0.5 * ::erfc(-double(x) * 0.70710678118654752440)), x, 0.0f, 1.0f); }
float pow_near(float x, float y) { return y == 0.0f || x == 1.0f ? 1.0f : near(::powf(x, y), x + y); }
float rsqrt_near(float x) { return near(1.0f / ::sqrtf(x), x); }

}  // namespace emulator
