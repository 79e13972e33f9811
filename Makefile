# SPDX-License-Identifier: Apache-2.0
# warm: everything is built into $(B); `make help` lists the targets.
B       ?= build
PREFIX  ?= /usr/local
CC      ?= cc
OPT     ?= -O2 -g
SAN     ?=
WERROR  ?= -Werror

WARNINGS = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual $(WERROR)
CPPFLAGS = -I. -D_GNU_SOURCE
CFLAGS   = -std=c11 $(OPT) $(WARNINGS) $(SAN) -fPIC -fno-omit-frame-pointer -fvisibility=default
LDFLAGS  = $(SAN) -pthread
# libcrypto comes as an archive: only its SHA-256 is linked, and no process pays to load the rest.
CRYPTO   = -l:libcrypto.a
# `warm` starts in less time than a dynamic program can be loaded; sanitizers need it dynamic.
STATIC   = $(if $(SAN),,-static)

src = $(wildcard $(1)/*.c)
obj = $(patsubst %.c,$(B)/obj/%.o,$(call src,$(1)))

KEYGEN  = $(B)/obj/keygen.a
STORE   = $(B)/obj/store.a
CLIENT  = $(B)/lib/libwarm.a
DAEMON  = $(B)/obj/daemon.a
KERNELS = $(B)/obj/kernels.a

PROGRAMS = $(B)/bin/warm $(B)/bin/warmd $(B)/libexec/warm/warm-nvrtc $(B)/lib/libwarm.a $(B)/lib/libwarm.so

.PHONY: all
all: $(PROGRAMS)

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(KEYGEN): $(call obj,keygen)
$(STORE): $(call obj,store)
$(DAEMON): $(filter-out $(B)/obj/daemon/main.o,$(call obj,daemon))
$(KERNELS): $(filter-out $(B)/obj/kernels/main.o,$(call obj,kernels))
$(CLIENT): $(call obj,client) $(call obj,keygen)
$(KEYGEN) $(STORE) $(DAEMON) $(KERNELS) $(CLIENT):
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/lib/libwarm.so: $(call obj,client) $(call obj,keygen)
	$(CC) $(LDFLAGS) -shared -Wl,-soname,libwarm.so.0 -Wl,--version-script,client/libwarm.map -o $@ $^ $(CRYPTO)

$(B)/bin/warm: $(call obj,client/cli) $(CLIENT)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $(STATIC) -o $@ $^ $(CRYPTO)

$(B)/bin/warmd: $(B)/obj/daemon/main.o $(DAEMON) $(STORE) $(CLIENT)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -luv -llmdb $(CRYPTO)

# -rdynamic: NVRTC's open, fopen and stat must bind to the worker's own.
$(B)/libexec/warm/warm-nvrtc: $(call obj,daemon/worker) $(CLIENT)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ -ldl $(CRYPTO)

# Tests: one program of all suites, and any one suite alone as $(B)/tests/test_NAME.
TEST_LIBS = $(DAEMON) $(STORE) $(CLIENT)
$(B)/tests/all: $(call obj,tests) $(TEST_LIBS)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcriterion -luv -llmdb -ldl $(CRYPTO)
$(B)/tests/test_%: $(B)/obj/tests/test_%.o $(B)/obj/tests/support.o $(TEST_LIBS)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcriterion -luv -llmdb -ldl $(CRYPTO)

.PHONY: test test-run
test: setup-test toolchain
	$(MAKE) B=$(B) test-run
test-run: all $(B)/tests/all
	WARM_TOOLCHAIN=$(B)/toolchain $(B)/tests/all $(TEST_FLAGS)

# The same tests with AddressSanitizer and UBSan; the store's threads with ThreadSanitizer.
.PHONY: asan tsan
asan: setup-test toolchain
	$(MAKE) B=$(B)/asan OPT="-O1 -g" SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined" \
	    all $(B)/asan/tests/all
	WARM_TOOLCHAIN=$(B)/toolchain WARM_CRASH_CYCLES=20 $(B)/asan/tests/all $(TEST_FLAGS)
tsan: setup-test
	$(MAKE) B=$(B)/tsan OPT="-O1 -g" SAN="-fsanitize=thread" $(B)/tsan/tests/test_store
	$(B)/tsan/tests/test_store $(TEST_FLAGS)

# Fuzz targets: $(B)/fuzz/NAME from tests/fuzz/fuzz_NAME.c with clang's libFuzzer, over the code that
# parses what others wrote. `make fuzz FUZZ_SECONDS=3600` runs each for an hour.
FUZZ_SECONDS = 10
FUZZ_SAN  = address,undefined -fno-sanitize-recover=undefined
FUZZED    = $(wildcard keygen/*.c client/*.c) store/row.c daemon/resp.c daemon/manifest.c
FUZZERS   = $(patsubst tests/fuzz/fuzz_%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
$(B)/fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	clang $(CPPFLAGS) -std=c11 -O1 -g -fsanitize=fuzzer-no-link,$(FUZZ_SAN) -MMD -MP -c -o $@ $<
$(B)/fuzz/%: tests/fuzz/fuzz_%.c $(patsubst %.c,$(B)/fuzz/obj/%.o,$(FUZZED))
	clang $(CPPFLAGS) -std=c11 -O1 -g -fsanitize=fuzzer,$(FUZZ_SAN) -o $@ $^ $(CRYPTO)
.PHONY: fuzz
fuzz: setup-fuzz
	$(MAKE) B=$(B) $(FUZZERS)
	@set -e; for f in $(FUZZERS); do echo "$$f: $(FUZZ_SECONDS) s"; \
	    $$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=0 \
	        -artifact_prefix=$(B)/fuzz/; done

# Benchmarks: peers and project side by side in one run. Peers are unpacked, never installed.
BENCH_LIBS = $(STORE) $(CLIENT)
$(B)/bench/%: $(B)/obj/tests/bench/bench_%.o $(B)/obj/tests/bench/bench.o $(BENCH_LIBS)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -llmdb -ldl $(CRYPTO)
BENCHES = $(patsubst tests/bench/bench_%.c,$(B)/bench/%,$(wildcard tests/bench/bench_*.c))
.PHONY: bench
bench: setup-test toolchain
	$(MAKE) B=$(B) all $(BENCHES)
	tests/bench/peers.sh $(B)/peers
	tests/bench/bench.sh $(B)

# The CUDA toolchain: fetched once, only for what needs it (the demo, the tests); a run that finds it
# complete takes some milliseconds. Only kernels/ sees cuda.h.
.PHONY: toolchain
toolchain:
	@kernels/toolchain.sh $(B)/toolchain
$(call obj,kernels): | toolchain
$(call obj,kernels): CPPFLAGS += -isystem $(B)/toolchain/13.5.37/include
$(B)/bin/warm-kernels: $(B)/obj/kernels/main.o $(KERNELS) $(KEYGEN)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -ldl -lm

# The kernels for the tests, by the host's C++ compiler and without its library.
CXX_ONLY = -Wstrict-prototypes -Wmissing-prototypes
$(B)/obj/tests/cuda_on_cpu.o: tests/cuda_on_cpu.cpp
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(filter-out -std=c11 $(CXX_ONLY),$(CFLAGS)) -std=c++17 -fno-exceptions \
		-fno-rtti -Wno-unknown-pragmas -MMD -MP -c -o $@ $<
$(B)/tests/all $(B)/tests/test_kernels: $(B)/obj/tests/cuda_on_cpu.o $(KERNELS) $(KEYGEN)

-include $(shell find $(B)/obj $(B)/fuzz/obj -name '*.d' 2>/dev/null)
