// What the probe needs of a processor with transactions: the real ones and the emulated one look alike to it.
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
  std::size_t shift = 0;  // by which every second place lies further
  std::size_t times = 1;  // the whole, again and again

  char* place(std::size_t i) const { return base + i * stride + (i % 2 != 0 ? shift : 0); }
};

// Hardware threads are numbers. A thread calls with the number of the one that it has settled on.
class Transactor {
 public:
  virtual ~Transactor() = default;

  // Whose statuses these are: "rtm" or "power".
  virtual std::string_view dialect() const = 0;
  virtual bool reported() const = 0;  // the processor or the kernel says that it has transactions
  virtual bool enabled() const = 0;   // and does not say that they always abort

  virtual int first() const = 0;                      // where the probe itself runs
  virtual std::optional<int> other_core() const = 0;  // one on another core
  virtual std::vector<int> siblings() const = 0;      // which may share the first one's core

  // The calling thread runs there from now on.
  virtual void settle(int thread) const = 0;

  // One transaction that makes these walks; false: it has aborted, and `ended` says how. Entered only where
  // transactions are reported.
  virtual bool attempt(int thread, std::span<const Walk> walks, htm::Ended& ended) = 0;
  // The same touches outside of transactions.
  virtual void outside(int thread, const Walk& walk) = 0;
  // Memory for the places, so that no transaction meets a page that is not there.
  virtual void prepare(const Walk& walk) const = 0;

  // How often to touch a place for a transaction to last while others can do something: some microseconds.
  virtual std::size_t dwelling() const = 0;
};

// This machine's, whether its transactions work or not; a null pointer where its family has none that we
// know.
std::unique_ptr<Transactor> make_real_transactor();
// Throws std::invalid_argument for impossible numbers.
std::unique_ptr<Transactor> make_emulated_transactor(std::string_view machine);

}  // namespace tmflow::probe
