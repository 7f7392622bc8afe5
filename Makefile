# tmflow's commands. Each sets up everything that it needs; `make quick` and `make test` are the two to start with.
.DEFAULT_GOAL := help
.PHONY: help setup setup-test build check-strategy native study quick test test-fast test-deep test-endurance test-mutants proofs speed speed-bundles speed-portal portal screenshots docs lint format lock clean
SHELL := bash
export PYTHON ?=

BIN := .venv/bin
PORT ?= 8501
SECONDS_PER_STRATEGY ?= 60

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1|\2/' | column -t -s '|'

setup: ## system packages, .venv with the locked dependencies
	@PYTHON="$(PYTHON)" envs/bootstrap.sh build

setup-test: ## the same, and what the tests need (Chromium, PostgreSQL, GoogleTest)
	@PYTHON="$(PYTHON)" envs/bootstrap.sh test

build: setup ## the native strategies: results/build/
	@$(BIN)/tmflow study build

NATIVE_DIR ?= build

# For machines without Python: it neither needs the set-up nor a network.
native: ## the static program build/tmflow-native, which runs the native driver anywhere; needs only cmake and g++
	@for tool in cmake "$${CXX:-g++}"; do command -v "$$tool" >/dev/null \
	  || { echo "tmflow: $$tool is not installed, and make native needs it (Debian: apt install cmake g++)." >&2; exit 2; }; done
	@cmake -S native_ops -B "$(NATIVE_DIR)" -DTMFLOW_BUILD_RUNNER=ON -DTMFLOW_BUILD_PYTHON=OFF -DTMFLOW_BUILD_TENSORFLOW=OFF \
	  -DCMAKE_CXX_COMPILER="$${CXX:-g++}"
	@cmake --build "$(NATIVE_DIR)" --target tmflow-native -j "$$(nproc)"
	@echo "Built $(NATIVE_DIR)/tmflow-native: copy it to any Linux with the same kind of processor, and run it there."

quick: setup ## the whole main job, small: build, train, store, draw, report (minutes, mostly the build)
	@$(BIN)/tmflow study run --scale quick

study: setup ## the whole study of config.yaml
	@$(BIN)/tmflow study run --scale full

# A process for every two processors, because many tests start several, but at least two: most tests wait for one process at a time.
# A process that has no tests left takes those of another.
AT_ONCE = --numprocesses $$(n=$$((($$(nproc) + 1) / 2)); echo $$((n > 2 ? n : 2))) --dist worksteal --durations=60

test: setup-test build ## unit, store, native, workflow, portal and faults, half an hour to an hour; all but test-deep
	@$(BIN)/python -m pytest $(AT_ONCE) -m "not deep"

test-fast: setup-test build ## the unit tests, in a minute
	@$(BIN)/python -m pytest -m "not slow" tests/unit

check-strategy: setup-test build ## the tests of one strategy: S=striped
	@$(BIN)/python -m tests.native.check_strategy $(S)

test-deep: setup-test build ## millions of audited updates, many random examples, a study killed 30 times, a database at its limits (minutes)
	@$(BIN)/python -m pytest $(AT_ONCE) -m "deep or random" --hypothesis-profile deep tests/native tests/faults \
	  tests/portal/test_column_limits.py

test-endurance: setup-test build ## 16 threads on 2 processors, SECONDS_PER_STRATEGY=60 each: nothing lost, nobody hangs
	@SECONDS_PER_STRATEGY=$(SECONDS_PER_STRATEGY) $(BIN)/python -m pytest tests/native/test_endurance.py

test-mutants: setup-test build ## put each fault of tests/mutants/ in a copy, one at a time; a test must catch each (a night)
	@$(BIN)/python -m tests.mutants.run $(ARGS)

proofs: setup-test ## explore every small program, and write the tables of docs/proofs.md (minutes)
	@$(BIN)/cmake -S native_ops -B build/proofs -G Ninja -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(BIN)/ninja" \
	  -DTMFLOW_BUILD_TESTS=ON -DTMFLOW_BUILD_PYTHON=OFF -DTMFLOW_BUILD_TENSORFLOW=OFF
	@$(BIN)/cmake --build build/proofs --target explore_tests
	@build/proofs/tests/explore/explore_tests > build/proofs/explored.txt
	@$(BIN)/python -m tests.native.proof_table build/proofs/explored.txt

# One report after another; a benchmark that fails leaves the report before it as it was.
speed: setup build ## measure what updates and steps cost, into docs/speed/ (minutes, on a quiet machine)
	@$(BIN)/tmflow bench apply --rounds 12 --gradient constant,fresh --save docs/speed/updates.json
	@$(BIN)/tmflow bench step --targets --rounds 10 --save docs/speed/steps.json
	@$(BIN)/tmflow bench read --rounds 12 --save docs/speed/reads.json
	@$(BIN)/python -m tests.store.ingest_speed docs/speed/ingest.md
	@set -e; for what in docs/speed/*.json; do $(BIN)/tmflow bench report $$what --plots docs/speed > $${what%.json}.md; done

FOLDER ?= $(RESULTS)/many-runs

speed-bundles: setup ## measure how fast bundles are checked, into docs/speed/bundles.md (ten minutes, 2 processors, 1 GB)
	@$(BIN)/python -m tests.bundle.bundle_speed docs/speed/bundles.md
	@$(BIN)/python -m tests.store.import_speed docs/speed/import.md

speed-portal: setup ## make databases of 1e5 and 1e6 runs in FOLDER (2.5 GB), and measure the portal on them, on 2 processors
	@mkdir -p "$(FOLDER)"
	@set -e; for n in 100000 1000000; do \
	  test -e "$(FOLDER)/runs-$$n.db" || $(BIN)/python -m tests.portal.many_runs $$n "$(FOLDER)/runs-$$n.db"; done
	@taskset -c 0,1 $(BIN)/python -m tests.portal.page_speed "$(FOLDER)" docs/speed/portal.md

portal: setup ## open the results portal on this machine (PORT=8501)
	@$(BIN)/tmflow portal --port $(PORT)

screenshots: setup-test ## pictures of every page of the portal, wide and on a phone, light and dark: results/screenshots/
	@mkdir -p "$(RESULTS)/screenshots" && $(BIN)/python -m tests.portal.screenshots "$(RESULTS)/screenshots"

# Without --quiet, which would hide from --strict what it is to fail for.
docs: setup ## the docs as a site with a search, build/docs/; a broken link or a page outside mkdocs.yml fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Built build/docs/index.html. With the search: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/docs 8000"

SOURCES_CC = $(shell git ls-files 'native_ops/*.hpp' 'native_ops/*.cc')

lint: setup ## formatting, types and rules of every language used here
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/snakefmt --check Snakefile workflow
	@$(BIN)/clang-format --dry-run --Werror $(SOURCES_CC)
	@$(BIN)/tmflow study lint

format: setup ## rewrite the sources as `make lint` wants them
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format . && $(BIN)/snakefmt Snakefile workflow
	@$(BIN)/clang-format -i $(SOURCES_CC)

LOCK = $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	  --no-header --quiet

lock: setup ## resolve envs/requirements.in anew into envs/requirements.txt; conda.yaml and portal.txt from it
	@$(LOCK) envs/requirements.in --output-file envs/requirements.txt
	@$(LOCK) envs/portal.in --constraint envs/requirements.txt --output-file envs/portal.txt
	@$(BIN)/python envs/make_conda.py

RESULTS = $(or $(TMFLOW_RESULTS_DIR),results)

# Snakemake's notes in .snakemake stay: they say which of the files in the results folder are whole.
clean: ## remove what was built, and the caches; what was measured stays
	@rm -rf "$(RESULTS)/build" build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
	@echo 'Removed the build and the caches. Runs, database and figures stay in $(RESULTS)/, the environment in .venv/.'
