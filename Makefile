# Everything a contributor runs. `make demo` and `make test` work on a fresh machine with Python 3.11, make and git.
PYTHON ?= python3
RUNTIME := .venv/.runtime
DEV := .venv/.dev
BIN := .venv/bin
# Python compiles a module when it is first imported; most modules of the packages never are. Images
# of Python often forbid it to keep what it compiled, and then each process of the tests compiles
# all that it imports: a `nearkin` command takes a second more.
unexport PYTHONDONTWRITEBYTECODE
PIP := DIST_EXTRA_CONFIG="$(CURDIR)/scripts/uncompressed_wheels.cfg" $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

.PHONY: demo services test test-full test-newest newest-environment test-pythons coverage lint types contract check docs docs-output readme notebooks readme-clone bench bench-compare bench-peers bench-quality bench-presets clean

$(RUNTIME): pyproject.toml constraints.txt scripts/environment.sh
	PYTHON="$(PYTHON)" bash scripts/environment.sh
	$(PIP) --editable .
	touch $@

$(DEV): $(RUNTIME)
	$(PIP) --editable ".[dev]"
	touch $@

demo: $(RUNTIME)  ## deduplicate the press releases that come with nearkin
	$(BIN)/nearkin demo --out demo --overwrite
	@echo "nearkin is installed in .venv; to use it in this shell: source .venv/bin/activate"

# after the environment, because both may install packages of Debian, which only one process can do
services: $(RUNTIME)  ## what some tests and examples need besides Python
	@bash scripts/services.sh

test: $(DEV) services  ## all tests in their quick form, doctests included
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-full: $(DEV) services  ## the same suites at full size
	$(PIP) --editable ".[dev,full]"
	$(BIN)/python -m pytest --full
	$(BIN)/python scripts/run_readme.py --slow docs/tutorials/spark.md

# without what the readers and the API do not need, such as Spark and a browser, because CI waits for it
test-newest:  ## the demo, the readers and the API with the newest Python of Debian, as root
	@bash scripts/test_python.sh testing sh -c 'make demo newest-environment && $(BIN)/python -m pytest -q tests/corpus/formats tests/stages/shingle/test_unicode_tables.py tests/runs/test_api.py'

newest-environment: $(RUNTIME)
	$(PIP) --editable ".[pandas,polars,duckdb,avro,excel,html,lance,warc,zstd,cut,stem,urls,datasets]" hypothesis pytest pytest-xdist xxhash

test-pythons:  ## all tests with the Pythons of two later releases of Debian, as root
	@bash scripts/test_python.sh trixie make test
	@bash scripts/test_python.sh testing make test

coverage: $(DEV)
	$(BIN)/python -m pytest --cov=nearkin --cov-report=term --cov-fail-under=90

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_text.py
	$(BIN)/python scripts/check_test_files.py

types: $(DEV)
	$(BIN)/mypy

contract: $(DEV)  ## imports point one way
	$(BIN)/lint-imports

readme: $(DEV) services  ## the examples of README and docs run, and print what the pages show
	$(BIN)/python scripts/run_readme.py README.md docs

notebooks: $(DEV)  ## the example notebooks run, and show what is stored in them
	$(BIN)/python scripts/run_notebooks.py

readme-clone: $(RUNTIME) demo  ## the commands of the README, literally, from a clone with its own environment; then all commands, without extras
	$(BIN)/python scripts/run_readme.py --clone --then scripts/core_commands.py README.md

docs-output: $(DEV)  ## writes what the examples print into the pages
	$(BIN)/python scripts/run_readme.py --write README.md docs

# in the environment of the tests if there is one, and otherwise in a small one of its own
DOCS_ENVIRONMENT := $(if $(wildcard $(DEV)),$(DEV),.venv-docs/.done)

.venv-docs/.done: pyproject.toml constraints.txt scripts/environment.sh
	ENVIRONMENT=.venv-docs PYTHON="$(PYTHON)" bash scripts/environment.sh
	$(subst $(BIN),.venv-docs/bin,$(PIP)) --editable ".[docs]"
	touch $@

docs: $(DOCS_ENVIRONMENT)  ## the documentation site, in docs/_build/html; a warning is an error
	$(dir $<)bin/python -m sphinx -W --keep-going -q -E -j auto -b html docs docs/_build/html
	@echo "the site is built: $(CURDIR)/docs/_build/html/index.html"

check: lint types contract docs test readme notebooks

bench: $(RUNTIME)
	$(BIN)/python -m benchmarks.run

bench-compare: $(RUNTIME)
	$(BIN)/python -m benchmarks.run --compare benchmarks/baseline.json

bench-peers: $(RUNTIME)
	$(BIN)/python -m benchmarks.peers

bench-quality: bench-presets  ## precision and recall over labelled sets, beside other tools
	$(BIN)/python -m benchmarks.quality

bench-presets: $(RUNTIME)  ## what presets remove from 1,000 to 100,000 rows; OPTIONS="--presets records --rows 1000 --write"
	$(BIN)/python -m benchmarks.quality.preset_sizes $(OPTIONS)

clean:
	rm -rf .venv .venv-docs demo build dist docs/_build docs/_generated docs/reference/python *.egg-info
