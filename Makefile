# tmflow's commands. Each installs everything that it needs; start with `make quick` and `make test`.
.DEFAULT_GOAL := help
.PHONY: help setup setup-test hpx build check-strategy native study quick test test-fast test-deep test-endurance test-mutants proofs speed speed-bundles speed-portal speed-cluster speed-executors speed-transports speed-hpx portal screenshots docs results lint format lock clean
SHELL := bash
export PYTHON ?=

BIN := .venv/bin
PORT ?= 8501
SECONDS_PER_STRATEGY ?= 60

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1|\2/' | column -t -s '|'

setup: ## system packages, .venv with the locked dependencies
	@PYTHON="$(PYTHON)" envs/bootstrap.sh build

setup-test: ## the same, and the requirements of the tests (Chromium, PostgreSQL, GoogleTest)
	@PYTHON="$(PYTHON)" envs/bootstrap.sh test

hpx: setup ## the library HPX, for the executors hpx and hpx_dataflow and the transport hpx: .hpx/ (six minutes on 2 cores)
	@envs/bootstrap.sh hpx
	@envs/hpx.sh

build: setup ## the native strategies: results/build/
	@$(BIN)/tmflow study build

NATIVE_DIR ?= build

# For machines without Python: it needs neither `make setup` nor a network.
native: ## the static program build/tmflow-native, which runs the native driver without Python; needs only cmake and g++
	@for tool in cmake "$${CXX:-g++}"; do command -v "$$tool" >/dev/null \
	  || { echo "tmflow: $$tool is not installed, and make native needs it (Debian: apt install cmake g++)." >&2; exit 2; }; done
	@cmake -S native_ops -B "$(NATIVE_DIR)" -DTMFLOW_BUILD_RUNNER=ON -DTMFLOW_BUILD_PYTHON=OFF -DTMFLOW_BUILD_TENSORFLOW=OFF \
	  -DCMAKE_CXX_COMPILER="$${CXX:-g++}"
	@cmake --build "$(NATIVE_DIR)" --target tmflow-native -j "$$(nproc)"
	@echo "Built $(NATIVE_DIR)/tmflow-native: copy it to any Linux machine with the same processor architecture, and run it there."

quick: setup ## the study at reduced size: build, train, store, draw, report (minutes, mostly the build)
	@$(BIN)/tmflow study run --scale quick

study: setup ## the complete study of config.yaml; HOURS=8: with further rounds for claims until 8 hours have passed
	@$(BIN)/tmflow study run --scale full $(if $(HOURS),--hours "$(HOURS)")

# One test process for every two processors, because many tests start several processes; but at least three, because most tests wait
# for one process at a time. A process that has finished its tests takes over tests of another.
PARALLEL = --numprocesses $$(n=$$((($$(nproc) + 1) / 2)); echo $$((n > 3 ? n : 3))) --dist worksteal

test: setup-test build ## all tests except test-deep (an hour on 2 slow cores)
	@$(BIN)/python -m pytest $(PARALLEL) --durations=60 -m "not deep"

test-fast: setup-test build ## the fast unit tests (a minute)
	@$(BIN)/python -m pytest $(PARALLEL) -m "not slow and not deep" tests/unit

check-strategy: setup-test build ## the tests of one strategy: S=striped
	@$(BIN)/python -m tests.native.check_strategy $(S)

test-deep: setup-test build ## millions of audited updates, random examples, kills, limits of the database; SHARE=1/3: the first third of it
	@$(BIN)/python -m pytest $(PARALLEL) --durations=60 -m "deep or random" --hypothesis-profile deep --share $(or $(SHARE),1/1)

test-endurance: setup-test build ## 16 threads on 2 processors, SECONDS_PER_STRATEGY=60 each: no lost updates, no deadlocks
	@SECONDS_PER_STRATEGY=$(SECONDS_PER_STRATEGY) $(BIN)/python -m pytest tests/native/test_endurance.py

test-mutants: setup-test build ## apply each fault of tests/mutants/ to a copy; the named tests must fail (a night)
	@$(BIN)/python -m tests.mutants.run $(ARGS)

proofs: setup-test ## explore all interleavings of small programs, and write the tables of docs/proofs.md (minutes)
	@$(BIN)/cmake -S native_ops -B build/proofs -G Ninja -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(BIN)/ninja" \
	  -DTMFLOW_BUILD_TESTS=ON -DTMFLOW_BUILD_PYTHON=OFF -DTMFLOW_BUILD_TENSORFLOW=OFF
	@$(BIN)/cmake --build build/proofs --target explore_tests
	@build/proofs/tests/explore/explore_tests > build/proofs/explored.txt
	@$(BIN)/python -m tests.native.proof_table build/proofs/explored.txt

# The reports are made one after another; a benchmark that fails leaves its previous report unchanged.
# For the question what `adaptive` should choose.
CHOICES = adaptive,adaptive:promise=block,lock,spin,spin_then_mutex,lock_pthread,block_stm,combining:block=1000000000,striped:block=2048,striped:block=0,combining:block=2048,combining:block=0,combining:block=4096,striped:block=32768,nolock
# For the question how large a block should be.
BLOCKS = nolock,mutex_loop,mutex_loop:mutex=spin,striped:block=512,striped:block=2048,striped:block=8192,striped:block=32768,striped:block=131072,combining:block=1024,combining:block=4096,combining:block=16384,combining:block=65536,combining:block=262144

speed: setup build ## measure the cost of updates and steps, and write docs/speed/ (minutes, on a quiet machine)
	@$(BIN)/tmflow bench apply --rounds 12 --gradient constant,fresh --save docs/speed/updates.json
	@$(BIN)/tmflow bench apply --rounds 8 --elements 10,1000,7850,100352,3211264,10000000 --threads 1,2 --gradient constant \
	  --strategy $(BLOCKS) --save docs/speed/blocks.json
	@$(BIN)/tmflow bench apply --rounds 8 --elements 10,1000,7850,100352,3211264 --threads 1,2 --gradient constant,fresh \
	  --strategy $(CHOICES) --save docs/speed/adaptive.json
	@$(BIN)/tmflow bench step --targets --rounds 10 --save docs/speed/steps.json
	@$(BIN)/tmflow bench read --rounds 12 --save docs/speed/reads.json
	@$(BIN)/python -m tests.speed.ingest_speed docs/speed/ingest.md
	@set -e; for what in docs/speed/*.json; do $(BIN)/tmflow bench report $$what --plots docs/speed > $${what%.json}.md; done

FOLDER ?= $(RESULTS)/many-runs

speed-bundles: setup ## measure the speed of checking bundles, and write docs/speed/bundles.md (ten minutes, 2 processors, 1 GB)
	@$(BIN)/python -m tests.speed.bundle_speed docs/speed/bundles.md
	@$(BIN)/python -m tests.speed.import_speed docs/speed/import.md

speed-portal: setup ## create databases of 1e5 and 1e6 runs in FOLDER (2.5 GB), and measure the portal on them, on 2 processors
	@mkdir -p "$(FOLDER)"
	@set -e; for n in 100000 1000000; do \
	  test -e "$(FOLDER)/runs-$$n.db" || $(BIN)/python -m tests.speed.many_runs $$n "$(FOLDER)/runs-$$n.db"; done
	@test -e "$(FOLDER)/published.db" || for bundle in contrib/*/*.zip; do \
	  TMFLOW_DB_URL="sqlite:///$(abspath $(FOLDER))/published.db" $(BIN)/tmflow bundle import "$$bundle"; done
	@taskset -c 0,1 $(BIN)/python -m tests.speed.page_speed "$(FOLDER)" docs/speed/portal.md
	@taskset -c 0,1 $(BIN)/python -m tests.speed.browser_speed "$(FOLDER)" docs/speed/portal-browser.md

speed-cluster: setup-test build ## measure parameter servers and workers on this machine: docs/speed/cluster.md
	@$(BIN)/python -m tests.speed.cluster_speed docs/speed/cluster.md

speed-transports: setup-test build ## measure the transports between processes on this machine: docs/speed/transports.md
	@$(BIN)/python -m tests.speed.transport_speed docs/speed/transports.md

speed-executors: setup-test build ## measure the executors of TensorFlow graphs on this machine: docs/speed/executors.md
	@$(BIN)/python -m tests.speed.executor_speed docs/speed/executors.md

speed-hpx: setup-test build ## measure what HPX's settings cost on this machine, after `make hpx`: docs/speed/hpx.md
	@$(BIN)/python -m tests.speed.hpx_speed docs/speed/hpx.md

portal: setup ## open the results portal on this machine (PORT=8501)
	@$(BIN)/tmflow portal --port $(PORT)

screenshots: setup-test ## screenshots of every page of the portal, wide and narrow, light and dark: results/screenshots/
	@mkdir -p "$(RESULTS)/screenshots" && $(BIN)/python -m tests.portal.screenshots "$(RESULTS)/screenshots"

# Without --quiet, which would hide the warnings that --strict turns into failures.
docs: setup ## the docs as a website with search, build/docs/; broken links and pages missing in mkdocs.yml are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Built build/docs/index.html. With the search: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/docs 8000"

# It needs neither the study's runs nor its database; commit what it changes.
results: setup ## fill the tables and numbers of README.md and docs/ from contrib/ and the saved benchmarks (a minute)
	@$(BIN)/tmflow pages

SOURCES_CC = $(shell git ls-files 'native_ops/*.hpp' 'native_ops/*.cc')

lint: setup ## check formatting, types and rules of all languages used here
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/snakefmt --check Snakefile workflow
	@$(BIN)/clang-format --dry-run --Werror $(SOURCES_CC)
	@$(BIN)/tmflow study lint

format: setup ## format the sources as `make lint` requires
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format . && $(BIN)/snakefmt Snakefile workflow
	@$(BIN)/clang-format -i $(SOURCES_CC)

LOCK = $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	  --no-header --quiet

lock: setup ## update envs/requirements.txt from requirements.in, and conda.yaml and portal.txt from it
	@$(LOCK) envs/requirements.in --output-file envs/requirements.txt
	@$(LOCK) envs/portal.in --constraint envs/requirements.txt --output-file envs/portal.txt
	@$(BIN)/python envs/make_conda.py

RESULTS = $(or $(TMFLOW_RESULTS_DIR),results)

# Snakemake's records in .snakemake stay: they show which files in the results folder are complete.
clean: ## remove builds and caches; measurements stay
	@rm -rf "$(RESULTS)/build" build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
	@echo 'Removed builds and caches. Runs, database and figures stay in $(RESULTS)/, the environment in .venv/.'
