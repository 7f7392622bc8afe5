#!/usr/bin/env bash
# Build HPX into .hpx/, where `make build` finds it: for the executors hpx and hpx_dataflow and the transport hpx.
# The source is the release below: from the folder TMFLOW_HPX_SOURCE, or else cloned. Six minutes on 2 cores.
# An HPX that is installed elsewhere is used as well: set CMAKE_PREFIX_PATH for `make build` (envs/hpx.yaml for conda).
# Prints one sentence and exits with 2 if it lacks something.
set -euo pipefail
export LC_ALL=C  # git's messages are searched below
cd "$(dirname "$0")/.."
release=1.11.0
commit=c9b81b401fbe6ba4a0306feff71d18ef01c71b34
repository=https://github.com/STEllAR-GROUP/hpx
installed=.hpx

fail() { printf 'tmflow hpx: %s\n' "$*" >&2; exit 2; }

# The release that a folder has the source of, or nothing.
release_of() {
  sed -nE 's/^set\(HPX_VERSION_(MAJOR|MINOR|SUBMINOR) ([0-9]+)\)/\2/p' "$1/CMakeLists.txt" 2>/dev/null | paste -sd. -
}

if [ "$(cat $installed/tmflow-release 2>/dev/null)" = "$release" ]; then
  echo "tmflow hpx: HPX $release is in $installed/ already; remove that folder to build it again"
  exit
fi

work=build/hpx
mkdir -p $work
if [ -n "${TMFLOW_HPX_SOURCE:-}" ]; then
  source=$TMFLOW_HPX_SOURCE
  [ "$(release_of "$source")" = "$release" ] || fail "TMFLOW_HPX_SOURCE=$source must be a folder with the source of HPX $release."
else
  source=$work/source
  if [ "$(git -C $source rev-parse HEAD 2>/dev/null)" != "$commit" ]; then
    rm -rf $source
    git clone --quiet --depth 1 --branch "v$release" $repository $source 2>$work/clone.log \
      || fail "HPX $release could not be cloned ($(grep -m1 fatal $work/clone.log)); give a folder with its source as TMFLOW_HPX_SOURCE."
  fi
  [ "$(git -C $source rev-parse HEAD)" = "$commit" ] || fail "tag v$release of $repository is not commit $commit."
fi

echo "tmflow hpx: building HPX $release (six minutes on 2 cores, once; log: $work/build.log)"
ninja=$PWD/.venv/bin/ninja
# A process that has ended is given up after 0.1 s: HPX would try for 100 s, on a thread that other processes need, too.
give_up='-DHPX_MAX_NETWORK_RETRIES=20 -DHPX_NETWORK_RETRIES_SLEEP=5'
# HPX's libraries find each other wherever the checkout is moved to: with full paths a process would load two HPX, and crash.
beside='$ORIGIN;$ORIGIN/..'
# A unity build reads the headers fewer times. TensorFlow's allocator stays: two in one process would not share freed memory.
{
  .venv/bin/cmake -G Ninja -S "$source" -B $work/tree -DCMAKE_MAKE_PROGRAM="$ninja" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$PWD/$installed" -DHPX_WITH_FULL_RPATH=OFF -DCMAKE_INSTALL_RPATH="$beside" -DHPX_WITH_UNITY_BUILD=ON -DHPX_WITH_MALLOC=system \
    -DCMAKE_CXX_FLAGS="$give_up" -DHPX_WITH_CXX_STANDARD=20 -DHPX_WITH_NETWORKING=ON -DHPX_WITH_PARCELPORT_TCP=ON -DHPX_WITH_FETCH_ASIO=OFF \
    -DHPX_WITH_MAX_CPU_COUNT=256 -DHPX_WITH_EXAMPLES=OFF -DHPX_WITH_TESTS=OFF -DHPX_WITH_TOOLS=OFF \
    -DHPX_WITH_DOCUMENTATION=OFF -DHPX_WITH_PKGCONFIG=OFF -DHPX_WITH_COMPILER_WARNINGS=OFF \
    && "$ninja" -C $work/tree install
} >$work/build.log 2>&1 || fail "HPX could not be built: see $work/build.log."
echo $release >$installed/tmflow-release
rm -rf $work
echo "tmflow hpx: HPX $release is in $installed/; \`make build\` builds the executors and the transport that use it"
