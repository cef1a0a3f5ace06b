# Spatial Cells. `make help` lists what there is; README.md says what to expect.
SHELL := bash
.DEFAULT_GOAL := help

# Time limits of go test; the packages with a real API server need the longer one.
TEST_TIMEOUT ?= 15m
# The race detector needs a C compiler; without one the tests run without it and say so.
RACE := $(shell command -v $${CC:-cc} >/dev/null 2>&1 && echo -race)

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## a whole world on this machine: control plane, operator, 4 zone nodes, 100 bots (DURATION=90s ends by itself)
	go run ./hack/demo

.PHONY: demo-down
demo-down: ## ends what a demo left behind, if anything
	go run ./hack/demo -down

.PHONY: test
test: ## everything that proves it short of a cluster: unit, simulated cluster, real API server
	@[ -n "$(RACE)" ] || echo "test: no C compiler found, so the race detector is off; install gcc to have it on"
	@echo "test: Kubernetes binaries for the API tests (built once, about 14 minutes on 2 cores, when they cannot be downloaded)"
	@assets="$$(go run ./hack/assets)" && echo "test: unit, simulated cluster and API tests" && \
		KUBEBUILDER_ASSETS="$$assets" go test $(RACE) -timeout $(TEST_TIMEOUT) ./... && \
		echo "test: the largest World, alone, for it is about time" && \
		KUBEBUILDER_ASSETS="$$assets" go test -timeout $(TEST_TIMEOUT) ./controllers -run '^TestTheLargestWorld'

.PHONY: test-fast
test-fast: ## unit and simulated cluster only: no Kubernetes
	@[ -n "$(RACE)" ] || echo "test-fast: no C compiler found, so the race detector is off; install gcc to have it on"
	go test $(RACE) -timeout $(TEST_TIMEOUT) ./api/wire/... ./api/v1alpha1/... ./node/... ./controllers/placement/... ./controllers/liveness/...

.PHONY: e2e
e2e: ## a real cluster with faults: kill -9, SIGSTOP, an API outage, two nodes at a border
	go run ./hack/e2e

.PHONY: e2e-moves
e2e-moves: ## 64 of 256 regions move among four nodes under 200 bots; then again with a node, the operator, the API server in trouble
	go run ./hack/e2e -run '^(moves|crowd|window)$$'

.PHONY: e2e-failover
e2e-failover: ## nodes end in every way, 20 rounds and more: how long do their regions stand still? Nothing may be lost (root, 5 minutes)
	hack/e2e/packages.sh redis-server:redis-server nft:nftables
	go run ./hack/e2e -run '^failover$$'

.PHONY: e2e-fence
e2e-fence: ## nodes are stopped, cut off and misled about the time: from outside, no fenced one may be seen to act (root, 4 minutes)
	hack/e2e/packages.sh redis-server:redis-server nft:nftables
	go run ./hack/e2e -run '^fence$$'

.PHONY: chaos
chaos: ## bots that handle items while nodes and store are killed; then the store is audited (DURATION=5m BOTS=200 JSON=file)
	DURATION="$${DURATION:-5m}" BOTS="$${BOTS:-200}" go run ./hack/demo -chaos

.PHONY: lint
lint: ## golangci-lint with the house rules (built once)
	hack/tools/lint.sh

.PHONY: generate
generate: ## renews generated code: deepcopy, CRDs, roles, admission policies, protobuf
	hack/tools/generate.sh

.PHONY: verify
verify: ## fails if generated code is not current
	hack/tools/verify.sh

.PHONY: bench
bench: ## benchmarks of the hot paths
	go test -run '^$$' -bench . -benchmem ./node/torus ./node/partition ./node/ecs ./node/link ./node/terrain/... ./node/zone ./node/ghost

.PHONY: mutants
mutants: ## builds the simulated cluster with each deliberate defect and shows that it is found
	go run ./hack/mutants

# Of make soak: how many seeds, and the first of them.
SEEDS ?= 20000
FIRST_SEED ?= 1

.PHONY: soak
soak: ## many seeds of the simulated cluster; nothing may break, no transition be left out under any fault (SEEDS=20000 FIRST_SEED=1), or those around one situation only (AROUND=relocation, or AROUND=every)
	@mkdir -p bin
	go test -c -o bin/soak.test ./node/simtest
	cd node/simtest && ../../bin/soak.test -test.run '^TestSoak$$' -test.v -test.timeout 0 -seeds $(SEEDS) -first-seed $(FIRST_SEED) -lose-store $(if $(AROUND),-around $(AROUND),-coverage)

.PHONY: model
model: ## checks the Promela models of fence, handoff and region commit with spin
	hack/model/check.sh

.PHONY: build
build: ## operator and zone-node into bin/
	CGO_ENABLED=0 go build -trimpath -o bin/ ./controllers/cmd/operator ./node/cmd/zone-node
