#define _GNU_SOURCE
#include "pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A number whose change threads wait for; each differs from the one before in its lower half. It has a cache line of its
 * own. */
typedef struct {
  _Alignas(64) uint64_t number;
  uint32_t sleepers;
} bell_t;

/* The phase of which a thread's part was taken last: by that thread or, where that comes late, by the caller. */
typedef struct {
  _Alignas(64) uint64_t phase;
} claim_t;

struct pool {
  bell_t begun; /* the phase that has begun last: its number and, in the lowest THREADS bits, how many threads run it */
  bell_t ended; /* the phase that has ended last of those that several threads run */
  _Alignas(64) uint32_t left; /* threads that are not done with the present one */
  _Alignas(64) const kernels_t *kernels;
  work_t work; /* the present phase */
  int64_t patience;
  work_t *list;
  claim_t *claims; /* by thread */
  int32_t workers, room; /* room: of the list */
};

static uint32_t sleepers(const bell_t *b) { return __atomic_load_n(&b->sleepers, __ATOMIC_SEQ_CST); }

static uint64_t look(const bell_t *b) { return __atomic_load_n(&b->number, __ATOMIC_SEQ_CST); }

/* The half of the number that the system compares: it waits for 32 bits. */
static uint32_t *lower_half(bell_t *b) { return (uint32_t *)&b->number + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__); }

/* The bits for the number of threads (options allow 4,096). The other 48 count the phases of years. */
enum { THREADS = 16 };

static int32_t threads_of(uint64_t phase) { return (int32_t)(phase & ((1 << THREADS) - 1)); }

static uint64_t next_phase(uint64_t phase, int32_t threads) {
  return ((phase >> THREADS) + 1) << THREADS | (uint64_t)threads;
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Changes the number. The order of all these accesses is one that all threads agree on: a sleeper that is not seen here
 * sees the new number before it sleeps. */
static void ring(bell_t *b, uint64_t number) {
  __atomic_store_n(&b->number, number, __ATOMIC_SEQ_CST);
  if (sleepers(b)) syscall(SYS_futex, lower_half(b), FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* A thread that yields is back sooner than this, in nanoseconds, unless another one needs the same processor. */
enum { YIELD = 2000 };

/* Spins until the number is not the old one, or patience ends, or another thread needs the processor. Two threads that spin on
 * one processor would stay there, beside an idle one; a thread that sleeps is woken where there is room. */
static void watch(const bell_t *b, uint64_t old, int64_t patience) {
  for (int64_t start = 0, time; patience > 0;) {
    for (int i = 0; i < 32; i++) {
      if (look(b) != old) return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    time = now();
    if (start == 0) start = time;
    if (time - start >= patience) return;
    sched_yield();
    if (now() - time >= YIELD) return;
  }
}

/* Waits until the number is not the old one, at most about `limit` nanoseconds (0: for ever). True if it changed. */
static int await(bell_t *b, uint64_t old, int64_t patience, int64_t limit) {
  watch(b, old, patience);
  if (look(b) != old) return 1;
  const int64_t end = now() + limit;
  __atomic_add_fetch(&b->sleepers, 1, __ATOMIC_SEQ_CST);
  for (int64_t left = limit; look(b) == old && left >= 0; left = limit > 0 ? end - now() : 0) {
    struct timespec t = {left / 1000000000, left % 1000000000};
    syscall(SYS_futex, lower_half(b), FUTEX_WAIT_PRIVATE, (uint32_t)old, limit > 0 ? &t : NULL, NULL, 0);
  }
  __atomic_sub_fetch(&b->sleepers, 1, __ATOMIC_SEQ_CST);
  return look(b) != old;
}

pool_t *pool_new(int32_t workers, int64_t patience) {
  pool_t *p = aligned_alloc(_Alignof(pool_t), sizeof *p);
  claim_t *claims = aligned_alloc(_Alignof(claim_t), workers * sizeof *claims);
  if (!p || !claims) {
    free(p), free(claims);
    return NULL;
  }
  memset(claims, 0, workers * sizeof *claims);
  *p = (pool_t){.workers = workers, .patience = patience, .claims = claims};
  return p;
}

uint64_t pool_round(const pool_t *p) { return p->begun.number; }

work_t *pool_work(pool_t *p, int32_t count) {
  if (count > p->room) {
    free(p->list);
    p->list = malloc(count * sizeof *p->list);
    p->room = p->list ? count : 0;
  }
  return p->list;
}

/* What a thread does in a phase: the parts of its own worker, and those of workers that have no thread. */
static void take_part(const pool_t *p, const kernels_t *kernels, work_t work, int32_t thread, int32_t threads) {
  for (int32_t worker = thread; worker < p->workers; worker += threads) work.run(kernels, work.arguments, worker);
}

/* True for one of those who ask for a thread's part of a phase: the thread itself, and the caller. A thread may ask late, when
 * the phase is over; then its part was taken, of this phase or of a later one. */
static int claim(pool_t *p, int32_t thread, uint64_t phase) {
  uint64_t *of = &p->claims[thread].phase, last = __atomic_load_n(of, __ATOMIC_SEQ_CST);
  return last < phase && __atomic_compare_exchange_n(of, &last, phase, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Does the parts of the threads that have not begun, such as those that sleep; reports whether that has ended the phase.
 * Otherwise the last of the other threads ends it, and rings. */
static int take_the_rest(pool_t *p, const kernels_t *kernels, work_t work, uint64_t phase) {
  uint32_t taken = 0;
  for (int32_t thread = 1; thread < threads_of(phase); thread++) {
    if (!claim(p, thread, phase)) continue;
    take_part(p, kernels, work, thread, threads_of(phase));
    taken++;
  }
  return taken > 0 && __atomic_sub_fetch(&p->left, taken, __ATOMIC_SEQ_CST) == 0;
}

void pool_run(pool_t *p, const kernels_t *kernels, int32_t count, int32_t threads) {
  for (int32_t i = 0; i < count; i++) {
    const work_t work = p->list[i];
    const uint64_t round = p->begun.number, next = next_phase(round, threads), ended = p->ended.number;
    if (threads > 1) {
      p->kernels = kernels, p->work = work;
      __atomic_store_n(&p->left, (uint32_t)threads - 1, __ATOMIC_SEQ_CST);
      ring(&p->begun, next);
    }
    take_part(p, kernels, work, 0, threads);
    if (threads > 1 && !take_the_rest(p, kernels, work, next)) await(&p->ended, ended, p->patience, 0);
  }
}

void pool_run_alone(pool_t *p, const kernels_t *kernels, int32_t count) {
  for (int32_t i = 0; i < count; i++) p->list[i].run(kernels, p->list[i].arguments, 0);
}

uint64_t pool_serve(pool_t *p, int32_t worker, uint64_t round, int64_t idle) {
  while (await(&p->begun, round, p->patience, idle)) {
    /* Read once: phases may come and go meanwhile, but for one of which this thread has claimed its part. */
    round = look(&p->begun);
    if (worker >= threads_of(round)) break;
    if (!claim(p, worker, round)) continue;
    take_part(p, p->kernels, p->work, worker, threads_of(round));
    if (__atomic_sub_fetch(&p->left, 1, __ATOMIC_SEQ_CST) == 0) ring(&p->ended, round);
  }
  return round;
}

void pool_close(pool_t *p) { ring(&p->begun, next_phase(p->begun.number, 0)); }

void pool_free(pool_t *p) {
  free(p->list);
  free(p->claims);
  free(p);
}

static void *pass(void *gate) {
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  return NULL;
}

/* Addresses that the threads must leave to Go, which ends the process where it gets none (its heap takes 64 MiB at a time). */
enum { ADDRESSES_LEFT = 256 << 20 };

int32_t pool_startable(int32_t most) {
  void *room = mmap(NULL, ADDRESSES_LEFT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return 0;
  pthread_t *threads = malloc(most * sizeof *threads);
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* inherited: signals go to other threads */
  pthread_mutex_lock(&gate);
  int32_t count = 0;
  while (threads && count < most && pthread_create(&threads[count], NULL, pass, &gate) == 0) count++;
  pthread_mutex_unlock(&gate);
  for (int32_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  free(threads);
  munmap(room, ADDRESSES_LEFT);
  return count;
}
