# Two commands: `make quickstart` shows the product, `make check` proves it.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := model study analysis tests benchmarks docs

.PHONY: quickstart check lint types contracts test docs clean

quickstart: $(VENV)/installed  ## launch the study `quickstart`, draw its figures, write its report
	$(BIN)/meantime launch quickstart
	$(BIN)/meantime figures quickstart --out figures
	$(BIN)/meantime report quickstart --out figures/quickstart-report.html

check: lint types contracts docs test  ## everything that must hold on main

lint: $(VENV)/installed-test
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

types: $(VENV)/installed-test
	$(BIN)/mypy

contracts: $(VENV)/installed-test
	$(BIN)/lint-imports

docs: $(VENV)/installed-test
	$(BIN)/python docs/reference.py --check

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -n 2 --dist loadfile

$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/installed-test: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[test]"
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
