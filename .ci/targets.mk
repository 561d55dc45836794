# What CI runs: the targets of the Makefile, by stage. .ci/run says how.

# One after the other: they install programs, and apt in two lanes would start services of packages
# that each other keeps from starting; and they rewrite files that others compile.
first := programs check-generated
# Quick targets first, then the longest.
computing := lint prose vuln test-web test e2e-ui guard control-plane test-docs conformance-quick test-clients test-modules test-examples
# These mostly wait for clocks and clusters, so they get the processors first.
waiting := e2e-faults e2e-swarm e2e-nomad e2e-deploy attack e2e-chart e2e-keda
# These load the service, or compare two controllers by the second.
measuring := e2e-kubernetes e2e-load
# Of these each run does a part, by its commit. On a slow machine one that has not begun within
# an hour is left out, and the run says so.
deep := test-race promises reproducible fuzz

# What is more than `make NAME`.
part = $(shell echo $$((0x$$(git rev-parse HEAD | cut -c1-4) % $(1) + 1)))/$(1)
fuzz: runs = fuzz FUZZTIME=5s FUZZWORKERS=1 PART=$(call part,6) # of the packages, by the commit; nightly: all, ten minutes each, on all processors
promises: runs = promises PART=$(call part,6) # nightly: all
test-race: runs = test-race PART=$(call part,4) # nightly: all
conformance-quick: runs = conformance-quick PART=$(call part,4) # of the older controllers; nightly: all
reproducible: runs = release-reproducible TARGETS=programs # nightly: all of a release
attack: runs = attack ATTACK=-short

SHELL := /usr/bin/env bash
.SHELLFLAGS := -uo pipefail -c
all := $(first) $(computing) $(waiting) $(measuring) $(deep)
stray := $(filter-out $(all),$(ONLY))
$(if $(stray),$(error $(stray): CI has only $(all)))
$(computing): export niceness = 10
$(deep): export latest = 3600

.PHONY: first computing waiting measuring deep $(all)
first: $(or $(filter $(ONLY),$(first)),$(if $(ONLY),,$(first)))
computing: $(or $(filter $(ONLY),$(computing)),$(if $(ONLY),,$(computing)))
waiting: $(or $(filter $(ONLY),$(waiting)),$(if $(ONLY),,$(waiting)))
measuring: $(or $(filter $(ONLY),$(measuring)),$(if $(ONLY),,$(measuring)))
deep: $(or $(filter $(ONLY),$(deep)),$(if $(ONLY),,$(deep)))
first computing waiting measuring deep: ; @:

# The log is printed whole. A failure is told to .ci/run at once: this make would first wait for
# what else it runs. The make below is none of this one's lanes.
$(all):
	@unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES ONLY; TIMEFORMAT='%0R %0U %0S'; log=bin/ci/$@.log; \
	test $$(($$(date +%s) - CI_BEGAN)) -lt $${latest:-86400} || { echo $@ >>bin/ci/late; exit 0; }; \
	echo $@ >>bin/ci/begun; \
	{ time nice -n $${niceness:-0} make $(or $(runs),$@) >$$log 2>&1 </dev/null; } 2>bin/ci/$@.time || \
		{ echo $@ >>bin/ci/failed; kill -USR1 $$CI_RUN; exit 1; }; \
	echo $@ >>bin/ci/passed; printf '\n=== %s\n' $@; cat $$log
