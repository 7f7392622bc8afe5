// What Python calls, through ctypes.
#include <cstdint>
#include <cstring>
#include <string>

#include "distributed/protocols.hpp"
#include "executor.hpp"
#include "schedulers/std_pool.hpp"
#include "schedulers/tf_pool.hpp"
#ifdef TMFLOW_HAS_TBB
#include "schedulers/tbb_arena.hpp"
#endif
#ifdef TMFLOW_HAS_HPX
#include "hpx/dataflow_executor.hpp"
#include "schedulers/hpx_tasks.hpp"
#endif

namespace tmflow::runtime {
namespace {

// A scheduler is a file in schedulers/ and its name here.
template <class... Schedulers>
struct List {
  static std::string names() {
    std::string names;
    ((names += names.empty() ? "" : ",", names += Schedulers::kName), ...);
    return names;
  }

  static void add_factories() { (add_factory<Schedulers>(), ...); }

  static Counts* counts(const char* name) {
    Counts* found = nullptr;
    ((std::strcmp(name, Schedulers::kName) == 0 ? void(found = &Schedulers::counts()) : void()), ...);
    return found;
  }

 private:
  // TensorFlow keeps the factory, and has no way to remove it.
  template <class Scheduler>
  static void add_factory() {
    std::string type = "TMFLOW_";
    for (const char* c = Scheduler::kName; *c != 0; ++c) type += static_cast<char>(std::toupper(*c));
    tensorflow::ExecutorFactory::Register(type, new Factory<Scheduler>);
  }
};

using All = List<TfPool, StdPool
#ifdef TMFLOW_HAS_TBB
                 ,
                 TbbArena
#endif
#ifdef TMFLOW_HAS_HPX
                 ,
                 HpxTasks, HpxDataflow
#endif
                 >;

}  // namespace
}  // namespace tmflow::runtime

extern "C" {

// The version of TensorFlow whose headers this library was compiled with.
const char* tmflow_runtime_tensorflow_version() { return TMFLOW_TENSORFLOW_VERSION; }

// The names of the schedulers, separated by commas.
const char* tmflow_runtime_schedulers() {
  static const std::string names = tmflow::runtime::All::names();
  return names.c_str();
}

// The names of the protocols, separated by commas.
const char* tmflow_runtime_protocols() {
  static const std::string names = tmflow::runtime::protocols();
  return names.c_str();
}

// Registers the executors and the protocols with the TensorFlow of this process. Nothing of TensorFlow is
// called before this, because only the version of the headers has the layout that they describe. Returns
// whether `version` is that version.
bool tmflow_runtime_register(const char* version) {
  if (std::strcmp(version, TMFLOW_TENSORFLOW_VERSION) != 0) return false;
  static const bool once =
      (tmflow::runtime::All::add_factories(), tmflow::runtime::register_protocols(), true);
  return once;
}

// The counts of one scheduler: executors, steps, nodes, tasks. Returns whether there is this scheduler.
bool tmflow_runtime_counts(const char* scheduler, int64_t counts[4]) {
  const auto* const of = tmflow::runtime::All::counts(scheduler);
  if (of == nullptr) return false;
  counts[0] = of->executors.load();
  counts[1] = of->steps.load();
  counts[2] = of->nodes.load();
  counts[3] = of->tasks.load();
  return true;
}
}
