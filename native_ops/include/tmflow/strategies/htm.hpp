// htm: hardware transactions elide the variable's own mutex, as in the study, also those of its optimiser's
// slots, or one of ours.
#pragma once

#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "tmflow/core/strategy.hpp"
#include "tmflow/htm/emulated/elided.hpp"
#include "tmflow/htm/mutex_word.hpp"
#include "tmflow/htm/transactions.hpp"
#include "tmflow/sync/timed_lock.hpp"

namespace tmflow {

// Contract: with chunk 0, updates of a variable are serialised and none is lost, also against holders of the
// variable's mutex; with a chunk, this holds for each chunk of elements. Readers see elements of different
// updates mixed, as with `lock`. The memory is fetched before the transaction (the fetch locks the mutex
// briefly, which a transaction cannot do), so an update that overlaps an assignment of the whole variable may
// be lost, where `lock` would order the two. With subscription to a mutex of ours, the variable's mutex is
// not used, and its holder excludes no update. With subscription to slots, a holder of the mutex of an
// optimiser's slot also excludes updates, as in the study's TM_BEGIN_ADAM. Memory ordering: see htm::elide.
//
// A read locks the elided mutex. This aborts all transactions that have read its word, and none commits
// before the copy is complete.
//
// With emulated transactions, an operation that locks the variable's mutex without notifying the emulated
// processor (an assignment to a reference variable) excludes no update either.
class Htm {
 public:
  static constexpr Parameter kParameters[] = {
      htm::kProvider,
      htm::kMachine,
      htm::kBudget,
      htm::kSpending,
      {.name = "subscription",
       .fallback = "variable",
       .summary =
           "the elided mutexes: the variable's; the variable's and those of the optimiser's slots; or one of "
           "tmflow",
       .choices = "variable, slots, ours"},
      kChunk,
  };
  static constexpr StrategyInfo info{
      .name = "htm",
      .summary =
          "hardware transactions elide the variable's mutex, also those of its slots, or one of tmflow",
      .updates = Consistency::tensor,
      .reads = Consistency::element,
      .snapshots = Consistency::tensor,  // with a chunk: of each chunk, as for updates
      .parameters = kParameters,
      .check = [](const Parameters& given) { htm::check_machine("htm", given); },
      .updates_over = [](const Parameters& given,
                         std::size_t n) { return consistency_in_parts(given.integer("chunk"), n); },
  };

  static std::optional<std::string> why_not() { return htm::Transactions::why_not(); }
  static std::optional<std::string> why_not(const Parameters& parameters) {
    return htm::Transactions::why_not(parameters);
  }

  // Throws std::invalid_argument for a provider that cannot run on this machine.
  explicit Htm(const Parameters& parameters)
      : transactions_("htm", parameters),
        subscription_(subscription(parameters.text("subscription"))),
        chunk_(chunk_of(parameters)) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    transactions_.check(update);
    const auto memory = region.memory(Holding::nothing);
    const htm::ElidableMutexes mutexes = elided(region, update.slots);
    if constexpr (FetchTakesMutex<R>) {
      if (subscription_ == Subscription::slots) {
        note_mutexes(mutexes);  // the fetches of the slots have locked theirs, too
      } else {
        note_mutex(region);
      }
    }
    transactions_.provider.run(
        htm::ElidedUpdate<typename R::Value>{update, memory, chunk_, transactions_.processor}, mutexes,
        transactions_.budget, stats);
    stats.count_update();
  }

  // A read of the variable locks its mutex, to which every transaction subscribes, and not those of its
  // slots.
  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    if constexpr (FetchTakesMutex<R>) note_mutex(region);
    const htm::ElidableMutex mutex = elided(region);
    if (auto* const processor = transactions_.processor) {
      return htm::emulated::read_alone(processor->here(), mutex, memory, reading, stats);
    }
    const TimedLockGuard held(mutex, stats);
    reading(memory, 0, memory.size());
  }

  // Notifies an emulated processor of what a real one would see: the reader locks the variable's mutex
  // briefly, and reads its memory.
  template <Region R>
  void note_read(R& region) {
    if (transactions_.processor == nullptr) return;
    const auto memory = region.memory(Holding::nothing);
    note_mutex(region);
    transactions_.notice({Access::read(memory.data(), memory.size_bytes())});
  }

  // The same for a reader of some rows, who locks the mutex only if a fetch of the memory does.
  template <Region R>
  void note_rows(R& region, std::span<const NonZero<typename R::Value>> inputs, std::size_t width) {
    if (transactions_.processor == nullptr) return;
    const auto memory = region.memory(Holding::nothing);
    if constexpr (FetchTakesMutex<R>) note_mutex(region);
    transactions_.notice_rows<typename R::Value>(memory, inputs, width);
  }

 private:
  using Access = htm::emulated::Access;
  enum class Subscription { variable, slots, ours };

  static Subscription subscription(std::string_view name) {
    if (name == "slots") return Subscription::slots;
    return name == "ours" ? Subscription::ours : Subscription::variable;
  }

  template <Region R>
  htm::ElidableMutex elided(R& region) {
    return subscription_ == Subscription::ours ? htm::elidable(own_) : htm::elidable(region.mutex());
  }

  // Those of an update. Throws std::invalid_argument if those of the slots are to be elided, and there are
  // none.
  template <Region R>
  htm::ElidableMutexes elided(R& region, const Slots<typename R::Value>* slots) {
    htm::ElidableMutexes mutexes = elided(region);
    if (subscription_ != Subscription::slots) return mutexes;
    if (slots == nullptr) {
      throw std::invalid_argument(
          "subscription slots of strategy 'htm' needs an optimiser with slots: momentum, adagrad or adam");
    }
    if constexpr (HasSlotMutexes<R>) {
      const auto of_slots = region.slot_mutexes();
      if (of_slots.size() >= slots->count()) {
        for (std::size_t i = 0; i < slots->count(); ++i) mutexes.add(htm::elidable(of_slots[i]));
        return mutexes;
      }
    }
    throw std::invalid_argument("the slots of this variable have no mutexes that htm could elide");
  }

  // The variable's mutex was locked and unlocked again.
  template <Region R>
  void note_mutex(R& region) {
    note_mutexes(htm::elidable(region.mutex()));
  }

  void note_mutexes(const htm::ElidableMutexes& mutexes) {
    if (transactions_.processor == nullptr) return;
    mutexes.for_each_word(
        [&](const auto* word) { transactions_.notice({Access::written(word, sizeof *word)}); });
  }

  const htm::Transactions transactions_;
  std::mutex own_;
  const Subscription subscription_;
  const std::size_t chunk_;
};

}  // namespace tmflow
