# `make demo` and `make test` work from a clean clone with Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TEST_WORKERS ?= 2

.PHONY: demo test test-all test-lowest jobs lint docs bench constraints sbom clean

demo: $(VENV)/.installed
	$(BIN)/evenhand demo

# Bytecode is kept whatever the environment says: tests start many processes, and each would compile all modules.
test: $(VENV)/.installed-dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal

# Everything, what is exhaustive or needs real services for minutes included: before a release, and nightly.
test-all: $(VENV)/.installed-dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal -m "long or not long"

# All shipped jobs, each with one command into one fresh store: how they end, and how they should. `make test-all` runs
# them too. Some take minutes; JOBS="NAME NAME" runs these alone. Tables are downloaded, or read from EVENHAND_DATA.
jobs: $(VENV)/.installed-dev
	$(BIN)/python -m tests.e2e.shipped_jobs $(JOBS)

# The lowest version of every direct dependency that pyproject.toml allows, in an environment of its own: the tests of
# the library and of contracts, and one run. UV_TORCH_BACKEND=cpu spares the download of CUDA.
test-lowest:
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install -qq --disable-pip-version-check 'uv>=0.9'
	$(VENV)-lowest/bin/uv pip install -q --python $(VENV)-lowest --resolution lowest-direct -e .
	$(VENV)-lowest/bin/uv pip install -q --python $(VENV)-lowest pytest pytest-xdist hypothesis cvxpy fairlearn
	$(VENV)-lowest/bin/evenhand run hiring-gbdt --direct --store $(VENV)-lowest/store
	$(VENV)-lowest/bin/python -m pytest -n $(TEST_WORKERS) --dist worksteal tests/fairlib tests/data_contracts

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	mkdir -p .mypy_cache/tree/evenhand
	for name in evenhand/__init__.py evenhand/py.typed; do ln -sfn ../../../$$name .mypy_cache/tree/evenhand/; done
	for name in flows tasks fairlib data_contracts; do ln -sfn ../../../$$name .mypy_cache/tree/evenhand/$$name; done
	# in that folder, because the package's own folder here holds its names alone
	cd .mypy_cache/tree && $(abspath $(BIN))/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache
	MYPYPATH=.mypy_cache/tree:. $(BIN)/mypy --explicit-package-bases $$(find tests -name '*.py' ! -name 'test_*')
	# the same for this one, which follows no links
	rm -rf .import_linter_cache/tree && mkdir -p .import_linter_cache && cp -rL .mypy_cache/tree .import_linter_cache/tree
	cd .import_linter_cache/tree && $(abspath $(BIN))/lint-imports --config ../../pyproject.toml

# The pages of docs/reference from the code, then the site in site/; a broken link fails the build.
docs: $(VENV)/.installed
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python deploy/docs/reference_pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Every figure of docs/benchmarks.md; needs EVENHAND_DATA, takes several hours on two cores, and tuned_jobs up to nine more.
bench: $(VENV)/.installed-dev
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks.tables
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.init_corpus
	$(BIN)/python -m benchmarks.default_trees
	$(BIN)/python -m benchmarks.default_networks
	$(BIN)/python -m benchmarks.untuned
	$(BIN)/python -m benchmarks.judged
	$(BIN)/python -m benchmarks.membership
	$(BIN)/python -m benchmarks.evaluate
	$(BIN)/python -m benchmarks.audit --environments $(VENV)/peers/env
	$(BIN)/python -m benchmarks.predicting --folder $(VENV)/predicting
	$(BIN)/python -m benchmarks.services
	$(BIN)/python -m benchmarks.trust_cost
	$(BIN)/python -m benchmarks.budro
	$(BIN)/python -m benchmarks.sensei
	$(BIN)/python -m benchmarks.certificates
	$(BIN)/python -m benchmarks.certificates_trees
	$(BIN)/python -m benchmarks.certificate_attacks
	$(BIN)/python -m benchmarks.search_strength
	$(BIN)/python -m benchmarks.bound_training
	$(BIN)/python -m benchmarks.proxies
	$(BIN)/python -m benchmarks.filtering
	$(BIN)/python -m benchmarks.dadi
	$(BIN)/python -m benchmarks.faias --environments $(VENV)/peers
	$(BIN)/python -m benchmarks.two_clusters
	$(BIN)/python -m benchmarks.decision_surfaces
	$(BIN)/python -m benchmarks.tuning --environments $(VENV)/peers
	$(BIN)/python -m benchmarks.tuned_jobs
	$(BIN)/python -m benchmarks.page

# What is installed, as a CycloneDX bill of materials.
sbom: $(VENV)/.installed
	$(BIN)/python deploy/sbom.py > sbom.json

# The pins of all dependencies, from a fresh resolution, and the digests of their files.
constraints:
	$(PYTHON) deploy/constraints.py

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Evenhand needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	# the pip that comes with older Pythons takes ten times as long to resolve
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build site *.egg-info
