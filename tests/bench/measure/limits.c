/* The limits of the machine: multiply-adds that touch registers only, and streams through memory that no cache holds.
 *
 * Every function runs on the calling thread and counts in `rounds`; the caller starts one per core and holds the watch.
 * A chain waits for its own last result, so there are more chains than latency x units: a loop is bound by the units.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* Which loops the CPU can run: bit 0 portable, 1 avx2, 2 avx512, 3 bfloat16, 4 int8. */
int available(void);
void fma_portable(long rounds, float *out);
void fma_avx2(long rounds, float *out);
void fma_avx512(long rounds, float *out);
void dot_bfloat16(long rounds, float *out);
void dot_int8(long rounds, float *out);

/* The 4-lane loop of the portable build: SSE2 multiplies and adds apart; NEON and others fuse if the compiler does. */
typedef float four __attribute__((vector_size(16)));
#define PORTABLE_CHAINS 12
#if defined(__x86_64__)
__attribute__((target("arch=x86-64")))
#endif
void fma_portable(long rounds, float *out) {
  four sum[PORTABLE_CHAINS], a = {0.999f, 0.998f, 0.997f, 0.996f}, b = {1e-6f, 2e-6f, 3e-6f, 4e-6f};
  for (int c = 0; c < PORTABLE_CHAINS; c++) sum[c] = b * (float)c;
  for (long r = 0; r < rounds; r++) {
    _Pragma("GCC unroll 12") for (int c = 0; c < PORTABLE_CHAINS; c++) sum[c] = sum[c] * a + b;
  }
  for (int c = 0; c < PORTABLE_CHAINS; c++) out[0] += sum[c][0] + sum[c][1] + sum[c][2] + sum[c][3];
}

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2_CHAINS 12
__attribute__((target("avx2,fma"))) void fma_avx2(long rounds, float *out) {
  __m256 sum[AVX2_CHAINS], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(1e-6f);
  for (int c = 0; c < AVX2_CHAINS; c++) sum[c] = _mm256_set1_ps(1e-6f * c);
  for (long r = 0; r < rounds; r++) {
    _Pragma("GCC unroll 12") for (int c = 0; c < AVX2_CHAINS; c++) sum[c] = _mm256_fmadd_ps(sum[c], a, b);
  }
  for (int c = 0; c < AVX2_CHAINS; c++) out[0] += _mm256_cvtss_f32(sum[c]);
}

#define CHAINS 20
__attribute__((target("avx512f"))) void fma_avx512(long rounds, float *out) {
  __m512 sum[CHAINS], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(1e-6f);
  for (int c = 0; c < CHAINS; c++) sum[c] = _mm512_set1_ps(1e-6f * c);
  for (long r = 0; r < rounds; r++) {
    _Pragma("GCC unroll 20") for (int c = 0; c < CHAINS; c++) sum[c] = _mm512_fmadd_ps(sum[c], a, b);
  }
  for (int c = 0; c < CHAINS; c++) out[0] += _mm512_cvtss_f32(sum[c]);
}

__attribute__((target("avx512f,avx512bf16"))) void dot_bfloat16(long rounds, float *out) {
  __m512 sum[CHAINS];
  __m512bh a = (__m512bh)_mm512_set1_epi32(0x3a803a80), b = (__m512bh)_mm512_set1_epi32(0x3a003a00); /* 2^-10, 2^-11 */
  for (int c = 0; c < CHAINS; c++) sum[c] = _mm512_set1_ps(1e-6f * c);
  for (long r = 0; r < rounds; r++) {
    _Pragma("GCC unroll 20") for (int c = 0; c < CHAINS; c++) sum[c] = _mm512_dpbf16_ps(sum[c], a, b);
  }
  for (int c = 0; c < CHAINS; c++) out[0] += _mm512_cvtss_f32(sum[c]);
}

/* Named sums, because the compiler keeps an array that inline assembly changes in memory; and assembly, because gcc 12
 * copies the sum around its intrinsic. */
__attribute__((target("avx512f,avx512vnni"))) void dot_int8(long rounds, float *out) {
  __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-2);
  __m512i s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a;
#define DOT(s) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(s) : "v"(a), "v"(b))
  for (long r = 0; r < rounds; r++) {
    DOT(s0);
    DOT(s1);
    DOT(s2);
    DOT(s3);
    DOT(s4);
    DOT(s5);
    DOT(s6);
    DOT(s7);
    DOT(s8);
    DOT(s9);
  }
#undef DOT
  s0 = s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9;
  out[0] += (float)_mm_cvtsi128_si32(_mm512_castsi512_si128(s0));
}

int available(void) {
  int can = 1;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) can |= 2;
  if (__builtin_cpu_supports("avx512f")) can |= 4;
  if (__builtin_cpu_supports("avx512bf16")) can |= 8;
  if (__builtin_cpu_supports("avx512vnni")) can |= 16;
  return can;
}
#else
void fma_avx2(long rounds, float *out) { (void)rounds, (void)out; }
void fma_avx512(long rounds, float *out) { (void)rounds, (void)out; }
void dot_bfloat16(long rounds, float *out) { (void)rounds, (void)out; }
void dot_int8(long rounds, float *out) { (void)rounds, (void)out; }
int available(void) { return 1; }
#endif

/* Memory of n floats in huge pages, written once so that it exists; null if there is none. */
float *claim(long n) {
  void *p = mmap(NULL, (size_t)n * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  madvise(p, (size_t)n * 4, MADV_HUGEPAGE);
  for (long i = 0; i < n; i++) ((float *)p)[i] = 1;
  return p;
}

void release(float *p, long n) { munmap(p, (size_t)n * 4); }

/* Ends a round: without it the compiler walks through memory once for several rounds. */
#define ROUND_ENDS __asm__ volatile("" ::: "memory")

/* 16 floats: what one instruction or a few move. Loads and stores need no alignment of their own. */
typedef float line __attribute__((vector_size(64), aligned(4)));

/* Reads everything: 4 n bytes a round. */
void stream_read(const float *a, long n, long rounds, float *out) {
  line sum[8] = {0};
  for (long r = 0; r < rounds; r++) {
    for (long i = 0; i + 128 <= n; i += 128) {
      _Pragma("GCC unroll 8") for (int c = 0; c < 8; c++) sum[c] += *(const line *)(a + i + 16 * c);
    }
    ROUND_ENDS;
  }
  for (int c = 0; c < 8; c++) *out += sum[c][0];
}

/* Reads and writes the same place, as an update of weights does: 8 n bytes a round. */
void stream_update(float *a, long n, long rounds) {
  for (long r = 0; r < rounds; r++) {
    for (long i = 0; i + 16 <= n; i += 16) *(line *)(a + i) = *(line *)(a + i) * 0.999f;
    ROUND_ENDS;
  }
}

/* STREAM's triad, a = b + s c: 12 n bytes a round, and where stores go through the cache 4 n more, which nobody counts. */
void stream_triad(float *a, const float *b, const float *c, long n, long rounds) {
  for (long r = 0; r < rounds; r++) {
    for (long i = 0; i + 16 <= n; i += 16) {
      line sum = *(const line *)(b + i) + 0.5f * *(const line *)(c + i);
#if defined(__x86_64__)
      const __m128 *parts = (const __m128 *)&sum;
      for (int q = 0; q < 4; q++) _mm_stream_ps(a + i + 4 * q, parts[q]);
#else
      *(line *)(a + i) = sum;
#endif
    }
    ROUND_ENDS;
  }
}

/* Adds rows of 64 floats that lie anywhere, a power of two of them in n floats: 256 bytes each, `rounds` of them. Several
 * are fetched ahead, as a product of a sparse matrix and a panel does. */
void random_rows(const float *a, long n, long rounds, float *out) {
  line sum[4] = {0};
  const unsigned mask = (unsigned)(n / 64 - 1);
  unsigned row = 1, ahead = 1;
#define NEXT(x) ((x) * 1664525u + 1013904223u)
  for (int i = 0; i < 16; i++) ahead = NEXT(ahead);
  for (long r = 0; r < rounds; r++, row = NEXT(row), ahead = NEXT(ahead)) {
    const float *from = a + 64 * (long)(row >> 8 & mask), *next = a + 64 * (long)(ahead >> 8 & mask);
    _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++) {
      __builtin_prefetch(next + 16 * c, 0, 2);
      sum[c] += *(const line *)(from + 16 * c);
    }
  }
#undef NEXT
  for (int c = 0; c < 4; c++) *out += sum[c][0];
}
