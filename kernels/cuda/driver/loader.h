/* loader.h: points the slots at the functions of libcuda.so.1. Functions return 0, or what failed. */

/* Points the slots at the functions of the library. One that it lacks, because it is older than the headers, answers
 * CUDA_ERROR_NOT_SUPPORTED from then on. */
void dsstne_driver_connect(void *library);

/* cuDriverGetVersion and cuInit of the library; -1 if it lacks them. */
int dsstne_driver_version(void *library, int *version);
int dsstne_driver_init(void *library);
