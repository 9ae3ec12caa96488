// What the stand-ins of other libraries ask of the emulator: work in a stream that may need parts from other streams.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// One of `ranks` parts of a collective. Parts with the same clique meet in the order in which each rank submits its own:
// the first with the first, and so on. `all` gets a copy of every rank's record and runs once; it may touch device memory.
// What device memory it reads and writes, it has to say with the functions below. Answers a CUresult.
int dsstne_cudaemu_meet(void *stream, const char *clique, int rank, int ranks, const void *record, size_t record_bytes,
                        int (*all)(const void *const *records, int ranks));

// A message from one stream to another: the n-th send of a clique is received by its n-th receive.
int dsstne_cudaemu_send(void *stream, const char *clique, const void *from, size_t bytes);
int dsstne_cudaemu_receive(void *stream, const char *clique, void *to, size_t bytes);

// Waits until no graph has a part that a rank captured, nor is one under way that was launched from one. If that lasts too
// long it is an error, which stays with the device.
int dsstne_cudaemu_released(const char *clique, int rank, int device);

// Lets those who wait for others of a clique go on, with nothing done, now and for ever.
void dsstne_cudaemu_abandon(const char *clique);

// Work of one stream alone, which may touch device memory. The record is copied.
int dsstne_cudaemu_work(void *stream, const char *name, const void *record, size_t record_bytes,
                        int (*work)(const void *record));

// Whether all of a range lies in one allocation.
int dsstne_cudaemu_allocated(const void *address, size_t bytes);

// The work that calls this reads or writes a range. Answers a CUresult: an error if other work that it does not wait for
// does so, too. What is written is known from then on.
int dsstne_cudaemu_reads(const void *address, size_t bytes);
int dsstne_cudaemu_writes(const void *address, size_t bytes);

// A setting of the emulator, see dsstne_cudaemu_set; -1: there is none of this name.
int dsstne_cudaemu_get(const char *what);

// Memory of a device that the library takes for itself, 0 if it does not fit; and gives back.
uint64_t dsstne_cudaemu_take(int device, size_t bytes);
void dsstne_cudaemu_give(int device, uint64_t address, size_t bytes);

// Whether a stream of the process is captured.
int dsstne_cudaemu_capturing();

// Counts a call of a function, and answers the fault injected for it, or 0.
int dsstne_cudaemu_enter(const char *function);
}
