/* ask.h: a call of dsstne_predictor_ask that waits for its answer in C. */
#ifndef DSSTNE_CAPI_ASK_H
#define DSSTNE_CAPI_ASK_H

#include "abi.h"

/* What predictorAsk returns, instead of a status, when the ticket will be answered. */
enum { ASK_WAITS = -1 };

typedef struct ticket ticket_t;

struct ticket {
  uint32_t answered; /* a futex: 0, then 1 */
  dsstne_status status;
  ticket_t *next; /* whom to wake next; null: nobody */
};

/* Answers a ticket. Its thread may return from now on, whether it is woken or not, and the ticket is then gone. */
void ticket_answer(ticket_t *, dsstne_status, ticket_t *next);

/* Wakes the thread of a ticket if it sleeps. The ticket may be gone: a futex is found by its address, and whoever waits there
 * now looks again. */
void ticket_wake(const ticket_t *);

#endif /* DSSTNE_CAPI_ASK_H */
