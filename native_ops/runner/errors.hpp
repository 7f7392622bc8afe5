// The errors that are not faults of the program.
#pragma once

#include <stdexcept>

namespace tmflow::runner {

// A mistake of the user: one sentence that says what is wrong and what is allowed. The program exits with
// code 2.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A trial that cannot run here.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A trial whose variables are no longer finite.
class Diverged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tmflow::runner
