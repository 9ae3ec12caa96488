/* machine.h: what the machine can do at best: multiply-adds on registers, and moving memory that no cache holds. */

/* A chain waits for its own last result, so there are more of them than latency x units: units are the bound. */
enum { CHAINS = LANES == 16 ? 20 : 12 };

INLINE void chains(const int pairs, machine_t *l) {
  const vf a = (vf)splat_int(0x3f7f0000), b = splat(1e-3f); /* a: 0.996, the lower of a pair is 0 */
  vf sum[CHAINS];
  for (int c = 0; c < CHAINS; c++) sum[c] = splat(c);
  for (int64_t r = 0; r < l->rounds; r++) {
#pragma GCC unroll 20
    for (int c = 0; c < CHAINS; c++) sum[c] = multiply_add(pairs, sum[c], a, b);
  }
  for (int c = 0; c < CHAINS; c++) __atomic_fetch_xor(&l->sink, mask_bits((vi)sum[c]), __ATOMIC_RELAXED);
}

/* l->rounds x l->each multiply-adds by each worker. */
static void limit_products(machine_t *l, int32_t worker) {
  if (worker == 0) l->each = CHAINS * LANES * (l->bfloat16 ? 2 : 1);
  if (l->bfloat16)
    chains(1, l);
  else
    chains(0, l);
}

enum { MEMORY_BLOCK = 1 << 18 /* floats */ };

/* Reads the blocks of l->memory once, or updates them in place. */
static void limit_memory(machine_t *l, UNUSED int32_t worker) {
  vf sum[8] = {{0}};
  for (int64_t block; (block = take(&l->next)) * MEMORY_BLOCK < l->count;) {
    float *at = l->memory + block * MEMORY_BLOCK;
    for (int64_t i = 0; l->update && i < MEMORY_BLOCK; i += LANES) store(at + i, load(at + i) * 0.999f);
    for (int64_t i = 0; !l->update && i < MEMORY_BLOCK; i += 8 * LANES) {
#pragma GCC unroll 8
      for (int c = 0; c < 8; c++) sum[c] += load(at + i + c * LANES);
    }
  }
  for (int c = 0; c < 8; c++) __atomic_fetch_xor(&l->sink, mask_bits((vi)sum[c]), __ATOMIC_RELAXED);
}
