/* The waiting of dsstne_predictor_ask. It is C and not Go: a thread that sleeps here takes no part in Go's scheduling, where
 * each sleep of a thread that C called from costs two more switches of threads. */
#include "ask.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "_cgo_export.h"

void ticket_answer(ticket_t *t, dsstne_status status, ticket_t *next) {
  t->status = status;
  t->next = next;
  __atomic_store_n(&t->answered, 1, __ATOMIC_RELEASE);
}

void ticket_wake(const ticket_t *t) { syscall(SYS_futex, &t->answered, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

dsstne_status dsstne_predictor_ask(dsstne_predictor predictor, const dsstne_dataset_info *inputs, int64_t n_inputs,
                                   const dsstne_dataset_info *exclude, int64_t k, int32_t *ids, float *scores,
                                   dsstne_error *err) {
  ticket_t t = {0};
  const dsstne_status status = predictorAsk(predictor, inputs, n_inputs, exclude, k, ids, scores, err, &t);
  if (status != ASK_WAITS) return status;
  while (!__atomic_load_n(&t.answered, __ATOMIC_ACQUIRE))
    syscall(SYS_futex, &t.answered, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
  if (t.next) ticket_wake(t.next);
  return t.status;
}
