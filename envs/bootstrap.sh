#!/usr/bin/env bash
# Set up tmflow: system packages, .venv, locked dependencies, the package itself. Idempotent; under 2 s the second time.
#   envs/bootstrap.sh build   everything for building, running and showing the study
#   envs/bootstrap.sh test    the same, and the requirements of `make test`
#   envs/bootstrap.sh hpx     the same as build, and the requirements of building HPX
#   envs/bootstrap.sh portal  only the requirements for showing results: no compiler, no TensorFlow (docs/hosting.md)
# A complete .venv is kept and used for `portal` too.
# Prints one sentence and exits with 2 if it lacks something that it cannot install.
set -euo pipefail
cd "$(dirname "$0")/.."
group=${1:-build}

is_whole() { [ -e .venv/tmflow-set-up ] && ls -d .venv/lib/python*/site-packages/tensorflow >/dev/null 2>&1; }

if [ "$group" = portal ] && is_whole; then
  echo "tmflow set-up: .venv has TensorFlow and all that $group needs, so it stays whole; remove it for a small one"
  group=build
fi
case "$group" in
  portal) lock=envs/portal.txt contents="what $group needs, without TensorFlow" ;;
  *) lock=envs/requirements.txt contents="all locked dependencies" ;;
esac

fail() { printf 'tmflow set-up: %s\n' "$*" >&2; exit 2; }

supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

find_python() {
  if [ -n "${PYTHON:-}" ]; then
    supported "$PYTHON" || fail "PYTHON=$PYTHON is not Python 3.11, 3.12 or 3.13."
    return
  fi
  for PYTHON in python3 python3.13 python3.12 python3.11; do
    if supported "$PYTHON"; then return; fi
  done
  fail "no Python 3.11, 3.12 or 3.13 found; install one of them, or name it: make PYTHON=/path/to/python3.12 setup."
}

# The interpreter that a virtual environment was made from: in an active .venv, the first python3 is that of the .venv.
base_of() { "$1" -c 'import sys; print("{}/bin/python{}.{}".format(sys.base_prefix, *sys.version_info[:2]))'; }

missing_packages() {
  while read -r its_group package check; do
    case "$its_group/$group" in
      portal/* | build/test | build/hpx | "$group/$group") eval "$check" >/dev/null 2>&1 || printf '%s ' "$package" ;;
    esac
  done < envs/system-packages.txt
}

install_missing() {
  local missing sudo=""
  missing=$(missing_packages)
  [ -z "$missing" ] && return
  local line="apt-get install -y --no-install-recommends $missing"
  [ "$(id -u)" = 0 ] || { sudo -n true 2>/dev/null && sudo="sudo -n"; } || fail "run this, then try again: sudo $line"
  command -v apt-get >/dev/null || fail "install with this system's package manager what Debian calls: $missing"
  echo "tmflow set-up: installing $missing"
  # shellcheck disable=SC2086  # the packages are words
  $sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo $line >/dev/null \
    || fail "apt could not install them; run this, then try again: sudo $line"
  missing=$(missing_packages)
  [ -z "$missing" ] || fail "still missing after the installation: $missing"
}

# A stamp holds the hash of everything that the environment is made from, and of nothing else: a changed linter rule in
# pyproject.toml does not cause a new installation.
wanted() {
  "$PYTHON" - "$lock" << 'EOF'
import hashlib, pathlib, sys, tomllib

project = tomllib.loads(pathlib.Path("pyproject.toml").read_text(encoding="utf-8"))
package = [project["build-system"], project["project"], project["tool"]["setuptools"]]
lock = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
made_from = [sys.version, sys.base_prefix, str(pathlib.Path.cwd()), lock, package]
print(hashlib.sha256(repr(made_from).encode()).hexdigest())
EOF
}

# As pip does, uv takes a package from whichever index has the locked version; the hashes decide what is accepted.
install_with_uv() (
  settings=$(.venv/bin/python envs/uv_settings.py) && eval "$settings" \
    && .venv/bin/uv pip install --quiet --python .venv/bin/python --index-strategy unsafe-best-match --require-hashes \
      --requirement "$lock"
)

install_with_pip() {
  .venv/bin/python -m pip install -qq --disable-pip-version-check --no-compile --require-hashes --requirement "$1"
}

# uv unpacks with all cores and takes a quarter of the time; the portal's lock file is small and does not have uv.
install_lock() {
  local uv
  uv=$(sed -n '/^uv==/,/[^\\]$/p' "$lock")
  if [ -n "$uv" ] && install_with_pip <(echo "$uv"); then
    install_with_uv && return
    echo "tmflow set-up: uv could not install the dependencies (see above); pip tries, which takes a minute longer"
  fi
  install_with_pip "$lock"
}

announce() {
  local doing="creating .venv"
  if [ -e .venv ]; then is_whole && doing="renewing .venv" || doing="replacing .venv, which lacks TensorFlow or is not whole,"; fi
  echo "tmflow set-up: $doing with $contents (about a minute, once)"
}

make_environment() {
  local stamp=.venv/tmflow-set-up wanted
  wanted=$(wanted) || fail "$lock and pyproject.toml cannot be read; see the message above."
  if [ -x .venv/bin/tmflow ] && [ "$(cat $stamp 2>/dev/null)" = "$wanted" ]; then return; fi
  announce
  rm -rf .venv
  "$PYTHON" -m venv .venv
  install_lock || fail "the dependencies could not be installed; see the message above."
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . \
    || fail "the package could not be installed; see the message above."
  # Importing TensorFlow takes 10 s without compiled modules and 3 s with them; every round imports it. So compile all
  # modules once, on all cores, except the tests in packages: a third of the work, and nothing imports them.
  .venv/bin/python -m compileall -q -j 0 -x '/tests/' .venv/lib >/dev/null || true  # some packages have templates that are not Python
  echo "$wanted" > $stamp
}

find_python
PYTHON=$(base_of "$PYTHON")
install_missing
make_environment
