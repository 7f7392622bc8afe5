// The probe of hardware transactions, on any processor.
#include <gtest/gtest.h>

#include "tmflow/probe/tm_probe.hpp"

namespace tmflow {
namespace {

TEST(TmProbe, TriesOnlyWhatTheProcessorReports) {
  const TmProbe probe = probe_tm(50);
  EXPECT_EQ(probe.tried, probe.reported ? 50 : 0);
  int aborted = 0;
  for (const auto& [status, count] : probe.statuses) aborted += count;
  EXPECT_EQ(probe.committed + aborted, probe.tried);
}

}  // namespace
}  // namespace tmflow
