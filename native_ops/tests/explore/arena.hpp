// The memory of one execution.
#pragma once

namespace tmflow::explore::arena {

// While it is in use, `new` takes memory from it and `delete` does nothing; at the end of an execution all of
// it is released at once. So an execution that is abandoned leaks nothing, addresses are the same each time,
// and no address is used twice, which would look like two threads at one place.
void use(bool wanted) noexcept;
bool in_use() noexcept;
void clear() noexcept;

// While it lives, allocations are the explorer's and not the execution's.
class Outside {
 public:
  Outside() noexcept : before_(in_use()) { use(false); }
  ~Outside() { use(before_); }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  const bool before_;
};

}  // namespace tmflow::explore::arena
