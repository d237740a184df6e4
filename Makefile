# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 \
	|| command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: run test test-slow test-faults check bench docs-figures clean

run: $(STAMP)
	$(BIN)/attnlab run phase-transition

test: check
	$(BIN)/python -m pytest -m "not slow and not gpu" -n 2

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m "slow and not faults" --timeout 1800

# kills and refusals at every system call (with strace), damage, hostile input; prints its counts
test-faults: $(STAMP)
	$(BIN)/python -m pytest -n 2 -rs tests/faults

check: $(STAMP)
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/basedpyright

bench: $(STAMP)
	$(BIN)/python benchmarks/solvable.py --diagram
	$(BIN)/python benchmarks/train.py --compile

docs-figures: $(STAMP)
	$(BIN)/python docs/figures.py

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis
