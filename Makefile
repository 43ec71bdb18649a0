# `make demo` and `make test` need Python >= 3.11 with pip, and make; they set up .venv themselves.
# Another interpreter: make test PYTHON=python3.12

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && exit; done; echo python3)
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP = $$(test -x $(BIN)/pip && echo $(BIN)/python -m pip || echo $(PYTHON) -m pip --python $(BIN)/python) \
	--disable-pip-version-check --no-input
QUIET := -qq # errors only
PYTEST := $(BIN)/python -m pytest

# Nothing here asks the network for prices, data or a newer tool.
export LITELLM_LOCAL_MODEL_COST_MAP := True
export HF_HUB_OFFLINE := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export MPLBACKEND := Agg
# Byte code is made once, also where the environment forbids it: each process would compile DSPy again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all lint types unit composition notebooks api benchmarks ranges lock build clean
.DELETE_ON_ERROR:

demo: $(READY) ## install, then the whole method on the embedded backbone
	$(BIN)/decoevo demo --out runs/demo

test: lint types unit ## what every change must pass: no network, under five minutes

test-all: ## make test, then notebooks, API reference, composition with real DSPy optimisers
	$(MAKE) test
	$(MAKE) notebooks
	$(MAKE) api
	$(MAKE) composition

lint: $(READY)
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/lint-imports --no-cache --no-logo

types: $(READY)
	$(BIN)/pyright --pythonpath $(BIN)/python

unit: $(READY)
	$(PYTEST) -n $(WORKERS) --dist worksteal

# Each of these runs when its folder is there.
composition: $(READY)
	@if [ -d tests/composition ]; then $(PYTEST) tests/composition -m composition --timeout 600; fi

notebooks: $(READY)
	@if [ -d tests/notebooks ]; then $(PYTEST) tests/notebooks --timeout 600; fi

benchmarks: $(READY) ## the short ones; docs/EVIDENCE.md names the commands of the long ones
	$(BIN)/python tests/benchmarks/leak_guard.py

# Each module is named, since pdoc leaves out what a package's __all__ does; where it does not, pdoc sees it twice.
api: $(READY) ## the API reference, in api/
	$(BIN)/python -W "ignore:The module specification" -m pdoc --docformat google --output-directory api \
		$$(find -L decoevo_dspy -name '*.py' ! -name __main__.py \
		| sed 's,/__init__\.py$$,,; s,\.py$$,,; s,/,.,g' | sort)

# requirements.lock is the whole truth: pip resolves nothing (--no-deps), takes only files with a listed hash, and
# pip check proves the list complete; then the project itself is built with the locked setuptools. Byte code is made
# as it is needed. Until .ready stands, and after a move of the folder, .venv is made again from nothing: a set-up
# that broke half-way may have left half a package. A Python without ensurepip (Debian's without python3-venv) lends its pip.
$(shell grep -qsF "$(CURDIR)/$(BIN)/python" $(BIN)/decoevo && $(BIN)/python -c '' 2>/dev/null || rm -f $(READY))
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python >= 3.11 is needed: make PYTHON=...")'
	@echo "Setting up .venv: $$(grep -c == requirements.lock) packages of requirements.lock, about a minute and 250 MB ..."
	@if [ -e $@ ]; then rm $@; else $(PYTHON) -m venv --clear $(VENV) 2>/dev/null \
		|| $(PYTHON) -m venv --clear --without-pip $(VENV); fi
	@$(PIP) install $(QUIET) --no-compile --no-deps --require-hashes -r requirements.lock
	@$(PIP) install $(QUIET) --no-compile --no-deps --no-build-isolation -e .
	@$(PIP) check $(QUIET) || { $(PIP) check; exit 1; }
	@touch $@

lock: $(READY) ## pin every dependency again; needs the registry
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv --no-config pip compile pyproject.toml --extra dev --upgrade \
		--universal --python-version 3.11 --generate-hashes --no-emit-index-url -q -o requirements.lock

# Without the lock: the wheel with the newest versions that the ranges of pyproject.toml admit, then with the lowest.
ranges: build ## on demand; needs the registry
	@for end in highest lowest-direct; do echo "== $$end versions"; \
		$(BIN)/uv venv -q --clear --python $(BIN)/python build/$$end \
		&& $(BIN)/uv --no-config pip install -q --python build/$$end --resolution $$end dist/*.whl \
		&& $(BIN)/uv pip check -q --python build/$$end \
		&& build/$$end/bin/decoevo demo --seeds 1 --out build/$$end/demo >build/$$end/demo.txt \
		&& tail -n 2 build/$$end/demo.txt || exit 1; done

build: $(READY) ## sdist and wheel, in dist/
	rm -rf build dist
	@$(BIN)/python -m build --no-isolation >build.log 2>&1 && tail -n 1 build.log && rm build.log || { cat build.log; exit 1; }

clean:
	rm -rf $(VENV) build dist api *.egg-info .pytest_cache .ruff_cache .hypothesis .coverage .coverage.*
	find . -name __pycache__ -not -path './runs/*' -prune -exec rm -rf {} +
