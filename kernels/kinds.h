/* kinds.h: the list of activations, losses, optimizers and of all other kinds that Go passes to C and CUDA by number. The
 * number of a kind is its place in the list. The C of kernels/cpu and the CUDA sources include this file; a test compares
 * it with the constants and words of package kernels.
 *
 * A list calls a macro for each kind: KIND(word), and for optimizers KIND(word, number of states of a weight). A backend
 * names the function of a kind after the word and makes its switch from the list, so a kind without a function does not
 * compile. The switches need no default: Go refuses an unknown kind when an op is called (CheckKind in kinds.go).
 */
#ifndef DSSTNE_KINDS_H
#define DSSTNE_KINDS_H

#define ACTIVATIONS(KIND) KIND(linear) KIND(sigmoid) KIND(tanh) KIND(relu)

#define LOSSES(KIND) KIND(sigmoid) KIND(scaled_marginal) KIND(softmax) KIND(squared)

#define OPTIMIZERS(KIND) KIND(sgd, 0) KIND(momentum, 1) KIND(nesterov, 1) KIND(rmsprop, 1) KIND(adam, 2) KIND(adamw, 2)

#define FILLS(KIND) KIND(constant) KIND(uniform) KIND(normal)

#define METRICS(KIND) \
  KIND(precision) KIND(recall) KIND(truncated_recall) KIND(ndcg) KIND(hit_rate) KIND(mrr) KIND(map) KIND(coverage)

#define PRECISIONS(KIND) KIND(float32) KIND(bfloat16) KIND(tensorfloat32)

/* The numbers: ACTIVATION_linear and so on. */
#define ACTIVATION_NUMBER(word) ACTIVATION_##word,
#define LOSS_NUMBER(word) LOSS_##word,
#define OPTIMIZER_NUMBER(word, states) OPTIMIZER_##word,
#define FILL_NUMBER(word) FILL_##word,
#define METRIC_NUMBER(word) METRIC_##word,
#define PRECISION_NUMBER(word) PRECISION_##word,

enum { ACTIVATIONS(ACTIVATION_NUMBER) };
enum { LOSSES(LOSS_NUMBER) };
enum { OPTIMIZERS(OPTIMIZER_NUMBER) };
enum { FILLS(FILL_NUMBER) };
enum { METRICS(METRIC_NUMBER) };
enum { PRECISIONS(PRECISION_NUMBER) };

#endif
