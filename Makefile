# Every target works on a fresh clone: it makes .venv first. `make help` lists them.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
DEBIAN := $(VENV)/debian
BROWSER := $(VENV)/browser
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help venv lock audit sbom demo browser pictures console-scale test coverage stress soak rivals matrix mutants proof promise check fmt alerts snapshot lowest clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

venv: $(STAMP)  ## make .venv with everything the other targets need

# Everything by version and hash; the project itself is built by what the lock holds, so that nothing else is fetched.
$(STAMP): pyproject.toml requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@if command -v uv >/dev/null 2>&1; then install="uv pip install --quiet --python $(BIN)/python"; \
	 else install="$(BIN)/python -m pip install --quiet --disable-pip-version-check"; fi; \
	 $$install --require-hashes -r requirements.lock && $$install --no-deps --no-build-isolation -e .
	@touch $@

lock:  ## write requirements.lock anew: the newest of everything within the bounds, for every Python (needs uv from PyPI)
	@test -x .venv-lock/bin/python || $(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	@.venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes --upgrade \
	 --no-emit-index-url --custom-compile-command 'make lock' --output-file requirements.lock pyproject.toml

audit: $(STAMP)  ## ask for known vulnerabilities of what requirements.lock holds; says so where the data cannot be had
	@$(BIN)/python -m supply.audit requirements.lock

sbom: $(STAMP)  ## write dist/sbom.json: what requirements.lock holds, as CycloneDX
	@mkdir -p dist
	@$(BIN)/python -m supply.sbom requirements.lock > dist/sbom.json

demo: $(STAMP)  ## the main job on embedded servers: start, migrate, show, stop
	@$(BIN)/projectionist demo

$(DEBIAN)/.unpacked: .ci/debian | $(STAMP)
	@rm -rf $(DEBIAN)
	@if LIBRARIES='lib(c-?ares|event)[^ ,|]*' .ci/debian $(DEBIAN) pgbouncer libfaketime prometheus; then touch $@; \
	 else echo 'pgbouncer, libfaketime and prometheus cannot be had from Debian: tests of poolers, clocks and alerts are left out' >&2; fi

browser: $(BROWSER)/.unpacked  ## Chromium from Debian's packages, without root, unless this machine has one

$(BROWSER)/.unpacked: .ci/debian | $(STAMP)
	@rm -rf $(BROWSER) && mkdir -p $(BROWSER)
	@if command -v chromium >/dev/null || WHOLE=1 .ci/debian $(BROWSER) chromium-headless-shell chromium-common; then touch $@; \
	 else echo 'Chromium cannot be had from Debian: tests of the console in a browser are left out' >&2; fi

pictures: $(STAMP) $(BROWSER)/.unpacked  ## write docs/images/console anew: each screen of the console over the demo's shop
	@$(BIN)/python -m tests.support.console_pictures

console-scale: $(STAMP)  ## a database of ten million events on disk (8 GB), and what each page of the console takes over it
	@$(BIN)/python -m tests.support.console_scale

test: $(STAMP) $(DEBIAN)/.unpacked $(BROWSER)/.unpacked  ## all tests against real servers, a pair for each core; none is tried twice
	@$(BIN)/python -m tests.support.bytecode
	@$(BIN)/python -m pytest -q -n auto --dist loadfile

rivals: $(STAMP)  ## the same orders, kills and provider for us and for others: writes docs/rivals.md; takes a quarter of an hour
	@$(BIN)/python -m tests.support.rivals $(if $(SEED),--seed $(SEED)) --page docs/rivals.md

coverage: $(STAMP) $(DEBIAN)/.unpacked $(BROWSER)/.unpacked  ## the same with branch coverage, which takes a quarter more time
	@$(BIN)/python -m tests.support.bytecode
	@$(BIN)/python -m pytest --cov --cov-report=term -q -n auto --dist loadfile

stress: $(STAMP) $(DEBIAN)/.unpacked $(BROWSER)/.unpacked  ## tests again and again while other work keeps every core busy: TESTS='tests/unit -k lease' TIMES=5
	@$(BIN)/python -m tests.support.stress $(or $(TIMES),5) -q -n auto --dist loadfile $(TESTS)

soak: $(STAMP)  ## faults under load, one after the other, and a table: MINUTES=60; without it two minutes of them, a longer outage, ten rebuilds under load, hundreds of histories in which anything happens, and a kill at every call of every process
	@$(BIN)/python -m tests.support.soak $(or $(MINUTES),2) $(if $(SEED),--seed $(SEED)) $(if $(JSON),--json $(JSON))
ifndef MINUTES
	@SOAK_S=60 $(BIN)/python -m pytest -q tests/integration/process/test_outages.py
	@SOAK_REBUILDS=all $(BIN)/python -m pytest -q tests/integration/rebuild/test_soak.py
	@RIM_EXAMPLES=many $(BIN)/python -m pytest -q tests/integration/faults tests/integration/*/test_histories.py
	@SWEEP=all $(BIN)/python -m pytest -q tests/crash/test_sweep.py
endif

mutants: $(STAMP)  ## change what decides, a place at a time, and tell which changes no test notices: ONLY=leases
	@$(BIN)/python -m tests.support.mutants $(ONLY)

proof: $(STAMP) $(DEBIAN)/.unpacked  ## the tests of all promises, and docs/proof.md from what they found
	@$(BIN)/python -m tests.support.proof

promise: $(STAMP) $(DEBIAN)/.unpacked  ## the tests of one promise of docs/guarantees.md: ID=I7
	@$(BIN)/python -m tests.support.proof $(or $(ID),I1)

check: $(STAMP) audit  ## ruff, format, mypy strict, import contracts, known vulnerabilities
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

fmt: $(STAMP)  ## mend formatting and imports
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

alerts: $(STAMP) $(DEBIAN)/.unpacked  ## check and test the alert rules with Debian's promtool, on made-up series and on those of real processes
	@cd ops/alerts && PATH="$(CURDIR)/$(DEBIAN)/usr/bin:$$PATH" promtool check rules projectionist.yml
	@cd ops/alerts && PATH="$(CURDIR)/$(DEBIAN)/usr/bin:$$PATH" promtool test rules projectionist.test.yml
	@$(BIN)/python -m pytest -q tests/integration/telemetry/test_prometheus.py tests/integration/telemetry/test_dead_fleet.py

snapshot: $(STAMP)  ## write the schema that all migrations make, for review
	@REGENERATE_SNAPSHOT=1 $(BIN)/python -m pytest -q tests/integration/migrations/test_snapshot.py

lowest:  ## the tests on the lower bounds of every dependency (its own .venv-lowest; needs uv from PyPI)
	@test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	@.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	@.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --all-extras -r pyproject.toml -e .
	@.venv-lowest/bin/python -m pytest -q -n auto --dist loadfile

matrix: $(STAMP) $(DEBIAN)/.unpacked  ## what speaks with servers, on each version that is promised, and docs/versions.md: ONLY='nats-server 2.10'
	@$(BIN)/python -m tests.support.matrix $(if $(ONLY),"$(ONLY)")

clean:  ## remove the virtual environments and caches (never .projectionist)
	@rm -rf $(VENV) .venv-lock .venv-lowest .venv-matrix .mypy_cache .ruff_cache .pytest_cache .coverage* dist
