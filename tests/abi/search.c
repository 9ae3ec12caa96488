/* Loads a model of vectors, finds the nearest ones for queries, and recommends them to the same queries as a dense dataset. */
#include <dsstne.h>
#include <stdio.h>
#include <stdlib.h>

enum { QUERIES = 2, SIZE = 3, K = 2 };

static dsstne_error error = {.struct_size = sizeof error};

static void ok(dsstne_status status) {
  if (status != DSSTNE_OK) fprintf(stderr, "%s\n", error.message), exit(1);
}

int main(int count, char **arguments) {
  static float queries[QUERIES * SIZE] = {1, 2, 3, -3, -2, -1}, scores[2][QUERIES * K];
  int32_t ids[2][QUERIES * K];
  dsstne_model model = 0;
  dsstne_predictor predictor = 0;
  dsstne_dataset dataset = 0;
  ok(dsstne_model_load(count > 1 ? arguments[1] : "index.dsstne", NULL, &model, &error));
  ok(dsstne_predictor_open(model, NULL, &predictor, &error));
  ok(dsstne_predictor_search(predictor, NULL, queries, QUERIES, SIZE, NULL, 0, K, NULL, ids[0], scores[0], &error));

  const void *valid[1] = {NULL}, *values[2] = {NULL, queries};
  struct ArrowArray numbers = {.length = QUERIES * SIZE, .n_buffers = 2, .buffers = values}, *below[1] = {&numbers};
  struct ArrowArray matrix = {.length = QUERIES, .n_buffers = 1, .buffers = valid, .n_children = 1, .children = below};
  struct ArrowSchema number = {.format = "f", .release = dsstne_release_schema}, *types[1] = {&number};
  struct ArrowSchema type = {.format = "+w:3", .n_children = 1, .children = types, .release = dsstne_release_schema};
  numbers.release = matrix.release = dsstne_release_array;
  ok(dsstne_dataset_open(&type, &matrix, "{\"columns\": 3}", &dataset, &error));
  ok(dsstne_predictor_bind(predictor, "query", dataset, &error));
  ok(dsstne_predictor_recommend(predictor, NULL, QUERIES, 0, NULL, 0, K, NULL, ids[1], scores[1], &error));
  for (int i = 0; i < QUERIES * K; i++) printf("%d %g %d %g\n", ids[0][i], scores[0][i], ids[1][i], scores[1][i]);
  ok(dsstne_predictor_close(predictor, &error));
  ok(dsstne_model_close(model, &error));
  ok(dsstne_dataset_close(dataset, &error));
}
