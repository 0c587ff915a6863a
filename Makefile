# Every target sets up what it needs: on a fresh machine `make demo` or `make test` is all there is to type.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
JOBS   ?= 2

# What Python compiles is kept, whatever the environment says: else each process of the tests compiles all of it anew.
export PYTHONDONTWRITEBYTECODE :=

N       ?= 500
SEED    ?= 0

.PHONY: demo test fuzz fuzz-blocks check types fast-tests style errors bench peers wheel lock clean help

help:
	@echo "make demo   run the MLS-MPM example, write its picture to output/"
	@echo "make test   all tests"
	@echo "make check  format, lint, types, layering and the fast tests, in under a minute"
	@echo "make fuzz   N=500 random programs from SEED=0 on, against the oracle"
	@echo "make fuzz-blocks   the same for blocks of threads and what devices do, on TARGETS=kernel,x64,cuda,..."
	@echo "make bench  our workloads against the installed peers, in one interleaved run"
	@echo "make errors how far elementary functions are off: all 2**32 numbers of f32 (an hour), samples of f64"
	@echo "make peers  install those peers, each in its own environment"
	@echo "make wheel  build the wheel into dist/"

$(READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

# Torch is never required. Where a CPU build is at hand, the tests of its tensors run too; elsewhere they are skipped.
$(VENV)/torch: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock "torch==2.13.0+cpu" \
		|| echo "no CPU build of torch here: the tests of its tensors are skipped"
	touch $@

# The same for Vulkan: with the package and any driver, a software one too, the run tests run there.
$(VENV)/gpu: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock "wgpu==0.32.0" \
		|| echo "no wgpu here: the tests of Vulkan are skipped"
	touch $@

# NVIDIA's assembler, without its driver: kernels for its GPUs are assembled in the tests.
$(VENV)/ptxas: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps "nvidia-cuda-nvcc==13.5.37" \
		|| echo "no ptxas here: CUDA's code is not assembled"
	touch $@

# NVIDIA's package and header of two versions of CUDA, without its driver: what plays a GPU stands behind their binary interface.
$(VENV)/cuda: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(VENV)/cuda12 \
		"cuda-bindings==12.9.10" "nvidia-cuda-runtime-cu12==12.9.79" "cuda-pathfinder==1.9.1" \
		&& $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(VENV)/cuda13 \
		"cuda-bindings==13.5.0; python_version >= '3.11'" "nvidia-cuda-runtime==13.5.37" "cuda-pathfinder==1.9.1" \
		|| echo "no cuda-bindings here: the calls of NVIDIA's driver are tested without them"
	touch $@

# A Python for Arm64 that an emulator runs: the package is imported and tested there, too.
$(VENV)/arm64/python: $(READY)
	$(BIN)/python .ci/arm64_python.py $(@D) || echo "no Python for Arm64 here: its tests are skipped"

demo: $(READY)
	$(BIN)/python examples/mpm88.py

test: $(READY) $(VENV)/torch $(VENV)/gpu $(VENV)/ptxas $(VENV)/cuda $(VENV)/arm64/python
	$(BIN)/python -m pytest -n $(JOBS)

check: $(READY)
	@$(MAKE) --no-print-directory --jobs 3 $(if $(filter output-sync,$(.FEATURES)),--output-sync) types fast-tests style

# Random programs (see evidence/fuzz). A failing SEED is shrunk to a test by `python -m quadrants.evidence.fuzz --reduce SEED`.
fuzz: $(READY)
	$(BIN)/python -m quadrants.evidence.fuzz --programs $(N) --seed $(SEED) --jobs $(JOBS)

# The same for blocks of threads that meet, and for what devices do in blocks, on TARGETS (kernel: before any pass).
TARGETS ?= kernel,x64
fuzz-blocks: $(READY)
	$(BIN)/python -m quadrants.evidence.fuzz --blocks $(TARGETS) --programs $(N) --seed $(SEED)
	$(BIN)/python -m quadrants.evidence.fuzz --devices $(TARGETS) --programs $(N) --seed $(SEED)
	$(BIN)/python -m quadrants.evidence.fuzz --plain $(TARGETS) --programs $(N) --seed $(SEED)

types: $(READY)
	$(BIN)/pyright

fast-tests: $(READY)
	$(BIN)/python -m pytest -q -m "not slow" -n $(JOBS)

style: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

errors: $(READY)
	$(BIN)/python benchmarks/math/errors.py f32
	$(BIN)/python -m pip install --quiet mpmath
	$(BIN)/python benchmarks/math/errors.py f64

bench: $(READY)
	$(BIN)/python -m benchmarks

# The rivals, each in an environment of its own under $$BENCH_HOME (default ~/.cache/quadrants-bench).
peers: $(READY)
	$(BIN)/python -m benchmarks.peers

wheel: $(READY)
	$(BIN)/python -m hatchling build --target wheel --directory dist

# Refreshes the pins for every supported Python at once. Needs `uv`.
lock:
	uv pip compile --quiet --universal --python-version 3.10 --extra dev pyproject.toml --output-file requirements.lock

clean:
	rm -rf build dist output .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
