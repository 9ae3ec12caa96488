// What compiled kernels and the runtime know of each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vectors.h"

// Of functions whose own loads and stores are not checked.
#define EMULATOR_UNCHECKED __attribute__((no_sanitize("thread")))

namespace emulator {

// The thread of the grid that runs now, as kernels see it. One record a host thread; a switch of fibres rewrites it.
struct Place {
  uint3 thread, block, block_size, grid_size;
};

extern __thread Place place __attribute__((tls_model("initial-exec")));

using Entry = void (*)(const void *args);

// A kernel, entered into the table of functions when the library is loaded.
struct Registration {
  const char *name;
  size_t args_bytes;
  int max_threads;
  Entry entry;
  const Registration *next;
  Registration(const char *name, size_t args_bytes, int max_threads, Entry entry);
};

// Where in the sources a thread waits, for messages and to tell barriers apart.
struct Site {
  const char *file;
  int line;
  const char *what;
};

// ---- shared memory ----

void *shared(const void *key, size_t bytes, size_t alignment);
void *dynamic_shared();

// Copies that a thread has asked for and that arrive when it waits for them.
void async_copy(void *to, const void *from, int size, int bytes);
void async_commit();
void async_wait(int pending);

// ---- waiting ----

enum class Vote { none, count, all, any };
int block_barrier(Site site, Vote vote, int predicate);
void grid_barrier(unsigned *counter);
void yield();
[[noreturn]] void trap();

// A call that all lanes named in mask make together. The last to come runs `all` on everybody's operands.
using Collective = void (*)(void *const *lanes, uint32_t mask);
void collective(Collective all, uint32_t mask, void *operands, Site site);
void sync_warp(uint32_t mask, Site site);
uint32_t ballot(uint32_t mask, int predicate, Site site);
enum class Shuffle { from, up, down, across, match };
uint64_t shuffle(Shuffle kind, uint32_t mask, uint64_t value, int parameter, int width, Site site);

// Says that n bytes are about to be read, written, or changed as one (atomic): the checks that plain code gets from the
// compiler.
void check_read(const void *p, size_t n);
void check_write(void *p, size_t n);
void check_atomic(void *p, size_t n);

template <class T, class Change>
EMULATOR_UNCHECKED __attribute__((noinline)) T atomic_update(T *p, Change change) {
  T old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(p, &old, change(old), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return old;
}

// A load of a word that other launches may be changing, which is no missing wait.
template <class T>
EMULATOR_UNCHECKED __attribute__((noinline)) T unordered_load(const T *p) {
  return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

// ---- functions of float32, which may be off by `ulps` units in the last place ----

extern int ulps;
float exp_near(float x);
float exp2_near(float x);
float expm1_near(float x);
float log_near(float x);
float log2_near(float x);
float log1p_near(float x);
float tanh_near(float x);
float normcdf_near(float x);
float pow_near(float x, float y);
float rsqrt_near(float x);

// ---- arithmetic of the wrappers in device.cuh ----

extern bool truncates;  // whether products of a warp are cut off as in tensorcore.h

uint16_t to_bf16(float x);
uint32_t to_tf32(float x);
void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
void ldmatrix_x4(uint32_t (&r)[4], const void *row, bool transposed);

}  // namespace emulator
