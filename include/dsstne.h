/* dsstne.h: the C interface of dsstne, deep networks over very wide and very sparse data.
 *
 * Concepts
 *   A dataset is a sparse matrix in compressed row form. The library borrows it from the caller through the Arrow C
 *   Data Interface and never copies it. A model is a network, or another way to score items, with its weights. A
 *   trainer improves a model with the datasets that are bound to the model's layers. A predictor computes scores, top-k
 *   lists, neighbours and metrics with a model. A solver makes a model of a dataset without training.
 *
 * Errors
 *   Every function returns a dsstne_status and takes a pointer to a dsstne_error as its last parameter, which may be
 *   null. Exceptions are the two version queries and the two release callbacks.
 *   A function that fails changes nothing and writes no out-parameter except the error, unless its comment says
 *   otherwise. Only the content of output arrays (dst, ids, scores, per_row) is undefined after a failure.
 *
 * Conventions
 *   Handles are 64-bit numbers; 0 means none. With a closed or wrong handle a function fails with
 *   DSSTNE_INVALID_HANDLE; it never crashes.
 *   Strings passed in are UTF-8 and end with NUL; paths may contain any other bytes, as for open(). Options are JSON
 *   objects; null means all defaults. An unknown key is an error that names the nearest known key.
 *   Strings passed out go to (char *buf, size_t *len). On entry *len is the capacity; on return it is the size needed,
 *   with the NUL. A buffer that is too short, or null, is not an error: the function writes nothing to it; call again
 *   with *len bytes.
 *   Memory that is passed in still belongs to the caller. The library uses it during the call only, except for the
 *   arrays of a dataset. No function calls back into the caller, and the caller never has to free anything.
 *
 * Threads
 *   Any function may be called from any thread. Any number of calls may read a dataset or a model at the same time.
 *   Other calls that use the same handle at the same time fail with DSSTNE_BUSY, and so do calls that use a model while
 *   dsstne_trainer_run, dsstne_trainer_profile, dsstne_model_set_tensor or dsstne_model_set_rows changes it.
 *   dsstne_cancel, dsstne_trainer_progress, dsstne_solver_progress and the functions dsstne_*describe are always allowed,
 *   and calls of dsstne_predictor_ask beside one another.
 *   After a process has called any function, its forked children must not call any.
 *
 * Versions
 *   dsstne_abi_version() = major << 16 | minor. A minor version only adds functions, status codes or trailing fields of
 *   structs. Every struct begins with its size as the caller knows it (struct_size). This is ABI 1.9.
 *   1.1 adds dsstne_dataset_open_file, dsstne_model_copy and dsstne_predictor_plan.
 *   1.2 adds dsstne_trainer_profile, dsstne_model_get_attribute and dsstne_error.system_error, and takes paths that are
 *   not UTF-8. The JSON of dsstne_model_describe has the sizes of the attributes only.
 *   1.3 adds dsstne_solver_* and the precision "auto".
 *   1.4 adds more kinds of solvers, dsstne_solver_get_array and dsstne_solver_state.unfinished.
 *   1.5 adds dsstne_trainer_save, dsstne_trainer_settle, dsstne_trainer_resume and dsstne_trainer_fork.
 *   1.6 adds dsstne_predictor_serve, dsstne_predictor_ask, dsstne_dataset_save, dsstne_dataset_describe,
 *   dsstne_dataset_get_array, dsstne_dataset_get_rows, dsstne_dataset_product and dsstne_trainer_continue, and makes the
 *   number of columns of dsstne_dataset_open_file optional.
 *   1.7 adds dsstne_network_read; dsstne_model_create takes DSSTNE's network files.
 *   1.8 adds dsstne_trainer_set_row_weights, and dense matrices to dsstne_dataset_open.
 *   1.9 adds dsstne_dataset_index, and uint32 indices, float16 and integer values to dsstne_dataset_open;
 *   dsstne_model_get_rows and dsstne_model_set_rows; dsstne_dataset_read_text, dsstne_index_read and dsstne_index_write,
 *   dsstne_predictor_search and models of vectors; and datasets to dsstne_cancel.
 */
#ifndef DSSTNE_H
#define DSSTNE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DSSTNE_ABI_VERSION ((uint32_t)1 << 16 | 9)

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

/* The function fills it on failure. The caller sets struct_size (sizeof). message always ends with NUL. */
typedef struct dsstne_error {
  uint32_t struct_size;
  int32_t status;
  char message[1024];
  int32_t system_error; /* errno of the operating system's error that caused this one; 0 if there is none. Since 1.2 */
} dsstne_error;

typedef uint64_t dsstne_dataset;
typedef uint64_t dsstne_model;
typedef uint64_t dsstne_trainer;
typedef uint64_t dsstne_predictor;
typedef uint64_t dsstne_solver;

/* ---- library ---- */

/* Returns the ABI version of this library. May be called before anything else. */
uint32_t dsstne_abi_version(void);

/* Returns the version of dsstne, a static string. */
const char *dsstne_version(void);

/* Sets process-wide defaults; keys that are missing stay as they are. Options:
 *   "threads": number of CPU threads for later calls whose own options do not set it (or set 0); runs of trainers,
 *     predictors and solvers at the same time share them, with at least one each. 0 = as many as the cgroup and the
 *     affinity mask allow.
 *   "memory_limit": the most bytes that all objects of the process may have together in the host's memory, as
 *     "allocated" of dsstne_describe counts them; 0 = no limit. What exceeds it fails with DSSTNE_OUT_OF_MEMORY.
 *   "instruction_set": "auto"|"avx512bf16"|"avx512vnni"|"avx512"|"avx2"|"portable", the widest one to use; for
 *     comparisons. It changes the bits of results.
 *   "libraries": [folder, ...], where to look for NVIDIA's optional libraries that the system's loader does not find.
 *     The layout is that of NVIDIA's Python packages: nccl/lib/libnccl.so.2. Libraries that are loaded already stay.
 *     The environment variable DSSTNE_LIBRARIES names further folders, separated by colons; "none" turns the libraries
 *     off.
 *   "keep_devices": true (the default): the CUDA devices of a closed trainer or predictor stay open for the next one.
 *     Those of a predictor also keep the weights until memory is short or the model is closed. false: unused devices
 *     are closed, now and later. */
dsstne_status dsstne_configure(const char *options, dsstne_error *err);

/* Writes JSON with the keys version, abi, build, cpu, memory, backends, devices, extras and open. extras are the optional
 * libraries that CUDA devices use. Devices and extras that are not available are listed with the reason. The threads
 * and the instruction set are those that dsstne_configure has set. memory has the bytes in total, available, and
 * allocated by the library for its objects in the host's memory. open has the number of open handles of each kind, by
 * the keys datasets, models, trainers, predictors and solvers. */
dsstne_status dsstne_describe(char *buf, size_t *len, dsstne_error *err);

/* Asks the call that is running on this trainer, predictor, solver or dataset (since 1.9) to end at the next safe point
 * with DSSTNE_CANCELLED, and returns at once. Does nothing if no call is running. */
dsstne_status dsstne_cancel(uint64_t handle, dsstne_error *err);

/* Release callbacks for Arrow structs whose memory the caller keeps. They mark the struct and its children as released
 * and free nothing. */
void dsstne_release_array(struct ArrowArray *array);
void dsstne_release_schema(struct ArrowSchema *schema);

/* ---- dataset ---- */

typedef struct dsstne_dataset_info {
  uint32_t struct_size;
  uint32_t index_bits; /* 32 or 64: type of the column indices; 0: a dense matrix */
  uint32_t offset_bits; /* 32 or 64: type of the row offsets; 0: a dense matrix */
  uint32_t value_bits; /* 0 (all ones), 8, 16, 32 or 64: size of a value, which may be an integer */
  int64_t rows;
  int64_t columns;
  int64_t non_zeros; /* stored entries */
  int64_t bytes; /* size of the arrays */
  double minimum; /* smallest and largest stored value; 0 if there is none */
  double maximum;
  /* Addresses of the first offset, index and value in the caller's memory, or in the library's until
   * dsstne_dataset_close if a text was read; null for a file. */
  const void *offsets;
  const void *indices;
  const void *values; /* null if value_bits is 0, or if values of a sparse matrix are not float32 or float64 */
} dsstne_dataset_info;

/* Makes a dataset of an Arrow array. Its type is list<struct<index, value>>, or list<index> if every stored value is 1.
 * The list may be a list or large_list, the index int32 or int64, the value float32 or float64. Since 1.9 the index may
 * also be uint32, and the value float16 or an integer of 8 to 64 bits. Values are read as float32: an integer of more
 * than 24 bits is rounded. Since 1.8 a dense matrix is a fixed_size_list<value> with as many values as there are
 * columns; the value is float32, float64 or an integer of 8 to 64 bits, and 0 is absent, as if it was not stored. The
 * array may begin at any offset, and field names do not matter.
 * The library takes over both structs and releases them exactly once: on failure immediately, on success at
 * dsstne_dataset_close. It checks all entries before it returns; an error names row, column and value.
 * Since 1.9, "scale" and "offset" make values of integers when they are read: integer * scale + offset, in float64,
 * rounded to float32. They are finite, and scale is not 0; with values of another type they are an error. What is 0 in a
 * dense matrix is decided behind them.
 * Options: {"columns": n (required), "allow_not_finite": false, "threads": n, "scale": 1, "offset": 0}. */
dsstne_status dsstne_dataset_open(struct ArrowSchema *schema, struct ArrowArray *array, const char *options,
                                  dsstne_dataset *out, dsstne_error *err);

/* Makes a dataset of a file, which stays open; rows are read when they are needed. The file is an uncompressed Arrow IPC
 * file (Feather version 2) with any number of record batches and one column of a type that dsstne_dataset_open takes,
 * with values of float32 or float64; index may also be a dictionary of strings. The column must have no nulls. A column
 * of strings beside it is ignored. The checks and options are those of dsstne_dataset_open.
 * Without "columns" the file must be one of dsstne_dataset_save. Its record (docs/dataset-file.md) is read and not its
 * rows: a group of 16 rows is compared with its digest when one of its rows is read for the first time, and if it
 * differs, the call that reads it fails with DSSTNE_CORRUPT_FILE. Since 1.6.
 * A file that is damaged or has another format is DSSTNE_CORRUPT_FILE. The file must not change before
 * dsstne_dataset_close; a call that finds a change, such as a shortened file, fails with DSSTNE_INVALID_DATA.
 * Since 1.1. */
dsstne_status dsstne_dataset_open_file(const char *path, const char *options, dsstne_dataset *out, dsstne_error *err);

/* Makes a dataset of the product of two, such as users x items and items x features: row u is the sum of the rows of
 * right that row u of left names, times its values. Sums are computed in float64, in the order of the columns of left,
 * and rounded to float32. Rows are computed when they are read; this call computes all of them once, to count and check
 * their entries. Both datasets are in use until dsstne_dataset_close. Options: {"threads": n}. Since 1.6. */
dsstne_status dsstne_dataset_product(dsstne_dataset left, dsstne_dataset right, const char *options,
                                     dsstne_dataset *out, dsstne_error *err);

/* Makes a dataset of rows of another: row r is row index[r] of dataset, 0 <= r < n_rows. Rows may be named several times
 * and are not copied. The index is checked once and read again with each batch, so it stays where it is until
 * dsstne_dataset_close; if it names a row that is not there by then, the call that reads it fails with
 * DSSTNE_INVALID_DATA. Errors about entries name rows of dataset, which is in use until dsstne_dataset_close.
 * Options: {"type": "int64" ("int32", "uint32"), "threads": n}; type is that of the numbers. Since 1.9. */
dsstne_status dsstne_dataset_index(dsstne_dataset dataset, const void *index, int64_t n_rows, const char *options,
                                   dsstne_dataset *out, dsstne_error *err);
/* Reads the text data of Amazon's DSSTNE (docs/text.md): lines "sample TAB feature[,value]:feature[,value]:...". A path
 * is a file, or a folder that stands for its files in the order of their names; files may be compressed with gzip. Row
 * n of the dataset is the sample with the number n, and column n the feature. Labels are numbered as they appear in the
 * text, after those of an index: item_offsets and item_text are labels of n_items features as dsstne_dataset_save takes
 * names, row_offsets and row_text those of n_rows samples; null offsets stand for no index. Samples of an index that
 * the text lacks are empty rows. The arrays belong to the library; they have int32 offsets if there are fewer than 2^31
 * entries, int32 indices, and float32 values or none.
 * This function writes the handle to out at once, so that dsstne_cancel can end it from another thread; other calls
 * that use the handle before it returns fail with DSSTNE_BUSY. After a failure out is 0. Options:
 *   "values": "indicator" (the default): every value is 1; "analog": they are those of the text
 *   "default_value": with "analog", the value of a feature that has none; null (the default): its line is malformed
 *   "on_malformed": "error" (the default) names file, line and column; "skip" skips the line and counts it
 *   "on_repeated": "replace" (the default): the last line of a sample counts; "merge": all of them; "error"
 *   "new_features", "new_samples": what happens to labels that an index lacks: "drop" (the default), "add"
 *   "longest_line": most bytes of a line, at most 1,000,000,000 (the default)
 *   "memory_limit": most bytes for the dataset and its reading; 0 = no limit
 *   "threads": n
 * Since 1.9. */
dsstne_status dsstne_dataset_read_text(const char *const *paths, int64_t n_paths, const char *options, int64_t n_items,
                                       const int64_t *item_offsets, const void *item_text, int64_t n_rows,
                                       const int64_t *row_offsets, const void *row_text, dsstne_dataset *out,
                                       dsstne_error *err);

/* Reads an index file of Amazon's DSSTNE: lines "label TAB number", in any order. The numbers are 0, 1, 2 and so on,
 * each once. On entry offsets has room for *n + 1 numbers and text for *len bytes; on return *n is the number of labels
 * and *len the size of their text. If there is too little room, the function writes neither array; call again.
 * Label i is the bytes text[offsets[i]] .. text[offsets[i + 1] - 1]. Since 1.9. */
dsstne_status dsstne_index_read(const char *path, int64_t *n, int64_t *offsets, size_t *len, void *text,
                                dsstne_error *err);

/* Writes an index file of n labels, which dsstne_index_read reads. It is safe against crashes like
 * dsstne_dataset_save. Since 1.9. */
dsstne_status dsstne_index_write(const char *path, int64_t n, const int64_t *offsets, const void *text,
                                 dsstne_error *err);

/* Fills info, whose struct_size the caller sets. */
dsstne_status dsstne_dataset_get_info(dsstne_dataset dataset, dsstne_dataset_info *info, dsstne_error *err);

/* Writes the rows to a file that dsstne_dataset_open_file opens without "columns": duplicates summed, zeros left out,
 * values rounded to float32. It is safe against crashes: the old file stays complete until the new one is on the disk.
 * Names are UTF-8: name n is the bytes text[offsets[n]] .. text[offsets[n + 1] - 1]. item_offsets has one more number
 * than the dataset has columns, row_offsets one more than it has rows; null stands for no names. A value that is not
 * finite is DSSTNE_INVALID_DATA. Options: {"threads": n}. Since 1.6. */
dsstne_status dsstne_dataset_save(dsstne_dataset dataset, const char *path, const char *options,
                                  const int64_t *item_offsets, const void *item_text, const int64_t *row_offsets,
                                  const void *row_text, dsstne_error *err);

/* Writes JSON: {"sha256": text, "arrays": {name: bytes}}. sha256 identifies the content of a file that was opened
 * without "columns", and is null for other datasets. arrays are those of dsstne_dataset_get_array. Since 1.6.
 * Since 1.9, a dataset of dsstne_dataset_read_text also has "text", what the reading found: {"files": n, "bytes": n,
 * "lines": n, "samples": n, "repeated_samples": n, "new_samples": n, "new_features": n, "unknown_samples": n,
 * "unknown_features": n, "malformed": {kind: {"lines": n, "first": {"file": text, "line": n, "column": n}}}}. */
dsstne_status dsstne_dataset_describe(dsstne_dataset dataset, char *buf, size_t *len, dsstne_error *err);

/* Copies an array; bytes must be its size. "digest" (32 characters) identifies the rows of any dataset, however they are
 * stored; finding it reads all of them, unless a file has it. The others are those of a file that was opened without
 * "columns": "column_counts" (I64 [columns]) has the number of stored entries of each column; "items" and "rows", if
 * there are names, have the offsets of dsstne_dataset_save (I64) and behind them the text. Since 1.6. A dataset of
 * dsstne_dataset_read_text has "items" and "rows". */
dsstne_status dsstne_dataset_get_array(dsstne_dataset dataset, const char *name, void *dst, size_t bytes,
                                       dsstne_error *err);

/* Copies n_rows rows of any dataset: columns ascending, duplicates summed, zeros left out. Entries offsets[i] to
 * offsets[i + 1] - 1 of indices and values are those of rows[i]; offsets has n_rows + 1 numbers. capacity is the length
 * of indices and of values. If indices is null, it only writes offsets, as they are at most. Since 1.6. */
dsstne_status dsstne_dataset_get_rows(dsstne_dataset dataset, const int64_t *rows, int64_t n_rows, int64_t *offsets,
                                      int32_t *indices, float *values, int64_t capacity, dsstne_error *err);

/* Fails with DSSTNE_BUSY while the dataset is bound to an open trainer, predictor or solver, or part of a product. */
dsstne_status dsstne_dataset_close(dsstne_dataset dataset, dsstne_error *err);

/* ---- definitions of networks ---- */

/* Reads the definition of a network (docs/network.md), or a network file of Amazon's DSSTNE (docs/dsstne.md), and
 * writes JSON:
 *   "dialect": "native"|"dsstne"
 *   "network": the complete definition, in dsstne's own dialect; dsstne_model_create takes it
 *   "training": {"shuffle": bool, "schedule": {...}}, what a file of DSSTNE says about training, as options of
 *     dsstne_trainer_open; empty for a native definition
 *   "datasets": {"layer": "name", ...}, the names of the data that a file of DSSTNE gives to its layers
 *   "words": {"kind": "FeedForward"|"AutoEncoder", "loss": "..."}, words of a file of DSSTNE that make no difference
 *     here: of its words for one loss, the one that it has; empty for a native definition. Since 1.9.
 * Options: {"dialect": "auto"|"native"|"dsstne"}. With "auto" the keys that only one dialect has decide; a definition
 * with keys of both is an error, and one that both could read is native. Since 1.7. */
dsstne_status dsstne_network_read(const char *definition, const char *options, char *buf, size_t *len,
                                  dsstne_error *err);

/* ---- model ---- */

/* Makes a model from the definition of a network (JSON, see docs/network.md), with initial weights. A network file of
 * DSSTNE is one too, but what it says about training is only in the JSON of dsstne_network_read. Options:
 *   "seed": 0, "threads": n
 *   "sizes": {"layer": n, ...} replaces "auto" in the definition. "*input" names the only input layer, "*output" the
 *   only output layer.
 *   "memory_limit": bytes. Weights that exceed it or the available memory are an error before anything is allocated.
 *   "step": 0, the number of training steps to record, for weights that dsstne_model_set_tensor sets later.
 *
 * The definition may also be that of a model which scores by weights between items, x W + b, and cannot be trained:
 *   {"kind": "item_weights", "items": n, "weight": "dense"|"csr"|"none", "entries": n, "bias": false}
 * entries is the number of stored entries, for "csr" only. The model has the layers "input" and "output" of n items.
 * Its tensors begin as zeros: "weight" (F32 [n, n]), or for "csr" "weight.offsets" (I64 [n + 1]), "weight.indices"
 * (I32, ascending in each row) and "weight.values" (F32), and with bias "bias" (F32 [n, 1]). The library checks a
 * stored weight as a whole before it uses or saves it; an error is DSSTNE_INVALID_DATA.
 *
 * Or that of a model of factors, which a solver makes (docs/solvers.md), with the layers "input", "user" and "output":
 *   {"kind": "factors", "items": n, "factors": k, "values": "weights"|"ratings", "alpha": 1, "unobserved_weight": 0.02,
 *    "regularization": 0.003, "nu": 1}
 * Its tensors are "factors" (F32 [n, k]), and "squares" (F32 [k, 1]) or, for "ratings", "bias" (F32 [n, 1]).
 *
 * Or vectors to be searched by dsstne_predictor_search; the score of an item is its dot product, or cosine, with a query:
 *   {"kind": "vectors", "items": n, "size": d, "metric": "dot"|"cosine", "storage": "float32"|"float16"|"bfloat16"}
 * It has the input "query" of d columns, and the tensor "vectors" (F32, F16 or BF16 [n, d]). Since 1.9. */
dsstne_status dsstne_model_create(const char *definition, const char *options, dsstne_model *out, dsstne_error *err);

/* Reads a model file and checks all digests and that all weights are finite. Options: {"threads": n}. */
dsstne_status dsstne_model_load(const char *path, const char *options, dsstne_model *out, dsstne_error *err);

/* Writes a model file. It is safe against crashes: the old file stays complete until the new one is on the disk.
 * Options: {"attributes": {"key": "text", ...}} replaces the model's attributes, which the file stores and
 * dsstne_model_get_attribute returns, at most 65,000. Without the key they stay as they are. */
dsstne_status dsstne_model_save(dsstne_model model, const char *path, const char *options, dsstne_error *err);

/* Writes JSON: {"network": definition, "definition": {...}, "layers": [{"name", "kind", "size"}], "parameters": n,
 * "bytes": n, "step": n, "attribute_bytes": {"key": n}, "tensors": [{"name", "dtype", "shape", "layer", "role"}]}.
 * network is null if the model is not a network. definition is what dsstne_model_create takes to make a model of the
 * same kind and shape. role is "weight" (trained), "fixed" (given) or "measured" (computed from the data of training). */
dsstne_status dsstne_model_describe(dsstne_model model, char *buf, size_t *len, dsstne_error *err);

/* Writes the text of an attribute, which may contain NUL characters, and a NUL. Since 1.2. */
dsstne_status dsstne_model_get_attribute(dsstne_model model, const char *name, char *buf, size_t *len,
                                         dsstne_error *err);

/* Copies a whole tensor out or in; bytes must be the size of the tensor. Its dtype is "F32", "U8", "I64" or "I32", or
 * for vectors "F16" (IEEE 754) or "BF16" (the upper half of a float), as dsstne_model_describe reports. New values must
 * be finite. Except for the names of items, the tensor must exist.
 * To name the items, set "items.bytes" (U8, any size) and then "items.offsets" (I64, one more than items), even if the
 * model has no such tensors yet; docs/model-file.md describes them. Threads that name the items of one model must take
 * turns. */
dsstne_status dsstne_model_get_tensor(dsstne_model model, const char *name, void *dst, size_t bytes, dsstne_error *err);
dsstne_status dsstne_model_set_tensor(dsstne_model model, const char *name, const void *src, size_t bytes,
                                      dsstne_error *err);

/* Copies n rows of a tensor out or in, from row first on; bytes must be the size of these rows. A row is all that has
 * the same first index. Otherwise the rules are those of dsstne_model_get_tensor and dsstne_model_set_tensor, but the
 * names of items cannot be set by rows. Large weights can pass in blocks, without a second copy in memory. Since 1.9. */
dsstne_status dsstne_model_get_rows(dsstne_model model, const char *name, int64_t first, int64_t n, void *dst,
                                    size_t bytes, dsstne_error *err);
dsstne_status dsstne_model_set_rows(dsstne_model model, const char *name, int64_t first, int64_t n, const void *src,
                                    size_t bytes, dsstne_error *err);

/* Makes a copy of a model: network, weights, step, attributes and names of items. This takes hardly any time and
 * memory, because both models share the tensors until one of them is changed. dsstne_model_set_tensor and
 * dsstne_model_set_rows then copy the tensor that they set, and dsstne_trainer_run copies all shared weights before its
 * first step; the other model stays as it is. Until then dsstne_trainer_plan lists these weights as parts ("a private
 * copy of <tensor>"), and a run fails with DSSTNE_OUT_OF_MEMORY if they do not fit. The models may be used at the same
 * time and closed in any order. Fails with DSSTNE_BUSY while the model is being trained or changed. Since 1.1. */
dsstne_status dsstne_model_copy(dsstne_model model, dsstne_model *out, dsstne_error *err);

/* Fails with DSSTNE_BUSY while a trainer or predictor uses the model. Shared memory is freed with the last copy. */
dsstne_status dsstne_model_close(dsstne_model model, dsstne_error *err);

/* ---- trainer ---- */

typedef struct dsstne_progress {
  uint32_t struct_size;
  uint32_t running; /* 1 while dsstne_trainer_run runs */
  uint64_t step; /* steps done */
  uint64_t steps_per_epoch;
  uint64_t epoch; /* epochs done */
  uint64_t examples; /* examples seen in the current epoch */
  double loss; /* mean over the examples of the current epoch so far (NaN before the first step) */
  double epoch_loss; /* loss of the last complete epoch (NaN before) */
  double learning_rate; /* that of the last step */
  double examples_per_second; /* of the current run, or of the last one if none is running */
  double seconds; /* the same */
} dsstne_progress;

/* Options (docs/training.md): {"optimizer": {"kind": "adam", "learning_rate": 0.001, ...}, "schedule": {...},
 * "locked": [], "batch_size": 512, "seed": 0, "shuffle": true, "devices": "auto", "parallel": "auto",
 * "precision": "float32", "threads": n, "memory_limit": bytes, "checkpoints": false, "other_data": false}. A model that
 * is not a network is DSSTNE_INVALID_ARGUMENT. "locked" names layers and tensors that training leaves as they are; an
 * unknown name is DSSTNE_NOT_FOUND. "checkpoints": true plans the memory that dsstne_trainer_save needs to write beside
 * training; where it does not fit, the operations of the plan say so. "other_data": true lets dsstne_trainer_resume go
 * on with other rows. */
dsstne_status dsstne_trainer_open(dsstne_model model, const char *options, dsstne_trainer *out, dsstne_error *err);

/* Binds a dataset to an input or output layer. All bound datasets must have the same number of rows. Not allowed while
 * the trainer runs. */
dsstne_status dsstne_trainer_bind(dsstne_trainer trainer, const char *layer, dsstne_dataset dataset, dsstne_error *err);

/* Gives each row of the dataset that is bound to an output layer a weight, which multiplies the row's loss and its
 * gradient; without a call all are 1. Weights are copied; they are finite, at least 0, and not all 0. Not allowed once
 * the trainer has run. Since 1.8. */
dsstne_status dsstne_trainer_set_row_weights(dsstne_trainer trainer, const char *layer, const float *weights,
                                             int64_t n_rows, dsstne_error *err);

/* Writes the plan of a run as JSON and allocates nothing: {"parts": [{"name", "of", "bytes", "device", "held"}],
 * "bytes": n, "available": n, "limit": n, "operations": ["text", ...], "parallel": "model", "precision": "float32",
 * "devices": [...]}.
 *   of: the tensor, layer or dataset that the part belongs to; missing if none
 *   held: whether the part is already in memory
 *   available: bytes of memory that are free, -1 if unknown
 *   limit: memory_limit; missing if not given
 *   parallel: how several devices train, "model" or "data"; missing for one
 *   precision: that of products; for the option "auto", the one that it stands for
 *   devices: those that the run uses, as in dsstne_describe */
dsstne_status dsstne_trainer_plan(dsstne_trainer trainer, char *buf, size_t *len, dsstne_error *err);

/* Trains until max_steps more steps are done (0 = no limit) or max_seconds have passed (0 = no limit). At least one
 * limit must be given. At the end, rows of weights that are updated lazily (docs/training.md) are brought up to date;
 * max_seconds does not cover that.
 * progress may be null. After DSSTNE_CANCELLED and DSSTNE_NOT_FINITE the model is usable and progress is written. */
dsstne_status dsstne_trainer_run(dsstne_trainer trainer, uint64_t max_steps, double max_seconds,
                                 dsstne_progress *progress, dsstne_error *err);

/* Trains for a number of steps, as dsstne_trainer_run does, and measures their parts. Writes JSON: {"steps": n,
 * "milliseconds": ms, "operations": [{"device", "operation", "milliseconds", "share", "multiply_adds", "bytes",
 * "gflop_per_second", "gigabytes_per_second", "limit", "limit_share"}], "outside": {"batch", "waiting", "settling"},
 * "end_of_run": ms, "limits": [{"device", "precision", "gflop_per_second", "float32_gflop_per_second",
 * "read_gigabytes_per_second", "update_gigabytes_per_second"}]}. docs/profile.md explains the keys. Values that are not
 * known are null.
 * A buffer that is too short, or null, is not an error: call again with steps = 0, which writes the last profile of
 * this trainer and does not train (DSSTNE_INVALID_STATE if there is none). The first call measures the limits of the
 * devices; on the CPU this takes some tenths of a second and a block of memory that memory_limit does not include. The
 * other errors are those of dsstne_trainer_run. Since 1.2. */
dsstne_status dsstne_trainer_profile(dsstne_trainer trainer, uint64_t steps, char *buf, size_t *len, dsstne_error *err);

/* Writes the progress of the current or last run; may be called during dsstne_trainer_run. */
dsstne_status dsstne_trainer_progress(dsstne_trainer trainer, dsstne_progress *progress, dsstne_error *err);

/* Writes a checkpoint: a model file that also has the state of the optimizer and the place in the data, from which
 * dsstne_trainer_resume goes on. Options: {"attributes": {"key": "text", ...}, "background": false}. With "background"
 * the function copies everything and returns, and the file is written while the trainer runs on; the next
 * dsstne_trainer_save, dsstne_trainer_settle or dsstne_trainer_close waits for it and returns its error. If there is no
 * memory for the copies, it is written at once. best, which may be 0, is a model of the same network whose weights are
 * kept in the file, such as the best so far. A file at the path stays whole until the new one is on the disk. Since
 * 1.5. */
dsstne_status dsstne_trainer_save(dsstne_trainer trainer, const char *path, const char *options, dsstne_model best,
                                  dsstne_error *err);

/* Waits for the checkpoint that is being written, if there is one, and returns its error. Since 1.5. */
dsstne_status dsstne_trainer_settle(dsstne_trainer trainer, dsstne_error *err);

/* Makes a trainer that has its datasets and has not run go on from a checkpoint, and its model that of the checkpoint,
 * with its attributes. best gets a handle of a model with the best weights, or 0 if the file has none. A checkpoint of
 * another network, dataset, optimizer, batch_size, seed, shuffle or precision is DSSTNE_INVALID_ARGUMENT; the learning
 * rate and its schedule are those of the trainer. A damaged file is DSSTNE_CORRUPT_FILE and changes nothing. The next
 * steps have the bits that those of the saved trainer had, with the same number of devices.
 * With the option "other_data", only the network and the kind of the optimizer must be those of the checkpoint, and an
 * epoch of the trainer's rows begins, as after dsstne_trainer_continue. Since 1.5. */
dsstne_status dsstne_trainer_resume(dsstne_trainer trainer, const char *path, dsstne_model *best, dsstne_error *err);

/* Makes a trainer that goes on from where this one is, with the same datasets and a copy of the model, which it writes
 * to model. The two share memory until one of them runs. Options are those of dsstne_trainer_open; batch_size, shuffle,
 * the kind of the optimizer and what is locked cannot be changed. Since 1.5. */
dsstne_status dsstne_trainer_fork(dsstne_trainer trainer, const char *options, dsstne_model *model, dsstne_trainer *out,
                                  dsstne_error *err);

/* Makes a trainer that has not run go on with its own data from where another trainer of the same network is: with the
 * state of the same kind of optimizer and the number of the next step, with which an epoch begins. The two share memory
 * until one of them runs or is closed. Datasets may be bound before or after; other options than the kind of the
 * optimizer may differ. Since 1.6. */
dsstne_status dsstne_trainer_continue(dsstne_trainer trainer, dsstne_trainer other, dsstne_error *err);

dsstne_status dsstne_trainer_close(dsstne_trainer trainer, dsstne_error *err);

/* ---- predictor ---- */

/* Options, as for a trainer: {"batch_size": 512, "devices": "auto", "precision": "float32", "threads": n,
 * "memory_limit": bytes}. precision concerns the products of dense hidden layers. */
dsstne_status dsstne_predictor_open(dsstne_model model, const char *options, dsstne_predictor *out, dsstne_error *err);

/* Binds a dataset to an input layer. All bound datasets must have the same number of rows. */
dsstne_status dsstne_predictor_bind(dsstne_predictor predictor, const char *layer, dsstne_dataset dataset,
                                    dsstne_error *err);

/* Writes the plan of recommending k items, in the form of dsstne_trainer_plan; allocates nothing. An input without a
 * bound dataset counts as batches without entries. The part "low-precision weights" is a copy of the output weights that
 * the predictor makes after several batches, if memory_limit allows: of 8 bits on CPUs with AVX512_VNNI, for batches of up
 * to 64 rows, and of 16 bits on a CUDA device.
 * Options: {"k": 10, "layer": "name"}. Since 1.1. */
dsstne_status dsstne_predictor_plan(dsstne_predictor predictor, const char *options, char *buf, size_t *len,
                                    dsstne_error *err);

/* Parameters that the calls below have in common:
 *   rows (n_rows of them): row numbers of the bound datasets, in any order. null = all; n_rows must then be their
 *     number.
 *   exclude: a dataset; items stored in its row are not recommended for that row. 0 = none.
 *   items (n_items of them, in any order): an allow-list, or a deny-list with "items": "deny"; null = every item.
 *   layer: the output layer whose items are ranked; may be missing if there is only one.
 *   ids, scores: [rows or queries, k], best first, ties to the lower item; -1 and -inf where no item is left. */

/* Computes dense activations of a hidden layer, or scores (logits) of an output layer: dst[r * stride + unit], stride
 * in floats. dst holds n_rows * stride floats. layer null = the output layer. */
dsstne_status dsstne_predictor_predict(dsstne_predictor predictor, const char *layer, const int64_t *rows,
                                       int64_t n_rows, float *dst, int64_t stride, dsstne_error *err);

/* Finds the k best items for each row. Options: {"items": "allow"|"deny", "layer": "name"}. */
dsstne_status dsstne_predictor_recommend(dsstne_predictor predictor, const int64_t *rows, int64_t n_rows,
                                         dsstne_dataset exclude, const int32_t *items, int64_t n_items, int64_t k,
                                         const char *options, int32_t *ids, float *scores, dsstne_error *err);

/* Finds the k nearest rows of a weight for each query, which is a row number of the same weight. Without include_self
 * the query's own row is left out. tensor null = the weight of the output layer, whose rows are items. The metric
 * "entry" is for weights between items: it ranks the entries of the query's row instead. Options:
 * {"metric": "cosine"|"dot"|"entry", "items": "allow"|"deny", "include_self": false}. */
dsstne_status dsstne_predictor_neighbors(dsstne_predictor predictor, const char *tensor, const int32_t *queries,
                                         int64_t n_queries, const int32_t *items, int64_t n_items, int64_t k,
                                         const char *options, int32_t *ids, float *scores, dsstne_error *err);

/* Finds the k nearest rows of a weight for each query, which is a vector: queries is [n_queries, n_columns], finite, and
 * n_columns those of the weight. tensor null = the weight of the output layer, such as the vectors of a model of
 * vectors. Options: {"metric": "cosine"|"dot", "items": "allow"|"deny"}. Since 1.9. */
dsstne_status dsstne_predictor_search(dsstne_predictor predictor, const char *tensor, const float *queries,
                                      int64_t n_queries, int64_t n_columns, const int32_t *items, int64_t n_items,
                                      int64_t k, const char *options, int32_t *ids, float *scores, dsstne_error *err);

/* Ranks the items for each row and compares the ranking with the items stored in targets. docs/metrics.md defines the
 * metrics; their k may exceed the number of items. Options: {"metrics": ["recall@20", ...], "items": "allow"|"deny",
 * "layer": "name"}. Writes JSON: {"rows": rows with targets, "metrics": {name: mean, null if no row has targets}}.
 * per_row, if not null, receives n_rows * metrics doubles: NaN for rows without targets, and for coverage. */
dsstne_status dsstne_predictor_evaluate(dsstne_predictor predictor, dsstne_dataset targets, dsstne_dataset exclude,
                                        const int64_t *rows, int64_t n_rows, const int32_t *items, int64_t n_items,
                                        const char *options, char *buf, size_t *len, double *per_row,
                                        dsstne_error *err);

/* Makes a predictor without datasets serve: from now on it answers dsstne_predictor_ask and nothing else. Everything is
 * planned and allocated here, for lists of up to k items and batches of up to batch_size rows. items and n_items are as
 * above. Options: {"items": "allow"|"deny", "layer": "name", "exclude_seen": false, "wait": seconds}. With
 * exclude_seen, items stored in a row of the first input are left out of its list. wait is how long a batch that is not
 * full waits for rows of other calls; 0, the default, is not at all. After a failure the predictor can only be closed.
 * Since 1.6. */
dsstne_status dsstne_predictor_serve(dsstne_predictor predictor, const int32_t *items, int64_t n_items, int64_t k,
                                     const char *options, dsstne_error *err);

/* Finds the k best items of rows that come with the call. Any number of threads may call this for the same predictor at
 * the same time: rows that arrive while others are computed form the next batch, and whoever shares a batch changes no
 * bit of an answer.
 * inputs are n_inputs matrices with the same rows, one for each input layer in the order of the model's definition.
 * struct_size is the distance from one to the next. The caller fills rows, columns, non_zeros (the length of indices and
 * values), the three numbers of bits, offsets [rows + 1], indices and values (null with value_bits 0); the other fields
 * are not read. Each row is checked as it is copied. exclude, if not null, has the items to leave out instead of what
 * exclude_seen says. Since 1.6. */
dsstne_status dsstne_predictor_ask(dsstne_predictor predictor, const dsstne_dataset_info *inputs, int64_t n_inputs,
                                   const dsstne_dataset_info *exclude, int64_t k, int32_t *ids, float *scores,
                                   dsstne_error *err);
dsstne_status dsstne_predictor_close(dsstne_predictor predictor, dsstne_error *err);

/* ---- solver: models that are computed instead of trained. Since 1.3 ---- */

typedef struct dsstne_solver_state {
  uint32_t struct_size;
  uint32_t running; /* 1 while dsstne_solver_run runs */
  uint64_t done; /* steps done */
  uint64_t steps; /* of the whole computation; 0 before the first run */
  double seconds; /* of all runs */
  uint64_t unfinished; /* systems of equations that were not solved to the tolerance */
} dsstne_solver_state;

/* Options: {"kind": method, "devices": "auto", "threads": n, "memory_limit": bytes} and the parameters of the method
 * (docs/solvers.md):
 *   "item_knn": "k": 100, "metric": "cosine"|"jaccard"|"dice"|"dot", "shrink": 0
 *   "rp3beta": "k": 100, "alpha": 1, "beta": 0.5
 *   "linear": "per_item": 128, "operator": false, "regularization": 18, "regularization_exponent": 0.25,
 *     "dropout": 0.1, "row_exponent": 0.5, "item_exponent": 0.2, "output_exponent": 0.2, "tolerance": 0.001,
 *     "probes": 256, "seed": 0
 *   "linear_restricted": "per_item": 128, "neighbors": 512, and the parameters from "regularization" to
 *     "output_exponent" of "linear"
 *   "gram": the same without "per_item", "operator", "tolerance", "probes" and "seed"; the model's weight is the matrix
 *     that "linear" inverts
 *   "svd", which makes arrays instead of a model: "k": n, "oversampling": 0 (1.5 k), "iterations": 1, "seed": 0
 *   "spectral": those of "svd" and "row_exponent": 1, "first_in": 0.5, "first_out": 0.5, "low_pass": 0.3,
 *     "low_pass_exponent": 0.5, "sharpening": 0, "output_exponent": 0, "balanced": false
 *   "ials": "factors": 128, "alpha": 1, "unobserved_weight": 0.02, "regularization": 0.003, "nu": 1, "epochs": 16,
 *     "seed": 0
 *   "explicit": "factors": 128, "regularization": 0.003, "nu": 1, "epochs": 16, "seed": 0
 * The computation runs on the CPU, whatever the devices; a named device that is not available is an error. */
dsstne_status dsstne_solver_open(const char *options, dsstne_solver *out, dsstne_error *err);

/* Gives the solver its dataset, the interaction matrix. layer is "input". */
dsstne_status dsstne_solver_bind(dsstne_solver solver, const char *layer, dsstne_dataset dataset, dsstne_error *err);

/* Writes the plan of a run as JSON, in the form of dsstne_trainer_plan; allocates nothing. Before the first run only. */
dsstne_status dsstne_solver_plan(dsstne_solver solver, char *buf, size_t *len, dsstne_error *err);

/* Does all remaining steps, or the next and those that begin within max_seconds (0 = no limit). state may be null. After
 * DSSTNE_CANCELLED, or when max_seconds have passed, another run goes on where this one has ended. */
dsstne_status dsstne_solver_run(dsstne_solver solver, double max_seconds, dsstne_solver_state *state,
                                dsstne_error *err);

/* Writes the progress of the current or last run; may be called during dsstne_solver_run. */
dsstne_status dsstne_solver_progress(dsstne_solver solver, dsstne_solver_state *state, dsstne_error *err);

/* Makes the model when all steps are done, once; it belongs to the caller. Before that, DSSTNE_INVALID_STATE. */
dsstne_status dsstne_model_from_solver(dsstne_solver solver, dsstne_model *out, dsstne_error *err);

/* Copies an array of the result when all steps are done; bytes must be its size. "svd" has "u" (F32 [rows, k]), "s" (F32
 * [k]) and "vt" (F32 [k, columns]), and no model. */
dsstne_status dsstne_solver_get_array(dsstne_solver solver, const char *name, void *dst, size_t bytes,
                                      dsstne_error *err);
dsstne_status dsstne_solver_close(dsstne_solver solver, dsstne_error *err);

#ifdef __cplusplus
}
#endif

#endif /* DSSTNE_H */
