// A build without GCC's transactions, for the reason that CMakeLists.txt gives.
#include <stdexcept>

#include "tmflow/itm/transaction.hpp"

namespace tmflow::itm {

template <>
Update<float> find_update(std::string_view) noexcept {
  return nullptr;
}

template <>
Update<double> find_update(std::string_view) noexcept {
  return nullptr;
}

std::optional<std::string> why_not() { return TMFLOW_ITM_ABSENT; }

void require_method(std::string_view) {
  throw std::invalid_argument(std::string("itm cannot run here: ") + TMFLOW_ITM_ABSENT);
}

std::optional<std::string> library_in_use() { return std::nullopt; }

}  // namespace tmflow::itm
