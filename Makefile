# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 \
	|| command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
CHECKED := src tests benchmarks tools
QUICK := $(addprefix tests/,core measure audit/checks $(addprefix parts/test_,attention.py merge.py \
	part.py positions_and_masks.py project.py) decode/test_filters.py decode/test_strategy.py \
	models/test_gpt.py report/test_text.py report/test_build.py test_rooms.py test_package.py)

.PHONY: run test tests quick test-search test-slow test-faults check lint types bench docs-figures \
	clean

run: $(STAMP)
	$(BIN)/attnlab run phase-transition

# types are checked while the tests run: alone, they would leave a core idle for a minute
test: lint
	$(MAKE) --no-print-directory -j 2 types tests

tests: $(STAMP)
	$(BIN)/python -m pytest -m "not slow and not gpu" -n 2 --dist worksteal

# for every save: format, lint, and the tests that neither train nor start processes
quick: lint
	$(BIN)/python -m pytest -m "not slow and not gpu" -n 2 --dist worksteal $(QUICK)

# the property tests with other examples every time and ten times as many
test-search: $(STAMP)
	$(BIN)/python -m pytest -m "hypothesis and not gpu and not faults" -n 2 \
		--hypothesis-profile search --timeout 1800

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m "slow and not faults" --timeout 1800

# kills and refusals at every system call (with strace), damage, hostile input; prints its counts
test-faults: $(STAMP)
	$(BIN)/python -m pytest -n 2 -rs tests/faults

check: lint types

lint: $(STAMP)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)

types: $(STAMP)
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
