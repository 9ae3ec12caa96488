// A stand-in for libcublasLt.so.12: products D = alpha op(A) op(B) + beta C of float32 and bfloat16 matrices, summed in
// float32 with k in rising order. TF32 rounds the factors first.
//
// It does what the library may do and our kernels do not, by the words in DSSTNE_CUDAEMU_CUBLASLT, with commas between:
//
//   order      sums in an order of its own, which depends on the shape
//   workspace  an algorithm takes workspace if it may, and leaves garbage there
//   align      matrices have to be aligned as the preference says, and rows or columns of 16-bit numbers to 16 bytes
//   capture    the heuristic fails while a stream of the process is captured, as in CUDA 13.3
//   flaky      the heuristic fails now and then: for want of memory, or for no reason
//   half       16-bit numbers are not supported
//   refuse     there is no algorithm for any product
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "../driver/meeting.h"
#include "../driver/types.h"
#include "../runtime/tensorcore.h"

extern "C" {
CUresult cuCtxGetDevice(CUdevice *device);
}

namespace {

enum Status {
  success = 0,
  not_initialized = 1,
  alloc_failed = 3,
  invalid_value = 7,
  execution_failed = 13,
  internal_error = 14,
  not_supported = 15
};
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

struct Preference {
  size_t workspace = 0;  // at most
  uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
};

// What the heuristic found, in the 64 bytes that users copy.
struct Algorithm {
  uint64_t product;  // what it was found for
  uint64_t workspace;
  uint32_t alignment[4];
  uint64_t unused[4];
};
static_assert(sizeof(Algorithm) == 64);
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
  char *workspace;
  size_t workspace_bytes;  // that the algorithm takes
  bool order;

  uint64_t inner() const { return description.transpose_a ? a.rows : a.columns; }
};

bool does(std::string_view mode) {
  const char *const set = std::getenv("DSSTNE_CUDAEMU_CUBLASLT");
  for (std::string_view modes = set ? set : ""; !modes.empty();) {
    const size_t comma = std::min(modes.find(','), modes.size());
    if (modes.substr(0, comma) == mode) return true;
    modes.remove_prefix(std::min(comma + 1, modes.size()));
  }
  return false;
}

// How many parts sums are cut into, in an order of the library's own: the more, the fewer tiles there are to do at a
// time.
int parts_of(uint64_t m, uint64_t n) {
  const uint64_t tiles = (m + 63) / 64 * ((n + 63) / 64);
  return tiles < 4 ? 4 : tiles < 16 ? 3 : 2;
}
constexpr int kMostParts = 4;

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
  if (compute == kTf32) bits = (bits + (dsstne_cudaemu_get("truncate") ? 0 : 0x1000)) & ~0x1fffu;
  if (compute == kBf16) bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// op(matrix) as rows of contiguous floats, rows and columns filled up with zeros to multiples of kFill.
constexpr uint64_t kFill = 8;
uint64_t filled(uint64_t n) { return (n + kFill - 1) / kFill * kFill; }
std::vector<float> unpack(const Layout &l, const char *at, bool transposed, int compute) {
  const uint64_t rows = transposed ? l.columns : l.rows, columns = transposed ? l.rows : l.columns;
  std::vector<float> out(filled(rows) * filled(columns));
  for (uint64_t i = 0; i < rows; i++)
    for (uint64_t j = 0; j < columns; j++)
      out[i * filled(columns) + j] =
          rounded(load(at + (transposed ? offset(l, j, i) : offset(l, i, j)), l.type), compute);
  return out;
}

// Has a function look at what a matrix takes of memory, where it is contiguous, until it answers an error.
template <class See>
int each_line(const Layout &l, const void *at, See see) {
  const uint64_t lines = l.order ? l.rows : l.columns, length = l.order ? l.columns : l.rows;
  for (int batch = 0; batch < l.batches; batch++)
    for (uint64_t i = 0; i < lines; i++) {
      const int64_t first = batch * l.batch_stride + int64_t(i) * l.stride;
      if (const int bad =
              see(static_cast<const char *>(at) + first * int64_t(size_of(l.type)), length * size_of(l.type)))
        return bad;
    }
  return 0;
}

int touch(const Product &p) {
  const auto reads = [](const Layout &l, const void *at) { return each_line(l, at, dsstne_cudaemu_reads); };
  int bad = reads(p.a, p.at_a);
  if (!bad) bad = reads(p.b, p.at_b);
  if (!bad && p.beta != 0.0f) bad = reads(p.c, p.at_c);
  if (!bad) bad = each_line(p.d, p.at_d, dsstne_cudaemu_writes);
  return bad || p.workspace_bytes == 0 ? bad : dsstne_cudaemu_writes(p.workspace, p.workspace_bytes);
}

enum class Sums { rounded, cut_bf16, cut_tf32 };

// Eight sums of k products, in steps of 8 that go to the parts in turn; the last part comes first when these are added.
// `b` are rows of 8, `stride` apart.
template <Sums sums>
__m256 add_products(const float *a, const float *b, uint64_t k, uint64_t stride, int parts) {
  __m256 part[kMostParts] = {};
  for (uint64_t x = 0, turn = 0; x < k; x += 8, turn = turn + 1 < uint64_t(parts) ? turn + 1 : 0) {
    const float *const row = b + x * stride;
    __m256 sum = part[turn];
    if constexpr (sums == Sums::cut_bf16) {
      sum = emulator::tensor_step<8>(a + x, row, long(stride), sum);
    } else if constexpr (sums == Sums::cut_tf32) {
      sum = emulator::tensor_step<4>(a + x, row, long(stride), sum);
      sum = emulator::tensor_step<4>(a + x + 4, row + 4 * stride, long(stride), sum);
    } else {
      for (uint64_t i = 0; i < std::min<uint64_t>(8, k - x); i++)
        sum = _mm256_fmadd_ps(_mm256_set1_ps(a[x + i]), _mm256_loadu_ps(row + i * stride), sum);
    }
    part[turn] = sum;
  }
  __m256 all = part[parts - 1];
  for (int i = parts - 2; i >= 0; i--) all = _mm256_add_ps(all, part[i]);
  return all;
}

int multiply(const void *record) {
  const Product &p = *static_cast<const Product *>(record);
  if (const int early = touch(p)) return early;
  std::memset(p.workspace, 0xff, p.workspace_bytes);
  const int compute = p.description.compute;
  const Sums sums = !dsstne_cudaemu_get("truncate")             ? Sums::rounded
                    : p.a.type == kBfloat16 || compute == kBf16 ? Sums::cut_bf16
                    : compute == kTf32                          ? Sums::cut_tf32
                                                                : Sums::rounded;
  const auto add = sums == Sums::cut_bf16   ? add_products<Sums::cut_bf16>
                   : sums == Sums::cut_tf32 ? add_products<Sums::cut_tf32>
                                            : add_products<Sums::rounded>;
  for (int batch = 0; batch < p.d.batches; batch++) {
    auto begin = [batch](const Layout &l) { return batch * l.batch_stride * int64_t(size_of(l.type)); };
    const std::vector<float> a = unpack(p.a, p.at_a + begin(p.a), p.description.transpose_a, compute);
    const std::vector<float> b = unpack(p.b, p.at_b + begin(p.b), p.description.transpose_b, compute);
    const uint64_t m = p.d.rows, n = p.d.columns, k = p.inner();
    const int parts = p.order ? parts_of(m, n) : 1;
    std::vector<float> row(filled(n));
    for (uint64_t i = 0; i < m; i++) {
      for (uint64_t j = 0; j < n; j += 8)
        _mm256_storeu_ps(&row[j], add(a.data() + i * filled(k), b.data() + j, k, filled(n), parts));
      for (uint64_t j = 0; j < n; j++) {
        float value = p.alpha * row[j];
        if (p.beta != 0.0f) value += p.beta * load(p.at_c + begin(p.c) + offset(p.c, i, j), p.c.type);
        store(p.at_d + begin(p.d) + offset(p.d, i, j), p.d.type, value);
      }
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
  if (a.type != b.type || (a.type == kBfloat16 && does("half"))) return not_supported;
  const uint64_t m = e.transpose_a ? a.columns : a.rows, k = e.transpose_a ? a.rows : a.columns;
  const uint64_t k2 = e.transpose_b ? b.columns : b.rows, n = e.transpose_b ? b.rows : b.columns;
  return k != k2 || d.rows != m || d.columns != n || c.rows != m || c.columns != n ? invalid_value : success;
}

// A number for a product, by which an algorithm is known to be for it.
uint64_t number_of(const Description &e, const Layout &a, const Layout &b, const Layout &d) {
  uint64_t number = 1;
  const auto add = [&number](int64_t x) {
    number = (number ^ uint64_t(x)) * 0x9e3779b97f4a7c15ull, number ^= number >> 31;
  };
  add(e.compute), add(e.transpose_a), add(e.transpose_b);
  for (const Layout *l : {&a, &b, &d})
    for (const int64_t x : {int64_t(l->type), int64_t(l->rows), int64_t(l->columns), l->stride, int64_t(l->order)})
      add(x);
  return number;
}

// Whether lines of 16-bit numbers begin at multiples of 16 bytes.
bool lines_aligned(const Layout &l) { return size_of(l.type) != 2 || l.stride % 8 == 0; }

template <class T>
int put(T &field, const void *value, size_t bytes) {
  if (bytes != sizeof(T)) return invalid_value;
  std::memcpy(&field, value, bytes);
  return success;
}

// A handle belongs to the device that was current when it was made. Elsewhere the library's answers are another
// device's.
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
  return status == success          ? "success"
         : status == alloc_failed   ? "the resource allocation failed"
         : status == invalid_value  ? "an unsupported value or parameter was passed to the function"
         : status == internal_error ? "an internal operation failed"
         : status == not_supported  ? "the functionality requested is not supported"
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

API int cublasLtMatmulPreferenceCreate(Preference **out) { return *out = new Preference, success; }
API int cublasLtMatmulPreferenceDestroy(Preference *p) { return delete p, success; }
API int cublasLtMatmulPreferenceSetAttribute(Preference *p, int attribute, const void *value, size_t bytes) {
  if (attribute == 1) return put(p->workspace, value, bytes);  // the most of it
  return attribute >= 5 && attribute <= 8 ? put(p->alignment[attribute - 5], value, bytes) : success;
}

API int cublasLtMatmulAlgoGetHeuristic(void *handle, const Description *e, const Layout *a, const Layout *b,
                                       const Layout *c, const Layout *d, const Preference *preference, int wanted,
                                       Heuristic *out, int *found) {
  *found = 0;
  if (const int fault = dsstne_cudaemu_enter("cublasLtMatmulAlgoGetHeuristic")) return fault;
  if (const int bad = elsewhere(handle)) return bad;
  if (does("capture") && dsstne_cudaemu_capturing()) return internal_error;
  static std::atomic<unsigned> calls;
  if (does("flaky")) {
    const unsigned call = ++calls;
    if (call % 5 == 0) return call % 2 ? internal_error : alloc_failed;
  }
  if (wanted < 1) return invalid_value;
  if (const int bad = check(*e, *a, *b, *c, *d)) return bad;
  if (does("refuse")) return success;
  if (does("align") && !(lines_aligned(*a) && lines_aligned(*b) && lines_aligned(*c) && lines_aligned(*d)))
    return not_supported;
  std::memset(out, 0, sizeof *out);
  Algorithm &algorithm = out->algorithm;
  algorithm.product = number_of(*e, *a, *b, *d);
  std::copy_n(preference->alignment, 4, algorithm.alignment);
  if (does("workspace"))
    algorithm.workspace =
        std::min<uint64_t>(preference->workspace, parts_of(d->rows, d->columns) * d->rows * d->columns * 4);
  out->workspace = algorithm.workspace;
  *found = 1;
  return success;
}

API int cublasLtMatmul(void *handle, const Description *e, const void *alpha, const void *at_a, const Layout *a,
                       const void *at_b, const Layout *b, const void *beta, const void *at_c, const Layout *c,
                       void *at_d, const Layout *d, const Algorithm *algorithm, void *workspace, size_t workspace_bytes,
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
            0.0f,
            static_cast<char *>(workspace),
            algorithm ? algorithm->workspace : 0,
            does("order")};
  std::memcpy(&p.alpha, alpha, sizeof p.alpha);
  std::memcpy(&p.beta, beta, sizeof p.beta);
  auto inside = [](const void *at, size_t bytes) { return bytes == 0 || dsstne_cudaemu_allocated(at, bytes); };
  if (!inside(at_a, span(*a)) || !inside(at_b, span(*b)) || !inside(at_d, span(*d)) ||
      (p.beta != 0.0f && !inside(at_c, span(*c))) || !inside(workspace, workspace_bytes)) {
    std::fprintf(stderr, "cublasLt: a matrix of the product is not inside one allocation\n");
    return execution_failed;
  }
  if (algorithm && algorithm->product != number_of(*e, *a, *b, *d)) return invalid_value;
  if (p.workspace_bytes > workspace_bytes) return invalid_value;
  if (does("align")) {
    const auto aligned = [](const void *at, uint32_t to) { return reinterpret_cast<uintptr_t>(at) % to == 0; };
    const uint32_t none[4] = {16, 16, 16, 16}, *const to = algorithm ? algorithm->alignment : none;
    if (!aligned(at_a, to[0]) || !aligned(at_b, to[1]) || !aligned(at_c, to[2]) || !aligned(at_d, to[3]) ||
        !aligned(workspace, 16))
      return not_supported;
  }
  return dsstne_cudaemu_work(stream, "cublasLtMatmul", &p, sizeof p, multiply) ? execution_failed : success;
}
