# Everything runs from the clone's own .venv; only python3 (with venv), git and make are needed.
# Targets are relative, so the clone's path may hold spaces.

PYTHON ?= python3
PIP := .venv/bin/python -m pip --disable-pip-version-check

# An environment is of use where it was made and while its python3 exists; else it is made anew.
HERE := grep -qsF "$(CURDIR)/.venv" .venv/bin/activate && test -x .venv/bin/python
$(shell { $(HERE); } || rm -f .venv/.installed .venv/.installed-dev)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help install install-dev demo test crashes fuzz chaos chaos-nightly cases bench profile ci clean

help: ## Say what each target does.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-13s %s\n", $$1, $$2}' Makefile

install: .venv/.installed ## Make .venv with the pi-workflows command in .venv/bin.

install-dev: .venv/.installed-dev ## Add the tools that check the code.

demo: .venv/.installed ## Write a release report about this repository, durably.
	@sh examples/demo.sh

# Tests with real processes wait for each other a good deal, so one more of them has room.
JOBS ?= 2
PROCESS_JOBS ?= 3

test: .venv/.installed-dev ## Run the fast tests, JOBS (2) at a time, then those with real processes.
	.venv/bin/python -m tools.side_by_side --processes $(JOBS) tests
	.venv/bin/python -m tools.side_by_side --processes $(PROCESS_JOBS) --unit test multiproc_tests

TIMES ?= 20

CRASHES := runner_crash server_crash server_killed_at_points start_killed_at_files takeover two_servers \
    two_claims frozen_runner clock_of_a_server ambiguous_effects disk_full

crashes: .venv/.installed-dev ## Run the crash tests TIMES times in a row (20), PROCESS_JOBS (3) at a time.
	@for round in $$(seq $(TIMES)); do \
	    echo "== crash tests, round $$round of $(TIMES)"; \
	    .venv/bin/python -m tools.side_by_side --processes $(PROCESS_JOBS) --unit test \
	        $(CRASHES:%=multiproc_tests/test_%.py) || exit 1; \
	done

FRAMES ?= 100000
SEED ?= 1

fuzz: .venv/.installed-dev ## Send FRAMES frames (100000), many of them hostile, to a server.
	@FRAMES=$(FRAMES) SEED=$(SEED) .venv/bin/python -m pytest -q -s --no-header \
	    -p no:cacheprovider multiproc_tests/test_frame_fuzz.py

CHAOS := .venv/bin/pi-workflows chaos
BUDGET ?= 5m
NIGHT ?= 3h

chaos: .venv/.installed ## Explore every shipped scenario within BUDGET (5m), and find every mutation.
	@$(CHAOS) run --all --budget $(BUDGET)
	@$(CHAOS) mutate

chaos-nightly: .venv/.installed ## Explore much more of them, within NIGHT (3h).
	@$(CHAOS) run --nightly --budget $(NIGHT)
	@$(CHAOS) mutate --fresh $(SEED)

cases: .venv/.installed-dev ## List which acceptance cases have a test.
	@.venv/bin/python tools/cases.py

bench: .venv/.installed ## Print figures: commands and steps per second.
	@.venv/bin/python -m bench

profile: .venv/.installed ## Print where the CPU time of one command and one step goes.
	@.venv/bin/python -m bench --profile

ci: ## Everything that must be green: the linters and all tests.
	@.ci/run

clean: ## Remove the environment, the caches and what was built.
	rm -rf .venv build dist chaos-failures .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written last, so an install that stopped half way is continued by the next make.
.venv/.installed: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 is needed")'
	@{ $(HERE) && $(PIP) --version >/dev/null 2>&1; } || $(PYTHON) -m venv --clear .venv
	$(PIP) install --quiet --require-hashes --requirement requirements.txt
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.installed-dev: requirements-dev.txt .venv/.installed
	$(PIP) install --quiet --require-hashes --requirement requirements-dev.txt
	@touch $@
