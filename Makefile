# One line of work each; what it takes stands in scripts/. `make help` lists them.
# Long lines of a recipe are not echoed: each script says itself what it does.

.PHONY: help setup web build demo test deep chaos foreign bench install wheel docs clean tidy
.DEFAULT_GOAL := help

CLIENT ?= python
RANKS ?= 1
SEED ?=
KILLS ?= 300
PREFIX ?= /usr/local
GLIBC ?=

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

setup: ## check the tools, install what is missing, make .venv
	@scripts/setup

web: ## build the monitor's page into web/dist
	@scripts/web

build: ## the page, the forebay command and the Python package, into .venv
	@scripts/build

demo: ## build, then run examples/01_two_stream (CLIENT=python|c|fortran RANKS=1)
	@scripts/demo "$(CLIENT)" "$(RANKS)"

test: ## build and run every check and test
	@scripts/test

deep: ## longer checks, wanting tools that the tests do not: loom, Miri, arm64, all images of a lost power, many programs that are begun again
	@scripts/deep

chaos: ## kill processes of every role at random moments (SEED=a new one KILLS=300 JSON=)
	@scripts/chaos "$(SEED)" "$(KILLS)" $(if $(JSON),--json)

foreign: ## test the adapters with OpenMM, LAMMPS, ASE, py-pde and FiPy, in an environment of their own
	@scripts/foreign

bench: ## measure, beside others and the machine's own limits (QUICK=1 shorter, PUBLISH=1 into docs/)
	@scripts/bench $(if $(QUICK),--quick) $(if $(PUBLISH),--publish)

install: ## put command, C library and header under PREFIX (default /usr/local), below DESTDIR if that is set
	@scripts/install "$(PREFIX)"

wheel: ## a Python wheel with everything in it, in out/wheel (GLIBC=2.28: for machines with that C library)
	@GLIBC="$(GLIBC)" scripts/wheel

docs: ## the guide and the references as pages, in out/docs
	@scripts/docs

clean: ## remove what was built
	@scripts/clean

tidy: ## only the checks of the house rules (seconds)
	@cargo test --quiet --release --package forebay-tidy
