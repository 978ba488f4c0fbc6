# Everything a person or a CI does with this tree. `make` or `make help` lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON := .venv/bin/python
# Where a machine sets it, each process of each test would compile this tree, and rewrite all assertions, once more.
unexport PYTHONDONTWRITEBYTECODE
# Ports are given like this: make up KAFKA_PORT=19092 LOCALSTACK_PORT=14566
PORTS := $(if $(KAFKA_PORT),--kafka-port $(KAFKA_PORT)) $(if $(LOCALSTACK_PORT),--localstack-port $(LOCALSTACK_PORT))
PARTS := $(PYTHON) localstack/parts.py $(PORTS)
# More for pytest, such as: make test PYTEST_ARGS='-x -k template'
PYTEST := $(PYTHON) -m pytest --durations=40 $(PYTEST_ARGS)
# Units and services side by side; tests/support/groups.py puts them in groups, each for one of the workers: a file,
# or what shares a service. More workers than cores, as services wait more than they compute.
SPREAD := --dist loadscope --no-loadscope-reorder --numprocesses 5

# For make soak
MINUTES := 30

.PHONY: help setup java archive compiled up down status check format test test-all coverage simulate demo bench bench-all latency faults soak image dist clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /|/' | awk -F '|' '{ printf "  make %-10s %s\n", $$1, $$2 }'
	@echo
	@echo '  Ports: KAFKA_PORT (9092, and the next one), LOCALSTACK_PORT (4566). Without them, test, test-all and'
	@echo '  faults use the parts of `make up` where they run, or free ports of their own where they do not.'

# Not compiled: four fifths of it are never imported here, and Python compiles the rest when it first is. To compile
# all was a third of the CPU.
setup: java  ## a virtual environment in .venv with the locked packages and the command headrace
	@docker/make-venv .venv --no-compile requirements-dev.lock docker/build.lock
	@test -x .venv/bin/headrace || $(PYTHON) -m pip install --quiet --no-deps --no-build-isolation --no-index --editable .

java:
	@docker/check-java

archive: setup  ## archive Spark's and Kafka's classes, for starts in half the time (once; half a minute)
	@docker/share-classes .venv
	@$(PARTS) archive

# Once for each .venv, beside the archives, which wait: the workers of a first run would each compile all that tests
# import, which is half of what a first collection takes.
.venv/compiled: | setup
	@$(PYTHON) -m pytest --collect-only -qq >/dev/null 2>&1 && touch $@ || true

# Without a line that it is up to date.
compiled: .venv/compiled
	@:

up: setup  ## start a Kafka broker and LocalStack, and wait until both answer
	@$(PARTS) up

down:  ## stop what `make up` started, and nothing else
	@if [ -x $(PYTHON) ]; then $(PARTS) down; fi

status: setup  ## where the broker and LocalStack are
	@$(PARTS) status

check: setup  ## lint, formatting, types, dead code, import graph
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy
	@$(PYTHON) -m vulture
	@$(PYTHON) -m pytest -q tests/test_import_graph.py tests/test_rooms.py

format: setup  ## let ruff mend what it can
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

test:  ## all tests but the long ones, units beside real services
	@$(MAKE) --jobs=2 archive compiled
	@$(PARTS) run -- $(PYTEST) $(SPREAD) -m 'not long'

test-all:  ## the same with the long ones and more examples (for a quiet machine)
	@$(MAKE) --jobs=2 archive compiled
	@$(PARTS) run -- $(PYTEST) $(SPREAD) -m 'long or not long' --hypothesis-profile=long

coverage:  ## the tests of `make test`, and which lines they run; they take half as much again
	@$(MAKE) --jobs=2 archive compiled
	@$(PARTS) run -- $(PYTEST) $(SPREAD) -m 'not long' --cov --cov-report=
	@$(PYTHON) -m coverage report --skip-covered --sort=cover $(if $(PYTEST_ARGS),--fail-under=0) | tail -n 30

simulate: setup  ## the whole service in a simulated environment: SEEDS=0:1000, or MINUTES=5 of fresh seeds
	@$(PYTHON) -m tests.simulation $(if $(SEEDS),--seeds $(SEEDS),--minutes $(or $(MINUTES),1))

demo: setup  ## a year of real flights through S3, SQS, Headrace and Kafka, counted at the end
	@$(PYTHON) -m bench.demo

bench: archive  ## Headrace beside what one could use instead, in one run (15 minutes)
	@$(PYTHON) -m bench.board

bench-all: archive  ## 20 s each, two Spark workers, more formats, ten quiet minutes (90 minutes)
	@$(PYTHON) -m bench.board --all

latency: archive  ## from upload to readable, one small object a second
	@$(PYTHON) -m bench.latency

faults: archive  ## kill things at random moments and account for every record
	@$(PARTS) run -- $(PYTEST) tests/faults -m 'long or not long'

soak: archive  ## half an hour of load, bad data and outages, and an exact account: make soak MINUTES=30
	@$(PARTS) run -- $(PYTHON) -m tests.soak.soak --minutes $(MINUTES)

image:  ## the container image `headrace`, by docker, podman or buildah: IMAGE_ARGS='--build-arg ..'
	@docker/build-image $(IMAGE_ARGS)

dist: setup  ## wheel and sdist in dist/, installed into a fresh environment and tried
	@docker/dist $(PYTHON) dist .cache/dist-venv

clean: down  ## stop the parts and remove all that these targets made
	@rm -rf .venv .cache .mypy_cache .ruff_cache .hypothesis dist build spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
