// The memory of one execution.
#pragma once

namespace tmflow::explore::arena {

// While it is in use, `new` takes from it and `delete` does nothing; at the end of an execution all of it is
// given back at once. So an execution that is left in the middle leaks nothing, addresses are the same each
// time, and no address is used twice, which would look like two threads at one place.
void use(bool wanted) noexcept;
bool in_use() noexcept;
void clear() noexcept;

// The explorer's own memory is not of the execution.
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
