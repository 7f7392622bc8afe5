// Where updates are published so that other threads can apply them.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tmflow/core/kernel.hpp"
#include "tmflow/measure/counters.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow {

// An update of a variable, for the thread that applies it: the operation, and the memory. It refers to
// objects of the publishing thread and is valid only as long as they are.
class Publication {
 public:
  Publication() = default;

  template <class T>
  Publication(std::span<T> memory, const GradientDescent<T>& update)
      : run_(&run<T>), memory_(memory.data()), elements_(memory.size()), update_(&update) {}

  void operator()(std::size_t first, std::size_t count) const noexcept { run_(*this, first, count); }

 private:
  template <class T>
  static void run(const Publication& own, std::size_t first, std::size_t count) noexcept {
    const std::span<T> memory(static_cast<T*>(own.memory_), own.elements_);
    (*static_cast<const GradientDescent<T>*>(own.update_))(memory, first, count);
  }

  void (*run_)(const Publication&, std::size_t, std::size_t) noexcept = nullptr;
  void* memory_ = nullptr;
  std::size_t elements_ = 0;
  const void* update_ = nullptr;
};

// The seat that a thread had last, on any board. It keeps a thread to its part of a variable; correctness
// does not depend on it. A test that controls the schedule may set it.
template <template <class> class Atom>
struct LastSeat {
  inline static thread_local std::size_t of_thread = 0;
};

// The publications of one variable. A thread takes a seat, publishes there, and releases the seat when no
// other thread can read its publication any more; it may then take a seat again immediately. With more
// threads than seats, a thread waits for a seat: each is released after one update.
//
// Publications are announced by a word of toggling bits (as in P-Sim: Fatourou and Kallimanis, SPAA 2011): a
// bit for each seat, which the publisher inverts. Comparing it with a word of completed bits shows the seats
// with pending updates: those whose bits differ.
//
// Memory ordering: a publication is written before the exclusive-or that announces it, which releases it. A
// thread that acquires the announcements and finds the bit different may read it. An exclusive-or of another
// seat in between continues the release sequence. A seat's `taken` is acquired by the exchange that takes it
// and released by the store that releases it, so the next publisher's writes come after the last one's.
template <template <class> class Atom = std::atomic>
class Board {
 public:
  using Bits = std::uint64_t;
  static constexpr std::size_t kSeats = 64;

  // A seat, taken and published, and released at the end of the scope.
  class Seat {
   public:
    Seat(Board& board, const Publication& publication)
        : board_(board), number_(board.take()), bit_(Bits{1} << number_) {
      board.seats_[number_].publication = publication;
      announced_ = ~board.announced_.fetch_xor(bit_, std::memory_order_release) & bit_;
    }
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    ~Seat() { board_.seats_[number_].taken.store(false, std::memory_order_release); }

    std::size_t number() const noexcept { return number_; }
    Bits others(Bits all) const noexcept { return all & ~bit_; }
    bool is_in(Bits carried_out) const noexcept { return (carried_out & bit_) == announced_; }

    // Whether other threads were updating at the last update from this seat.
    bool& had_company() noexcept { return board_.seats_[number_].had_company; }

   private:
    Board& board_;
    const std::size_t number_;
    const Bits bit_;
    Bits announced_;
  };

  Bits announced() const noexcept { return announced_.load(std::memory_order_acquire); }

  // Apply to these elements the publications of the seats whose bits are set in `pending`.
  void carry_out(Bits pending, std::size_t first, std::size_t count) const noexcept {
    for (; pending != 0; pending &= pending - 1) {
      seats_[static_cast<std::size_t>(std::countr_zero(pending))].publication(first, count);
    }
  }

 private:
  struct alignas(kCacheLine) Place {
    Atom<bool> taken{false};
    Publication publication;
    bool had_company = false;
  };

  // The last seat if it is free, else the first free one, so the seats in use are few and have low numbers.
  std::size_t take() noexcept {
    std::size_t& own = LastSeat<Atom>::of_thread;
    if (try_take(own)) return own;
    for (Turn turn;; ++turn) {
      for (std::size_t number = 0; number < kSeats; ++number) {
        if (try_take(number)) return own = number;
      }
      Waiting<Atom>::once(turn);
    }
  }

  bool try_take(std::size_t number) noexcept {
    Atom<bool>& taken = seats_[number].taken;
    return !taken.load(std::memory_order_relaxed) && !taken.exchange(true, std::memory_order_acquire);
  }

  alignas(kCacheLine) Atom<Bits> announced_{0};
  std::array<Place, kSeats> seats_;
};

}  // namespace tmflow
