// The state of libitm in this process: the method that it has fixed, and whether it is libitm at all.
#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

#include "itm_build.hpp"
#include "tmflow/htm/hardware_transaction.hpp"
#include "tmflow/probe/tm_probe.hpp"

// The query of the TM ABI (Intel Transactional Memory Compiler and Runtime Application Binary Interface) for
// the caller's mode: 0 outside of a transaction, 1 in one that may restart, 2 in an irrevocable one.
extern "C" int _ITM_inTransaction();

namespace tmflow::itm {
namespace {

constexpr const char* kVariable = "ITM_DEFAULT_METHOD";
constexpr int kIrrevocable = 2;

// The functions that the compiler's transactions of float and double call. All must come from one library: if
// a library loaded before libitm lacks some, the linker would take them from libitm, with separate
// transactions.
constexpr const char* kInterface[] = {
    "_ITM_beginTransaction",
    "_ITM_commitTransaction",
    "_ITM_inTransaction",
    "_ITM_RF",
    "_ITM_WF",
    "_ITM_RD",
    "_ITM_WD",
    "_ITM_RU4",
    "_ITM_RU8",
    "_ITM_RfWF",
    "_ITM_RfWD",
    "_ITM_WaWF",
    "_ITM_WaWD",
#if defined(__x86_64__)
    "_ITM_RM64",
    "_ITM_RfWM64",
    "_ITM_WaWM64",
    "_ITM_RM128",
    "_ITM_WM128",
#endif
};

std::string value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

// Read when this library is loaded, so that a later change by the program is not mistaken for the environment
// at its start.
const std::string kMethodAtLoad = value_of(kVariable);

std::string file_of(const char* symbol) {
  Dl_info info{};
  void* const address = dlsym(RTLD_DEFAULT, symbol);
  return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fname : "";
}

void require_whole_library() {
  const std::string library = file_of(kInterface[0]);
  for (const char* symbol : kInterface) {
    if (file_of(symbol) != library) {
      throw std::invalid_argument("itm cannot run here: the library " + library +
                                  ", which is used instead of libitm, does not define " + symbol);
    }
  }
}

// The environment when the first transaction of this process ran. libitm reads it then, once.
const std::string& method_in_force() {
  static const std::string method = [] {
    std::string said = value_of(kVariable);
    Execution execution;
    build_O3.of_float(nullptr, {}, 0, execution);
    return said;
  }();
  return method;
}

}  // namespace

void begins(Execution& execution) noexcept { ++execution.times; }

void ends(Execution& execution) noexcept {
  // The library is queried only outside of its own hardware transactions, because libitm would abort them.
  execution.alone = !in_hardware_transaction() && _ITM_inTransaction() == kIrrevocable;
}

template <>
Update<float> find_update(std::string_view optimisation) noexcept {
  return optimisation == "O0" ? build_O0.of_float : build_O3.of_float;
}

template <>
Update<double> find_update(std::string_view optimisation) noexcept {
  return optimisation == "O0" ? build_O0.of_double : build_O3.of_double;
}

std::optional<std::string> why_not() { return std::nullopt; }

void require_method(std::string_view method) {
  const std::string wanted(method);
  if (kMethodAtLoad != wanted) {
    const std::string at_load = kMethodAtLoad.empty() ? "without it" : "with " + kMethodAtLoad;
    throw std::invalid_argument("itm with method " + wanted + " needs a process started with " + kVariable +
                                "=" + wanted + ", but this process was started " + at_load);
  }
  // Without hardware transactions libitm accepts `htm` and runs one transaction after another.
  if (wanted == "htm" && probe_tm(100).committed == 0) {
    throw std::invalid_argument(
        "itm with method htm cannot run here: none of 100 trial transactions of the processor committed");
  }
  require_whole_library();
  if (method_in_force() != wanted) {
    throw std::invalid_argument(std::string(kVariable) + " was changed to '" + method_in_force() +
                                "' after the process was started with " + wanted);
  }
}

std::optional<std::string> library_in_use() { return file_of(kInterface[0]); }

}  // namespace tmflow::itm
