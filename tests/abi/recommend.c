/* A program in C that knows dsstne.h and nothing else: it makes a matrix of users who like items of their own block,
 * trains a model, and checks that the recommendations stay in the block. Exit status 0 if all is well. */
#include <dsstne.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 4, WIDTH = 10, ITEMS = BLOCKS * WIDTH, USERS = 200, LIKES = 6, K = 3 };

/* Ends the program at the first thing that is not as it should be. */
#define MUST(condition, ...)                  \
  do {                                        \
    if (!(condition)) {                       \
      fprintf(stderr, "line %d: ", __LINE__); \
      fprintf(stderr, __VA_ARGS__);           \
      fprintf(stderr, "\n");                  \
      exit(1);                                \
    }                                         \
  } while (0)

static dsstne_error error = {.struct_size = sizeof error};

static void ok(dsstne_status status, const char *call) { MUST(status == DSSTNE_OK, "%s: %s", call, error.message); }

/* The matrix: user u likes LIKES of the WIDTH items of block u % BLOCKS. Rows are 32-bit offsets, every value is 1. */
static int32_t offsets[USERS + 1], items[USERS * LIKES];

static void make_matrix(void) {
  uint32_t state = 1;
  for (int u = 0; u < USERS; u++) {
    int n = 0;
    for (int i = 0; i < WIDTH; i++) { /* takes each item with the chance that makes LIKES in the end */
      state = state * 1664525u + 1013904223u;
      if ((int)(state >> 16) % (WIDTH - i) < LIKES - n) items[u * LIKES + n++] = u % BLOCKS * WIDTH + i;
    }
    offsets[u + 1] = offsets[u] + n;
  }
}

/* Hands the matrix over as list<int32>. The array is moved, but the children and lists of buffers that it points to are
 * static like the numbers themselves, because they belong to it until it is released. */
static dsstne_dataset open_matrix(void) {
  static const void *list_buffers[2] = {NULL, offsets}, *index_buffers[2] = {NULL, items};
  static struct ArrowArray index = {.length = USERS * LIKES, .n_buffers = 2, .buffers = index_buffers};
  static struct ArrowArray *children[1] = {&index};
  struct ArrowArray list = {
      .length = USERS, .n_buffers = 2, .buffers = list_buffers, .n_children = 1, .children = children};
  index.release = list.release = dsstne_release_array;

  struct ArrowSchema index_type = {.format = "i", .release = dsstne_release_schema}, *types[1] = {&index_type};
  struct ArrowSchema list_type = {.format = "+l", .n_children = 1, .children = types, .release = dsstne_release_schema};

  char options[64];
  snprintf(options, sizeof options, "{\"columns\": %d}", ITEMS);
  dsstne_dataset dataset = 0;
  ok(dsstne_dataset_open(&list_type, &list, options, &dataset, &error), "dataset_open");
  MUST(list.release == NULL && list_type.release == NULL, "the structs were not moved from");
  return dataset;
}

static void check_info(dsstne_dataset dataset) {
  dsstne_dataset_info info = {.struct_size = sizeof info};
  ok(dsstne_dataset_get_info(dataset, &info, &error), "dataset_get_info");
  MUST(info.rows == USERS && info.columns == ITEMS && info.non_zeros == USERS * LIKES, "wrong shape");
  MUST(info.offset_bits == 32 && info.index_bits == 32 && info.value_bits == 0, "wrong types");
  MUST(info.offsets == offsets && info.indices == items, "the matrix was copied");
}

static void train(dsstne_model model, dsstne_dataset dataset) {
  dsstne_trainer trainer = 0;
  const char *options =
      "{\"optimizer\": {\"kind\": \"adam\", \"learning_rate\": 0.01}, \"batch_size\": 50, \"seed\": 7, \"devices\": "
      "\"cpu\"}";
  ok(dsstne_trainer_open(model, options, &trainer, &error), "trainer_open");
  ok(dsstne_trainer_bind(trainer, "input", dataset, &error), "trainer_bind");
  ok(dsstne_trainer_bind(trainer, "output", dataset, &error), "trainer_bind");
  char plan[20000];
  size_t length = sizeof plan;
  ok(dsstne_trainer_plan(trainer, plan, &length, &error), "trainer_plan");
  MUST(length <= sizeof plan && strstr(plan, "\"parts\"") != NULL, "no plan");

  dsstne_progress first = {.struct_size = sizeof first}, last = {.struct_size = sizeof last};
  ok(dsstne_trainer_run(trainer, 4, 0, &first, &error), "trainer_run");
  MUST(first.step == 4 && first.steps_per_epoch == 4 && first.epoch == 1, "wrong progress");
  ok(dsstne_trainer_run(trainer, 400, 0, &last, &error), "trainer_run");
  MUST(last.step == 404 && !last.running, "wrong progress");
  MUST(isfinite(last.epoch_loss) && last.epoch_loss < first.epoch_loss, "the loss went from %g to %g", first.epoch_loss,
       last.epoch_loss);
  MUST(dsstne_model_close(model, &error) == DSSTNE_BUSY, "a model in use was closed");
  ok(dsstne_trainer_close(trainer, &error), "trainer_close");
}

static void recommend(dsstne_model model, dsstne_dataset dataset) {
  static int32_t ids[USERS * K];
  static float scores[USERS * K];
  dsstne_predictor predictor = 0;
  ok(dsstne_predictor_open(model, NULL, &predictor, &error), "predictor_open");
  ok(dsstne_predictor_bind(predictor, "input", dataset, &error), "predictor_bind");

  /* Each user has LIKES of WIDTH items, so at least K are new to her and of her block. */
  ok(dsstne_predictor_recommend(predictor, NULL, USERS, dataset, NULL, 0, K, NULL, ids, scores, &error), "recommend");
  int inside = 0;
  for (int u = 0; u < USERS; u++) {
    for (int i = 0; i < K; i++) {
      int32_t id = ids[u * K + i];
      MUST(id >= 0 && id < ITEMS, "user %d got item %d", u, id);
      MUST(i == 0 || scores[u * K + i] <= scores[u * K + i - 1], "user %d: scores rise", u);
      for (int j = 0; j < LIKES; j++) MUST(items[u * LIKES + j] != id, "user %d has item %d already", u, id);
      inside += id / WIDTH == u % BLOCKS;
    }
  }
  MUST(inside >= USERS * K * 95 / 100, "only %d of %d recommendations are of the user's block", inside, USERS * K);

  static int32_t queries[ITEMS], near[ITEMS * K];
  static float similar[ITEMS * K];
  for (int i = 0; i < ITEMS; i++) queries[i] = i;
  ok(dsstne_predictor_neighbors(predictor, NULL, queries, ITEMS, NULL, 0, K, NULL, near, similar, &error), "neighbors");
  inside = 0;
  for (int i = 0; i < ITEMS * K; i++) {
    MUST(near[i] != queries[i / K], "item %d is its own neighbour", near[i]);
    inside += near[i] / WIDTH == queries[i / K] / WIDTH;
  }
  MUST(inside >= ITEMS * K * 80 / 100, "only %d of %d neighbours are of the item's block", inside, ITEMS * K);

  char result[500];
  size_t length = sizeof result;
  ok(dsstne_predictor_evaluate(predictor, dataset, 0, NULL, USERS, NULL, 0, "{\"metrics\": [\"precision@3\"]}", result,
                               &length, NULL, &error),
     "evaluate");
  const char *value = strstr(result, "\"precision@3\":");
  MUST(value != NULL && atof(value + strlen("\"precision@3\":")) > 0.9, "evaluate says %s", result);
  ok(dsstne_predictor_close(predictor, &error), "predictor_close");
}

int main(void) {
  MUST(dsstne_abi_version() == DSSTNE_ABI_VERSION, "library and header differ");
  make_matrix();
  dsstne_dataset dataset = open_matrix();
  check_info(dataset);

  const char *network =
      "{\"name\": \"blocks\", \"layers\": ["
      "{\"name\": \"input\", \"kind\": \"input\", \"size\": \"auto\"},"
      "{\"name\": \"hidden\", \"kind\": \"hidden\", \"sources\": [\"input\"], \"size\": 16, \"activation\": \"tanh\"},"
      "{\"name\": \"output\", \"kind\": \"output\", \"sources\": [\"hidden\"], \"size\": \"auto\"}], \"loss\": "
      "\"softmax\"}";
  char options[100];
  snprintf(options, sizeof options, "{\"seed\": 3, \"sizes\": {\"input\": %d, \"output\": %d}}", ITEMS, ITEMS);
  dsstne_model model = 0;
  ok(dsstne_model_create(network, options, &model, &error), "model_create");
  train(model, dataset);
  recommend(model, dataset);
  ok(dsstne_model_close(model, &error), "model_close");
  ok(dsstne_dataset_close(dataset, &error), "dataset_close");
  MUST(dsstne_model_close(model, &error) == DSSTNE_INVALID_HANDLE, "a model was closed twice");
  printf("users get items of their own block, served by dsstne %s\n", dsstne_version());
  return 0;
}
