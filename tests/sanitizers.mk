# SPDX-License-Identifier: Apache-2.0
# Suites with sanitizers, and fuzzers. The Makefile includes this.

# The same tests with AddressSanitizer and UBSan; the store's threads with ThreadSanitizer. .ci/run takes the
# parsers, the wires, the store and the service: SANITIZED.
#: make asan, tsan    run the tests with sanitizers
.PHONY: asan tsan asan-parts
SANITIZED = $(patsubst test_%.c,%,$(notdir $(wildcard tests/keygen/test_*.c tests/store/test_*.c tests/client/test_*.c \
    tests/daemon/test_redis_*.c tests/tier/test_tier_[efrsuw]*.c))) artifact ask bookkeeping budget build closer compile_request \
    connection find flight forms history json lease link manifest native negative resp server service slices torch_store torch_value
# A pattern of Criterion has room for about 1,000 characters: so families go by their first word.
FAMILIES = mlir store redis_ tier_
asan-parts: SUITES = $(subst $() $(),|,$(strip $(filter-out $(FAMILIES:=%),$(SANITIZED)) $(FAMILIES:=*)))
asan-parts:
	$(MAKE) asan TEST_FLAGS="--filter '@($(SUITES))/*'"
asan: setup-test toolchain
	$(MAKE) B=$(B)/asan TOOLCHAIN=$(TOOLCHAIN) CFLAGS="-O1 -g" SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined" \
	    all $(B)/asan/tests/all
	WARM_TOOLCHAIN=$(abspath $(TOOLCHAIN)) WARM_CRASH_CYCLES=20 $(B)/asan/tests/all $(TEST_FLAGS)
# Criterion cannot start under ThreadSanitizer: tests/plain replaces it.
PLAIN = $(B)/obj/tests/plain/plain.o $(TEST_SUPPORT)
$(B)/plain/test_%: OUR_CPP += -Itests/plain
$(B)/plain/test_%: $$(call obj_of_suite,$$*) $(PLAIN) $(TEST_LIBS)
	$(Q) $(LINK) -o $@ $+ -luv -llmdb -ldl -lm $(CRYPTO)
$(B)/plain/test_tiled $(B)/plain/test_graph_bundle $(B)/plain/test_trips: $(patsubst %,$(B)/obj/%.o,tests/kernels/for_cpu tests/kernels/jax_graphs kernels/eval/eval) $(GRAPH) $(KEYGEN)
$(B)/plain/test_graph_xla: $(patsubst %,$(B)/obj/tests/kernels/%.o,for_cpu jax_graphs made any_gpu) $(TEST_SUPPORT) $(EXEC) $(TEST_LIBS) $(KEYGEN)
# The suites of keys and wire in one program that needs no library, for tests/arm64_keys.sh.
$(B)/plain/keys: OUR_CPP += -Itests/plain
$(B)/plain/keys: $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/keygen/test_*.c) tests/client/test_wire.c $(addprefix tests/support/,support.c canon_kit.c) tests/plain/plain.c store/row.c) $(call obj,client/wire) $(KEYGEN)
	$(Q) $(LINK) -static -o $@ $^ $(CRYPTO) -lm
.PHONY: tsan-store tsan-client
tsan-store: setup-test
	$(MAKE) B=$(B)/tsan CFLAGS="-O1 -g" WERROR= SAN="-fsanitize=thread" $(B)/tsan/plain/test_store
	$(B)/tsan/plain/test_store $(TSAN_TESTS)
# What threads of a program share: the connections, the tables of handles, the log.
tsan-client: setup-test
	$(MAKE) B=$(B)/tsan CFLAGS="-O1 -g" WERROR= SAN="-fsanitize=thread" $(B)/tsan/bin/warmd \
	    $(B)/tsan/libexec/warm/warm-nvrtc $(addprefix $(B)/tsan/plain/test_,$(TSAN_CLIENT))
	for suite in $(TSAN_CLIENT); do $(B)/tsan/plain/test_$$suite || exit; done
TSAN_CLIENT = connection_pool handle_table debug
tsan: tsan-store tsan-client
	$(MAKE) B=$(B)/tsan CFLAGS="-O1 -g" WERROR= SAN="-fsanitize=thread" $(B)/tsan/plain/test_tiled \
	    $(B)/tsan/plain/test_graph_bundle $(B)/tsan/plain/test_trips $(B)/tsan/plain/test_graph_xla
	WARM_CPU_FLAGS="-fsanitize=thread -g" $(B)/tsan/plain/test_tiled
	WARM_CPU_FLAGS="-fsanitize=thread -g" $(B)/tsan/plain/test_graph_bundle barriers
	WARM_CPU_FLAGS="-fsanitize=thread -g" $(B)/tsan/plain/test_trips
	WARM_CPU_FLAGS="-fsanitize=thread -g" $(B)/tsan/plain/test_graph_xla

# Fuzz targets: $(B)/fuzz/NAME from tests/fuzz/NAME.c with clang's libFuzzer, for the code that
# parses bytes of others. `make fuzz FUZZ_SECONDS=3600` runs each for an hour.
FUZZ_SECONDS = 10
FUZZ_ARGS = -max_total_time=$(FUZZ_SECONDS)
FUZZ_SAN  = address,undefined -fno-sanitize-recover=undefined
FUZZED    = tests/fuzz/promises.c tests/kernels/print_program.c $(call src,$(KEYGEN_DIRS) $(GRAPH_DIRS) $(LIBWARM_DIRS)) $(filter-out %/main.c,$(call src,$(EXEC_DIRS))) client/cli/import/archive.c store/clock.c store/row.c store/id_set.c \
    $(addprefix daemon/,net/resp.c headers/manifest.c headers/manifest_paths.c pytorch/torch_value.c) \
    daemon/worker/line_digests.c $(filter-out %/stats.c,$(call src,daemon/history)) tier/url.c tier/resp_reply.c tier/backends/s3_answer.c
FUZZERS   = $(filter-out promises,$(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c)))
$(B)/fuzz/obj/%.o: %.c
	$(Q) clang $(OUR_CPP) $(CPPFLAGS) -std=c11 -O1 -g -fsanitize=fuzzer-no-link,$(FUZZ_SAN) -MMD -MP -c -o $@ $<
$(B)/fuzz/%: tests/fuzz/%.c $(patsubst %.c,$(B)/fuzz/obj/%.o,$(FUZZED))
	$(Q) clang $(OUR_CPP) $(CPPFLAGS) -std=c11 -O1 -g -fsanitize=fuzzer,$(FUZZ_SAN) -o $@ $^ $(CRYPTO) -ldl -lm
# What plays warm-tier needs a whole service to play against.
FUZZ_ARGS_tier_helper = -len_control=0 -max_len=600
FUZZED_SERVICE = $(filter-out $(FUZZED) %/main.c,$(call src,$(STORE_DIRS) $(TIER_DIRS) $(DAEMON_DIRS))) \
    $(addprefix tests/support/,fake_helper.c service.c support.c tier_rig.c)
$(B)/fuzz/tier_helper: $(patsubst %.c,$(B)/fuzz/obj/%.o,$(FUZZED_SERVICE))
$(B)/fuzz/tier_helper: CRYPTO = -lcriterion -luv -llmdb $(NETWORK) $(SIGNING) $(PACKED)
# The inputs with which some of them begin, because they would hardly find such a text by themselves.
SEEDS_mlir          = $(wildcard tests/data/*.mlir)
SEEDS_mlir_bytecode = $(wildcard tests/data/*.mlirbc tests/data/*.vhlo)
SEEDS_hlo           = $(wildcard tests/data/*.hlo)
SEEDS_program       = $(SEEDS_mlir) $(wildcard kernels/examples/*.mlir)
SEEDS_graph_short   = $(SEEDS_mlir) $(SEEDS_mlir_bytecode)
SEEDS_cuda          = $(wildcard kernels/*.cu)
#: make fuzz          fuzz every reader for FUZZ_SECONDS
.PHONY: fuzz $(addprefix fuzz-,$(FUZZERS))
fuzz: setup-fuzz
	$(MAKE) B=$(B) $(addprefix $(B)/fuzz/,$(FUZZERS))
	$(MAKE) B=$(B) $(addprefix fuzz-,$(FUZZERS))
$(addprefix fuzz-,$(FUZZERS)): fuzz-%:
	@rm -rf $(B)/fuzz/seeds/$*
	@mkdir -p $(B)/fuzz/seeds/$*
	@$(if $(SEEDS_$*),cp $(SEEDS_$*) $(B)/fuzz/seeds/$*)
	$(B)/fuzz/$* $(FUZZ_ARGS) $(FUZZ_ARGS_$*) -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=0 \
	    -artifact_prefix=$(B)/fuzz/ $(B)/fuzz/seeds/$*
