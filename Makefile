# Weir. Two targets are all that a newcomer needs:
#
#   make demo   installs what is missing, builds, and runs a published experiment on Linux and in the simulator
#   make test   installs what is missing and runs every check and test; what CI runs
#
# Neither installs anything on a second run. Both say what is missing where they may not install it.

SHELL := /bin/bash
CARGO ?= cargo
OUT ?= out
TARGET ?= policy
PREFIX ?= /usr/local
FUZZ_TIME ?= 120

# Runs the tests: crates/test-runner.
RUNNER = $(CARGO) run --quiet --locked -p weir-test-runner --
CLIPPY = $(CARGO) clippy --workspace --all-targets --locked -- -D warnings

.DEFAULT_GOAL := help
.PHONY: help setup demo results test soak test-realtime build install uninstall format lint unit test-edt faults fuzz fuzz-corpus bench bench-sim schema metrics pictures clean

help:          ## Say what there is
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:         ## Install what is missing (Debian packages), and check the Rust toolchain
	@./tools/setup.sh

build: setup   ## Build the program: target/release/weir
	$(CARGO) build --release --locked -p weir

install:       ## Put the program, its systemd units and their settings in place: PREFIX=/usr/local, DESTDIR= (docs/operations.md)
	@[ -x target/release/weir ] || { echo "there is no target/release/weir: make build" >&2; exit 1; }
	install -D -m 755 target/release/weir $(DESTDIR)$(PREFIX)/bin/weir
	@for unit in weir-agent weir-fabric; do \
	    install -d $(DESTDIR)$(PREFIX)/lib/systemd/system && \
	    sed 's#/usr/local/bin/weir#$(PREFIX)/bin/weir#' packaging/$$unit.service \
	        > $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit.service || exit 1; done
	install -D -m 644 packaging/weir.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/weir.conf
	install -d -m 755 $(DESTDIR)/etc/weir
	@for file in agent.conf fabric.conf; do [ -e $(DESTDIR)/etc/weir/$$file ] || \
	    install -m 644 packaging/$$file $(DESTDIR)/etc/weir/$$file; done

uninstall:     ## Take the program and its units away; /etc/weir and /var/lib/weir stay
	rm -f $(DESTDIR)$(PREFIX)/bin/weir $(DESTDIR)$(PREFIX)/lib/sysusers.d/weir.conf \
	    $(DESTDIR)$(PREFIX)/lib/systemd/system/weir-agent.service $(DESTDIR)$(PREFIX)/lib/systemd/system/weir-fabric.service

demo: build    ## Reproduce Parley's figure 14 on Linux and in the simulator, side by side
	@mkdir -p $(OUT)
	./target/release/weir reproduce parley-fig14 --body both --report $(OUT)/parley-fig14 --force

results: build ## Run every published experiment in its quick setting: docs/results.md, and as root docs/results-lab.md (some minutes)
	./target/release/weir reproduce --all --write docs/results.md || [ $$? = 1 ] # written; some value is not what was expected
	@[ $$(id -u) = 0 ] || { echo "docs/results-lab.md needs root: namespaces" >&2; exit 1; }
	./target/release/weir reproduce --all --body lab --write docs/results-lab.md || [ $$? = 1 ]

test: setup format ## Every check and test; those that need root are skipped with a line otherwise
	$(RUNNER) $(RUNNER_OPTIONS) --beside "$(CLIPPY)"

soak: setup format ## All of make test in full, real-time tests one by one (a machine without other work, half an hour), and test-edt
	$(RUNNER) $(RUNNER_OPTIONS) --soak --beside "$(CLIPPY)"
	$(MAKE) test-edt

test-realtime: setup ## The real-time tests alone: TESTS=words, REPEAT=times, BUSY=processors that another program uses meanwhile
	$(RUNNER) --realtime $(if $(REPEAT),--repeat $(REPEAT)) $(if $(BUSY),--busy $(BUSY)) $(RUNNER_OPTIONS) $(TESTS)

unit: setup    ## All other tests alone: TESTS=words
	$(RUNNER) --pure $(RUNNER_OPTIONS) $(TESTS)

format:        ## Refuse code that rustfmt would change
	$(CARGO) fmt --all --check

lint: format   ## Format and lints, warnings refused
	$(CLIPPY)

test-edt:      ## The tests of tools/edt/tests on Debian's own kernel, emulated by qemu: TESTS=words, LIMIT=seconds
	@./tools/setup.sh edt
	@CARGO="$(CARGO)" ./tools/edt/run $(TESTS)

faults:        ## Brokers under faults: SEED=n replays a rack's world, FABRIC_SEED=n a fabric's, SEEDS=n runs more
	$(CARGO) test --locked -p weir-control --test faults -- $(if $(SEED),--seed $(SEED)) \
	    $(if $(FABRIC_SEED),--fabric-seed $(FABRIC_SEED)) $(if $(SEEDS),--seeds $(SEEDS))

fuzz-corpus:   ## Replay the committed fuzz seeds (stable Rust)
	$(CARGO) test --workspace --locked --test corpora

fuzz:          ## Fuzz a parser: TARGET=policy, demands, scenario, paper, flow_list, sizes, trace, rack_datagram, fabric_datagram or fabric_call; FUZZ_TIME=seconds
	@$(CARGO) +nightly --version >/dev/null 2>&1 || { \
	    echo "make fuzz needs nightly Rust: rustup toolchain install nightly --profile minimal" >&2; exit 1; }
	@$(CARGO) +nightly fuzz --version >/dev/null 2>&1 || { \
	    echo "make fuzz needs cargo-fuzz: cargo install cargo-fuzz --locked" >&2; exit 1; }
	@mkdir -p target/fuzz-found/$(TARGET)
	$(CARGO) +nightly fuzz run $(TARGET) target/fuzz-found/$(TARGET) fuzz/corpus/$(TARGET) -- \
	    -max_total_time=$(FUZZ_TIME) -timeout=10

pictures: demo ## Draw the pictures of the documents again: the demo's, Parley's, the simulator's, the planner's and the dashboard's
	@mkdir -p docs/pictures
	cp $(OUT)/parley-fig14/small-lab.svg docs/pictures/parley-fig14-lab.svg
	cp $(OUT)/parley-fig14/small-sim.svg docs/pictures/parley-fig14-sim.svg
	./tools/parley-pictures.sh
	./tools/sim-pictures.sh
	./tools/plan-pictures.sh
	./tools/dashboard-picture.sh

bench:         ## The water-filling table, the fabric broker's period, the simulator's speed and packets on Linux (docs/performance.md)
	$(CARGO) bench --locked -p weir-alloc --bench water_filling
	$(CARGO) bench --locked -p weir-control --bench fabric_broker
	$(CARGO) bench --locked -p weir-sim --bench engine
	$(CARGO) bench --locked -p weir-linux --bench cost
	$(CARGO) bench --locked -p weir-linux --bench parts
	$(CARGO) bench --locked -p weir --bench throughput

bench-sim:     ## The simulator on the common work: packet-hops/s, memory, growth, checkers, instructions (some minutes)
	$(CARGO) bench --locked -p weir-sim --bench common_work

schema:        ## Write the JSON Schemas anew from the model
	WEIR_UPDATE_SCHEMA=1 $(CARGO) test --locked -p weir-policy -p weir-scenario -p weir-experiment --test schema

metrics:       ## Write the reference of metrics anew from the code (docs/visibility.md)
	WEIR_UPDATE_METRICS=1 $(CARGO) test --locked -p weir-status --test status the_reference_is_complete

clean:         ## Delete what was built and what the demo wrote
	$(CARGO) clean
	rm -rf $(OUT)
