# Setpoint. `make help` lists the targets for every day, `make help-all` all.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Tools come as Go modules, each pinned in a module of its own.
tool = go tool -modfile=tools/$(1)/go.mod $(1)
BUF := $(call tool,buf)
CONTROLLER_GEN := $(call tool,controller-gen)

BIN := bin/setpoint
GENERATED := api proto docs deploy clients/kubernetes/autoscaling THIRD_PARTY.md web/dist
FUZZTIME ?= 30s
FUZZWORKERS ?=
MUTATIONTIME ?= 2h
CONFORMANCESTEPS ?= 100000
REST ?= http://127.0.0.1:8080
ATTACK ?=
# Tests of test/e2e/edge that use all processors to load the service, and measure.
MEASURED := ^TestOverload

# One build mode for all that has no race detector, so that what one target compiled the next
# one finds; scripts/gotest.sh has the other.
export GOFLAGS := $(shell . scripts/mode.sh && echo "$$GOFLAGS")
export CGO_ENABLED := 0

# CI sets RERUN=1: a failed test gets a second try, which is reported. Other runs are strict.
export RERUN ?=

# listed GROUP,TARGETS : prints the targets' help under a title.
listed = @printf '%s\n' '$(1)'; for one in $(2); do sed -nE "s/^($$one):.*\#\# (.*)/\1\t\2/p" Makefile; done | awk -F '\t' '{printf "  %-18s %s\n", $$1, $$2}'; echo

.PHONY: help
help: ## List the targets for every day
	$(call listed,Run it,run run-redis demo build)
	$(call listed,Change it,one test lint generate web-dev programs)
	$(call listed,Prove it,test-docs e2e attack conformance-quick)
	$(call listed,Measure and release,bench release-snapshot)
	@echo 'make help-all lists all targets; .ci/run [NAME...] runs what CI runs.'

.PHONY: help-all
help-all: ## List all targets
	@grep -hE '^[a-z0-9-]+:.*## ' Makefile | awk -F ':.*## ' '{printf "  %-22s %s\n", $$1, $$2}'

.PHONY: build
build: engine ## Build bin/setpoint, and beside it the programs of platforms
	scripts/build.sh bin all

.PHONY: engine
engine: ## Compile the playground's engine to WebAssembly: web/engine, which is embedded
	scripts/wasm.sh bin/engine web/engine

.PHONY: image
image: ## Build the image setpoint:dev, of static binaries on scratch, with the installed docker
	scripts/image.sh setpoint:dev

.PHONY: image-service
image-service: ## Build the image setpoint-service:dev in the same way, of the service alone
	scripts/image.sh setpoint-service:dev setpoint

.PHONY: image-external-metrics
image-external-metrics: ## Build the image setpoint-external-metrics:dev in the same way
	scripts/image.sh setpoint-external-metrics:dev setpoint-external-metrics

.PHONY: run
run: ## Build and serve with the embedded store: REST on :8080, gRPC on :9090
	scripts/build.sh bin
	$(BIN) serve --log-format=console

.PHONY: run-redis
run-redis: ## The same with histories in a Redis on this machine, started if none is there
	scripts/build.sh bin
	scripts/run-redis.sh $(BIN) serve --log-format=console

.PHONY: demo
demo: ## Send the README's request to a running server
	@deploy/demo/demo.sh $(REST)

.PHONY: test
test: ## Run the tests of all packages, five to ten minutes on two processors; installs Redis where it is missing
	@scripts/redis.sh || test -z "$${CI:-}"
	@echo 'This takes five to ten minutes on two processors, and longer beside other programs. Packages whose sources did not change are not tested again.'
	@# Many tests mostly wait, so more run at a time than there are processors.
	PATH="$$(scripts/newcomer-path.sh bin/newcomer)" scripts/gotest.sh test pkgname "$$(go list ./... | grep -v /examples$$)" -timeout=45m -p=$$(($$(getconf _NPROCESSORS_ONLN) + 1)) -parallel=$$((2 * $$(getconf _NPROCESSORS_ONLN)))
	@echo 'LEFT OUT, because they are slow or need more programs: the race detector (make test-race), the examples in Go, Python, Node.js and curl (make test-examples), the commands of the documentation (make test-docs), the clients of other languages (make test-clients), costs and large hostile requests (make guard), fuzzing (make fuzz), the modules beside the main one (make test-modules), the real controllers (make conformance-quick), whole processes (make e2e), attacks (make attack), clusters (make e2e-kubernetes) and images (make e2e-deploy).'
	@command -v redis-server >/dev/null || echo 'LEFT OUT, too, because there is no Redis: the tests of store/redis that need a server. sudo scripts/redis.sh installs it.'

.PHONY: one
one: ## Run one test of any module: RUN=TestX, with PKG=./test/e2e/edge, N=50 times, FLAGS=-race
	@scripts/one.sh '$(RUN)' $(or $(N),1) '$(PKG)' $(FLAGS)

.PHONY: test-race
test-race: ## The same with the race detector; PART=2/4: each fourth package
	@scripts/redis.sh || test -z "$${CI:-}"
	scripts/gotest.sh test-race pkgname "$$(go list ./... | grep -v /examples$$ | awk -v part=$(or $(PART),1/1) '{ split(part, of, "/") } NR % of[2] == of[1] - 1')" -race -timeout=45m

.PHONY: test-docs
test-docs: ## Run the documentation's commands, and compare their output; PAGES='README.md' runs only those
	@scripts/redis.sh
	@for one in jq curl openssl; do command -v $$one >/dev/null || scripts/apt.sh $$one; done
	@scripts/control-plane.sh >/dev/null
	@scripts/build.sh bin all
	go build -C test/e2e -o ../../bin/docs/cluster ./kubernetes/cluster
	@if nomad=$$(scripts/nomad.sh); then ln -sf "$$nomad" bin/docs/nomad; else test -z "$${CI:-}"; fi
	go run ./test/docs/run $(PAGES)

.PHONY: prose
prose: ## Check spelling and words of the documentation, by docs/style
	scripts/prose.sh

.PHONY: test-examples
test-examples: ## Run the examples as users do; installs Node.js and Python's gRPC where they are missing
	@scripts/node.sh || test -z "$${CI:-}"
	@scripts/python.sh || test -z "$${CI:-}"
	scripts/gotest.sh test-examples pkgname ./examples -count=1 -timeout=45m

.PHONY: test-clients
test-clients: ## Test that the clients of all languages behave alike, against real services with faults
	@scripts/redis.sh
	@scripts/node.sh || test -z "$${CI:-}"
	@scripts/python.sh || test -z "$${CI:-}"
	cd test/e2e && ../../scripts/gotest.sh test-clients standard-verbose ./languages -count=1 -timeout=30m

.PHONY: guard
guard: ## Fail if a recommendation exceeds its bounds on allocations, system calls or Redis traffic, or a hostile one those of its size
	@scripts/redis.sh
	go test -count=1 -v -timeout=30m ./test/guard
	GUARD=1 go test -count=1 -timeout=30m -run="^($$(awk '/^func (Test|Fuzz)/ { sub(/\(.*/, "", $$2); name = $$2 } /^\tmeasures\(/ { print name }' server/*_test.go | paste -sd'|' -)|TestHonest.*)$$" ./server

.PHONY: programs
programs: ## Install the tests' missing requirements: Redis, Prometheus, Docker, Node.js and the like
	@for one in redis prometheus node python chromium docker; do scripts/$$one.sh || test -z "$${CI:-}"; done

.PHONY: control-plane
control-plane: ## Build etcd, kube-apiserver, kube-controller-manager and kubectl into the user's cache, unless they are there
	@scripts/control-plane.sh

.PHONY: e2e
e2e: e2e-faults e2e-load ## Run the tests of whole processes: instances killed, Redis killed, failovers, faults, overload

.PHONY: e2e-faults
e2e-faults: ## The e2e tests that mostly wait: instances killed, Redis killed, failovers, faults, two versions on one Redis
	@scripts/redis.sh
	@scripts/prometheus.sh || test -z "$${CI:-}"
	@# The service is in the process of the first ones only: the others' have no use for the race detector.
	cd test/e2e && ../../scripts/gotest.sh e2e-faults standard-verbose ./faults -count=1 -race -timeout=60m
	cd test/e2e && ../../scripts/gotest.sh e2e-processes standard-verbose './edge ./panels ./pods ./redis ./samples ./versions' -count=1 -timeout=60m -p=2 -skip='$(MEASURED)'

.PHONY: e2e-load
e2e-load: ## The e2e tests that load the service and measure, which need a quiet machine: overload
	@scripts/redis.sh
	cd test/e2e && ../../scripts/gotest.sh e2e-load standard-verbose ./edge -count=1 -timeout=60m -run='$(MEASURED)'

.PHONY: attack
attack: ## Attack the service and check bounds on the cost; ATTACK='-short', '-list', '-run=regexp'
	@scripts/redis.sh
	cd test/e2e && go run ./attack $(ATTACK)

.PHONY: e2e-kubernetes
e2e-kubernetes: ## Run the agent beside a real API server and controller manager, which it builds, and measure it
	@scripts/control-plane.sh
	@scripts/prometheus.sh || test -z "$${CI:-}"
	cd test/e2e && ../../scripts/gotest.sh e2e-kubernetes standard-verbose ./kubernetes/... -count=1 -timeout=60m -p=1

.PHONY: e2e-chart
e2e-chart: ## Render the Helm chart, and install, upgrade, roll back and remove it on a real API server
	@scripts/control-plane.sh
	cd test/e2e && ../../scripts/gotest.sh e2e-chart standard-verbose ./chart/... -count=1 -timeout=30m

.PHONY: e2e-keda
e2e-keda: ## Run KEDA's operator and metrics adapter, which it builds, with the service as the chart installs it; needs root
	@scripts/redis.sh
	@scripts/control-plane.sh
	@scripts/keda.sh
	cd test/e2e && ../../scripts/gotest.sh e2e-keda standard-verbose ./keda -count=1 -timeout=30m

.PHONY: figures-kubernetes
figures-kubernetes: ## Measure the agent beside the native controller with as many objects; FIGURES=500,2000,10000
	@scripts/control-plane.sh
	cd test/e2e && go test -count=1 -v -timeout=3h -run='^TestFiguresBesideTheNativeController$$' ./kubernetes -figures=$(or $(FIGURES),500,2000)

.PHONY: figures-period
figures-period: ## Measure how well the agent keeps a period of 3 s with many objects, and what that costs; OBJECTS=1000,10000
	@scripts/control-plane.sh
	cd test/e2e && go test -count=1 -v -timeout=3h -run='^TestTheAgentKeepsAShortPeriod$$' ./kubernetes -figures=$(or $(OBJECTS),1000) -figures-period=3s

.PHONY: e2e-deploy
e2e-deploy: ## Build and run the image and what is in deploy/ with a real dockerd
	@scripts/docker.sh
	cd test/e2e && ../../scripts/gotest.sh e2e-deploy standard-verbose ./deploy/... -count=1 -timeout=45m

.PHONY: e2e-ui
e2e-ui: ## Test the web page with Chromium and a running service; installs both it and axe-core where they are missing
	@scripts/redis.sh
	@scripts/chromium.sh || test -z "$${CI:-}"
	cd test/e2e && ../../scripts/gotest.sh e2e-ui standard-verbose ./ui -count=1 -timeout=30m

.PHONY: pictures
pictures: ## Make new pictures of the web page in docs/images
	@scripts/chromium.sh
	cd test/e2e && go test -count=1 -v -run='^TestABelievableFleet$$' ./ui -pictures

.PHONY: e2e-nomad
e2e-nomad: ## Run the agent of Nomad with a real Nomad: the nomad on the PATH, or NOMAD=file; needs root
	@scripts/redis.sh
	@scripts/prometheus.sh || test -z "$${CI:-}"
	@if scripts/nomad.sh >/dev/null; then cd test/e2e && ../../scripts/gotest.sh e2e-nomad standard-verbose ./nomad -count=1 -timeout=20m -parallel=6; \
	else echo 'LEFT OUT: the agent of Nomad is not tested.' >&2; test -z "$${CI:-}"; fi

.PHONY: e2e-swarm
e2e-swarm: ## Run the agent of Docker Swarm with two real daemons that have joined; needs root
	@scripts/docker.sh
	@scripts/redis.sh
	cd test/e2e && ../../scripts/gotest.sh e2e-swarm standard-verbose ./swarm/... -count=1 -timeout=30m

.PHONY: test-modules
test-modules: ## Run the tests of the modules beside the main one that no other target runs
	@scripts/redis.sh
	for module in bench cmd/setpoint-external-metrics conformance/oracle conformance/cluster test/integrations tools/gremlins tools/licenses tools/openapi; do (cd $$module && go test -timeout=45m ./...); done

.PHONY: conformance
conformance: ## Compare 100,000 steps with each real controller, and 20,000 of each stage; write conformance/REPORT.md
	cd conformance && go run . compare -steps=100000 -stages=20000 -coverage -report=REPORT.md

.PHONY: conformance-nightly
conformance-nightly: ## Compare CONFORMANCESTEPS (100000) with each real controller, from a fresh seed; write bin/nightly/CONFORMANCE.md
	@mkdir -p bin/nightly
	cd conformance && go run . compare -steps=$(CONFORMANCESTEPS) -stages=20000 -coverage -report=../bin/nightly/CONFORMANCE.md

.PHONY: conformance-quick
conformance-quick: ## Compare some thousand random steps with the real controllers; older ones only if sources changed, or with ALL=1; PART=2/4: each fourth of the older ones
	@scripts/conformance-quick.sh

.PHONY: recordings
recordings: ## Record the real controllers again: the recordings in clients/kubernetes/recording/testdata
	cd conformance && go run . record

.PHONY: bench
bench: ## Measure the service beside bare handlers, and write the tables in docs/operate/performance.md; takes half an hour
	@scripts/redis.sh
	@mkdir -p bin
	cd bench && go run . -update=../docs/operate/performance.md -json=../bin/bench.json

.PHONY: bench-beside
bench-beside: ## Measure the service of an older commit and this one in turns: a table of old, new, new of old; OLD=commit
	scripts/bench-beside.sh $(OLD)

.PHONY: bench-micro
bench-micro: ## Run the benchmarks of the engine, stages, fleets and the service
	go test -run='^$$' -bench=. -benchmem ./recommender/... ./stages/... ./fleet/... ./server/...

.PHONY: bench-edge
bench-edge: ## Measure the effect of overload on callers; fails if a goal is missed
	cd test/e2e && go test -count=1 -v -timeout=20m -run='TestOverload$$' ./edge -goals

.PHONY: bench-store
bench-store: ## Compare the service on Redis with a minimal one, and measure both engines
	@scripts/redis.sh
	go test -run='^$$' -bench=OnRedis -benchtime=7x -timeout=10m ./cmd/setpoint/serve
	go test -run='TestMemoryOfATarget' -v -count=1 ./cmd/setpoint/serve | grep 'bytes a target'
	go test -run='^$$' -bench=Store -benchtime=1s -timeout=10m ./store/...

.PHONY: cover
cover: ## Print test coverage by package
	go test -coverpkg=./... -coverprofile=bin/cover.out ./... >/dev/null
	go tool cover -func=bin/cover.out | grep -v '/api/' | tail -n 1

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (30s), in FUZZWORKERS processes (one for each processor); PART=2/4: of each fourth package
	@FUZZWORKERS=$(FUZZWORKERS) scripts/fuzz.sh $(FUZZTIME) $(PART)

.PHONY: promises
promises: ## Take out what holds each promise of docs/operate/threat-model.md, and see its test fail; PART=2/4: each fourth
	@scripts/redis.sh
	go run ./test/promises/mutate -part=$(or $(PART),1/1)

.PHONY: mutation
mutation: ## Change recommender, store/redis and the server's decision path one operator at a time, for MUTATIONTIME (2h) each, and check that tests fail
	@scripts/redis.sh
	@scripts/mutation.sh $(MUTATIONTIME) $(MUTATE)

.PHONY: nightly
nightly: ## Run everything at full length, for half a day and more, and write bin/nightly/REPORT.md; STEPS='conformance fuzz' runs only those
	@scripts/nightly.sh $(STEPS)

.PHONY: generate
generate: ## Generate api/, docs/ and the CustomResourceDefinition from their sources
	cd tools/protodeps && go run . ../../proto/third_party
	rm -rf bin/generated && mkdir -p bin/generated
	$(BUF) generate --output bin/generated
	$(BUF) generate --template buf.gen.external.yaml --output bin/generated
	mv bin/generated/api/openapi/setpoint.swagger.json bin/rest.swagger.json
	scripts/put.sh --tree bin/generated . api/setpoint api/externalscaler
	mkdir -p bin/generated/api/openapi
	cd tools/openapi && go run . document ../../bin/rest.swagger.json ../../bin/generated/api/openapi/setpoint.openapi.json
	cd tools/pack && go run . -gzip ../../bin/generated/api/openapi/setpoint.openapi.json
	$(CONTROLLER_GEN) object paths=./clients/kubernetes/autoscaling/... output:object:dir=bin/generated/clients/kubernetes/autoscaling/v1
	scripts/put.sh --tree bin/generated .
	scripts/put.sh deploy/helm/setpoint/files/crd/autoscalers.yaml bash -o pipefail -c \
		'$(CONTROLLER_GEN) crd paths=./clients/kubernetes/autoscaling/... output:stdout | go run -C tools/controller-gen ./crd'
	scripts/put.sh deploy/setpoint.yaml go run ./cmd/setpoint docs example-config
	scripts/put.sh docs/reference/metrics.md go run ./cmd/setpoint docs metrics
	scripts/put.sh docs/reference/metrics-agents.md go run ./cmd/setpoint-kubernetes docs
	scripts/put.sh docs/reference/lint.md go run ./cmd/setpoint docs lint
	scripts/put.sh docs/reference/check.md go run ./cmd/setpoint docs check
	scripts/put.sh docs/reference/swarm.md go run ./cmd/setpoint-swarm reference
	scripts/put.sh docs/reference/nomad.md go run ./cmd/setpoint-nomad reference
	rm -rf bin/generated/api-pages && mkdir -p bin/generated/api-pages/docs/reference
	$(BUF) generate --template buf.gen.docs.yaml --output bin/generated-docs
	cd tools/openapi && go run . pages ../../bin/generated-docs/setpoint.swagger.json ../../proto/setpoint/v1/error_reason.proto examples ../../bin/generated/api-pages/docs/reference/api
	scripts/put.sh --tree bin/generated/api-pages . docs/reference/api
	for program in cmd/setpoint*/; do name=$$(basename $$program); scripts/put.sh docs/reference/cli/$$name.md go run -C $$program . man --markdown; done
	scripts/put.sh THIRD_PARTY.md go run -C tools/licenses . table
	$(MAKE) chart drawings

.PHONY: drawings
drawings: ## Draw the pictures of the documentation in docs/images from the program's output
	go run ./docs/pictures/draw .

.PHONY: dashboards
dashboards: ## Write Grafana's dashboards, which the Helm chart has, from their code
	go run ./deploy/monitoring/grafana deploy/helm/setpoint/files/dashboards

.PHONY: chart
chart: dashboards ## Write the generated parts of the Helm chart: its schema, its README, the dashboards
	go run ./deploy/helm/generate deploy/helm/setpoint docs/reference/cli

.PHONY: web
web: ## Bundle the page at /ui/: web/dist from web/src; installs Node.js' npm where it is missing
	@scripts/node.sh
	cd web && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	cd tools/esbuild && go run .

.PHONY: web-dev
web-dev: ## Serve the page from its sources on PAGE (127.0.0.1:8081), reloaded at each save; calls go to SERVICE (http://127.0.0.1:8080)
	@scripts/node.sh
	@test web/node_modules/.package-lock.json -nt web/package-lock.json || (cd web && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
	cd tools/esbuild && go run . -develop=$(or $(PAGE),127.0.0.1:8081) -service=$(or $(SERVICE),http://127.0.0.1:8080)

.PHONY: test-web
test-web: ## Check the types of the page's sources and run their tests; installs Node.js where it is missing
	@scripts/node.sh && scripts/python.sh # protoc, for the client that the page is built on
	scripts/test-web.sh

.PHONY: check-generated
check-generated: generate web ## Fail if generated files differ from the committed ones
	@git diff --exit-code --stat -- $(GENERATED) || { echo 'generated files are out of date: run make generate'; exit 1; }
	@test -z "$$(git status --porcelain -- $(GENERATED))" || { git status --short -- $(GENERATED); echo 'generated files are not committed'; exit 1; }

.PHONY: lint
lint: ## Check formatting, vet, linters, the contract and the direction of imports
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'run gofmt'; exit 1; }
	go build -tags=service -o /dev/null ./cmd/setpoint
	@# It vets all packages, too. The modules of older controllers are left out, since all of Kubernetes is compiled for each.
	@for module in $$(git ls-files '*go.mod' ':!conformance/*/go.mod' | xargs dirname); do if git ls-files --error-unmatch "$$module/*.go" >/dev/null 2>&1; then \
		echo "golangci-lint run in $$module"; (cd "$$module" && go tool -modfile=$(CURDIR)/tools/golangci-lint/go.mod golangci-lint run --allow-serial-runners ./...); fi; done
	$(BUF) lint
	scripts/contract.sh
	scripts/imports.sh
	scripts/pipes.sh
	go mod tidy -diff
	@for module in $$(git grep -l 'setpoint-dev/setpoint => ' -- '*go.mod'); do \
		go -C "$$(dirname "$$module")" list -deps -test ./... >/dev/null || { echo "$$module lacks what the module above it uses"; exit 1; }; done

.PHONY: compatibility
compatibility: ## Compare the contract, stored data, flags and metrics with the last release
	@scripts/redis.sh || test -z "$${CI:-}"
	scripts/contract.sh
	go test -count=1 ./test/compatibility
	go test -count=1 -run='^TestFormat[0-9]+StaysReadable$$' ./server/record
	cd cmd/setpoint-external-metrics && go test -count=1 -run='^TestFlagsOfTheLastReleaseAreThere$$' .

.PHONY: contract
contract: ## Write the contract that the next release is compared with; only a release does
	scripts/contract.sh --update

.PHONY: vuln
vuln: ## Look for known vulnerabilities
	scripts/vuln.sh

.PHONY: check
check: check-generated lint test-race test-examples ## Everything to do before a commit

.PHONY: release-snapshot
release-snapshot: ## Build a release without a tag, and publish nothing: bin/release; TARGETS='linux_amd64' builds only those
	scripts/release.sh --snapshot

.PHONY: release-reproducible
release-reproducible: ## Build a release in two folders, and fail unless both have the same bytes; TARGETS='linux_amd64' by default, 'all', or 'programs'
	scripts/reproducible.sh

.PHONY: test-packages
test-packages: ## Install, start, upgrade, remove and purge the packages in Debian, in a folder of its own; needs root
	scripts/test-packages.sh

.PHONY: clean
clean: ## Remove build outputs
	rm -rf bin
