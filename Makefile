# Both commands set up everything they need: an environment of their own in .venv, the package, the RTL simulation.
#   make demo    handwritten digits, classified on the TinyTPU
#   make test    style, types, all tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The environment is made anew whenever pyproject.toml changes: its hash names the stamp.
STAMP := $(VENV)/stamp-$(shell $(PYTHON) -c "import hashlib; print(hashlib.sha256(open('pyproject.toml', 'rb').read()).hexdigest()[:16])")

.PHONY: demo test docs clean

demo: $(STAMP)
	$(BIN)/tinytpu demo --engine both

test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/tinytpu build
	$(BIN)/python -m pytest -n 2

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
