# `make demo` and `make test` work from a clean clone with Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TEST_WORKERS ?= 2

.PHONY: demo test test-all test-lowest jobs lint docs bench papers constraints sbom clean

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
	$(VENV)-lowest/bin/uv pip install -q --python $(VENV)-lowest pytest pytest-xdist hypothesis cvxpy fairlearn \
		skops aif360 polars
	$(VENV)-lowest/bin/evenhand run hiring-gbdt --direct --store $(VENV)-lowest/store
	# indirect dependencies are the newest, which warn where old direct ones use them
	$(VENV)-lowest/bin/python -m pytest -W default -n $(TEST_WORKERS) --dist worksteal tests/fairlib tests/data_contracts

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	mkdir -p .mypy_cache/tree/evenhand
	for name in evenhand/__init__.py evenhand/py.typed; do ln -sfn ../../../$$name .mypy_cache/tree/evenhand/; done
	for name in flows tasks fairlib data_contracts; do ln -sfn ../../../$$name .mypy_cache/tree/evenhand/$$name; done
	# in that folder, because the package's own folder here holds its names alone
	cd .mypy_cache/tree && $(abspath $(BIN))/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache
	# the helpers of tests and the benchmarks, which import each other as tests.FOLDER.HELPER
	mkdir -p .mypy_cache/helpers
	for name in tree/evenhand ../tests ../benchmarks; do ln -sfn ../$$name .mypy_cache/helpers/; done
	cd .mypy_cache/helpers && $(abspath $(BIN))/mypy --config-file ../../pyproject.toml --cache-dir .. \
		--explicit-package-bases $$(find tests/ benchmarks/ -name '*.py' ! -name 'test_*')
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
	$(BIN)/python -m benchmarks.reproductions.printed_tables
	$(BIN)/python -m benchmarks.speed.pipeline_speed
	$(BIN)/python -m benchmarks.speed.startup
	$(BIN)/python -m benchmarks.speed.nothing_new
	$(BIN)/python -m benchmarks.speed.first_contact
	$(BIN)/python -m benchmarks.studies.init_corpus
	$(BIN)/python -m benchmarks.speed.init_speed
	$(BIN)/python -m benchmarks.studies.interval_coverage
	$(BIN)/python -m benchmarks.studies.audit_coverage
	$(BIN)/python -m benchmarks.studies.planted_worlds
	$(BIN)/python -m benchmarks.studies.default_trees
	$(BIN)/python -m benchmarks.studies.default_networks
	$(BIN)/python -m benchmarks.studies.untuned_tables
	$(BIN)/python -m benchmarks.studies.judged_methods
	$(BIN)/python -m benchmarks.studies.method_fronts
	$(BIN)/python -m benchmarks.studies.membership_study
	$(BIN)/python -m benchmarks.studies.training_overlap
	$(BIN)/python -m benchmarks.studies.fuzzed_inputs
	$(BIN)/python -m benchmarks.speed.evaluate_speed
	$(BIN)/python -m benchmarks.speed.audit_speed --environments $(VENV)/peers/env
	$(BIN)/python -m benchmarks.speed.predict_speed --folder $(VENV)/predicting
	$(BIN)/python -m benchmarks.speed.services_speed
	$(BIN)/python -m benchmarks.speed.trust_cost
	$(BIN)/python -m benchmarks.reproductions.budro_paper
	$(BIN)/python -m benchmarks.reproductions.sensei_paper
	$(BIN)/python -m benchmarks.studies.network_certificates
	$(BIN)/python -m benchmarks.studies.tree_certificates
	$(BIN)/python -m benchmarks.studies.certificate_attacks
	$(BIN)/python -m benchmarks.studies.search_strength
	$(BIN)/python -m benchmarks.studies.bound_training
	$(BIN)/python -m benchmarks.reproductions.proxies_paper
	$(BIN)/python -m benchmarks.reproductions.proxies_curves
	$(BIN)/python -m benchmarks.reproductions.proxies_theory
	$(BIN)/python -m benchmarks.studies.judged_proxies
	$(BIN)/python -m benchmarks.studies.sentence_methods
	$(BIN)/python -m benchmarks.studies.sentence_bounds
	$(BIN)/python -m benchmarks.speed.filter_speed
	$(BIN)/python -m benchmarks.reproductions.dadi_paper
	$(BIN)/python -m benchmarks.reproductions.faias_paper --environments $(VENV)/peers
	$(BIN)/python -m benchmarks.reproductions.two_clusters
	$(BIN)/python -m benchmarks.reproductions.decision_surfaces
	$(BIN)/python -m benchmarks.peers.tuning_comparison --environments $(VENV)/peers
	$(BIN)/python -m benchmarks.studies.tuned_jobs
	$(BIN)/python -m benchmarks.studies.tuned_limits
	$(BIN)/python -m benchmarks.studies.tune_first_answer
	$(BIN)/python -m benchmarks.page_generators.benchmark_pages

# The five papers' tables and figures at their printed settings, and docs/papers/: about a day on two cores, most of
# it DADI's figure 2 (PAPERS="budro faias" runs these alone). It goes on where an earlier call ended, and leaves out
# tables that are neither in EVENHAND_DATA nor to be downloaded. PAPERS="--minutes 60" ends it after an hour.
papers: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.reproductions.papers $(PAPERS)

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
