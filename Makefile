# Both commands set up everything they need: an environment of their own in .venv, the package, the RTL simulation.
#   make demo        handwritten digits, classified on the TinyTPU
#   make test        style, types, tests: engines compared on every operation and random programs, on every preset
#   make train       the examples' training runs, to their goals (half an hour)
#   make test-full   the same, and on preset 16x16 every operation, not only one of each kind (tests marked full)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The environment is made anew whenever pyproject.toml changes: its hash names the stamp.
STAMP := $(VENV)/stamp-$(shell $(PYTHON) -c "import hashlib; print(hashlib.sha256(open('pyproject.toml', 'rb').read()).hexdigest()[:16])")

.PHONY: demo test test-full train docs clean

demo: $(STAMP)
	$(BIN)/tinytpu demo --engine both

test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy
	for preset in 4x4 8x8 16x16; do $(BIN)/tinytpu build --preset $$preset || exit 1; done
	$(BIN)/python -m pytest -n 2 $(FULL)

test-full: FULL = --full
test-full: test

train: $(STAMP)
	$(BIN)/python -m bench.training

docs: $(STAMP)
	$(BIN)/tinytpu docs

clean:
	rm -rf $(VENV)

# Systems that ship Python without ensurepip get an environment without pip, filled by the system's pip.
$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "TinyTPU needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	@echo "setting up $(VENV)"
	rm -rf $(VENV)
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(BIN)/python install --editable '.[test,demo]'
	touch $@
