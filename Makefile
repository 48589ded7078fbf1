# Entry points for people and CI. Cargo is underneath, and Go for the servers that the cluster tests start. No target needs a
# cluster; nor a network, once the toolchain, the crates and those servers are there (README.md has sizes and minutes).

CARGO ?= cargo
# The compiler that belongs to it, also with `CARGO="cargo +nightly"`.
RUSTC ?= $(patsubst %cargo,%rustc,$(firstword $(CARGO))) $(wordlist 2,$(words $(CARGO)),$(CARGO))
# The target that gates are built for.
WASM = wasm32-wasip2
# The target `toolchain` installs what is missing, visibly; rustup's proxy for cargo would do it silently.
export RUSTUP_AUTO_INSTALL = 0
# Where cargo builds to, as a command.
TARGET = $(CARGO) metadata --format-version 1 --no-deps | sed -E 's/.*"target_directory":"([^"]*)".*/\1/'
# One set of features for everything, so that nothing is built twice and none of them goes untested. What is shipped is built
# without (`make dist`); for traces: `cargo build --release --bin stagegate --features otel`.
ALL = --workspace --all-features
STAGEGATE = "$$($(TARGET))/debug/stagegate"
BUILD = $(CARGO) build $(ALL) --bin stagegate

# Where `dist` writes to, as a shell word.
DIST ?= $$($(TARGET))/dist
# The image that is built, and on which one.
IMAGE ?= stagegate:$$($(CARGO) pkgid --package stagegate | sed 's/.*[\#@]//')
BASE ?= scratch

# Some tests wait for processes and real time. With one test per processor a third of the processors would idle; with two, the
# sandboxes would time out.
AT_ONCE = $$(( 3 * $$(nproc 2>/dev/null || sysctl -n hw.ncpu) / 2 ))

.PHONY: demo quick test dist image servers answers kills soak simulate mutants gates lint bench crds deny coverage toolchain help

help: ## Show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: toolchain gates ## Build, and watch a three-stage rollout in the playground
	$(BUILD)
	@mkdir -p target/demo
	@$(STAGEGATE) gate configmap min-available "$$($(TARGET))/$(WASM)/gate/gate_min_available.wasm" \
	  > target/demo/min-available.yaml
	@$(STAGEGATE) playground deploy/examples/three-stages target/demo --until Completed

test: toolchain gates servers ## Run every test, the gates' cases also through the sandbox
	$(CARGO) build --target $(WASM) --profile gate --package gate-hostile
	$(CARGO) test $(ALL) --no-run
	servers="$$(tests/cluster/servers/build)" && RUST_TEST_THREADS=$(AT_ONCE) \
	  STAGEGATE=$(STAGEGATE) PATH="$$PATH:$$servers" HELM="$$servers/helm" $(CARGO) test $(ALL) --no-fail-fast

dist: toolchain ## Build what is shipped into target/dist, or DIST: archive, image's files, SBOMs, checksums (needs python3)
	CARGO="$(CARGO)" deploy/dist/build "$(DIST)"

# An engine counts if it answers: docker is often there without its daemon.
image: toolchain ## Build the container image of `make dist` with docker, podman or buildah: BASE=scratch IMAGE=stagegate:0.1.0
	@for engine in docker podman buildah none; do $$engine version >/dev/null 2>&1 && break; done; \
	if [ $$engine = none ]; then \
	  echo "the image needs docker, podman or buildah, and none of them answers to \`version\`; \`make dist\` needs none of them" >&2; \
	  exit 1; \
	fi; \
	CARGO="$(CARGO)" deploy/dist/build "$(DIST)" && \
	$$engine build --file deploy/Dockerfile --build-arg BASE="$(BASE)" --tag "$(IMAGE)" "$(DIST)/image"

servers: ## Build the servers that the cluster tests start, once, into the user's cache
	@tests/cluster/servers/build > /dev/null

answers: toolchain servers ## Record again what a real API server and KubeStellar answer, below tests/cluster
	UPDATE_ANSWERS=1 UPDATE_RECORDINGS=1 $(CARGO) test $(ALL) --test it -- requests::the_real_server recordings::were_made

kills: toolchain gates servers ## Kill a hundred leaders at random moments, on a real API server
	$(BUILD)
	STAGEGATE_KILLS=$${STAGEGATE_KILLS:-100} STAGEGATE=$(STAGEGATE) $(CARGO) test $(ALL) --test it -- leaders_are_killed_at_random_moments

soak: toolchain ## A minute of hostile gates beside honest ones, then the matrices with ten times their budget
	STAGEGATE_SOAK_S=60 $(CARGO) test $(ALL) --test it -- scenarios::soak --nocapture
	STAGEGATE_BUDGET=$${STAGEGATE_BUDGET:-10} $(CARGO) test $(ALL) --test it -- matrices properties

quick: toolchain ## The cases of the rules and the unit tests, in seconds once built; needs neither Go nor gates
	$(CARGO) test --package stagegate-api --package stagegate-decide --no-run
	$(CARGO) test --quiet --package stagegate-api --package stagegate-decide --lib
	$(CARGO) test --quiet --package stagegate-decide --test it -- staging:: health:: binding:: combine:: rules::

simulate: toolchain ## Run the rules in a simulated world: SIMULATE_S=60 FIRST=1, or SEED=<n> for one run with its trace
	$(CARGO) run --release --package stagegate-simulation

mutants: toolchain ## Break the program in one place at a time, and see each defect found by a test
	$(CARGO) run --package stagegate-mutants

gates: toolchain ## Build the sample gates as components
	$(CARGO) build --target $(WASM) --profile gate --package gate-freeze-window --package gate-min-available

lint: toolchain ## Formatting, clippy and the documentation of the code; warnings are errors
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy $(ALL) --all-targets -- --deny warnings
	$(CARGO) clippy --package stagegate --no-default-features --bin stagegate -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc $(ALL) --no-deps

bench: toolchain servers ## Run the benchmarks and print their ratios
	@missed=0; \
	$(CARGO) bench $(ALL) --no-fail-fast --bench condition --bench gate --bench large --bench playground --bench sandbox --bench simulation || missed=1; \
	$(CARGO) test $(ALL) --test it -- scenarios::scale --nocapture || missed=1; \
	$(CARGO) build --release $(ALL) --bin stagegate && \
	STAGEGATE="$$($(TARGET))/release/stagegate" $(CARGO) bench $(ALL) --no-fail-fast --bench waiting --bench updates --bench pools || missed=1; \
	exit $$missed

crds: toolchain ## Write the generated CustomResourceDefinitions anew
	$(BUILD)
	@mkdir -p deploy/crds/workloads
	$(STAGEGATE) crds > deploy/crds/stagedbindingpolicies.yaml.new
	mv deploy/crds/stagedbindingpolicies.yaml.new deploy/crds/stagedbindingpolicies.yaml
	$(STAGEGATE) crds --workloads > deploy/crds/workloads/yurtappdaemons.yaml.new
	mv deploy/crds/workloads/yurtappdaemons.yaml.new deploy/crds/workloads/yurtappdaemons.yaml

deny: toolchain ## Licences, bans and sources of the dependencies (needs cargo-deny)
	$(CARGO) deny check bans licenses sources

coverage: toolchain ## Line coverage (needs cargo-llvm-cov)
	$(CARGO) llvm-cov $(ALL) --html
	$(CARGO) llvm-cov report --summary-only

# Two things have to be there: a compiler, and its standard library for gates. Both are pinned by rust-toolchain.toml, which
# `rustup toolchain install` reads. It runs only if one of them is absent, so that nothing else needs a network, and it leaves
# rustup itself as it is. Without rustup, the compiler of a distribution will do.
toolchain:
	@is_there() { \
	  library="$$($(RUSTC) --print target-libdir --target $(WASM) 2>/dev/null)" || return 1; \
	  set -- "$$library"/libstd-*.rlib && test -e "$$1" && $(CARGO) --version >/dev/null 2>&1; \
	}; \
	if is_there; then exit 0; fi; \
	if command -v rustup >/dev/null; then rustup toolchain install --no-self-update; is_there || rustup target add $(WASM); fi; \
	is_there || { \
	  echo "$(firstword $(RUSTC)) is absent or has no standard library for $(WASM), which gates are built for: install rustup" \
	    "(https://rustup.rs), or the packages of your distribution that have the two" >&2; \
	  exit 1; \
	}
