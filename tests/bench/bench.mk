# SPDX-License-Identifier: Apache-2.0
# Benchmarks. The Makefile includes this.

#: make bench-clients, bench-torch, bench-jax   measure these programs
.PHONY: bench-clients bench-torch bench-jax
bench-clients bench-torch bench-jax: bench-%: setup-clients toolchain
	$(MAKE) B=$(B) all $(if $(filter clients,$*),$(B)/bench/preload)
	WARM_TOOLCHAIN=$(abspath $(TOOLCHAIN)) tests/bench/$*.sh $(B)

#: make bench-programs measure whole programs: cold, warm elsewhere, under other names, in another home
#:                    ROWS="tvm extension": only those with one of these words in their names
#:                    LISTS=jit: only the compilers of kernels and of operators
LISTS = programs jit
.PHONY: bench-programs
bench-programs: setup-clients
	$(MAKE) B=$(B) all
	for list in $(LISTS); do \
	    tests/bench/python.sh $(B) tests/bench/$$list.txt time_programs --list $$list $(ROWS) || exit; done

# Benchmarks: peers and project side by side in one run. Peers are unpacked, never installed.
BENCH_LIBS = $(STORE) $(CLIENT)
$(B)/bench/%: $(B)/obj/tests/bench/%.o $(B)/obj/tests/bench/bench.o $(BENCH_LIBS)
	$(Q) $(LINK) -o $@ $^ -llmdb -ldl $(CRYPTO) $(LINKED)
BENCHES = $(patsubst tests/bench/%.c,$(B)/bench/%,$(filter-out %/bench.c %/send_times.c,$(wildcard tests/bench/*.c)))
#: make bench         measure beside Redis, memcached and ccache
.PHONY: bench
bench: setup-test toolchain
	$(MAKE) B=$(B) all $(BENCHES)
	tests/bench/peers.sh $(B)/peers
	tests/bench/bench.sh $(B)

#: make bench-graph   measure the graph compiler
.PHONY: bench-graph
bench-graph: setup-test toolchain
	$(MAKE) B=$(B) all $(B)/bench/graph
	tests/bench/graph.sh $(B)

#: make bench-keys    measure how fast keys are made: of generated programs, and of the modules of tests/data
.PHONY: bench-keys
bench-keys: setup-test
	$(MAKE) B=$(B) $(B)/bench/canon
	$(B)/bench/canon
	$(B)/bench/canon tests/data/*.mlir tests/data/*.mlirbc tests/data/*.hlo

#: make figures       run FIGURES="bench-graph …" and write their tables into tests/bench/FIGURES.md
.PHONY: figures
figures:
	@for target in $(FIGURES); do tests/bench/figures.sh $$target || exit; done

#: make bench-engines measure warm-tier beside curl on a real S3
.PHONY: bench-engines
bench-engines: setup-clients
	@./setup.sh curl
	$(MAKE) B=$(B) all $(B)/bench/engines
	PYTHONDONTWRITEBYTECODE=1 $$(tests/clients/venv.sh tests/clients/tier.txt)/bin/python tests/bench/time_engines.py $(B)

$(B)/bench/tier: LINKED = $(SIGNING)
$(B)/bench/send_times.so: tests/bench/send_times.c
	$(Q) $(COMPILE) -shared -o $@ $< -ldl
#: make bench-tier    measure a local hit with the tier on, off and dead, and a hit from Redis
.PHONY: bench-tier
bench-tier: setup-test
	$(MAKE) B=$(B) all $(B)/bench/tier $(B)/bench/send_times.so
	tests/bench/bench.sh $(B) tier
