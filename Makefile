# Weir. A newcomer needs two targets:
#
#   make demo   installs missing packages, builds, and runs a published experiment on Linux and in the simulator
#   make test   installs missing packages and runs every check and test; CI runs the same target
#
# Neither installs anything on a second run. Both name the missing packages where they may not install them.

SHELL := /bin/bash
CARGO ?= cargo
OUT ?= out
TARGET ?= policy
PREFIX ?= /usr/local
FUZZ_TIME ?= 120
# The directory of the programs that `make build` makes.
BUILT = $(or $(CARGO_TARGET_DIR),target)/release

# Runs the tests: crates/check/test-runner.
RUNNER = $(CARGO) run --quiet --locked -p weir-test-runner --
CLIPPY = $(CARGO) clippy --workspace --all-targets --locked -- -D warnings
# The program of `make static`: what only the commands of `host` use is dead code there.
CLIPPY_STATIC = $(CARGO) clippy -p weir --no-default-features --bins --locked -- -D warnings
# The tests of the Python package, beside the program that the runner has built.
PYTHON_TESTS = WEIR_CLI=$(or $(CARGO_TARGET_DIR),target)/debug/weir ./tools/python.sh

.DEFAULT_GOAL := help
.PHONY: help setup demo results test soak properties policies faults-lab policies-lab maxima test-realtime build \
        install uninstall format lint unit test-edt crosscheck faults fuzz fuzz-corpus bench bench-sim schema \
        metrics commands docs python pictures clean deb test-deb static \
        test-static

help:          ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:         ## Install missing Debian packages, and check the Rust toolchain
	@./tools/setup.sh $(SETUP)

# These also need the tools of tests that are no Debian packages. `setup` is made once for all goals, so that their list
# decides and not the target that needs it.
SETUP = $(if $(filter test soak test-realtime unit,$(MAKECMDGOALS)),test)

build: setup   ## Build the program: target/release/weir
	$(CARGO) build --release --locked -p weir -p weir-cni

install:       ## Install the programs, their systemd units and settings: PREFIX=/usr/local, DESTDIR=
	@for name in weir weir-cni; do [ -x $(BUILT)/$$name ] || \
	    { echo "there is no $(BUILT)/$$name: make build" >&2; exit 1; }; done
	install -D -m 755 $(BUILT)/weir $(DESTDIR)$(PREFIX)/bin/weir
	install -D -m 755 $(BUILT)/weir-cni $(DESTDIR)$(PREFIX)/lib/cni/weir-cni
	# Line tables are four fifths of the program.
	strip --strip-debug $(DESTDIR)$(PREFIX)/bin/weir $(DESTDIR)$(PREFIX)/lib/cni/weir-cni
	@for unit in weir-agent weir-fabric weir-forwarder weir-pods; do \
	    install -d $(DESTDIR)$(PREFIX)/lib/systemd/system && \
	    sed 's#/usr/local/bin/weir#$(PREFIX)/bin/weir#' packaging/$$unit.service \
	        > $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit.service || exit 1; done
	install -D -m 644 packaging/weir.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/weir.conf
	install -d -m 755 $(DESTDIR)/etc/weir
	@for file in agent.conf fabric.conf forwarder.conf pods.conf; do [ -e $(DESTDIR)/etc/weir/$$file ] || \
	    install -m 644 packaging/$$file $(DESTDIR)/etc/weir/$$file; done

uninstall:     ## Remove the programs and their units; /etc/weir and /var/lib/weir stay
	@cd $(DESTDIR)/etc/cni/net.d 2>/dev/null || exit 0; \
	lists=$$(grep -ls '"weir-cni"' $$PWD/*.conf $$PWD/*.conflist $$PWD/*.json); [ -z "$$lists" ] || { \
	    echo "error: the container runtime uses the plugin weir-cni:" $$lists; \
	    echo "hint: take weir-cni out of this file, then repeat the removal; limits of running pods stay"; \
	    exit 1; } >&2
	rm -f $(DESTDIR)$(PREFIX)/bin/weir $(DESTDIR)$(PREFIX)/lib/cni/weir-cni \
	    $(DESTDIR)$(PREFIX)/lib/sysusers.d/weir.conf \
	    $(DESTDIR)$(PREFIX)/lib/systemd/system/weir-agent.service \
	    $(DESTDIR)$(PREFIX)/lib/systemd/system/weir-fabric.service \
	    $(DESTDIR)$(PREFIX)/lib/systemd/system/weir-forwarder.service \
	    $(DESTDIR)$(PREFIX)/lib/systemd/system/weir-pods.service

deb: build     ## Make the Debian package: target/debian/weir_VERSION_ARCHITECTURE.deb
	@./tools/setup.sh deb
	@./tools/deb.sh

static: setup  ## Build the simulator alone, linked statically: target/static/weir-sim
	@CARGO="$(CARGO)" ./tools/static.sh

demo: build    ## Reproduce Parley's figure 14 on Linux and in the simulator, side by side
	@mkdir -p $(OUT)
	$(BUILT)/weir reproduce parley-fig14 --backend both --report $(OUT)/parley-fig14 --force

results: build ## Run all published experiments, quick (some minutes): docs/reference/results.md; as root results-lab.md
	# Exit status 1: the table is written, and some value differs from its expectation.
	$(BUILT)/weir reproduce --all --write docs/reference/results.md || [ $$? = 1 ]
	@[ $$(id -u) = 0 ] || { echo "docs/reference/results-lab.md needs root: namespaces" >&2; exit 1; }
	$(BUILT)/weir reproduce --all --backend lab --write docs/reference/results-lab.md || [ $$? = 1 ]

test: setup format ## Every check and test; without root, tests that need it print "skipped:"
	$(RUNNER) $(RUNNER_OPTIONS) --beside "$(CLIPPY)" --beside "$(CLIPPY_STATIC)" --beside "$(PYTHON_TESTS)"

soak: setup format ## make test in full, real-time tests singly; test-edt, policies, policies-lab, maxima (idle machine)
	$(RUNNER) $(RUNNER_OPTIONS) --soak --beside "$(CLIPPY)" --beside "$(CLIPPY_STATIC)" --beside "$(PYTHON_TESTS)"
	$(MAKE) test-edt
	$(MAKE) policies
	$(MAKE) policies-lab
	$(MAKE) maxima

policies: setup ## POLICIES=1000 random policies in the simulator, beside their shares in `weir allocate`
	WEIR_POLICIES=$(or $(POLICIES),1000) $(CARGO) test --locked --release -p weir-sim --test tests random_policies \
	    -- --nocapture

properties: setup ## Property tests with other random cases, and more: CASES=4096 of each (half an hour)
	for crate in $$(grep -rl 'proptest!' crates --include=*.rs | cut -d/ -f1-3 | sort -u); do \
	    PROPTEST_CASES=$(or $(CASES),4096) $(CARGO) test --locked --no-fail-fast --lib --tests \
	        --manifest-path $$crate/Cargo.toml || failed=1; \
	done; [ -z "$$failed" ]

faults-lab: build ## Kill the processes of tenants' control in the lab, one after the other: as root, some minutes
	$(BUILT)/weir lab scenarios/qshare-fig4a-small.scenario.yaml --fault 13s=agent:a1 \
	    --fault 17s=switch:left
	$(BUILT)/weir lab scenarios/qshare-fig4a-small.scenario.yaml --fault 13s=ports:left
	$(BUILT)/weir lab scenarios/qshare-fig4a-small.scenario.yaml --fault 13s=controller

policies-lab: setup ## POLICIES=10 random policies on Linux, by weir lab (idle machine, a minute each)
	WEIR_POLICIES=$(or $(POLICIES),10) $(CARGO) test --locked -p weir --test random_policies \
	    -- --ignored --nocapture

maxima: setup ## A rack's maximum in every second, with real agents: MACHINES=1,2,10,20,40 (idle machine, half an hour)
	$(if $(MACHINES),WEIR_MACHINES=$(MACHINES)) $(CARGO) test --locked -p weir --test maxima \
	    -- --ignored --nocapture

test-realtime: setup ## Real-time tests: TESTS=words, REPEAT=times, BUSY=processors kept busy meanwhile
	$(RUNNER) --realtime $(if $(REPEAT),--repeat $(REPEAT)) $(if $(BUSY),--busy $(BUSY)) $(RUNNER_OPTIONS) $(TESTS)

unit: setup    ## All other tests alone: TESTS=words
	$(RUNNER) --pure $(RUNNER_OPTIONS) $(TESTS)

format:        ## Refuse code that rustfmt would change
	$(CARGO) fmt --all --check

lint: format   ## Format and lints, warnings refused
	$(CLIPPY)
	$(CLIPPY_STATIC)

test-deb:      ## Install, upgrade, remove and purge the Debian package under a real systemd (root, a minute)
	@./tools/setup.sh deb
	$(CARGO) build --locked --workspace --bin weir-cni
	$(CARGO) test --locked --workspace --test package -- --ignored

test-static:   ## Build the static simulator without optimisation, and run it in an empty root directory
	$(CARGO) test --locked --workspace --test static_simulator -- --ignored

test-edt:      ## Tests of tools/edt/tests on Debian's own kernel, emulated by qemu: TESTS=words, LIMIT=seconds
	@./tools/setup.sh edt
	@CARGO="$(CARGO)" ./tools/edt/run $(TESTS)

crosscheck:    ## The simulator beside ns-3, the same flows: completion times by size (FLOWS=2000; some minutes)
	@./tools/setup.sh crosscheck
	@CARGO="$(CARGO)" ./tools/crosscheck/run $(FLOWS)

faults:        ## Brokers, credits under faults: SEED, FABRIC_SEED, CREDIT_SEED=n replays a world, SEEDS=n runs more
	$(if $(CREDIT_SEED),,$(CARGO) test --locked -p weir-control --test faults -- $(if $(SEED),--seed $(SEED)) \
	    $(if $(FABRIC_SEED),--fabric-seed $(FABRIC_SEED)) $(if $(SEEDS),--seeds $(SEEDS)))
	$(if $(SEED)$(FABRIC_SEED),,$(if $(CREDIT_SEED),WEIR_CREDITS_SEEDS=$(CREDIT_SEED)..$$(($(CREDIT_SEED) + 1)), \
	    $(if $(SEEDS),WEIR_CREDITS_SEEDS=$(SEEDS))) $(CARGO) test --locked -p weir-credits --test faults)

fuzz-corpus:   ## Replay the committed fuzz seeds (stable Rust)
	$(CARGO) test --workspace --locked --test corpora

fuzz:          ## Fuzz a parser: TARGET=policy or another directory of fuzz/corpus; FUZZ_TIME=seconds
	@$(CARGO) +nightly --version >/dev/null 2>&1 || { \
	    echo "make fuzz needs nightly Rust: rustup toolchain install nightly --profile minimal" >&2; exit 1; }
	@$(CARGO) +nightly fuzz --version >/dev/null 2>&1 || { \
	    echo "make fuzz needs cargo-fuzz: cargo install cargo-fuzz --locked" >&2; exit 1; }
	@mkdir -p target/fuzz-found/$(TARGET)
	$(CARGO) +nightly fuzz run $(TARGET) target/fuzz-found/$(TARGET) fuzz/corpus/$(TARGET) -- \
	    -max_total_time=$(FUZZ_TIME) -timeout=10

python:        ## Build the wheel of the Python package, and test it: target/python/wheels (installs Python's packages)
	@./tools/setup.sh
	@CARGO="$(CARGO)" ./tools/python.sh

commands:      ## Regenerate the reference of commands from their help (docs/reference/commands.md)
	WEIR_UPDATE_COMMANDS=1 $(CARGO) test --locked -p weir --test cli help_is_the_reference

docs:          ## Build the site of the documents: out/docs/index.html
	@mkdir -p $(OUT)
	$(CARGO) run --quiet --locked -p weir-book -- $(OUT)/docs

pictures: demo ## Redraw the documents' pictures: demo, Parley, simulator, planner, levels, credits, dashboard
	@mkdir -p docs/pictures
	cp $(OUT)/parley-fig14/small-lab.svg docs/pictures/parley-fig14-lab.svg
	cp $(OUT)/parley-fig14/small-sim.svg docs/pictures/parley-fig14-sim.svg
	./tools/parley-pictures.sh
	./tools/sim-pictures.sh
	./tools/plan-pictures.sh
	./tools/level-pictures.sh
	./tools/credit-pictures.sh
	./tools/dashboard-picture.sh

bench:         ## Water-filling, the fabric broker's period, credits, levels, simulator, Linux
	$(CARGO) bench --locked -p weir-alloc --bench water_filling
	$(CARGO) bench --locked -p weir-control --bench fabric_broker
	$(CARGO) bench --locked -p weir-credits --bench tree
	$(CARGO) bench --locked -p weir-latency --bench levels
	$(CARGO) bench --locked -p weir-sim --bench engine
	$(CARGO) bench --locked -p weir-linux --bench cost
	$(CARGO) bench --locked -p weir-linux --bench parts
	$(CARGO) bench --locked -p weir --bench throughput

bench-sim:     ## The simulator's common work: packet-hops/s, memory, growth, checkers, instructions (some minutes)
	$(CARGO) bench --locked -p weir-sim --bench common_work

schema:        ## Regenerate the JSON Schemas from the model
	WEIR_UPDATE_SCHEMA=1 $(CARGO) test --locked -p weir-policy -p weir-scenario -p weir-experiment --test schema

metrics:       ## Regenerate the reference of metrics from the code (docs/reference/metrics.md)
	WEIR_UPDATE_METRICS=1 $(CARGO) test --locked -p weir-status --test status the_reference_is_complete

clean:         ## Delete the build and the demo's output
	$(CARGO) clean
	rm -rf $(OUT)
