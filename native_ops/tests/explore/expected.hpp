// What the tests expect of a report.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "consistency.hpp"

namespace tmflow::explore {

// Every schedule was explored, and the consistency held under each.
inline void expect_proven(const std::string& what, const Report& report) {
  print(what, report);
  EXPECT_EQ(report.failure, "") << what;
  EXPECT_TRUE(report.finished) << what << ": cut off";
  EXPECT_GT(report.interleavings, 1) << what << ": the threads never met";
}

// There are too many schedules to explore; the consistency held under the first `Limits::executions`.
inline void expect_none_found(const std::string& what, const Report& report) {
  print(what, report);
  EXPECT_EQ(report.failure, "") << what;
  EXPECT_FALSE(report.finished) << what << ": all were explored, so this is proven";
}

// A schedule was found under which the program fails with this message.
inline void expect_found(const std::string& what, const Report& report, const std::string& wrong) {
  print(what, report);
  EXPECT_NE(report.failure.find(wrong), std::string::npos)
      << what << ": expected '" << wrong << "', got '" << report.failure << "'";
}

}  // namespace tmflow::explore
