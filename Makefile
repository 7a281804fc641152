# Everything a newcomer needs: make demo (build an image and train in it), make test (run every test).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
IMAGE := pytorch-deepspeed.sif
# As many as processors: most tests are one busy process.
TESTS_AT_ONCE := 2
# Unit tests often wait for a time limit; a third worker uses the processors meanwhile.
UNITS_AT_ONCE := 3

help: ## list what there is to make
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' Makefile | expand -t 14

.PHONY: help demo test unit check docs schemas engine venv image tools cluster cluster-stop docker docker-stop bench bench-builds clean

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
	git ls-files -co --exclude-standard '*.sh' .ci/run | xargs $(BIN)/shellcheck --severity=style

unit: venv ## run the tests that need neither an image nor an engine
	$(BIN)/pytest --numprocesses $(UNITS_AT_ONCE) --dist worksteal tests/unit tests/golden

test: check image tools cluster docker ## run every test, with the real engines and the real Slurm
	$(BIN)/pytest --numprocesses $(TESTS_AT_ONCE) --dist loadfile --no-loadscope-reorder

docs: venv ## build the manual into build/site
	$(BIN)/mkdocs build --strict --quiet

schemas: venv ## write the JSON Schemas, and docs/keys.md, from the readers
	@mkdir -p recipes/schemas
	@for name in check layer lock platform profile recipe rules; do \
		$(BIN)/python -m lumicontainer.core.reference.json_schema $$name >recipes/schemas/$$name.json; done
	@$(BIN)/python -m lumicontainer.core.reference.page >docs/keys.md

tools: venv ## install what else tests call
	@tests/tools.sh
	@tests/reframe.sh >/dev/null

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
