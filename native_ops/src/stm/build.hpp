// The loops of one build: build.cc compiled with one set of flags.
#pragma once

#include "tmflow/stm/update.hpp"

namespace tmflow::stm {

enum class DesignKind { wb_etl, wb_ctl, wt };
enum class ManagerKind { suicide, delay, backoff, aggressive, timestamp };

struct LoopKind {
  DesignKind design;
  ManagerKind manager;
  bool instruments_all;
};

struct LoopBuild {
  Loop<float> (*of_float)(const LoopKind& kind) noexcept;
  Loop<double> (*of_double)(const LoopKind& kind) noexcept;
  SnapshotLoop<float> (*snapshot_of_float)(const LoopKind& kind) noexcept;
  SnapshotLoop<double> (*snapshot_of_double)(const LoopKind& kind) noexcept;
};

// cmake/stm.cmake names the builds.
extern const LoopBuild loops_O0, loops_O3;

}  // namespace tmflow::stm
