/* kinds.h: the list of activations, losses, optimizers and of all other kinds that Go passes to C and CUDA by number. The
 * number of a kind is its place in the list. The C of kernels/cpu and the CUDA sources include this file; a test compares
 * it with the constants and words of package kernels.
 *
 * A list calls a macro for each kind, with what follows the macro in the call: KIND(word, ...), and for optimizers
 * KIND(word, number of states of a weight, ...). A backend names the function of a kind after the word and makes its
 * switch from the list, so a kind without a function does not compile. The switches need no default: Go refuses an
 * unknown kind when an op is called (CheckKind in kinds.go).
 */
#ifndef DSSTNE_KINDS_H
#define DSSTNE_KINDS_H

/* clang-format off */
#define ACTIVATIONS(KIND, ...) \
  KIND(linear, ##__VA_ARGS__) KIND(sigmoid, ##__VA_ARGS__) KIND(tanh, ##__VA_ARGS__) KIND(relu, ##__VA_ARGS__) \
  KIND(elu, ##__VA_ARGS__) KIND(selu, ##__VA_ARGS__) KIND(leaky_relu, ##__VA_ARGS__) KIND(softplus, ##__VA_ARGS__) \
  KIND(softsign, ##__VA_ARGS__) KIND(gelu, ##__VA_ARGS__) KIND(silu, ##__VA_ARGS__)

#define LOSSES(KIND, ...) \
  KIND(sigmoid, ##__VA_ARGS__) KIND(scaled_marginal, ##__VA_ARGS__) KIND(softmax, ##__VA_ARGS__) \
  KIND(squared, ##__VA_ARGS__) KIND(hinge, ##__VA_ARGS__) KIND(absolute, ##__VA_ARGS__) \
  KIND(l2_hinge, ##__VA_ARGS__) KIND(cosine_contrastive, ##__VA_ARGS__)

#define OPTIMIZERS(KIND, ...) \
  KIND(sgd, 0, ##__VA_ARGS__) KIND(momentum, 1, ##__VA_ARGS__) KIND(nesterov, 1, ##__VA_ARGS__) \
  KIND(rmsprop, 1, ##__VA_ARGS__) KIND(adam, 2, ##__VA_ARGS__) KIND(adamw, 2, ##__VA_ARGS__) \
  KIND(adagrad, 1, ##__VA_ARGS__) KIND(adadelta, 2, ##__VA_ARGS__)

#define METRICS(KIND, ...) \
  KIND(precision, ##__VA_ARGS__) KIND(recall, ##__VA_ARGS__) KIND(truncated_recall, ##__VA_ARGS__) \
  KIND(ndcg, ##__VA_ARGS__) KIND(hit_rate, ##__VA_ARGS__) KIND(mrr, ##__VA_ARGS__) KIND(map, ##__VA_ARGS__) \
  KIND(coverage, ##__VA_ARGS__)
/* clang-format on */

#define MERGES(KIND, ...) KIND(maximum, ##__VA_ARGS__) KIND(dot, ##__VA_ARGS__) KIND(cosine, ##__VA_ARGS__)

#define FILLS(KIND, ...) KIND(constant, ##__VA_ARGS__) KIND(uniform, ##__VA_ARGS__) KIND(normal, ##__VA_ARGS__)

#define PRECISIONS(KIND) KIND(float32) KIND(bfloat16) KIND(tensorfloat32)

#define STORAGES(KIND) KIND(float32) KIND(float16) KIND(bfloat16)

/* The numbers: ACTIVATION_linear and so on. */
#define KIND_NUMBER(word, LIST) LIST##_##word,
#define OPTIMIZER_NUMBER(word, states) OPTIMIZER_##word,
#define PRECISION_NUMBER(word) PRECISION_##word,
#define STORAGE_NUMBER(word) STORAGE_##word,

/* Cases of a switch that call f<word>, or f with the number of the kind as a constant. For optimizers: OPTIMIZER_CASE. */
#define CASE_BY_WORD(word, LIST, f, ...) \
  case LIST##_##word:                    \
    return f##word(__VA_ARGS__);
#define CASE_BY_NUMBER(word, LIST, f, ...) \
  case LIST##_##word:                      \
    return f(LIST##_##word, __VA_ARGS__);
#define OPTIMIZER_CASE(word, states, CASE, ...) CASE(word, OPTIMIZER, __VA_ARGS__)

enum { ACTIVATIONS(KIND_NUMBER, ACTIVATION) };
/* Whether the derivative of an activation is computed from the sum instead of the value, see SlopeNeedsSum in ops.go. */
#define SLOPE_NEEDS_SUM(activation) ((activation) >= ACTIVATION_gelu)
enum { LOSSES(KIND_NUMBER, LOSS) };
enum { OPTIMIZERS(OPTIMIZER_NUMBER) };
enum { MERGES(KIND_NUMBER, MERGE) };
enum { FILLS(KIND_NUMBER, FILL) };
enum { METRICS(KIND_NUMBER, METRIC) };
enum { PRECISIONS(PRECISION_NUMBER) };
enum { STORAGES(STORAGE_NUMBER) };

#endif
