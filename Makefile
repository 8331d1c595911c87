# The verbs of this repository. `make help` lists them.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON      ?= python3
VENV        ?= .venv
BIN         := $(VENV)/bin
RUNNING     := $(VENV)/.running
STAMP       := $(VENV)/.installed
PYTEST_ARGS ?=
DRILL_ARGS  ?=
BREAK       ?=
# Processes beside each other. Many tests wait for something; two of the races are as much as two cores can bear.
TEST_PROCESSES ?= 5
RACE_PROCESSES ?= 2

# Hundreds of processes import the hub in `make test`; let them find it compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

.PHONY: run
run: $(RUNNING) ## start a hub with an embedded Redis and three agents to try it on
	@$(BIN)/hub demo

.PHONY: test
test: venv servers clients check ## everything that decides whether a change may be handed over
	@$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist worksteal --ignore tests/races --ignore tests/test_layout.py --ignore tests/test_kubernetes.py $(PYTEST_ARGS)
	@$(BIN)/python -m pytest --numprocesses $(RACE_PROCESSES) --dist worksteal tests/races $(PYTEST_ARGS)

.PHONY: proof
proof: venv servers ## the races, the state machine, the faults of the loop, the fuzzing of HTTP and hostile connections at full length, an hour or more
	@HUB_RACE_SECONDS=30 HUB_MACHINE_EXAMPLES=2000 HUB_FLIGHT_STEPS=20000 HUB_FUZZ_REQUESTS=100000 HUB_HOSTILE=500 HUB_FAILOVERS=20 HUB_SPILL_RACES=10000 HUB_HISTORY_SECONDS=600 HUB_MOVE_NODES=10000 HUB_BROWSER_LEASES=200 HUB_GATE_KILLS=200 HUB_AGENT_KILLS=500 $(BIN)/python -m pytest --timeout 3600 tests/races tests/machine tests/recovery/loop tests/api/test_roads.py tests/api/test_hostile.py $(PYTEST_ARGS)

.PHONY: mutants
mutants: venv servers ## plant mistakes in the scripts and see that the state machine finds each of them
	@$(BIN)/python -m tests.mutants

# What a change of the core breaks first; a test that starts processes or tries everything there is has the mark `slow`.
CORE := tests/capacity tests/test_settings.py tests/test_env_example.py tests/manual/test_pages.py
.PHONY: quick
quick: venv luacheck ## style, types, layout and the core, in less than a minute
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@luacheck --quiet --no-color lua
	@$(BIN)/python -m hub.api.publish --check
	@$(BIN)/python -m pytest -q --numprocesses 2 --dist worksteal -m "not slow" tests/test_layout.py $(CORE) $(PYTEST_ARGS)

# The types of the page, as its comments declare them; the compiler is installed as its lock file says.
PAGE_TYPES := tests/console/types
.PHONY: pagetypes
pagetypes:
	@if command -v npm >/dev/null; then \
	  [ $(PAGE_TYPES)/node_modules/.package-lock.json -nt $(PAGE_TYPES)/package-lock.json ] \
	    || npm ci --silent --no-audit --no-fund --prefix $(PAGE_TYPES); \
	  $(PAGE_TYPES)/node_modules/.bin/tsc --project $(PAGE_TYPES); \
	else echo "There is no npm here: the types of hub/console are not checked."; fi

.PHONY: check
check: venv luacheck pagetypes ## style, formatting, types, contract, layout and manifests; needs no Redis
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@luacheck --quiet --no-color lua
	@$(BIN)/python -m hub.api.publish --check
	@$(BIN)/python -m tests.twins --check
	@$(BIN)/python -m pytest -q tests/test_layout.py tests/test_kubernetes.py

.PHONY: contract
contract: venv ## write the contract, hub/api/contract/openapi.json, anew; BREAK=--break lets it break its clients
	@$(BIN)/python -m hub.api.publish $(BREAK)

.PHONY: twins
twins: venv ## write the clients for threads, SyncHubClient and SyncJobsClient, from those for asyncio
	@$(BIN)/python -m tests.twins

# Install packages of the system.
define INSTALL
{ sudo=""; [ "$$(id -u)" -eq 0 ] || sudo="sudo -n"; \
	  command -v apt-get >/dev/null && $$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive \
	    apt-get install -y -qq --no-install-recommends $(1) >/dev/null; }
endef

.PHONY: luacheck
luacheck:
	@command -v luacheck >/dev/null || $(call INSTALL,lua-check) \
	  || { echo "The check needs luacheck (Debian's lua-check), and it could not be installed: please install it." >&2; exit 1; }

.PHONY: bench
bench: venv servers ## measure the promises about speed and print the conditions
	@$(BIN)/python -m tests.bench

.PHONY: screenshots
screenshots: venv servers ## show every view of the console, light, dark and narrow, in build/screens
	@$(BIN)/python -m tests.console.look

.PHONY: drill
drill: venv servers ## let hubs, Redis and a fleet of 10,000 nodes fail in turn and count what that costs
	@$(BIN)/python -m tests.drill $(DRILL_ARGS)

.PHONY: dist
dist: venv ## build wheel and sdist in dist/, check them, and have the wheel lend from a clean environment
	@rm -rf dist
	@$(BIN)/python -m hatchling build --directory dist
	@$(BIN)/python -m twine check --strict dist/*
	@$(BIN)/python -m tests.dist dist

.PHONY: venv
venv: $(STAMP) ## make .venv and install the hub into it, editable, with what the tests need

# pip shows its progress in a terminal, and nothing elsewhere.
AS_SEEN = $$([ -t 2 ] || echo --quiet)

# Install the packages of a lock file, which names all that they need, and the hub itself, editable.
define PACKAGES
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "The hub needs Python 3.11 or later; name one with: make PYTHON=python3.11 $(or $(MAKECMDGOALS),venv)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@pip="$(BIN)/python -m pip install $(AS_SEEN) --disable-pip-version-check $(2) --no-deps"; \
	$$pip --require-hashes --requirement $(1) && $$pip --no-build-isolation --editable .
endef

# The lock of the images pins what running needs, at the versions of the lock that has the tools of the tests as well.
# Python compiles what a hub imports when it imports it: less than half of what these packages hold.
$(RUNNING): pyproject.toml deploy/requirements.lock
	$(call PACKAGES,deploy/requirements.lock,--no-compile)
	@touch $@

$(STAMP): pyproject.toml requirements.lock
	$(call PACKAGES,requirements.lock)
	@touch $(RUNNING) $@

# All platforms and every file of a package: what is installed is what was locked, or nothing.
LOCK := $(VENV).lock/bin/uv pip compile --quiet pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-header

.PHONY: lock
lock: ## pin the newest versions the project allows, with their hashes, in requirements.lock and those of the images
	@rm -rf $(VENV).lock && $(PYTHON) -m venv $(VENV).lock
	@$(VENV).lock/bin/python -m pip install --quiet uv
	@$(LOCK) --upgrade --extra dev --output-file requirements.lock
	@$(LOCK) --upgrade --extra sql --extra otel --extra oidc --extra build --constraint requirements.lock --output-file deploy/requirements.lock
	@sed -n 's/^    "\(httpx>=.*\)",$$/\1/p' pyproject.toml | $(subst pyproject.toml,-,$(LOCK)) \
	  --constraint requirements.lock --output-file deploy/requirements-agent.lock
	@rm -rf $(VENV).lock
	@echo "requirements.lock pins $$(grep -c == requirements.lock) packages"

# The tests and benchmarks run against real servers; nothing else here needs them.
.PHONY: servers
servers:
	@missing=""; \
	command -v redis-server >/dev/null || command -v valkey-server >/dev/null || missing="redis-server"; \
	command -v pg_ctl >/dev/null || ls /usr/lib/postgresql/*/bin/pg_ctl >/dev/null 2>&1 || missing="$$missing postgresql"; \
	command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] || missing="$$missing mariadb-server"; \
	command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || missing="$$missing pgbouncer"; \
	command -v nginx >/dev/null || ls /usr/sbin/nginx >/dev/null 2>&1 || missing="$$missing nginx-light"; \
	command -v promtool >/dev/null || missing="$$missing prometheus"; \
	command -v amtool >/dev/null || missing="$$missing prometheus-alertmanager"; \
	command -v cc >/dev/null || missing="$$missing gcc libc6-dev"; \
	command -v zsh >/dev/null || missing="$$missing zsh"; \
	command -v fish >/dev/null || missing="$$missing fish"; \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	  || missing="$$missing chromium"; \
	[ -z "$$missing" ] || $(call INSTALL,$$missing) \
	  || { echo "The tests need $$missing, and it could not be installed: please install it." >&2; exit 1; }

# What others generate clients of the contract with, and pyright for the programs of the manual; it shares no version with the hub.
CLIENTS := $(VENV).clients
.PHONY: clients
clients: $(CLIENTS)/.installed

$(CLIENTS)/.installed: tests/contract/clients/requirements.txt tests/contract/clients/package-lock.json
	@command -v npm >/dev/null || $(call INSTALL,nodejs npm) \
	  || { echo "The tests need npm, and it could not be installed: please install it." >&2; exit 1; }
	@$(PYTHON) -m venv $(CLIENTS)
	@$(CLIENTS)/bin/python -m pip install --quiet --require-hashes --requirement tests/contract/clients/requirements.txt
	@cp tests/contract/clients/package.json tests/contract/clients/package-lock.json $(CLIENTS)
	@npm ci --silent --no-audit --no-fund --prefix $(CLIENTS)
	@touch $@

.PHONY: clean
clean: ## remove the environment, caches and build results
	@rm -rf $(VENV) $(VENV).lock $(VENV).clients $(PAGE_TYPES)/node_modules build dist .coverage .coverage.* htmlcov .hypothesis .mypy_cache .pytest_cache .ruff_cache .schemathesis
	@find hub tests -name __pycache__ -type d -prune -exec rm -rf {} +
