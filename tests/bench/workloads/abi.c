/* Nanoseconds of the smallest calls of the C interface, as JSON: a call that only reads a number, and calls that look up a
 * handle. Arguments: rounds. */
#include <dsstne.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static dsstne_error error = {.struct_size = sizeof error};

static void ok(dsstne_status status) {
  if (status != DSSTNE_OK) {
    fprintf(stderr, "%s\n", error.message);
    exit(1);
  }
}

int main(int count, char **arguments) {
  long rounds = count > 1 ? atol(arguments[1]) : 100000;
  static int32_t offsets[2] = {0, 1}, items[1] = {0};
  static const void *list_buffers[2] = {NULL, offsets}, *index_buffers[2] = {NULL, items};
  static struct ArrowArray index = {.length = 1, .n_buffers = 2, .buffers = index_buffers};
  static struct ArrowArray *children[1] = {&index};
  struct ArrowArray list = {
      .length = 1, .n_buffers = 2, .buffers = list_buffers, .n_children = 1, .children = children};
  index.release = list.release = dsstne_release_array;
  struct ArrowSchema index_type = {.format = "i", .release = dsstne_release_schema}, *types[1] = {&index_type};
  struct ArrowSchema list_type = {.format = "+l", .n_children = 1, .children = types, .release = dsstne_release_schema};
  dsstne_dataset dataset = 0;
  ok(dsstne_dataset_open(&list_type, &list, "{\"columns\": 2}", &dataset, &error));

  uint32_t sum = 0;
  double begin = now();
  for (long i = 0; i < rounds; i++) sum += dsstne_abi_version();
  double version = (now() - begin) / (double)rounds;
  dsstne_dataset_info info = {.struct_size = sizeof info};
  begin = now();
  for (long i = 0; i < rounds; i++) ok(dsstne_dataset_get_info(dataset, &info, &error));
  double describe = (now() - begin) / (double)rounds;
  begin = now();
  for (long i = 0; i < rounds; i++) sum += (uint32_t)dsstne_dataset_get_info(dataset + 1, &info, &error);
  double refused = (now() - begin) / (double)rounds;
  printf("{\"abi_version\": %.1f, \"get_info\": %.1f, \"refused\": %.1f, \"sum\": %u}\n", version, describe, refused,
         sum);
  return 0;
}
