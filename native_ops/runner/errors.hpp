// What can go wrong besides a fault of the program.
#pragma once

#include <stdexcept>

namespace tmflow::runner {

// The user's: one sentence that names what is wrong and what is allowed; the program ends with code 2.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A trial that cannot run here.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A trial whose variables are not finite any more.
class Diverged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tmflow::runner
