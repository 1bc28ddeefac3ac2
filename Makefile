# On a fresh machine with Python 3.11, git and make:  make demo  ·  make test
.PHONY: help setup demo test again check agents web bench simulate week evening reach chaos whole redteam tamper fuzz evidence selftest storage mutants firsthour runners docs recording wheel lock clean
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/.ready
PIP     = $(BIN)/python -m pip install -q --disable-pip-version-check
# a dot each two seconds while it goes on; its output only if it fails
SHOWN   = >.venv/pip.log 2>&1 & pid=$$!; while kill -0 $$pid 2>/dev/null; do printf .; sleep 2; done; echo; \
	wait $$pid || { cat .venv/pip.log; exit 1; }

help:            ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

setup: $(READY) sandbox  ## create .venv and install the dependencies
	@$(if $(filter setup,$(MAKECMDGOALS)),echo "Ready: $(BIN)/flyball",:)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Flyball needs Python 3.11 or newer; set PYTHON=…"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { echo "Python's venv module is missing; install it (Debian: python3-venv)."; exit 1; }
	@printf "Installing dependencies into .venv; this needs the network, once "
	@$(PIP) --require-hashes -r requirements.lock $(SHOWN)
	@$(PIP) --no-deps --no-build-isolation -e . >.venv/pip.log 2>&1 || { cat .venv/pip.log; exit 1; }
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -c 'import flyball'
	@touch $@

.PHONY: sandbox
sandbox:
	@tools/install-package bwrap bubblewrap "Flyball confines agents and tests with bubblewrap." "agents and tests run without a sandbox"

demo: setup      ## repair a small broken project, without a model
	@$(BIN)/flyball demo

test: setup      ## run the tests
	@$(BIN)/python -m pytest

again: setup     ## run the tests that failed last time, one by one
	@echo "Running the failed tests again, one by one:"
	@$(BIN)/python -m pytest --last-failed --last-failed-no-failures none -n 0 -v

check: setup     ## lint, type check, house rules
	@$(BIN)/ruff check src tests bench
	@$(BIN)/ruff format --check src tests bench
	@$(BIN)/basedpyright --level error
	@$(BIN)/python -m pytest -n 0 tests/test_tidy.py

agents: setup .agents/.ready  ## drive the real agent CLIs against a scripted model (ONLY=claude)
	@: >.agents/attempts.txt
	@$(BIN)/python -m pytest -n 2 --timeout 300 -rs --real-agents $(if $(ONLY),-k "$(ONLY)") tests/agents
	@echo "Other hosts that the agents wanted to reach: $$(test -s .agents/attempts.txt || echo none)"; sort .agents/attempts.txt | uniq -c

.agents/.ready: tests/agents/package.json
	@echo "Installing Claude Code, Codex, Gemini CLI and opencode into .agents …"
	@mkdir -p .agents && cp $< .agents/
	@cd .agents && npm install --no-audit --no-fund --no-package-lock --ignore-scripts >npm.log 2>&1 \
		&& npm rebuild @anthropic-ai/claude-code opencode-ai >>npm.log 2>&1 || { cat npm.log; exit 1; }
	@touch $@

web: setup        ## test the web page in a real browser, which is installed if it can be
	@tools/install-package chromium chromium "Chromium tries the web page." "the tests in a browser are skipped"
	@$(BIN)/python -m pytest -n 2 -rs tests/web

bench: setup bench/.venv/.ready  ## measure speed, next to limits and other tools (QUICK=1)
	@$(BIN)/python -m bench $(if $(QUICK),--quick)

bench/.venv/.ready: bench/requirements.lock
	@test -x bench/.venv/bin/python || $(PYTHON) -m venv bench/.venv
	@echo "Installing the tools to compare with into bench/.venv …"
	@bench/.venv/bin/python -m pip install -q --disable-pip-version-check --only-binary :all: --require-hashes -r $< \
		>bench/.venv/pip.log 2>&1 && touch $@ || echo "They could not be installed (see bench/.venv/pip.log); measuring without them."

simulate: setup  ## run seeded worlds under a virtual clock (SEEDS=2000)
	@$(BIN)/flyball simulate --seeds $(or $(SEEDS),2000)

week: setup      ## a week of `flyball up` under a virtual clock: every transition, trigger, question and answer
	@$(BIN)/flyball simulate --week

evening: setup   ## an evening of `flyball up` in real processes: twelve tasks, an interrupt, kill -9, a take-over
	@$(BIN)/python tools/evening.py

reach: setup     ## update the goals of simulate from what prove finds
	@$(BIN)/python -m flyball.lab.simulate.goals

chaos: setup     ## kill a real supervisor many times (KILLS=100)
	@$(BIN)/python -m pytest tests/e2e/test_chaos.py --kills $(or $(KILLS),100)

whole: setup     ## run every case of the tests of which `make test` runs only a sample
	@$(BIN)/python -m pytest --whole -m sampled

redteam: setup   ## agents that try to get out, with full-size floods
	@$(BIN)/python -m pytest tests/redteam --timeout 3600 --attacks 1000 --flood 100000,2G

tamper: setup    ## change a journal in many ways; every change must be detected (TAMPERINGS=10000)
	@$(BIN)/python -m pytest tests/e2e/test_tampering.py --timeout 3600 --tamperings $(or $(TAMPERINGS),10000)

fuzz: setup      ## judge generated commands and trace the allowed ones (COUNT= TRACED= SEED= or SECONDS=)
	@tools/install-package strace strace "strace shows what allowed commands really do." "commands are judged, but not run for real"
	@$(BIN)/python -m tests.fuzz --count $(or $(COUNT),1000000) --traced $(or $(TRACED),20000) \
		--seed $(or $(SEED),1) $(if $(SECONDS),--seconds $(SECONDS))

evidence: setup  ## play dishonest and honest agents against the gate (ONLY=calc JOBS=2)
	@$(BIN)/python tests/evidence/run.py --jobs $(or $(JOBS),2) $(if $(ONLY),--only '$(ONLY)')

selftest: setup  ## run all self-tests on this machine, with a one-page report
	@$(BIN)/flyball selftest

storage: setup   ## let every write and sync of a run fail, tear, get lost or find the disk full
	@$(BIN)/flyball selftest storage

mutants: setup   ## put small faults into the code and see which tests notice (COUNT=200 SEED=0)
	@$(BIN)/python tools/mutants.py --count $(or $(COUNT),200) --seed $(or $(SEED),0)

firsthour: setup .agents/.ready  ## init and run on real projects from PyPI and npm (PROJECTS="humanize minimist")
	@$(BIN)/python tools/firsthour.py $(PROJECTS)
	@echo "With the real Claude Code, as init finds it, on a scripted model:"
	@$(BIN)/python tools/firsthour.py --claude $(or $(PROJECTS),humanize shell-quote)

runners: setup   ## read the tests of real projects by id, and compare with their runners (ONLY=humanize)
	@$(BIN)/python tools/runners.py $(ONLY)

docs: setup      ## write the generated parts of the documentation
	@$(BIN)/python tools/docs.py

recording: setup ## record docs/demo.svg from a real run of the demo
	@$(BIN)/python tools/record.py

wheel: setup     ## build the wheel; install it with pip, uv tool and pipx, each alone; run the demo with each
	@rm -rf dist && $(BIN)/python -m hatchling build -t wheel >/dev/null && ls dist
	@tools/try-wheel dist/*.whl $(PYTHON)

lock:            ## update requirements.lock
	@uv pip compile -q pyproject.toml --group dev --all-extras --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 --upgrade -o requirements.lock

clean:           ## remove .venv and caches
	@rm -rf .venv .pytest_cache .ruff_cache .hypothesis
