// The memory bandwidth of reads, and of updates as in training, with one thread and with all. Each thread has
// its own memory.
#include <algorithm>
#include <fstream>
#include <string>

#include "measurements.hpp"
#include "running.hpp"
#include "tmflow/core/kernel.hpp"
#include "tmflow/sync/cache_line.hpp"

namespace tmflow::probe {
namespace {

constexpr double kSeconds = 0.5;
// For each thread: more than any cache holds. For all threads: an eighth of the free memory.
constexpr std::size_t kMostBytes = std::size_t{256} << 20, kLeastBytes = std::size_t{4} << 20;
constexpr std::size_t kBlock = std::size_t{1} << 18;  // floats between two readings of the clock

std::size_t free_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, unit; file >> name;) {
    std::size_t kib = 0;
    file >> kib;
    std::getline(file, unit);
    if (name == "MemAvailable:") return kib << 10;
  }
  return std::size_t{1} << 30;
}

class Memory {
 public:
  explicit Memory(std::size_t bytes)
      : variable_(bytes / sizeof(float) / 2, 1.0f), delta_(variable_.size(), 1e-9f) {}

  // Copies with the widest loads into memory that stays in the nearest cache.
  double read() {
    const std::size_t at = next();
    for (const float* const from : {variable_.data() + at, delta_.data() + at}) {
      for (std::size_t i = 0; i < kBlock; i += near_.size()) copy_(from + i, near_.data(), near_.size());
    }
    clear_upper_halves();
    return 2.0 * kBlock * sizeof(float);
  }

  // Each element needs two reads and one write.
  double update() {
    const std::size_t at = next();
    kernel_(variable_.data() + at, delta_.data() + at, 1e-3f, kBlock);
    clear_upper_halves();
    return 3.0 * kBlock * sizeof(float);
  }

 private:
  std::size_t next() {
    at_ = at_ + 2 * kBlock <= variable_.size() ? at_ + kBlock : 0;
    return at_;
  }

  LinesOf<float> variable_, delta_;
  LinesOf<float> near_ = LinesOf<float>(std::size_t{1} << 11);
  const Kernel<float> kernel_ = find_kernel<float>();
  const Copy<float> copy_ = find_copy<float>();
  std::size_t at_ = 0;
};

Json rates(const std::vector<int>& cpus, std::size_t bytes, double seconds) {
  const auto gb_per_s = [&](bool updates) {
    return 1e-9 * rate_on(cpus, seconds, [&](int) {
             return [memory = Memory(bytes), updates]() mutable {
               return updates ? memory.update() : memory.read();
             };
           });
  };
  return Json::Object{{"threads", cpus.size()},
                      {"read_gb_per_s", rounded(gb_per_s(false))},
                      {"update_gb_per_s", rounded(gb_per_s(true))}};
}

}  // namespace

Json memory_bandwidth(const std::vector<Cpu>& cpus, const Budget& budget) {
  std::vector<int> all;
  for (const Cpu& cpu : cpus) all.push_back(cpu.number);
  const std::size_t bytes =
      std::clamp(free_bytes() / 8 / all.size(), kLeastBytes, kMostBytes) / (8 * kBlock) * (8 * kBlock);
  const double seconds = std::min(kSeconds, budget.left() / 8);
  Json::Array rows{rates({all.front()}, bytes, seconds)};
  if (all.size() > 1) rows.push_back(rates(all, bytes, seconds));
  return Json::Object{{"bytes_each", bytes}, {"rows", rows}};
}

}  // namespace tmflow::probe
