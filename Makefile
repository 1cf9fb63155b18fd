# make help lists the targets.
SHELL := /bin/bash
GO    ?= go
TAGS  := urfave_cli_no_docs,nethttpomithttp2
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# A child is this binary: what costs at the start of it is paid once per task.
# So no cgo, no symbols, not the documentation writer of the flag library, and no HTTP/2: a process has one
# connection to its model server, and a server of models speaks HTTP/1.1 as well.
# cmd/qq/entry_linux.go says what the entry point is for.
ENTRY := $(if $(filter linux/amd64 linux/arm64,$(shell $(GO) env GOOS)/$(shell $(GO) env GOARCH)),-E main.entry)
BUILD := CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS) -ldflags "-s -w $(ENTRY) -X qq/internal/app.version=$(VERSION)"
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME ?= 10s
PREFIX ?= $(HOME)/.local

.PHONY: help build run test race lint cover fuzz bench bench-quick faults faults-quick attacks page reach pictures seeds ollama parallel install clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

build: ## build bin/qq
	@mkdir -p bin
	$(BUILD) -o bin/qq ./cmd/qq

run: build ## the main job on this project's own documents, without a model
	./bin/qq --model extract -v "Summarize the documents in docs and README.md"

test: ## all tests that need nothing but Go
	CGO_ENABLED=0 test/parts.sh 3 internal/app $(GO) test -tags $(TAGS)
	cd test/embed && CGO_ENABLED=0 ../again.sh $(GO) test ./...

race: ## the same under the race detector, without long tests of one goroutine
	GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 test/parts.sh 3 internal/app $(GO) test -race -short -tags $(TAGS)

lint: ## gofmt, vet, staticcheck, tidy modules
	@test -z "$$(gofmt -l cmd pkg internal test)" || { gofmt -l cmd pkg internal test; echo "run gofmt -w on these"; exit 1; }
	$(GO) vet -tags $(TAGS) ./...
	GOOS=darwin $(GO) vet -tags $(TAGS) ./cmd/... ./pkg/... ./internal/...
	$(GO) run $(STATICCHECK) -tags $(TAGS) ./...
	cd test && $(GO) vet ./...
	cd test/embed && $(GO) vet ./...
	$(GO) mod tidy -diff
	cd test && $(GO) mod tidy -diff
	cd test/embed && $(GO) mod tidy -diff

cover: ## test coverage, in cover.html
	$(GO) test -tags $(TAGS) -coverpkg=./... -coverprofile=cover.out ./...
	$(GO) tool cover -html=cover.out -o cover.html
	$(GO) tool cover -func=cover.out | tail -1

fuzz: ## every fuzz target for FUZZTIME, two at once
	@grep -rEo '^func Fuzz[A-Za-z0-9]+' --include='*_test.go' cmd pkg internal | sort | sed -E 's|/[^/]*:func | |' | \
	xargs -P 2 -n 2 sh -c 'echo "== $$0 $$1"; \
	  $(GO) test -tags $(TAGS) -run "^$$" -fuzz "^$$1$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x ./$$0 </dev/null'

bench: build ## the figures, as ratios measured side by side
	cd test && QQ_BIN=$(CURDIR)/bin/qq $(GO) run ./bench

bench-quick: build ## the same with small counts
	cd test && QQ_BIN=$(CURDIR)/bin/qq $(GO) run ./bench -quick

faults: build ## faults played against the real binary, one row per case (the cases with a real Ollama when it is built)
	export QQ_OLLAMA=$$(test/server/tools.sh) && cd test && QQ_BIN=$(CURDIR)/bin/qq $(GO) run ./faults

faults-quick: build ## the same with small counts
	export QQ_OLLAMA=$$(test/server/tools.sh) && cd test && QQ_BIN=$(CURDIR)/bin/qq $(GO) run ./faults -quick

attacks: build ## a stranger's attacks on the real binary, as root, as a user and without namespaces, one row each
	cd test && QQ_BIN=$(CURDIR)/bin/qq $(GO) run ./attacks

page: build ## the pages of qq serve in Chromium (installed once per machine), driven as a person would
	QQ_CHROMIUM=$$(test/chromium/tools.sh) && export QQ_CHROMIUM QQ_CHROMIUM_REQUIRED=1 && \
	cd test && QQ_BIN=$(CURDIR)/bin/qq ./again.sh $(GO) test -count=1 -parallel 3 ./page

# Packages of the test module that talk to programs from npm.
REACH := ./npm $(patsubst test/%,./%,$(wildcard test/mcp test/mcpserve test/acp test/foreign))
reach: build ## other agent programs and the suites of protocols, from npm (installed once per machine), with qq
	@QQ_NPM=$$(test/npm/tools.sh) || [ -z "$$QQ_NPM_REQUIRED" ] || exit 1; export QQ_NPM QQ_REACH=1; \
	[ -n "$$QQ_NPM" ] || echo "npm cannot be reached: the tests that need its programs are skipped"; \
	cd test && QQ_BIN=$(CURDIR)/bin/qq ./again.sh $(GO) test -count=1 -parallel 3 $(REACH)

pictures: build ## the pictures of the README, from real runs, in pictures/
	mkdir -p pictures && QQ_CHROMIUM=$$(test/chromium/tools.sh) && export QQ_CHROMIUM QQ_CHROMIUM_REQUIRED=1 && cd test && \
	QQ_PICTURES=$(CURDIR)/pictures QQ_BIN=$(CURDIR)/bin/qq $(GO) test -count=1 -run TestPictures ./faces

SEEDS ?= 200
seeds: ## the random proofs of plans, trees and copies with SEEDS seeds each, with real processes: some hours
	PLAN_SEEDS=$(SEEDS) TREE_SEEDS=$(SEEDS) APART_SEEDS=$(SEEDS) KILL_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 0 -v \
		-tags $(TAGS) -run 'TestThousandTasks|TestTreesAsTheKernelSees|TestApartKilled|TestCompletedMeans' ./internal/app
	ISOLATE_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 0 -v -tags $(TAGS) -run TestWriters ./internal/isolate

ollama: build ## the main scenarios against a real Ollama server (built once per machine) and ast-grep
	QQ_OLLAMA=$$(test/server/tools.sh) && QQ_AST_GREP=$$(test/astgrep/tools.sh) && \
	QQ_PARALLEL=$$(test/parallel/tools.sh) && export QQ_OLLAMA QQ_AST_GREP QQ_PARALLEL && cd test && \
	QQ_OLLAMA_REQUIRED=1 QQ_AST_GREP_REQUIRED=1 QQ_PARALLEL_REQUIRED=1 QQ_BIN=$(CURDIR)/bin/qq \
	WITHOUT=page ./parts.sh 3 scenario $(GO) test -count=1

parallel: build ## the same jobs through GNU parallel and qq batch, compared case by case
	export QQ_PARALLEL=$$(test/parallel/tools.sh) QQ_PARALLEL_REQUIRED=1 && \
	$(GO) test -count=1 -tags $(TAGS) -run 'AsParallel' ./internal/taskfile && \
	cd test && QQ_BIN=$(CURDIR)/bin/qq $(GO) test -count=1 ./parallel

install: build ## install qq, its man page and completions below PREFIX
	@set -e; to="$(DESTDIR)$(PREFIX)"; \
	mkdir -p "$$to/bin" "$$to/share/man/man1" "$$to/share/bash-completion/completions" \
	  "$$to/share/zsh/site-functions" "$$to/share/fish/vendor_completions.d"; \
	install -m 755 bin/qq "$$to/bin/qq"; \
	./bin/qq man > "$$to/share/man/man1/qq.1"; \
	./bin/qq completion bash > "$$to/share/bash-completion/completions/qq"; \
	./bin/qq completion zsh > "$$to/share/zsh/site-functions/_qq"; \
	./bin/qq completion fish > "$$to/share/fish/vendor_completions.d/qq.fish"; \
	echo "installed $$to/bin/qq"; \
	[ -z "$(DESTDIR)" ] || exit 0; \
	case "$$SHELL" in */zsh) rc='~/.zshrc';; */bash) rc='~/.bashrc';; *) rc='~/.profile';; esac; \
	case ":$$PATH:" in *":$$to/bin:"*) ;; *) \
	  echo "$$to/bin is not in PATH. Add it with this line, then open a new terminal:"; \
	  echo "  echo 'export PATH=\"$$to/bin:\$$PATH\"' >> $$rc";; esac; \
	case "$$SHELL" in */zsh) ;; *) exit 0;; esac; \
	functions="$$to/share/zsh/site-functions"; \
	if ! { zsh -c 'print -l $$fpath' | grep -qxF "$$functions" || \
	  grep -qF "$$functions" "$${ZDOTDIR:-$$HOME}/.zshrc"; } 2>/dev/null; then \
	  echo "$$functions is not in fpath of zsh. Add it with this line, for completion:"; \
	  echo "  echo 'fpath=(\"$$functions\" \$$fpath); autoload -Uz compinit && compinit' >> $${ZDOTDIR:-~}/.zshrc"; fi

clean: ## remove what was built
	rm -rf bin cover.out cover.html
