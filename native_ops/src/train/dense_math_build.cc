// The arithmetic of dense layers, compiled once for each build that cmake/train.cmake names, with that
// build's flags. Nothing may be shared between builds (see kernel_build.cc), so everything here is local.
//
// A matrix product is computed in tiles whose sums stay in registers. If the last vector of a row does not
// fill its columns, it begins earlier and ends where the row ends: the overlap with the previous vector is
// computed twice, with the same result, and nothing outside a matrix is read or written.
#include "dense_math_build.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace tmflow::train {
namespace {

using Size = std::size_t;
template <int n>
using Int = std::integral_constant<int, n>;

// TMFLOW_VECTOR_BYTES is a definition of the build. 32 registers hold larger tiles than 16.
constexpr Size kVectorBytes = TMFLOW_VECTOR_BYTES;
constexpr int kTileVectors = kVectorBytes == 64 ? 4 : 2;
constexpr int kTileExamples = 5;
constexpr int kTileRows = 4;
constexpr int kSparseVectors = 8;
constexpr Size kNarrow = 16;  // columns of weights for which there is a loop of their number

template <class T, Size lanes>
struct Lanes {
  typedef T Vector __attribute__((vector_size(lanes * sizeof(T))));

  static Vector load(const T* from) noexcept {
    Vector vector;
    __builtin_memcpy(&vector, from, sizeof vector);
    return vector;
  }
  static void store(T* to, const Vector& vector) noexcept { __builtin_memcpy(to, &vector, sizeof vector); }
};

// Calls work(Int<b>(), first) for consecutive blocks of [first, n): blocks of `size` as long as they fit,
// then one for the rest.
template <int size, class Work>
void in_blocks(Size first, Size n, const Work& work) noexcept {
  for (; n - first >= size; first += size) work(Int<size>(), first);
  if constexpr (size > 1) in_blocks<size - 1>(first, n, work);
}

// Calls work(Int<lanes>()) with the most lanes of a vector that the columns fill.
template <class T, class Work>
void with_lanes(Size columns, const Work& work) noexcept {
  constexpr int kWhole = kVectorBytes / sizeof(T);
  if (columns >= kWhole) return work(Int<kWhole>());
  if constexpr (kWhole == 16) {
    if (columns >= 8) return work(Int<8>());
  }
  work(Int<1>());
}

// The column at which vector number `vector` of a row begins.
template <int lanes>
Size column_of(Size vector, Size columns) noexcept {
  const Size begin = vector * lanes;
  return begin + lanes <= columns ? begin : columns - lanes;
}

// A tile of the product: `examples` of its rows, `vectors` of its vectors. A sum is a chain of additions,
// each of which waits for the previous one. If the tile has too few sums to keep the processor busy, each sum
// is split over `chains`.
template <class T, int lanes, int examples, int vectors>
void product_tile(const T* input, const T* weights, const T* bias, T* output, Size rows, Size columns,
                  const Size (&at)[vectors]) noexcept {
  using In = Lanes<T, lanes>;
  constexpr int kSums = examples * vectors;
  constexpr int kChains = kSums >= 8 ? 1 : kSums >= 4 ? 2 : 4;
  typename In::Vector sums[kChains][examples][vectors] = {};
  if (bias != nullptr) {
    for (int e = 0; e < examples; ++e) {
      for (int v = 0; v < vectors; ++v) sums[0][e][v] = In::load(bias + at[v]);
    }
  }
  const auto add_row = [&](Size row, auto& sum) __attribute__((always_inline)) {
    typename In::Vector weight[vectors];
    for (int v = 0; v < vectors; ++v) weight[v] = In::load(weights + row * columns + at[v]);
    for (int e = 0; e < examples; ++e) {
      const T factor = input[static_cast<Size>(e) * rows + row];
      for (int v = 0; v < vectors; ++v) sum[e][v] += factor * weight[v];
    }
  };
  Size row = 0;
  for (; row + kChains <= rows; row += kChains) {
    for (int chain = 0; chain < kChains; ++chain) add_row(row + static_cast<Size>(chain), sums[chain]);
  }
  for (; row < rows; ++row) add_row(row, sums[0]);
  for (int e = 0; e < examples; ++e) {
    for (int v = 0; v < vectors; ++v) {
      for (int chain = 1; chain < kChains; ++chain) sums[0][e][v] += sums[chain][e][v];
      In::store(output + static_cast<Size>(e) * columns + at[v], sums[0][e][v]);
    }
  }
}

template <class T>
void product(const T* input, const T* weights, const T* bias, T* output, Size examples, Size rows,
             Size columns) noexcept {
  with_lanes<T>(columns, [&]<int lanes>(Int<lanes>) {
    in_blocks<kTileVectors>(0, (columns + lanes - 1) / lanes, [&]<int vectors>(Int<vectors>, Size vector) {
      Size at[vectors];
      for (int v = 0; v < vectors; ++v) at[v] = column_of<lanes>(vector + static_cast<Size>(v), columns);
      in_blocks<kTileExamples>(0, examples, [&]<int block>(Int<block>, Size e) {
        product_tile<T, lanes, block, vectors>(input + e * rows, weights, bias, output + e * columns, rows,
                                               columns, at);
      });
    });
  });
}

// A tile of the gradient of weights: `rows_` of its rows, `vectors` of its vectors.
template <class T, int lanes, int block, int vectors>
void gradient_tile(const T* input, const T* output, T* gradient, Size examples, Size rows, Size columns,
                   const Size (&at)[vectors]) noexcept {
  using In = Lanes<T, lanes>;
  typename In::Vector sums[block][vectors] = {};
  for (Size e = 0; e < examples; ++e) {
    typename In::Vector out[vectors];
    for (int v = 0; v < vectors; ++v) out[v] = In::load(output + e * columns + at[v]);
    for (int r = 0; r < block; ++r) {
      const T factor = input[e * rows + static_cast<Size>(r)];
      for (int v = 0; v < vectors; ++v) sums[r][v] += factor * out[v];
    }
  }
  for (int r = 0; r < block; ++r) {
    for (int v = 0; v < vectors; ++v)
      In::store(gradient + static_cast<Size>(r) * columns + at[v], sums[r][v]);
  }
}

template <class T>
void weight_gradient(const T* input, const T* output, T* gradient, Size examples, Size rows,
                     Size columns) noexcept {
  with_lanes<T>(columns, [&]<int lanes>(Int<lanes>) {
    const Size across = (columns + lanes - 1) / lanes;
    in_blocks<kTileRows>(0, rows, [&]<int block>(Int<block>, Size row) {
      in_blocks<kTileVectors>(0, across, [&]<int vectors>(Int<vectors>, Size vector) {
        Size at[vectors];
        for (int v = 0; v < vectors; ++v) at[v] = column_of<lanes>(vector + static_cast<Size>(v), columns);
        gradient_tile<T, lanes, block, vectors>(input + row, output, gradient + row * columns, examples, rows,
                                                columns, at);
      });
    });
  });
}

// `vectors` of the vectors of one example's product, from its inputs that are not zero.
template <class T, int lanes, int vectors>
void sparse_tile(const NonZero<T>* input, Size n, const T* weights, const T* bias, T* output, Size columns,
                 const Size (&at)[vectors]) noexcept {
  using In = Lanes<T, lanes>;
  constexpr int kChains = vectors >= 8 ? 1 : vectors >= 4 ? 2 : 4;  // as in product_tile
  typename In::Vector sums[kChains][vectors] = {};
  for (int v = 0; v < vectors; ++v) sums[0][v] = In::load(bias + at[v]);
  const auto add = [&](const NonZero<T>& factor, auto& sum) __attribute__((always_inline)) {
    const T* const row = weights + factor.row * columns;
    for (int v = 0; v < vectors; ++v) sum[v] += factor.value * In::load(row + at[v]);
  };
  Size i = 0;
  for (; i + kChains <= n; i += kChains) {
    for (int chain = 0; chain < kChains; ++chain) add(input[i + static_cast<Size>(chain)], sums[chain]);
  }
  for (; i < n; ++i) add(input[i], sums[0]);
  for (int v = 0; v < vectors; ++v) {
    for (int chain = 1; chain < kChains; ++chain) sums[0][v] += sums[chain][v];
    In::store(output + at[v], sums[0][v]);
  }
}

// A row of `columns` numbers in as few vectors as they fill, each a power of two long.
template <class T, Size columns>
struct Row {
  static constexpr Size kFirst = std::min(std::bit_floor(columns), kVectorBytes / sizeof(T));
  using In = Lanes<T, kFirst>;
  using Rest = Row<T, columns - kFirst>;
  static constexpr int kVectors = 1 + Rest::kVectors;

  typename In::Vector first = {};
  [[no_unique_address]] Rest rest = {};

  void load(const T* from) noexcept {
    first = In::load(from);
    rest.load(from + kFirst);
  }
  void add(T factor, const T* row) noexcept {
    first += factor * In::load(row);
    rest.add(factor, row + kFirst);
  }
  void add(const Row& other) noexcept {
    first += other.first;
    rest.add(other.rest);
  }
  void store(T* to) const noexcept {
    In::store(to, first);
    rest.store(to + kFirst);
  }
};

template <class T>
struct Row<T, 0> {
  static constexpr int kVectors = 0;
  void load(const T*) noexcept {}
  void add(T, const T*) noexcept {}
  void add(const Row&) noexcept {}
  void store(T*) const noexcept {}
};

// One example's product with weights of few columns, in four chains as in product_tile. They stay in
// registers if a row has at most two vectors; an array of vectors would be kept in memory.
template <class T, Size columns>
void narrow_sparse_product(const NonZero<T>* input, Size n, const T* weights, const T* bias,
                           T* output) noexcept {
  Row<T, columns> a, b, c, d;
  a.load(bias);
  const auto add = [&](Row<T, columns>& sum, const NonZero<T>& factor) __attribute__((always_inline)) {
    sum.add(factor.value, weights + factor.row * columns);
  };
  Size i = 0;
  for (; i + 4 <= n; i += 4) {
    add(a, input[i]);
    add(b, input[i + 1]);
    add(c, input[i + 2]);
    add(d, input[i + 3]);
  }
  for (; i < n; ++i) add(a, input[i]);
  a.add(b);
  a.add(c);
  a.add(d);
  a.store(output);
}

// Runs `work` with the number of columns as a constant if a row of so many has at most two vectors, and
// returns whether it has.
template <class T, Size columns = kNarrow, class Work>
bool in_narrow_rows(Size given, const Work& work) noexcept {
  if constexpr (columns == 0) {
    return false;
  } else {
    if (given != columns) return in_narrow_rows<T, columns - 1>(given, work);
    if constexpr (Row<T, columns>::kVectors <= 2) work(std::integral_constant<Size, columns>());
    return Row<T, columns>::kVectors <= 2;
  }
}

template <class T>
void sparse_product(const NonZero<T>* input, Size n, const T* weights, const T* bias, T* output,
                    Size columns) noexcept {
  const bool is_done = in_narrow_rows<T>(columns, [&]<Size narrow>(std::integral_constant<Size, narrow>) {
    narrow_sparse_product<T, narrow>(input, n, weights, bias, output);
  });
  if (is_done) return;
  with_lanes<T>(columns, [&]<int lanes>(Int<lanes>) {
    in_blocks<kSparseVectors>(0, (columns + lanes - 1) / lanes, [&]<int vectors>(Int<vectors>, Size vector) {
      Size at[vectors];
      for (int v = 0; v < vectors; ++v) at[v] = column_of<lanes>(vector + static_cast<Size>(v), columns);
      sparse_tile<T, lanes, vectors>(input, n, weights, bias, output, columns, at);
    });
  });
}

template <class T>
void add_sparse_weight_gradient(const NonZero<T>* input, Size n, const T* output, T* gradient,
                                Size columns) noexcept {
  for (Size i = 0; i < n; ++i) {
    T* const row = gradient + input[i].row * columns;
    const T value = input[i].value;
    for (Size c = 0; c < columns; ++c) row[c] += value * output[c];
  }
}

// In two chains of additions, because each addition waits for the previous one of its chain.
template <class T>
T dot(const T* a, const T* b, Size n) noexcept {
  T sum = 0;
  with_lanes<T>(n, [&]<int lanes>(Int<lanes>) {
    using In = Lanes<T, lanes>;
    typename In::Vector sums[2] = {};
    Size i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      sums[0] += In::load(a + i) * In::load(b + i);
      sums[1] += In::load(a + i + lanes) * In::load(b + i + lanes);
    }
    for (; i + lanes <= n; i += lanes) sums[0] += In::load(a + i) * In::load(b + i);
    sums[0] += sums[1];
    for (int lane = 0; lane < lanes; ++lane) sum += sums[0][lane];
    for (; i < n; ++i) sum += a[i] * b[i];
  });
  return sum;
}

template <class T>
void bias_gradient(const T* output, T* gradient, Size examples, Size columns) noexcept {
  for (Size c = 0; c < columns; ++c) gradient[c] = output[c];
  for (Size e = 1; e < examples; ++e) {
    for (Size c = 0; c < columns; ++c) gradient[c] += output[e * columns + c];
  }
}

template <class T>
void transpose(const T* from, T* to, Size rows, Size columns) noexcept {
  for (Size c = 0; c < columns; ++c) {
    for (Size r = 0; r < rows; ++r) to[c * rows + r] = from[r * columns + c];
  }
}

// exp(x) within 2 units in the last place for -87 <= x <= 88; x beyond these limits gives the value at the
// limit, NaN gives NaN. There are no branches, so the compiler can vectorise a loop of it. Computed as 2^n *
// exp(r) with |r| <= ln(2) / 2; the polynomial is that of Cephes (expf.c).
float exponential(float x) noexcept {
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  constexpr float kRounding = 12582912.0F;  // 1.5 * 2^23: adding it leaves no fractional bits
  const float n = (x * 1.44269504F + kRounding) - kRounding;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const std::int32_t power = (static_cast<std::int32_t>(n) + 127) << 23;
  return (p * r * r + r + 1.0F) * __builtin_bit_cast(float, power);
}
double exponential(double x) noexcept { return __builtin_exp(x); }

double logarithm(double x) noexcept { return __builtin_log(x); }

template <class T>
void relu(T* values, Size n) noexcept {
  for (Size i = 0; i < n; ++i) values[i] = values[i] < 0 ? 0 : values[i];
}

template <class T>
void sigmoid(T* values, Size n) noexcept {
  for (Size i = 0; i < n; ++i) values[i] = 1 / (1 + exponential(-values[i]));
}

template <class T>
void relu_gradient(const T* values, T* gradient, Size n) noexcept {
  for (Size i = 0; i < n; ++i) gradient[i] = values[i] > 0 ? gradient[i] : 0;
}

template <class T>
void sigmoid_gradient(const T* values, T* gradient, Size n) noexcept {
  for (Size i = 0; i < n; ++i) gradient[i] *= values[i] * (1 - values[i]);
}

template <class T>
T softmax_cross_entropy(T* scores, const T* labels, Size examples, Size columns) noexcept {
  const T share = T{1} / static_cast<T>(examples);
  double loss = 0;
  for (Size e = 0; e < examples; ++e) {
    T* const own = scores + e * columns;
    const T* const label = labels + e * columns;
    T highest = own[0], sum = 0, hit = 0;
    for (Size c = 1; c < columns; ++c) highest = own[c] > highest ? own[c] : highest;
    for (Size c = 0; c < columns; ++c) hit += label[c] * (own[c] - highest);
    for (Size c = 0; c < columns; ++c) own[c] = exponential(own[c] - highest);
    for (Size c = 0; c < columns; ++c) sum += own[c];
    for (Size c = 0; c < columns; ++c) own[c] = (own[c] / sum - label[c]) * share;
    loss += logarithm(static_cast<double>(sum)) - static_cast<double>(hit);
  }
  return static_cast<T>(loss) * share;
}

template <class T>
constexpr DenseMath<T> kMath{.product = product<T>,
                             .weight_gradient = weight_gradient<T>,
                             .sparse_product = sparse_product<T>,
                             .add_sparse_weight_gradient = add_sparse_weight_gradient<T>,
                             .dot = dot<T>,
                             .bias_gradient = bias_gradient<T>,
                             .transpose = transpose<T>,
                             .relu = relu<T>,
                             .sigmoid = sigmoid<T>,
                             .relu_gradient = relu_gradient<T>,
                             .sigmoid_gradient = sigmoid_gradient<T>,
                             .softmax_cross_entropy = softmax_cross_entropy<T>};

}  // namespace

const DenseMathBuild TMFLOW_DENSE_MATH{.of_float = kMath<float>, .of_double = kMath<double>};

}  // namespace tmflow::train
