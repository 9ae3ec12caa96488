/* The release callbacks that the header offers. They are C and not Go, so any thread may call them at any time, also while
 * the caller's runtime shuts down. Nothing is freed: the memory stays the caller's. */
#include "dsstne.h"

void dsstne_release_array(struct ArrowArray *array) {
  if (array == NULL || array->release == NULL) return;
  for (int64_t i = 0; array->children != NULL && i < array->n_children; i++) {
    struct ArrowArray *child = array->children[i];
    if (child != NULL && child->release != NULL) {
      child->release(child);
      child->release = NULL;
    }
  }
  if (array->dictionary != NULL && array->dictionary->release != NULL) {
    array->dictionary->release(array->dictionary);
    array->dictionary->release = NULL;
  }
  array->release = NULL;
}

void dsstne_release_schema(struct ArrowSchema *schema) {
  if (schema == NULL || schema->release == NULL) return;
  for (int64_t i = 0; schema->children != NULL && i < schema->n_children; i++) {
    struct ArrowSchema *child = schema->children[i];
    if (child != NULL && child->release != NULL) {
      child->release(child);
      child->release = NULL;
    }
  }
  if (schema->dictionary != NULL && schema->dictionary->release != NULL) {
    schema->dictionary->release(schema->dictionary);
    schema->dictionary->release = NULL;
  }
  schema->release = NULL;
}
