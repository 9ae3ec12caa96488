// Normally distributed numbers, the same bits as internal/random's, whose normal.go explains logarithm, sine and cosine. The kernels
// are compiled without contraction.
#pragma once
#include "philox.cuh"

// ln x of a positive normal number.
DEVICE double normal_logarithm(double x) {
  const int64_t bits = __double_as_longlong(x);
  double fraction = __longlong_as_double((bits & 0xfffffffffffffll) | 0x3fe0000000000000ll);  // 0.5 .. 1
  int64_t exponent = (bits >> 52) - 1022;
  if (fraction < 0.70710678118654752440) {
    fraction *= 2;
    exponent--;
  }
  const double f = fraction - 1.0, k = double(exponent), s = f / (2.0 + f), s2 = s * s, s4 = s2 * s2;
  double odd = 1.479819860510858591e-01 * s4 + 1.818357216161805012e-01;
  odd = odd * s4 + 2.857142874366239149e-01;
  odd = s2 * (odd * s4 + 6.666666666666735130e-01);
  double even = 1.531383769920937332e-01 * s4 + 2.222219843214978396e-01;
  even = s4 * (even * s4 + 3.999999999940941908e-01);
  const double half = 0.5 * f * f, small = s * (half + (odd + even)) + k * 1.90821492927058770002e-10;
  return k * 6.93147180369123816490e-01 - ((half - small) - f);
}

// Sine and cosine of x from 0 to 2 pi.
DEVICE void normal_sine_cosine(double x, double *sine, double *cosine) {
  uint64_t octant = uint64_t(x * 1.2732395447351628);
  octant += octant & 1;
  const double y = double(octant);
  const double z =
      ((x - y * 7.85398125648498535156e-1) - y * 3.77489470793079817668e-8) - y * 2.69515142907905952645e-15;
  const double q = z * z;
  double c = -1.13585365213876817300e-11 * q + 2.08757008419747316778e-9;
  c = c * q + -2.75573141792967388112e-7;
  c = c * q + 2.48015872888517045348e-5;
  c = c * q + -1.38888888888730564116e-3;
  c = (1.0 - 0.5 * q) + (q * q) * (c * q + 4.16666666666665929218e-2);
  double s = 1.58962301576546568060e-10 * q + -2.50507477628578072866e-8;
  s = s * q + 2.75573136213857245213e-6;
  s = s * q + -1.98412698295895385996e-4;
  s = s * q + 8.33333333332211858878e-3;
  s = z + (z * q) * (s * q + -1.66666666666666307295e-1);
  switch (octant & 7) {  // always even
    case 2:
      *sine = c, *cosine = -s;
      break;
    case 4:
      *sine = -s, *cosine = -c;
      break;
    case 6:
      *sine = -c, *cosine = s;
      break;
    default:
      *sine = s, *cosine = c;
      break;
  }
}

// Box and Muller's transform of two words, times the deviation.
DEVICE void normal_pair(uint32_t first, uint32_t second, float deviation, float *x, float *y) {
  const double radius = sqrt(-2.0 * normal_logarithm((double(first) + 1.0) * 0x1p-32));
  double sine, cosine;
  normal_sine_cosine(6.283185307179586 * double(second) * 0x1p-32, &sine, &cosine);
  *x = float(0.0 + double(deviation) * (radius * cosine));
  *y = float(0.0 + double(deviation) * (radius * sine));
}
