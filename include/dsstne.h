/* dsstne.h: the C interface of dsstne, deep networks over very wide and very sparse data.
 *
 * Concepts
 *   A dataset is a sparse matrix in compressed row form, borrowed from the caller through the Arrow C Data Interface and
 *   never copied. A model is a network, or another way to score, with its weights. A trainer improves a model with datasets that are
 *   bound to the model's layers. A predictor computes scores, top-k lists, neighbours and metrics from a model.
 *
 * Conventions
 *   Every function but the two version queries and the two release callbacks returns a dsstne_status, and takes a
 *   dsstne_error last, which may be null. On failure nothing was changed unless the function says otherwise, and no
 *   out-parameter was written but the error; only the content of output arrays (dst, ids, scores, per_row) is undefined
 *   then.
 *   Handles are 64-bit numbers; 0 is none. A stale, closed or wrong handle is DSSTNE_INVALID_HANDLE, never a crash.
 *   Text in is UTF-8 and ends with NUL. Options are JSON objects, null means all defaults; an unknown key is an error
 *   that names the nearest known one.
 *   Text out goes to (char *buf, size_t *len): *len is the capacity on entry and the size needed, with the NUL, on return.
 *   A buffer that is too short (or null) is not an error: nothing is written to it, call again with *len bytes.
 *   Memory that is passed in stays the caller's and is used during the call only, except the arrays of a dataset.
 *   No function calls back into the caller, and nothing here has to be freed by the caller.
 *
 * Threads
 *   Any function may be called from any thread. Any number of calls may read a dataset or a model at the same time; other
 *   calls that use one handle at the same time are refused with DSSTNE_BUSY, except dsstne_cancel, the *_progress and the
 *   *_describe functions, which are always allowed. dsstne_trainer_run and dsstne_model_set_tensor change the model. A
 *   process that forks after its first call must not call any function in the child.
 *
 * Versions
 *   dsstne_abi_version() = major << 16 | minor. A minor version only adds functions, status codes or trailing fields of
 *   structs; every struct begins with its size as the caller knows it (struct_size). This is ABI 1.1.
 *   1.1 adds dsstne_dataset_open_file, dsstne_model_copy and dsstne_predictor_plan.
 */
#ifndef DSSTNE_H
#define DSSTNE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DSSTNE_ABI_VERSION ((uint32_t)1 << 16 | 1)

/* ---- Arrow C Data Interface (arrow.apache.org/docs/format/CDataInterface.html), under its canonical guard ---- */

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

/* ---- status, errors, handles ---- */

typedef int32_t dsstne_status;

enum {
  DSSTNE_OK = 0,
  DSSTNE_INVALID_ARGUMENT = 1,
  DSSTNE_INVALID_HANDLE = 2,
  DSSTNE_INVALID_STATE = 3,
  DSSTNE_INVALID_DATA = 4,
  DSSTNE_NOT_FOUND = 5,
  DSSTNE_IO = 6,
  DSSTNE_CORRUPT_FILE = 7,
  DSSTNE_UNSUPPORTED = 8,
  DSSTNE_OUT_OF_MEMORY = 9,
  DSSTNE_DEVICE_UNAVAILABLE = 10,
  DSSTNE_DEVICE_FAILED = 11,
  DSSTNE_CANCELLED = 12,
  DSSTNE_BUSY = 13,
  DSSTNE_NOT_FINITE = 14,
  DSSTNE_INTERNAL = 15
};

/* Filled on failure; struct_size is set by the caller (sizeof), message always ends with NUL. */
typedef struct dsstne_error {
  uint32_t struct_size;
  int32_t status;
  char message[1024];
} dsstne_error;

typedef uint64_t dsstne_dataset;
typedef uint64_t dsstne_model;
typedef uint64_t dsstne_trainer;
typedef uint64_t dsstne_predictor;

/* ---- library ---- */

/* ABI number of this library; may be called before anything else. */
uint32_t dsstne_abi_version(void);

/* Product version, a static text. */
const char *dsstne_version(void);

/* Sets process-wide defaults: {"threads": n, "instruction_set": "auto"|"avx512bf16"|"avx512"|"avx2"|"portable",
 * "libraries": [folder, ...], "keep_devices": true}; what is not given stays as it is. threads: CPU threads of later calls whose
 * own options say nothing or 0; 0 = as many as the cgroup and the affinity mask allow. instruction_set: widest one to use, for comparing them; it changes the bits of results.
 * libraries: where NVIDIA's optional libraries are looked for when the system's loader does not find them, in the layout of its
 * Python packages, as in nccl/lib/libnccl.so.2; what is loaded already stays. keep_devices: CUDA devices of a trainer or predictor
 * that is closed stay open for the next one, and a predictor's with the weights, until memory is short or the model is closed;
 * false closes those that nobody uses, and keeps none from then on. */
dsstne_status dsstne_configure(const char *options, dsstne_error *err);

/* JSON: version, abi, build, cpu, memory, backends, devices, and for each absent device the reason; extras: libraries of others that
 * CUDA devices use, and for each absent one the reason. Threads and instruction set are those that dsstne_configure has set. */
dsstne_status dsstne_describe(char *buf, size_t *len, dsstne_error *err);

/* Asks the call that runs on this handle (a trainer or a predictor) to end at the next safe point, with
 * DSSTNE_CANCELLED; returns at once. Without a running call it does nothing. */
dsstne_status dsstne_cancel(uint64_t handle, dsstne_error *err);

/* Release callbacks for Arrow structs whose memory the caller keeps: they mark the struct (and its children) as released
 * and free nothing. */
void dsstne_release_array(struct ArrowArray *array);
void dsstne_release_schema(struct ArrowSchema *schema);

/* ---- dataset ---- */

typedef struct dsstne_dataset_info {
  uint32_t struct_size;
  uint32_t index_bits;   /* 32 or 64: type of the column indices */
  uint32_t offset_bits;  /* 32 or 64: type of the row offsets */
  uint32_t value_bits;   /* 0 (all ones), 32 or 64: type of the values */
  int64_t rows;
  int64_t columns;
  int64_t non_zeros;     /* stored entries */
  int64_t bytes;         /* of the arrays */
  double minimum;        /* smallest and largest stored value; 0 when there is none */
  double maximum;
  const void *offsets;   /* first row offset, first index and first value in the caller's own memory; null for a file */
  const void *indices;
  const void *values;    /* null when value_bits is 0 */
} dsstne_dataset_info;

/* Takes over a matrix: list<struct<index, value>>, or list<index> when every stored value is 1; list or large_list,
 * index int32 or int64, value float32 or float64, at any offset. Field names do not matter. Both structs are moved from:
 * they are released by the library, exactly once, at once on failure and at dsstne_dataset_close on success.
 * Everything is checked before this returns; an error names row, column and value.
 * Options: {"columns": n (required), "allow_not_finite": false, "threads": n}. */
dsstne_status dsstne_dataset_open(struct ArrowSchema *schema, struct ArrowArray *array, const char *options,
                                  dsstne_dataset *out, dsstne_error *err);

/* Opens a matrix in a file by mapping it into memory; no array is copied. The file is an uncompressed Arrow IPC file (Feather
 * version 2) with any number of record batches and one column of a type that dsstne_dataset_open takes; index may also be
 * uint32. Nulls are refused. Everything is checked before this returns; options are those of dsstne_dataset_open. A file that is
 * damaged or has another format is DSSTNE_CORRUPT_FILE. The file must not be changed until dsstne_dataset_close. A call that
 * meets a change, such as a shortened file, returns DSSTNE_INVALID_DATA. Since ABI 1.1. */
dsstne_status dsstne_dataset_open_file(const char *path, const char *options, dsstne_dataset *out, dsstne_error *err);
dsstne_status dsstne_dataset_get_info(dsstne_dataset dataset, dsstne_dataset_info *info, dsstne_error *err);

/* Refused with DSSTNE_BUSY while it is bound to an open trainer or predictor. */
dsstne_status dsstne_dataset_close(dsstne_dataset dataset, dsstne_error *err);

/* ---- model ---- */

/* Builds a model from a network definition (JSON, see docs/network.md), or from the definition of a model that scores by weights
 * between items, x W + b: {"kind": "item_weights", "items": n, "weight": "dense"|"csr"|"none", "entries": n, "bias": false}.
 * entries is the number of stored entries, for "csr" only. Such a model has a layer "input" and a layer "output" of n items, and
 * tensors that begin as zeros: "weight" (F32 [n, n]), or "weight.offsets" (I64 [n + 1]), "weight.indices" (I32, ascending in each
 * row) and "weight.values" (F32), and "bias" (F32 [n, 1]). A stored weight is checked whole before it is used or saved:
 * DSSTNE_INVALID_DATA. It is not trained. Options: {"seed": 0, "threads": n,
 * "sizes": {"layer": n, ...}, "memory_limit": bytes, "step": 0}: sizes replaces "auto" in the definition, where "*input"
 * names the only input layer and "*output" the only output layer; step is the number of steps that the weights have seen, for
 * a model that is put together by dsstne_model_set_tensor. Weights that do not fit into memory_limit, or into the available
 * memory, are refused before anything is allocated. */
dsstne_status dsstne_model_create(const char *definition, const char *options, dsstne_model *out, dsstne_error *err);

/* Reads a model file; all digests are checked, and that all weights are finite. Options: {"threads": n}. */
dsstne_status dsstne_model_load(const char *path, const char *options, dsstne_model *out, dsstne_error *err);

/* Writes a model file, crash-safely: the old file stays whole until the new one is on the disk.
 * Options: {"attributes": {"key": "text", ...}} replaces the model's attributes, which are kept in the file and given back
 * by dsstne_model_describe; without the key, or with null options, they stay what they are. */
dsstne_status dsstne_model_save(dsstne_model model, const char *path, const char *options, dsstne_error *err);

/* JSON: {"network": definition, "definition": {...}, "layers": [{"name", "kind", "size"}], "parameters": n, "bytes": n, "step": n,
 * "attributes": {...}, "tensors": [{"name", "dtype", "shape", "layer", "role"}]}. network is null for a model that is not one;
 * definition is what dsstne_model_create makes the same model of. role is "weight" (trained) or "fixed" (given). */
dsstne_status dsstne_model_describe(dsstne_model model, char *buf, size_t *len, dsstne_error *err);

/* Copies a whole tensor out or in; bytes must be its size. dtype is "F32", "U8", "I64" or "I32" as in the description.
 * Setting "items.bytes" (U8) and then "items.offsets" (I64, one more than items) gives the items names; both may have any
 * size; threads that name the items of one model must take turns. All other names must exist. Set values must be finite. */
dsstne_status dsstne_model_get_tensor(dsstne_model model, const char *name, void *dst, size_t bytes, dsstne_error *err);
dsstne_status dsstne_model_set_tensor(dsstne_model model, const char *name, const void *src, size_t bytes,
                                      dsstne_error *err);

/* Makes a model with the same network, weights, step, attributes and names of items. This takes hardly any time and
 * memory: both models share the tensors until one of them is changed. dsstne_model_set_tensor then copies the tensor that
 * it sets, and dsstne_trainer_run copies all shared weights before its first step; the other model stays as it is. Until
 * then dsstne_trainer_plan lists these weights as parts ("a private copy of <tensor>"), and a run for which they do not
 * fit is DSSTNE_OUT_OF_MEMORY. The models may be used at the same time and closed in any order. Refused with DSSTNE_BUSY
 * while the model is trained or changed. Since ABI 1.1. */
dsstne_status dsstne_model_copy(dsstne_model model, dsstne_model *out, dsstne_error *err);

/* Refused with DSSTNE_BUSY while a trainer or predictor uses it. Memory that copies share is freed with the last one. */
dsstne_status dsstne_model_close(dsstne_model model, dsstne_error *err);

/* ---- trainer ---- */

typedef struct dsstne_progress {
  uint32_t struct_size;
  uint32_t running;            /* 1 while dsstne_trainer_run runs */
  uint64_t step;               /* steps done */
  uint64_t steps_per_epoch;
  uint64_t epoch;              /* epochs done */
  uint64_t examples;           /* examples seen in the current epoch */
  double loss;                 /* mean over the examples of the current epoch so far (NaN before the first step) */
  double epoch_loss;           /* of the last whole epoch (NaN before) */
  double learning_rate;        /* of the last step */
  double examples_per_second;  /* of the running or last run */
  double seconds;              /* of the running or last run */
} dsstne_progress;

/* Models that are not networks are DSSTNE_INVALID_ARGUMENT. Options: {"optimizer": {"kind": "adam", "learning_rate": 0.001, ...}, "schedule": {...}, "batch_size": 512, "seed": 0,
 * "shuffle": true, "devices": "auto", "precision": "float32", "threads": n, "memory_limit": bytes} (docs/training.md). */
dsstne_status dsstne_trainer_open(dsstne_model model, const char *options, dsstne_trainer *out, dsstne_error *err);

/* Feeds an input or output layer; all bound datasets must have the same rows. Not while it runs. */
dsstne_status dsstne_trainer_bind(dsstne_trainer trainer, const char *layer, dsstne_dataset dataset, dsstne_error *err);

/* JSON: {"parts": [{"name", "of", "bytes", "device", "held"}], "bytes": n, "available": n, "limit": n, "operations":
 * ["text", ...], "devices": [as dsstne_describe has them]}; of: whose part it is (a tensor, a layer), left out if nobody's;
 * held: exists already; available: what the device could still give, -1 if unknown; limit: memory_limit, left out if not
 * given. Allocates nothing. */
dsstne_status dsstne_trainer_plan(dsstne_trainer trainer, char *buf, size_t *len, dsstne_error *err);

/* Trains until max_steps more steps are done (0 = no limit) or max_seconds have passed (0 = no limit); one of them must be
 * given. At the end, rows of weights that are updated lazily catch up, which max_seconds does not cover. progress may be
 * null. After DSSTNE_CANCELLED and DSSTNE_NOT_FINITE the model is usable and progress is written. */
dsstne_status dsstne_trainer_run(dsstne_trainer trainer, uint64_t max_steps, double max_seconds,
                                 dsstne_progress *progress, dsstne_error *err);
dsstne_status dsstne_trainer_progress(dsstne_trainer trainer, dsstne_progress *progress, dsstne_error *err);
dsstne_status dsstne_trainer_close(dsstne_trainer trainer, dsstne_error *err);

/* ---- predictor ---- */

/* Options: {"batch_size": 512, "devices": "auto", "precision": "float32", "threads": n, "memory_limit": bytes}. */
dsstne_status dsstne_predictor_open(dsstne_model model, const char *options, dsstne_predictor *out, dsstne_error *err);
dsstne_status dsstne_predictor_bind(dsstne_predictor predictor, const char *layer, dsstne_dataset dataset,
                                    dsstne_error *err);

/* JSON of what recommending k items takes and does, as dsstne_trainer_plan has it; allocates nothing. Inputs that no dataset is
 * bound to count as batches without entries. Options: {"k": 10, "layer": "name"}. Since ABI 1.1. */
dsstne_status dsstne_predictor_plan(dsstne_predictor predictor, const char *options, char *buf, size_t *len,
                                    dsstne_error *err);

/* In the four calls below, rows (n_rows of them) chooses examples of the bound datasets in any order; null means all, and
 * n_rows is then their number. */

/* Dense activations of a hidden layer, or scores (logits) of an output layer: dst[r * stride + unit], stride in floats.
 * layer null = the output layer. dst holds n_rows * stride floats. */
dsstne_status dsstne_predictor_predict(dsstne_predictor predictor, const char *layer, const int64_t *rows,
                                       int64_t n_rows, float *dst, int64_t stride, dsstne_error *err);

/* The k best items a row, best first, ties to the lower item: ids[r * k + i], scores likewise; -1 and -inf where there is
 * nothing left. exclude: items stored in the same row of that dataset are left out (0 = none). items (n_items, any order):
 * an allow-list, or a deny-list; null = every item. Options: {"items": "allow"|"deny", "layer": "name"}: layer is the output
 * layer whose units are ranked, and may be left out if there is only one. */
dsstne_status dsstne_predictor_recommend(dsstne_predictor predictor, const int64_t *rows, int64_t n_rows,
                                         dsstne_dataset exclude, const int32_t *items, int64_t n_items, int64_t k,
                                         const char *options, int32_t *ids, float *scores, dsstne_error *err);

/* The k nearest rows of a weight (null = the output layer's, so items) for each query row, the query itself left out.
 * "entry" ranks the entries of the query's row instead, of a weight between items.
 * Options: {"metric": "cosine"|"dot"|"entry", "items": "allow"|"deny", "include_self": false}. */
dsstne_status dsstne_predictor_neighbors(dsstne_predictor predictor, const char *tensor, const int32_t *queries,
                                         int64_t n_queries, const int32_t *items, int64_t n_items, int64_t k,
                                         const char *options, int32_t *ids, float *scores, dsstne_error *err);

/* Ranks every item for every row and compares with the items stored in targets. Options: {"metrics": ["recall@20", ...],
 * "items": "allow"|"deny", "layer": "name"}, items and layer as in dsstne_predictor_recommend. docs/metrics.md defines the
 * metrics, whose k may be larger than the number of items. Result JSON: {"rows": rows with targets, "metrics": {name: mean}}.
 * per_row, if not null, receives n_rows * metrics doubles, NaN for rows without targets (and for coverage). */
dsstne_status dsstne_predictor_evaluate(dsstne_predictor predictor, dsstne_dataset targets, dsstne_dataset exclude,
                                        const int64_t *rows, int64_t n_rows, const int32_t *items, int64_t n_items,
                                        const char *options, char *buf, size_t *len, double *per_row,
                                        dsstne_error *err);
dsstne_status dsstne_predictor_close(dsstne_predictor predictor, dsstne_error *err);

#ifdef __cplusplus
}
#endif

#endif /* DSSTNE_H */
