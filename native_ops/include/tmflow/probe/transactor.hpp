// The interface of a processor with transactions for the probe, the same for real and emulated ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tmflow/htm/elision.hpp"

namespace tmflow::probe {

// Bytes to touch: one in each of `count` places, `stride` apart.
struct Walk {
  char* base;
  std::size_t stride, count;
  bool write;
  std::size_t shift = 0;  // the extra distance of every second place
  std::size_t times = 1;  // repetitions of the whole walk

  char* place(std::size_t i) const { return base + i * stride + (i % 2 != 0 ? shift : 0); }
};

// Hardware threads are numbers. A thread passes the number of the hardware thread on which it runs.
class Transactor {
 public:
  virtual ~Transactor() = default;

  // The kind of its statuses: "rtm" or "power".
  virtual std::string_view dialect() const = 0;
  virtual bool reported() const = 0;  // the processor or the kernel reports transactions
  virtual bool enabled() const = 0;   // and does not report that they always abort

  virtual int first() const = 0;                      // where the probe itself runs
  virtual std::optional<int> other_core() const = 0;  // one on another core
  virtual std::vector<int> siblings() const = 0;      // threads that may share the first one's core

  // From now on the calling thread runs on this hardware thread.
  virtual void settle(int thread) const = 0;

  // One transaction that makes these accesses; false: it has aborted, and `ended` has the reason. Must be
  // called only if transactions are reported.
  virtual bool attempt(int thread, std::span<const Walk> walks, htm::Ended& ended) = 0;
  // The same touches outside of transactions.
  virtual void outside(int thread, const Walk& walk) = 0;
  // Prepares the memory of the places: all pages are present, so that no transaction meets a page fault.
  virtual void prepare(const Walk& walk) const = 0;

  // How often to touch a place for a transaction to last some microseconds, so that other threads can act.
  virtual std::size_t dwelling() const = 0;
};

// This machine's processor, whether its transactions work or not; a null pointer if its family has no known
// transactions.
std::unique_ptr<Transactor> make_real_transactor();
// Throws std::invalid_argument for impossible numbers.
std::unique_ptr<Transactor> make_emulated_transactor(std::string_view machine);

}  // namespace tmflow::probe
