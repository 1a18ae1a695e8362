# One verb per command. `make help` lists them.

PYTHON ?= python3
BIN := .venv/bin
export PYTHON

.DEFAULT_GOAL := help
CHECKS := check-format check-lint check-imports check-house check-requirements check-types check-tree
.PHONY: help setup setup-dev run test check $(CHECKS) format ui lock bench clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: .venv/.ready-run ## make .venv with the server in it
	@:

setup-dev: .venv/.ready-dev ## make .venv with the server, tests and checks
	@:

run: setup ## start the server; prints the one-time link (ARGS="--port 9000")
	@exec $(BIN)/graphwright serve $(ARGS)

test: setup-dev ## run the tests (ARGS="tests/core -k masking")
	@$(BIN)/pytest $(if $(filter extensions/%,$(ARGS)),-q,-n 2) $(ARGS)

check: setup-dev ## format, lint, types, imports, house rules, requirement coverage
	@$(MAKE) --no-print-directory --keep-going $(CHECKS)

check-format:
	$(BIN)/ruff format --check --quiet .

check-lint:
	$(BIN)/ruff check --quiet .

check-imports:
	$(BIN)/python scripts/lint_imports.py

check-house:
	$(BIN)/python scripts/lint_house.py

check-requirements:
	$(BIN)/python scripts/check_requirements.py

check-types:
	$(BIN)/basedpyright

check-tree: # .env.example, documents, catalogues, locks
	$(BIN)/pytest -q tests/house

format: setup-dev ## put the code into its usual form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

ui: ## rebuild the workbench (there is none yet: checks the page that stands in for it)
	@test -s static/index.html || { echo "static/index.html is missing"; exit 1; }
	@echo "static/index.html is there. It explains the API; the workbench comes later."

lock: ## resolve the dependencies anew (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --custom-compile-command "make lock" \
		--extra build pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --custom-compile-command "make lock" \
		--extra build --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock

bench: setup ## measure start and one run of the demo model
	@$(BIN)/python benchmarks/start_and_run.py $(ARGS)

clean: ## remove what was built; data/ and .env stay
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.ready-run: requirements.lock pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh run

.venv/.ready-dev: requirements-dev.lock pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh dev
