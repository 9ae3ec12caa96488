/* pool.h: workers that run the phases of a call together. A phase is run by all of them with the same arguments, and begins
 * when the one before is done. The part of a thread that has not begun it when the caller is done with its own, because it
 * sleeps or waits for a processor, is done by the caller.
 *
 * The number of workers is fixed; the number of threads may change from call to call. With fewer threads than workers, a
 * thread does the parts of several workers, one after the other. A phase therefore must not wait for another worker, unless
 * that one has begun its part.
 *
 * The calling thread is worker 0. A thread that waits spins for a while (`patience`), unless another thread needs its
 * processor, and then sleeps on a futex: to wake it takes tens of microseconds, as long as a whole op of a small network.
 * Threads are not made here: a thread becomes a worker by calling pool_serve. */
#ifndef DSSTNE_CPU_POOL_H
#define DSSTNE_CPU_POOL_H

#include "kernels.h"

typedef void (*phase_t)(const kernels_t *, void *arguments, int32_t worker);

typedef struct {
  phase_t run;
  void *arguments;
} work_t;

typedef struct pool pool_t;

/* A pool whose workers are not there yet; null if there is no memory. Patience is in nanoseconds. */
pool_t *pool_new(int32_t workers, int64_t patience);

/* The phase that has begun last: where a new worker starts. Not while pool_run works. */
uint64_t pool_round(const pool_t *);

/* Room for the phases of a call, in C's memory; null if there is none. What it held is lost. */
work_t *pool_work(pool_t *, int32_t count);

/* Runs the phases in pool_work, one after the other, by the first `threads` workers, 1 to all: they are in pool_serve, or on
 * their way. */
void pool_run(pool_t *, const kernels_t *, int32_t count, int32_t threads);

/* Runs the phases in pool_work by the calling thread alone, which has to be able to do all the work. */
void pool_run_alone(pool_t *, const kernels_t *, int32_t count);

/* Takes part in the phases after the round, until the pool is closed, a phase has begun that fewer threads run, or nothing has
 * happened for `idle` nanoseconds. Returns the round that it saw last. */
uint64_t pool_serve(pool_t *, int32_t worker, uint64_t round, int64_t idle);

/* Makes the workers leave. Not while pool_run works. */
void pool_close(pool_t *);

/* When all workers have left. */
void pool_free(pool_t *);

/* How many threads, at most `most`, the system lets this process have beside those that it has. Makes them, and ends them. */
int32_t pool_startable(int32_t most);

#endif
