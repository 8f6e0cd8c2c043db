# agentd. `make` alone tells what there is.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

GO ?= go
# The linter has a module of its own, and so does buf: neither is a dependency of agentd.
LINT := $(GO) tool -modfile=tools/lint/go.mod golangci-lint
BUF := tools/buf/node_modules/.bin/buf
# npm writes this file last.
BUF_READY := tools/buf/node_modules/.package-lock.json
# How many runs each fuzz target gets.
FUZZRUNS ?= 20000
# How often `make crash` kills the daemon.
KILLS ?= 200
IMAGE ?= agentd
# What builds the image: the first that is installed.
BUILDER ?= $(shell command -v buildah docker podman 2>/dev/null | head -n 1)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

.PHONY: help
help: ## tell what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' Makefile

.PHONY: build
build: ## build both commands into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/agentd ./cmd/agentctl

.PHONY: test
test: ## run all tests; needs only Go
	$(GO) test ./...

.PHONY: check
check: tidy vet lint proto-lint breaking generated-current race ## everything that CI checks

.PHONY: fmt
fmt: ## format the code
	$(LINT) fmt ./...

.PHONY: tidy
tidy: ## check that the module files list what the code needs
	$(GO) mod tidy -diff
	$(GO) -C tools/lint mod tidy -diff

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...

.PHONY: lint
lint: ## the strict linters of .golangci.yml; the first build takes some minutes
	$(LINT) run ./...

.PHONY: proto-lint
proto-lint: $(BUF_READY) ## lint the protos
	$(BUF) lint

.PHONY: breaking
breaking: $(BUF_READY) ## compare the protos with those of the last v* tag
	@if [ "$$(git rev-parse --is-shallow-repository)" = true ]; then \
		git fetch --quiet --depth 1 origin 'refs/tags/v*:refs/tags/v*' || \
			echo "breaking: this shallow clone can't fetch the tags of its origin, so those that are here count"; \
	fi; \
	tag=$$(git tag --list 'v*' --sort=-version:refname | head -n 1); \
	if [ -z "$$tag" ]; then echo "breaking: no v* tag yet, nothing to compare with"; exit 0; fi; \
	before=$$(mktemp -d); trap 'rm -rf "$$before"' EXIT; \
	git archive "$$tag" buf.yaml proto | tar -x -C "$$before"; \
	echo "breaking: comparing with $$tag"; \
	$(BUF) breaking --against "$$before"

.PHONY: generate
generate: $(BUF_READY) ## generate gen/ from proto/
	$(BUF) generate

.PHONY: generated-current
generated-current: $(BUF_READY) ## check that gen/ is what proto/ gives
	@now=$$(mktemp -d); trap 'rm -rf "$$now"' EXIT; \
	$(BUF) generate -o "$$now"; \
	diff -r "$$now/gen" gen || { echo "gen/ is not what proto/ gives: make generate"; exit 1; }

.PHONY: race
race: ## run all tests in random order under the race detector
	$(GO) test -race -shuffle=on -timeout 14m ./...

.PHONY: scripts
scripts: ## run the script tests of both commands
	$(GO) test -count=1 -run '^TestScripts$$' ./cmd/...

.PHONY: crash
crash: ## kill the daemon many times under load (KILLS=200)
	AGENTD_CRASH_KILLS=$(KILLS) $(GO) test -count=1 -timeout 60m -v -run '^TestCrash' ./internal/daemon/...

.PHONY: fuzz
# Counted in runs, not seconds: before Go 1.27 a run that ends by time may fail with "context deadline exceeded" and
# nothing found (go.dev/issue/75804).
fuzz: ## run each fuzz target FUZZRUNS times
	@grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | while IFS=: read -r file target; do \
		target=$${target#func }; \
		echo "$$(dirname "$$file") $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZRUNS)x -fuzzminimizetime 100x "$$(dirname "$$file")" </dev/null; \
	done

.PHONY: image
image: ## build the container image (GO_IMAGE=... names another base)
	$(or $(BUILDER),$(error no buildah, docker or podman here)) build \
		$(if $(filter docker,$(notdir $(BUILDER))),,--format docker) \
		$(if $(GO_IMAGE),--build-arg GO_IMAGE=$(GO_IMAGE)) --build-arg VERSION=$(VERSION) -t $(IMAGE) .

.PHONY: demo
demo: ## show an agent that survives SIGKILL; needs neither key nor network
	$(GO) run ./cmd/agentctl demo

.PHONY: clean
clean: ## remove what was built
	rm -rf bin tools/buf/node_modules

$(BUF_READY): tools/buf/package.json tools/buf/package-lock.json
	cd tools/buf && npm ci --ignore-scripts --no-audit --no-fund
	touch $@
