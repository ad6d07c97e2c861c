# The only entry: everything that people and CI run. `make` lists the targets.
.DEFAULT_GOAL := help
.PHONY: help demo test lint advisories fidelity promise controlplane manager bench bench-planner race mutants cold bench-peer
SHELL := /bin/bash

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 24

demo: ## serve an example fleet on loopback, send reviews as an API server would, and show the verdicts
	@# Both in one build: two would compile the dependencies twice, with other features.
	@cargo build --bin capi-version-guard --example demo
	@cargo run --quiet --example demo

test: ## all tests, with a real etcd, kube-apiserver, kubectl and Cluster API manager (built on the first run)
	@# Not --all-targets: that would run the benches too, and slowly.
	cargo test --lib --bins --tests --examples
	cargo test --doc

lint: ## formatting, clippy, docs, dependencies
	cargo fmt --check
	cargo clippy --lib --bins -- -D warnings
	@# Tests and benches unwrap and print, which is their way to fail and to report, and hold tables of tuples.
	cargo clippy --all-targets -- -D warnings -A clippy::pedantic -A clippy::unwrap_used -A clippy::expect_used \
	  -A clippy::panic -A clippy::print_stdout -A clippy::print_stderr -A clippy::type_complexity
	@# Module docs speak to readers of the code, so they may link to what is private.
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc --no-deps --document-private-items --quiet
	hack/cargo-deny.sh check --hide-inclusion-graph bans licenses sources

advisories: ## known vulnerabilities of dependencies; fetches the RustSec database, so not a part of lint
	hack/cargo-deny.sh check --hide-inclusion-graph advisories

fidelity: ## compare with Cluster API's own functions: CASES=20000 plans per release, PAIRS=20000 admissions, SEED=1
	FIDELITY_CASES=$(or $(CASES),20000) FIDELITY_PAIRS=$(or $(PAIRS),20000) FIDELITY_SEED=$(or $(SEED),1) \
	  cargo test --test fidelity -- --nocapture

promise: ## random sequences against the real Cluster API: SEQUENCES=200 SEED=1 CAPI=1.14.2 WITHOUT=a-rule; goes on where it stopped
	PROMISE_SEQUENCES=$(or $(SEQUENCES),200) PROMISE_SEED=$(or $(SEED),1) PROMISE_CAPI=$(or $(CAPI),1.14.2) \
	  $(if $(WITHOUT),PROMISE_WITHOUT=$(WITHOUT)) \
	  cargo test --test promise -- --nocapture

controlplane: ## build etcd, kube-apiserver and kubectl for the tests, once per machine
	@tests/controlplane/build.sh

manager: ## build Cluster API's manager for the tests, once per machine
	@tests/manager/build.sh

bench: ## what a review costs, as ratios against a server that judges nothing; PARTS="reviews users connections fleet"
	cargo bench --bench webhook -- $(PARTS)

race: ## how often writes that exclude each other are both admitted: PAIRS=400 for each of six cells, SEED=1
	RACE_PAIRS=$(or $(PAIRS),400) RACE_SEED=$(or $(SEED),1) \
	  cargo test --release --test race -- --nocapture --exact a_watch_that_lags_lets_writes_pass_each_other

bench-planner: ## what a plan costs, beside Cluster API's own planner
	cargo bench --bench planner

bench-peer: ## what reviews cost us and Cluster API's own webhooks, side by side; PARTS="calls kubectl"
	cargo bench --bench peer -- $(PARTS)

mutants: ## does a test notice every small change of versions, planner and rules? Takes hours; goes on where it stopped
	hack/mutants.sh $(ARGS)

cold: ## run CI in a fresh clone with empty caches, as on a new machine
	hack/cold.sh
