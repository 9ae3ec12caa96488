// Element types of NCCL, and reductions over them. Like a ring of the library, which does not begin every number's sum
// at the first rank (here each at another than the one before); or as the variable DSSTNE_CUDAEMU_SUMS says.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace nccl {

enum class Type { int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16 };
enum class Operation { sum, product, maximum, minimum, average };

inline size_t size_of(Type type) {
  static constexpr size_t sizes[] = {1, 1, 4, 4, 8, 8, 0, 4, 8, 2};  // float16 is not done here
  return sizes[int(type)];
}

struct Bfloat16 {
  uint16_t bits;
  operator float() const {
    const uint32_t wide = uint32_t(bits) << 16;
    float x;
    std::memcpy(&x, &wide, sizeof x);
    return x;
  }
  Bfloat16(float x = 0.0f) {
    uint32_t wide;
    std::memcpy(&wide, &x, sizeof wide);
    bits = (wide & 0x7fffffff) > 0x7f800000 ? 0x7fff : uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
};

template <class T, class Sum>
std::vector<char> reduce_as(const std::vector<std::vector<char>> &parts, Operation operation) {
  const size_t n = parts[0].size() / sizeof(T);
  std::vector<char> out(parts[0].size());
  const char *const set = std::getenv("DSSTNE_CUDAEMU_SUMS");
  const std::string order = set && *set ? set : "ring";
  const size_t count = parts.size() - (order == "short" && parts.size() > 1);
  for (size_t i = 0; i < n; i++) {
    auto element = [&](size_t place) {
      const size_t part = order == "ring" ? (place + i) % count : place;
      T x;
      std::memcpy(&x, parts[part].data() + i * sizeof(T), sizeof x);
      return Sum(x);
    };
    Sum sum = element(0);
    for (size_t p = 1; p < count; p++) {
      const Sum x = element(p);
      switch (operation) {
        case Operation::product:
          sum = Sum(sum * x);
          break;
        case Operation::maximum:
          sum = sum < x ? x : sum;
          break;
        case Operation::minimum:
          sum = x < sum ? x : sum;
          break;
        default:
          sum = Sum(sum + x);
      }
    }
    if (operation == Operation::average) sum = Sum(sum / Sum(parts.size()));
    const T result = T(sum);
    std::memcpy(out.data() + i * sizeof(T), &result, sizeof result);
  }
  return out;
}

inline std::vector<char> reduce(const std::vector<std::vector<char>> &parts, Type type, Operation operation) {
  switch (type) {
    case Type::int8:
      return reduce_as<int8_t, int8_t>(parts, operation);
    case Type::uint8:
      return reduce_as<uint8_t, uint8_t>(parts, operation);
    case Type::int32:
      return reduce_as<int32_t, int32_t>(parts, operation);
    case Type::uint32:
      return reduce_as<uint32_t, uint32_t>(parts, operation);
    case Type::int64:
      return reduce_as<int64_t, int64_t>(parts, operation);
    case Type::uint64:
      return reduce_as<uint64_t, uint64_t>(parts, operation);
    case Type::float64:
      return reduce_as<double, double>(parts, operation);
    case Type::bfloat16:
      return reduce_as<Bfloat16, float>(parts, operation);
    default:
      return reduce_as<float, float>(parts, operation);
  }
}

}  // namespace nccl
