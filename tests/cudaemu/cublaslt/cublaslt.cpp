// A stand-in for libcublasLt.so.12: products D = alpha op(A) op(B) + beta C of float32 and bfloat16 matrices, summed in
// float32 with k in rising order. TF32 rounds the factors first.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "../driver/meeting.h"
#include "../driver/types.h"

extern "C" {
CUresult cuCtxGetDevice(CUdevice *device);
}

namespace {

enum Status { success = 0, not_initialized = 1, invalid_value = 7, execution_failed = 13, not_supported = 15 };
enum { kFloat32 = 0, kBfloat16 = 14 };  // cudaDataType
enum { kCompute32 = 68, kPedantic32 = 69, kBf16 = 75, kTf32 = 77 };  // cublasComputeType_t

struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t stride;
  int order = 0;  // 0: columns are contiguous, 1: rows
  int batches = 1;
  int64_t batch_stride = 0;
};

struct Description {
  int compute, scale;
  int transpose_a = 0, transpose_b = 0;
  int epilogue = 1;
};

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

size_t size_of(int type) { return type == kFloat32 ? 4 : type == kBfloat16 ? 2 : 0; }

struct Product {
  Description description;
  Layout a, b, c, d;
  const char *at_a, *at_b, *at_c;
  char *at_d;
  float alpha, beta;
};

size_t offset(const Layout &l, uint64_t row, uint64_t column) {
  return (l.order ? row * l.stride + column : column * l.stride + row) * size_of(l.type);
}
size_t span(const Layout &l) {
  return l.rows == 0 || l.columns == 0
             ? 0
             : offset(l, l.rows - 1, l.columns - 1) + size_of(l.type) * (1 + (l.batches - 1) * l.batch_stride);
}

float load(const char *p, int type) {
  uint32_t bits = 0;
  std::memcpy(type == kFloat32 ? reinterpret_cast<char *>(&bits) : reinterpret_cast<char *>(&bits) + 2, p,
              size_of(type));
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

void store(char *p, int type, float x) {
  if (type == kFloat32) {
    std::memcpy(p, &x, sizeof x);
    return;
  }
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const uint16_t half = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  std::memcpy(p, &half, sizeof half);
}

// A factor as the units of a processor see it under a compute type.
float rounded(float x, int compute) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7f800000) == 0x7f800000) return x;
  if (compute == kTf32) bits = (bits + 0x1000) & ~0x1fffu;
  if (compute == kBf16) bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// op(matrix) as rows of contiguous floats.
std::vector<float> unpack(const Layout &l, const char *at, bool transposed, int compute) {
  const uint64_t rows = transposed ? l.columns : l.rows, columns = transposed ? l.rows : l.columns;
  std::vector<float> out(rows * columns);
  for (uint64_t i = 0; i < rows; i++)
    for (uint64_t j = 0; j < columns; j++)
      out[i * columns + j] = rounded(load(at + (transposed ? offset(l, j, i) : offset(l, i, j)), l.type), compute);
  return out;
}

int multiply(const void *record) {
  const Product &p = *static_cast<const Product *>(record);
  for (int batch = 0; batch < p.d.batches; batch++) {
    auto begin = [batch](const Layout &l) { return batch * l.batch_stride * int64_t(size_of(l.type)); };
    const std::vector<float> a = unpack(p.a, p.at_a + begin(p.a), p.description.transpose_a, p.description.compute);
    const std::vector<float> b = unpack(p.b, p.at_b + begin(p.b), p.description.transpose_b, p.description.compute);
    const uint64_t m = p.d.rows, n = p.d.columns, k = m ? a.size() / m : 0;
    std::vector<float> row(n);
    for (uint64_t i = 0; i < m; i++) {
      std::fill(row.begin(), row.end(), 0.0f);
      for (uint64_t x = 0; x < k; x++) {
        const float factor = a[i * k + x];
        for (uint64_t j = 0; j < n; j++) row[j] = __builtin_fmaf(factor, b[x * n + j], row[j]);
      }
      for (uint64_t j = 0; j < n; j++) {
        float value = p.alpha * row[j];
        if (p.beta != 0.0f) value += p.beta * load(p.at_c + begin(p.c) + offset(p.c, i, j), p.c.type);
        char *const to = p.at_d + begin(p.d) + offset(p.d, i, j);
        store(to, p.d.type, value);
        if (p.d.order == 0) dsstne_cudaemu_written(to, size_of(p.d.type));
      }
      if (p.d.order && n) dsstne_cudaemu_written(p.at_d + begin(p.d) + offset(p.d, i, 0), n * size_of(p.d.type));
    }
  }
  return CUDA_SUCCESS;
}

int check(const Description &e, const Layout &a, const Layout &b, const Layout &c, const Layout &d) {
  if (e.compute != kCompute32 && e.compute != kPedantic32 && e.compute != kBf16 && e.compute != kTf32)
    return not_supported;
  if (e.scale != kFloat32 || e.epilogue != 1) return not_supported;
  for (const Layout *l : {&a, &b, &c, &d}) {
    if (size_of(l->type) == 0 || l->order < 0 || l->order > 1) return not_supported;
    if (l->stride < int64_t(l->order ? l->columns : l->rows) || l->batches != d.batches) return invalid_value;
  }
  if (a.type != b.type) return not_supported;
  const uint64_t m = e.transpose_a ? a.columns : a.rows, k = e.transpose_a ? a.rows : a.columns;
  const uint64_t k2 = e.transpose_b ? b.columns : b.rows, n = e.transpose_b ? b.rows : b.columns;
  return k != k2 || d.rows != m || d.columns != n || c.rows != m || c.columns != n ? invalid_value : success;
}

template <class T>
int put(T &field, const void *value, size_t bytes) {
  if (bytes != sizeof(T)) return invalid_value;
  std::memcpy(&field, value, bytes);
  return success;
}

// A handle belongs to the device that was current when it was made. Elsewhere the library's answers are another device's.
int elsewhere(const void *handle) {
  int device = 0;
  return cuCtxGetDevice(&device) != 0 || device != *static_cast<const int *>(handle) ? not_initialized : success;
}

}  // namespace

API int cublasLtCreate(void **handle) {
  if (const int fault = dsstne_cudaemu_enter("cublasLtCreate")) return fault;
  int device = 0;
  if (cuCtxGetDevice(&device) != 0) return not_initialized;
  return *handle = new int(device), success;
}
API int cublasLtDestroy(void *handle) {
  if (const int bad = elsewhere(handle)) return bad;
  return delete static_cast<int *>(handle), success;
}
API size_t cublasLtGetVersion() { return 120900; }

API const char *cublasLtGetStatusString(int status) {
  return status == success         ? "success"
         : status == invalid_value ? "an unsupported value or parameter was passed to the function"
         : status == not_supported ? "the functionality requested is not supported"
                                   : "the program failed to execute";
}

API int cublasLtMatrixLayoutCreate(Layout **out, int type, uint64_t rows, uint64_t columns, int64_t stride) {
  return *out = new Layout{type, rows, columns, stride}, success;
}
API int cublasLtMatrixLayoutDestroy(Layout *l) { return delete l, success; }
API int cublasLtMatrixLayoutSetAttribute(Layout *l, int attribute, const void *value, size_t bytes) {
  switch (attribute) {
    case 0:
      return put(l->type, value, bytes);
    case 1:
      return put(l->order, value, bytes);
    case 2:
      return put(l->rows, value, bytes);
    case 3:
      return put(l->columns, value, bytes);
    case 4:
      return put(l->stride, value, bytes);
    case 5:
      return put(l->batches, value, bytes);
    case 6:
      return put(l->batch_stride, value, bytes);
    default:
      return not_supported;
  }
}

API int cublasLtMatmulDescCreate(Description **out, int compute, int scale) {
  return *out = new Description{compute, scale}, success;
}
API int cublasLtMatmulDescDestroy(Description *e) { return delete e, success; }
API int cublasLtMatmulDescSetAttribute(Description *e, int attribute, const void *value, size_t bytes) {
  int mode = 0;
  switch (attribute) {
    case 0:
      return put(e->compute, value, bytes);
    case 1:
      return put(e->scale, value, bytes);
    case 2:
      return put(mode, value, bytes) || mode != 0 ? not_supported : success;  // alpha and beta are on the host
    case 3:
      return put(e->transpose_a, value, bytes);
    case 4:
      return put(e->transpose_b, value, bytes);
    case 7:
      return put(e->epilogue, value, bytes);
    default:
      return not_supported;
  }
}

API int cublasLtMatmulPreferenceCreate(size_t **out) { return *out = new size_t(0), success; }
API int cublasLtMatmulPreferenceDestroy(size_t *workspace) { return delete workspace, success; }
API int cublasLtMatmulPreferenceSetAttribute(size_t *workspace, int attribute, const void *value, size_t bytes) {
  return attribute == 1 ? put(*workspace, value, bytes) : success;  // 1: the most workspace
}

API int cublasLtMatmulAlgoGetHeuristic(void *handle, const Description *e, const Layout *a, const Layout *b,
                                       const Layout *c, const Layout *d, const size_t *, int wanted, Heuristic *out,
                                       int *found) {
  *found = 0;
  if (const int fault = dsstne_cudaemu_enter("cublasLtMatmulAlgoGetHeuristic")) return fault;
  if (const int bad = elsewhere(handle)) return bad;
  // Like the library of CUDA 13.3, which fails while any thread captures a stream.
  const char *const status = std::getenv("DSSTNE_CUDAEMU_HEURISTIC");
  if (status && dsstne_cudaemu_capturing()) return std::atoi(status);
  if (wanted < 1) return invalid_value;
  if (const int bad = check(*e, *a, *b, *c, *d)) return bad;
  std::memset(out, 0, sizeof *out);
  *found = 1;
  return success;
}

API int cublasLtMatmul(void *handle, const Description *e, const void *alpha, const void *at_a, const Layout *a,
                       const void *at_b, const Layout *b, const void *beta, const void *at_c, const Layout *c,
                       void *at_d, const Layout *d, const Algorithm *, void *workspace, size_t workspace_bytes,
                       void *stream) {
  if (const int fault = dsstne_cudaemu_enter("cublasLtMatmul")) return fault;
  if (const int bad = elsewhere(handle)) return bad;
  if (const int bad = check(*e, *a, *b, *c, *d)) return bad;
  Product p{*e,
            *a,
            *b,
            *c,
            *d,
            static_cast<const char *>(at_a),
            static_cast<const char *>(at_b),
            static_cast<const char *>(at_c),
            static_cast<char *>(at_d),
            0.0f,
            0.0f};
  std::memcpy(&p.alpha, alpha, sizeof p.alpha);
  std::memcpy(&p.beta, beta, sizeof p.beta);
  auto inside = [](const void *at, size_t bytes) { return bytes == 0 || dsstne_cudaemu_allocated(at, bytes); };
  if (!inside(at_a, span(*a)) || !inside(at_b, span(*b)) || !inside(at_d, span(*d)) ||
      (p.beta != 0.0f && !inside(at_c, span(*c))) || !inside(workspace, workspace_bytes)) {
    std::fprintf(stderr, "cublasLt: a matrix of the product is not inside one allocation\n");
    return execution_failed;
  }
  return dsstne_cudaemu_work(stream, "cublasLtMatmul", &p, sizeof p, multiply) ? execution_failed : success;
}
