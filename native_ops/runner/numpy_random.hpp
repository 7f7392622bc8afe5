// NumPy's default_rng([seed, stream]), bit for bit. In both programs it determines the order of the data and
// the initial values of a trial.
#pragma once

#include <cstdint>
#include <vector>

namespace tmflow::runner {

// PCG64 (O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random
// Number Generation", 2014), seeded by NumPy's SeedSequence.
class NumpyRandom {
 public:
  NumpyRandom(std::uint32_t seed, std::uint32_t stream);

  // Generator.integers(0, high).
  std::int64_t integers(std::uint32_t high);
  // Generator.permutation(n).
  std::vector<std::int64_t> permutation(std::uint32_t n);
  // Generator.uniform(low, high).
  double uniform(double low, double high);

 private:
  __extension__ using Wide = unsigned __int128;

  std::uint64_t next64();
  std::uint32_t at_most(std::uint32_t last);  // uniform in 0 to `last`, which is above 0
  std::uint32_t next32();                     // the halves of a next64(), the low one first

  Wide state_ = 0, increment_ = 0;
  std::uint32_t kept_ = 0;
  bool has_kept_ = false;
};

}  // namespace tmflow::runner
