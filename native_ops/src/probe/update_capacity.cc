#include "tmflow/probe/update_capacity.hpp"

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace tmflow::probe {
namespace {

constexpr double kSeconds = 10;

UpdateCapacity measure(std::string_view machine) {
  const std::unique_ptr<Transactor> transactor =
      machine.empty() ? make_real_transactor() : make_emulated_transactor(machine);
  if (transactor == nullptr || !transactor->enabled()) {
    throw NotMeasured("this processor has no transactions that it reports as enabled");
  }
  // In a separate thread, because it pins itself to a processor.
  UpdateCapacity found{};
  std::exception_ptr failed;
  const auto began = Clock::now();
  std::thread([&] {
    try {
      transactor->settle(transactor->first());
      found = find_update_capacity(*transactor, Budget(kSeconds));
    } catch (...) {
      failed = std::current_exception();
    }
  }).join();
  if (failed != nullptr && seconds_since(began) > kSeconds) {
    throw NotMeasured("the time for it, 10 s, was over: too many transactions abort on this busy machine");
  }
  if (failed != nullptr) std::rethrow_exception(failed);
  return found;
}

}  // namespace

UpdateCapacity update_capacity(std::string_view machine) {
  static std::mutex mutex;
  static std::map<std::string, UpdateCapacity, std::less<>> known;
  const std::lock_guard held(mutex);
  auto found = known.find(machine);
  if (found == known.end()) found = known.emplace(machine, measure(machine)).first;
  return found->second;
}

}  // namespace tmflow::probe
