# SPDX-License-Identifier: Apache-2.0
# Builds everything into $(B). `make help` lists the targets.
B       ?= build
PREFIX  ?= /usr/local
CC      ?= cc
OPT     ?= -O2 -g
SAN     ?=
WERROR  ?= -Werror

WARNINGS = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual $(WERROR)
CPPFLAGS = -I. -D_GNU_SOURCE
CFLAGS   = -std=c11 $(OPT) $(WARNINGS) $(SAN) -fPIC -fno-omit-frame-pointer -fvisibility=default
LDFLAGS  = $(SAN) -pthread -Wl,--build-id
# libcrypto comes as an archive: only its SHA-256 is linked, and no process pays to load the rest.
CRYPTO   = -l:libcrypto.a
# Ed25519 signs the entries of the tier. EVP of libcrypto would add 3.8 MB to a static program (2026-11-24).
SIGNING  = -l:libsodium.a
# TLS for warm-tier alone, as shared libraries. It loads libcurl at run time, so a build needs only the header.
NETWORK  = -ldl -lssl -lcrypto
# The compression of the frameworks' caches, and of values of the tier.
PACKED   = -l:libz.a -l:libzstd.a
# The screen of `warm top`: an archive, so that the command runs where ncurses is not installed.
CURSES   = -l:libncursesw.a -l:libtinfo.a
# `warm` is static: it starts in less time than a dynamic program takes to load. Sanitizers need it dynamic.
STATIC   = $(if $(SAN),,-static)

# The sources and the objects of some folders.
src = $(foreach folder,$(1),$(wildcard $(folder)/*.c))
obj = $(patsubst %.c,$(B)/obj/%.o,$(call src,$(1)))

# Folders from the lowest layer up: a file includes headers of its own folder and of those before it.
# `make check-layers` checks every file.
KEYGEN_DIRS  = keygen $(addprefix keygen/,canon graph mlir bytecode ptx cuda)
GRAPH_DIRS   = $(addprefix kernels/,program vjp codegen bundle)
EXEC_DIRS    = kernels/exec
STORE_DIRS   = store
LIBWARM_DIRS = $(addprefix client/,wire lib exec)
TOOL_DIRS    = client/trace client/tool
CLI_DIRS     = client/cli $(addprefix client/cli/,import run top report commands)
PRELOAD_DIRS = client/preload $(addprefix client/preload/,nvrtc nvjitlink nvvm driver pjrt mlir)
TIER_DIRS    = tier tier/backends
WORKER_DIRS  = daemon/worker
DAEMON_DIRS  = $(addprefix daemon/,process users history compiler tier service net native redis http)
KERNEL_DIRS  = kernels/eval kernels
TEST_DIRS    = $(addprefix tests/,support keygen store client preload tool cli daemon tier install kernels)
LAYERS       = $(KEYGEN_DIRS) $(GRAPH_DIRS) $(EXEC_DIRS) $(STORE_DIRS) $(LIBWARM_DIRS) $(TIER_DIRS) $(PRELOAD_DIRS) $(TOOL_DIRS) $(CLI_DIRS) \
    $(WORKER_DIRS) $(DAEMON_DIRS) daemon $(KERNEL_DIRS) kernels/examples

KEYGEN  = $(B)/obj/keygen.a
STORE   = $(B)/obj/store.a
CLIENT  = $(B)/lib/libwarm.a
DAEMON  = $(B)/obj/daemon.a
TIER    = $(B)/obj/tier.a
KERNELS = $(B)/obj/kernels.a
GRAPH   = $(B)/obj/graph.a
EXEC    = $(B)/obj/exec.a

# The libraries that are loaded into other programs are never built with a sanitizer.
LOADED   = $(if $(SAN),,$(B)/lib/libwarm-preload.so $(B)/libexec/warm/libwarm-trace.so)
PROGRAMS = $(B)/bin/warm $(B)/bin/warmd $(B)/libexec/warm/warm-nvrtc $(B)/libexec/warm/warm-tier \
    $(B)/libexec/warm/warm-exec $(B)/lib/libwarm.a $(B)/lib/libwarm.so \
    $(LOADED) $(B)/share/warm/python

# Each rule says what it makes. `make V=1` prints the command instead, `make -s` nothing.
SAY = $(if $(findstring s,$(firstword -$(MAKEFLAGS))),:,echo)
Q   = $(if $(V),,@$(SAY) "$(if $(filter %.o,$@),cc ,link) $@" &&)

.PHONY: all help
all: $(PROGRAMS)

#: make               build into build/
#: make help          this list
help:
	@sed -n 's/^#: //p' Makefile

# Each compile of a user's program makes a key, so the functions of keygen/ are worth inlining.
$(call obj,$(KEYGEN_DIRS)): CFLAGS += $(if $(filter -O2,$(OPT)),-O3)
$(B)/obj/%.o: %.c | $(B)/libraries
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# The program contains the text of the template.
$(B)/obj/kernels/codegen/tiled.o $(B)/fuzz/obj/kernels/codegen/tiled.o: kernels/codegen/tiled_product.cu

# Looks for the libraries' headers once, and names missing packages in a line, before a compiler prints errors.
LIBRARIES = uv.h=libuv1-dev lmdb.h=liblmdb-dev xxhash.h=libxxhash-dev openssl/sha.h=libssl-dev \
    zlib.h=zlib1g-dev sodium.h=libsodium-dev zstd.h=libzstd-dev curses.h=libncurses-dev \
    curl/curl.h=libcurl4-openssl-dev
$(B)/libraries:
	@missing=; for library in $(LIBRARIES); do \
	    echo "#include <$${library%=*}>" | $(CC) $(CPPFLAGS) $(OPT) -E -x c - >/dev/null 2>&1 || \
	        missing="$$missing $${library#*=}"; \
	done; \
	[ -z "$$missing" ] || { echo "missing packages:$$missing (\`make setup\` installs them)" >&2; exit 1; }
	@mkdir -p $(@D)
	@touch $@

$(KEYGEN): $(call obj,$(KEYGEN_DIRS))
$(STORE): $(call obj,$(STORE_DIRS))
$(DAEMON): $(call obj,$(DAEMON_DIRS)) $(B)/obj/daemon/worker/line_digests.o
$(KERNELS): $(filter-out $(B)/obj/kernels/main.o,$(call obj,$(KERNEL_DIRS)))
$(CLIENT): $(call obj,$(LIBWARM_DIRS) $(GRAPH_DIRS) $(KEYGEN_DIRS))
$(GRAPH): $(call obj,$(GRAPH_DIRS))
$(EXEC): $(filter-out $(B)/obj/kernels/exec/main.o,$(call obj,$(EXEC_DIRS)))
$(TIER): $(filter-out $(B)/obj/tier/main.o,$(call obj,$(TIER_DIRS)))
$(KEYGEN) $(STORE) $(DAEMON) $(TIER) $(KERNELS) $(GRAPH) $(EXEC) $(CLIENT) $(B)/obj/command.a $(B)/obj/preload.a $(B)/obj/tests/support.a:
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(B)/lib/libwarm.so: $(call obj,$(LIBWARM_DIRS) $(GRAPH_DIRS) $(KEYGEN_DIRS))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libwarm.so.0 -Wl,--version-script,client/lib/libwarm.map -o $@ $^ $(CRYPTO)

# Libraries that are loaded into other programs run with every glibc since 2.17, where dlopen is in
# libdl (client/preload/old_glibc.h). `make check-glibc` fails if they need a newer symbol.
OLDEST_GLIBC = 2.17
OLD_LIBDL    = -Wl,--no-as-needed -l:libdl.so.2 -Wl,--as-needed
#: make check-glibc   check which glibc the preloaded libraries need
.PHONY: check-glibc
check-glibc: $(LOADED)
	@for library in $(LOADED); do \
	    objdump -T $$library | sed -n 's/.*(\{0,1\}GLIBC_\([0-9.]*\))\{0,1\} *\(.*\)/\1 \2/p' | sort -V | \
	    awk -v most=$(OLDEST_GLIBC) -v library=$$library '{ split($$1, v, "."); split(most, m, ".") } \
	        v[1] > m[1] || (v[1] == m[1] && v[2] + 0 > m[2] + 0) { print library ": wants " $$2 " of glibc " $$1; bad = 1 } \
	        END { exit bad }' || exit; \
	done

# In every program that `warm run` starts. It exports only the functions that it replaces.
$(B)/lib/libwarm-preload.so: $(call obj,$(PRELOAD_DIRS)) $(CLIENT) client/preload/preload.map
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libwarm-preload.so -Wl,-Bsymbolic -Wl,--exclude-libs,ALL \
	    -Wl,--version-script,client/preload/preload.map -o $@ $(filter %.o %.a,$^) $(OLD_LIBDL) $(CRYPTO)
# In the compilers that `warm tool` starts on a miss. It logs the files that they look for.
$(B)/libexec/warm/libwarm-trace.so: $(call obj,client/trace)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libwarm-trace.so -o $@ $^ $(OLD_LIBDL)

# `warm run` looks for the Python package where it will be installed.
$(B)/share/warm/python:
	@mkdir -p $(@D)
	@ln -sfn $(abspath client/python) $@

$(B)/bin/warm: $(call obj,$(CLI_DIRS) client/tool) $(TIER) $(CLIENT)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(STATIC) -o $@ $^ $(CRYPTO) $(SIGNING) $(PACKED) $(CURSES)

$(B)/bin/warmd: $(B)/obj/daemon/main.o $(DAEMON) $(TIER) $(STORE) $(CLIENT)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -luv -llmdb $(CRYPTO) $(SIGNING)

# -rdynamic: NVRTC's open, fopen and stat must bind to the worker's own.
$(B)/libexec/warm/warm-nvrtc: $(call obj,$(WORKER_DIRS)) $(CLIENT)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -rdynamic -o $@ $^ -ldl $(CRYPTO)

$(B)/libexec/warm/warm-tier: $(B)/obj/tier/main.o $(TIER) $(CLIENT)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -luv $(NETWORK) -l:libzstd.a

# Runs a compiled graph on a GPU: dynamic, so that it can load the driver.
$(B)/libexec/warm/warm-exec: $(B)/obj/kernels/exec/main.o $(EXEC) $(GRAPH) $(KEYGEN)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -ldl $(CRYPTO)

# Trains the models of kernels/examples from their StableHLO.
$(B)/bin/train_mlp: $(B)/obj/kernels/examples/train_mlp.o $(EXEC) $(CLIENT)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -ldl -lm $(CRYPTO)

# Tests: one program of all suites, and any one suite alone as $(B)/tests/test_NAME.
CLI       = $(B)/obj/command.a
$(CLI): $(filter-out $(B)/obj/client/cli/main.o,$(call obj,$(CLI_DIRS) client/tool))
# The shims, without the files that define functions of the C library for a whole program.
PRELOAD   = $(B)/obj/preload.a
$(PRELOAD): $(filter-out $(patsubst %,$(B)/obj/client/preload/%.o,dl exec old_glibc),$(call obj,$(PRELOAD_DIRS)))
TEST_LIBS = $(CLI) $(PRELOAD) $(DAEMON) $(TIER) $(STORE) $(GRAPH) $(CLIENT)
TEST_SUPPORT = $(B)/obj/tests/support.a
FINI      = $(B)/obj/tests/support/fini.o
$(TEST_SUPPORT): $(filter-out $(FINI),$(call obj,tests/support))
obj_of_suite = $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/*/test_$(1).c))
$(B)/tests/all: $(call obj,$(TEST_DIRS)) $(TEST_LIBS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lcriterion -luv -llmdb -ldl -lm $(NETWORK) $(SIGNING) $(PACKED)
.SECONDEXPANSION:
$(B)/tests/test_%: $$(call obj_of_suite,$$*) $(FINI) $(TEST_SUPPORT) $(TEST_LIBS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter-out %.o,$^) -lcriterion -luv -llmdb -ldl -lm $(NETWORK) $(SIGNING) $(PACKED)

#: make test          install missing packages and run all tests
.PHONY: test test-run
test: setup-test toolchain
	$(MAKE) B=$(B) test-run
test-run: all $(B)/tests/all
	WARM_TOOLCHAIN=$(abspath $(TOOLCHAIN)) $(B)/tests/all $(TEST_FLAGS)

# The same tests with AddressSanitizer and UBSan; the store's threads with ThreadSanitizer. .ci/run takes the
# parsers, the wires, the store and the service: SANITIZED.
#: make asan, tsan    run the tests with sanitizers
.PHONY: asan tsan asan-parts
SANITIZED = $(patsubst test_%.c,%,$(notdir $(wildcard tests/keygen/test_*.c tests/store/test_*.c tests/client/test_*.c \
    tests/daemon/test_redis_*.c tests/tier/test_tier_[efrsuw]*.c))) artifact bookkeeping budget build call closer compile_request \
    connection find flight forms history json lease link manifest native negative resp server service slices torch_store torch_value
# A pattern of Criterion has room for about 1,000 characters: so families go by their first word.
FAMILIES = mlir store redis_ tier_
asan-parts: SUITES = $(subst $() $(),|,$(strip $(filter-out $(FAMILIES:=%),$(SANITIZED)) $(FAMILIES:=*)))
asan-parts:
	$(MAKE) asan TEST_FLAGS="--filter '@($(SUITES))/*'"
asan: setup-test toolchain
	$(MAKE) B=$(B)/asan TOOLCHAIN=$(TOOLCHAIN) OPT="-O1 -g" SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined" \
	    all $(B)/asan/tests/all
	WARM_TOOLCHAIN=$(abspath $(TOOLCHAIN)) WARM_CRASH_CYCLES=20 $(B)/asan/tests/all $(TEST_FLAGS)
# Criterion cannot start under ThreadSanitizer: tests/plain replaces it.
PLAIN = $(B)/obj/tests/plain/plain.o $(TEST_SUPPORT)
$(B)/plain/test_%: CPPFLAGS += -Itests/plain
$(B)/plain/test_%: $$(call obj_of_suite,$$*) $(PLAIN) $(TEST_LIBS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $+ -luv -llmdb -ldl -lm $(CRYPTO)
$(B)/plain/test_tiled $(B)/plain/test_graph_bundle $(B)/plain/test_trips: $(patsubst %,$(B)/obj/%.o,tests/kernels/for_cpu tests/kernels/jax_graphs kernels/eval/eval) $(GRAPH) $(KEYGEN)
.PHONY: tsan-store
tsan-store: setup-test
	$(MAKE) B=$(B)/tsan OPT="-O1 -g" WERROR= SAN="-fsanitize=thread" $(B)/tsan/plain/test_store
	$(B)/tsan/plain/test_store $(TSAN_TESTS)
tsan: tsan-store
	$(MAKE) B=$(B)/tsan OPT="-O1 -g" WERROR= SAN="-fsanitize=thread" $(B)/tsan/plain/test_tiled \
	    $(B)/tsan/plain/test_graph_bundle $(B)/tsan/plain/test_trips
	WARM_CPU_FLAGS="-fsanitize=thread -g" $(B)/tsan/plain/test_tiled
	WARM_CPU_FLAGS="-fsanitize=thread -g" $(B)/tsan/plain/test_graph_bundle barriers
	WARM_CPU_FLAGS="-fsanitize=thread -g" $(B)/tsan/plain/test_trips

# The checks that .ci/run leaves out. Those that find most faults come first.
#: make nightly       everything else: all suites under sanitizers, proofs, packages, all clients, benchmarks
.PHONY: nightly
nightly:
	$(MAKE) asan
	$(MAKE) tsan
	$(MAKE) test-clients
	$(MAKE) siege SIEGE_SECONDS=600
	$(MAKE) proof power-loss test-codegen proof-torch PROOF_TORCH=500
	$(MAKE) check-glibc wheel deb rpm
	$(MAKE) bench BENCH_ROUNDS=1

# Compiles every generated kernel by both NVRTCs for each architecture, and takes out the barriers of each graph
# without run-time indices. `make test` has a sample.
#: make test-codegen  every generated kernel compiles without a spill; barriers are needed
.PHONY: test-codegen
test-codegen: setup-test toolchain
	$(MAKE) B=$(B) $(B)/tests/all
	WARM_TEST_ALL=1 WARM_TOOLCHAIN=$(abspath $(TOOLCHAIN)) $(B)/tests/all --filter 'codegen/both*'
	WARM_TEST_ALL=1 $(B)/tests/all --filter 'barriers/*'

# Checks the store after a power failure in each of 10 000 states. `make test` tries a sample.
#: make power-loss    check the store after a power failure, in 10 000 states
.PHONY: power-loss
POWER_STATES = 10000
power-loss: setup-test
	$(MAKE) B=$(B) $(B)/tests/test_power_loss
	WARM_POWER_STATES=$(POWER_STATES) $(B)/tests/test_power_loss

# Hostile users against a well-behaved one, for an hour. .ci/run does it for half a minute.
.PHONY: siege
SIEGE_SECONDS = 3600
$(B)/siege/siege: $(call obj,tests/siege) $(TEST_SUPPORT) $(DAEMON) $(CLIENT)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lcriterion -ldl $(CRYPTO)
siege: setup-test toolchain
	$(MAKE) B=$(B) all $(B)/siege/siege
	WARM_TOOLCHAIN=$(abspath $(TOOLCHAIN)) $(B)/siege/siege --seconds $(SIEGE_SECONDS) || \
	    [ $$? = 77 ] # it has said that it needs root

# Fuzz targets: $(B)/fuzz/NAME from tests/fuzz/NAME.c with clang's libFuzzer, for the code that
# parses bytes of others. `make fuzz FUZZ_SECONDS=3600` runs each for an hour.
FUZZ_SECONDS = 10
FUZZ_ARGS = -max_total_time=$(FUZZ_SECONDS)
FUZZ_SAN  = address,undefined -fno-sanitize-recover=undefined
FUZZED    = tests/fuzz/promises.c $(call src,$(KEYGEN_DIRS) $(GRAPH_DIRS) $(LIBWARM_DIRS)) client/cli/import/archive.c store/row.c store/id_set.c store/lmdb_check.c \
    $(addprefix daemon/,net/resp.c service/manifest.c service/manifest_paths.c process/json.c service/torch_value.c) \
    daemon/worker/line_digests.c $(call src,daemon/history) tier/url.c tier/resp_reply.c tier/backends/s3_answer.c
FUZZERS   = $(filter-out promises,$(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c)))
$(B)/fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	$(Q)clang $(CPPFLAGS) -std=c11 -O1 -g -fsanitize=fuzzer-no-link,$(FUZZ_SAN) -MMD -MP -c -o $@ $<
$(B)/fuzz/%: tests/fuzz/%.c $(patsubst %.c,$(B)/fuzz/obj/%.o,$(FUZZED))
	$(Q)clang $(CPPFLAGS) -std=c11 -O1 -g -fsanitize=fuzzer,$(FUZZ_SAN) -o $@ $^ $(CRYPTO)
# What plays warm-tier needs a whole service to play against.
FUZZ_ARGS_tier_helper = -len_control=0 -max_len=600
FUZZED_SERVICE = $(filter-out $(FUZZED) %/main.c,$(call src,$(STORE_DIRS) $(TIER_DIRS) $(DAEMON_DIRS))) \
    $(addprefix tests/support/,fake_helper.c service.c support.c tier_rig.c)
$(B)/fuzz/tier_helper: $(patsubst %.c,$(B)/fuzz/obj/%.o,$(FUZZED_SERVICE))
$(B)/fuzz/tier_helper: CRYPTO = -lcriterion -luv -llmdb -lm $(NETWORK) $(SIGNING) $(PACKED)
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

# The proof of the keys by mutation, and by the compilers: texts with equal keys compile to equal bytes.
# .ci/run and the tests run samples of it.
PROOF_CASES    = 100000
PROOF_COMPILES = 25
PROVEN_CUDA = $(filter-out kernels/cub_block.cu,$(wildcard kernels/*.cu))
PROVEN_GRAPHS = $(wildcard tests/data/*.mlir tests/data/*.hlo)
# ptxas reads the PTX of the first NVRTC, so it must be as new.
PTXAS = lib/python3*/site-packages/nvidia/cuda_nvcc/bin/ptxas
PROOF_OBJ = $(patsubst %,$(B)/obj/tests/proof/%.o,$(1)) $(TEST_SUPPORT) $(CLIENT)
$(B)/proof/compiler: $(call PROOF_OBJ,proof variants)
$(B)/proof/graphs: $(call PROOF_OBJ,graphs graph_variants short_text variants)
$(B)/proof/%:
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lcriterion -ldl $(CRYPTO)
# Programs in two spellings that XLA compiles. tests/clients/jax_pairs.py runs a sample.
PROOF_PAIRS = 500
#: make proof         prove the keys by mutation and by the compilers
.PHONY: proof proof-compiler
proof: setup-clients proof-compiler
	$(MAKE) B=$(B) $(B)/proof/graphs $(B)/lib/libwarm.so
	venv=$$(tests/clients/venv.sh tests/clients/jax.txt) && PYTHONDONTWRITEBYTECODE=1 \
	    $$venv/bin/python tests/proof/xla/pairs.py --cases $(PROOF_PAIRS) --library $(B)/lib/libwarm.so
	$(B)/proof/graphs --cases $(PROOF_CASES) $(PROVEN_GRAPHS)
	$(MAKE) B=$(B) $(B)/tests/test_own_order && WARM_CASES=$(PROOF_CASES) $(B)/tests/test_own_order
.PHONY: proof-torch
PROOF_TORCH = 20
proof-torch: setup-clients
	venv=$$(tests/clients/venv.sh tests/clients/torch.txt) && \
	    $$venv/bin/python tests/proof/torch/mutations.py --cases $(PROOF_TORCH) --python client/python
proof-compiler: setup-clients toolchain
	$(MAKE) B=$(B) $(B)/proof/compiler
	venv=$$(tests/clients/venv.sh tests/proof/ptxas.txt) && \
	    $(B)/proof/compiler --cases $(PROOF_CASES) --compiles $(PROOF_COMPILES) \
	    --nvrtc $(wildcard $(TOOLCHAIN)/12.9.86/lib/libnvrtc-builtins.so.*),$(TOOLCHAIN)/12.9.86/lib/libnvrtc.so.12 \
	    --nvrtc $(wildcard $(TOOLCHAIN)/13.5.37/lib/libnvrtc-builtins.so.*),$(TOOLCHAIN)/13.5.37/lib/libnvrtc.so.13 \
	    --ptxas $$(echo $$venv/$(PTXAS)) $(PROVEN_CUDA)

# Unmodified programs of others, in virtual environments in the user's cache folder.
# `make test-clients CLIENTS="jax"` runs one group, `CLIENTS_SHORT=1` one program of each: tests/clients/run.sh.
#: make test-clients  run programs of PyTorch, JAX, Triton, CuPy, … (CLIENTS=…)
.PHONY: test-clients
test-clients: setup-clients toolchain
	$(MAKE) B=$(B) all
	WARM_TOOLCHAIN=$(abspath $(TOOLCHAIN)) tests/clients/run.sh $(B) $(CLIENTS)
# On a machine with a GPU. Builds nothing there: the build tree or the wheel comes from elsewhere.
#: make test-gpu      the first run on a GPU: one table, at most 480 s (WHEEL=…, STEPS=1,2)
.PHONY: test-gpu
test-gpu:
	@TOOLCHAIN=$(abspath $(TOOLCHAIN)) PYTHONDONTWRITEBYTECODE=1 python3 tests/gpu/run.py $(B)
#: make bench-clients, bench-torch, bench-jax   measure these programs
.PHONY: bench-clients bench-torch bench-jax
bench-clients bench-torch bench-jax: bench-%: setup-clients toolchain
	$(MAKE) B=$(B) all $(if $(filter clients,$*),$(B)/bench/preload)
	WARM_TOOLCHAIN=$(abspath $(TOOLCHAIN)) tests/bench/$*.sh $(B)

#: make bench-programs measure thirty whole programs: cold, warm elsewhere, warm under other names
.PHONY: bench-programs
bench-programs: setup-clients
	$(MAKE) B=$(B) all
	tests/bench/python.sh $(B) tests/bench/programs.txt time_programs

# Benchmarks: peers and project side by side in one run. Peers are unpacked, never installed.
BENCH_LIBS = $(STORE) $(CLIENT)
$(B)/bench/%: $(B)/obj/tests/bench/%.o $(B)/obj/tests/bench/bench.o $(BENCH_LIBS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -llmdb -ldl $(CRYPTO)
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

$(B)/bench/tier: CRYPTO += $(SIGNING)
$(B)/bench/send_times.so: tests/bench/send_times.c
	@mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE $(CFLAGS) -shared -fPIC -o $@ $< -ldl
#: make bench-tier    measure a local hit with the tier on, off and dead, and a hit from Redis
.PHONY: bench-tier
bench-tier: setup-test
	$(MAKE) B=$(B) all $(B)/bench/tier $(B)/bench/send_times.so
	tests/bench/bench.sh $(B) tier

# The CUDA toolchain, fetched once, and only for the demo and the tests. If it is complete, the script
# takes some milliseconds. Only kernels/ sees cuda.h.
TOOLCHAIN = $(B)/toolchain
.PHONY: toolchain
toolchain:
	@kernels/toolchain.sh $(TOOLCHAIN)
$(call obj,$(KERNEL_DIRS)): | toolchain
$(call obj,$(KERNEL_DIRS)): CPPFLAGS += -isystem $(TOOLCHAIN)/13.5.37/include
$(B)/bin/warm-kernels: $(B)/obj/kernels/main.o $(KERNELS) $(EXEC) $(KEYGEN)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -ldl -lm

# The kernels for the tests, by the host's C++ compiler and without its library.
C_ONLY = -std=c11 -Wstrict-prototypes -Wmissing-prototypes
$(B)/obj/tests/kernels/cuda_on_cpu.o: tests/kernels/cuda_on_cpu.cpp
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CPPFLAGS) $(filter-out $(C_ONLY),$(CFLAGS)) -std=c++17 -fno-exceptions -fno-rtti \
	    -Wno-unknown-pragmas -MMD -MP -c -o $@ $<
$(B)/tests/all $(B)/tests/test_kernels: $(B)/obj/tests/kernels/cuda_on_cpu.o
$(B)/tests/test_eval $(B)/tests/test_vjp $(B)/tests/test_codegen $(B)/tests/test_graph_bundle $(B)/tests/test_exec $(B)/tests/test_train $(B)/tests/test_tiled $(B)/tests/test_barriers $(B)/tests/test_trips $(B)/tests/test_plan_memory $(B)/tests/test_wide: $(B)/obj/tests/kernels/jax_graphs.o
$(B)/tests/test_codegen $(B)/tests/test_graph_bundle $(B)/tests/test_exec $(B)/tests/test_train $(B)/tests/test_tiled $(B)/tests/test_barriers $(B)/tests/test_trips $(B)/tests/test_wide: $(B)/obj/tests/kernels/for_cpu.o
$(B)/tests/test_exec $(B)/tests/test_train: $(B)/obj/tests/kernels/any_gpu.o
$(B)/tests/all $(B)/tests/test_train: | $(B)/bin/train_mlp
# Plans graphs with allocations that fail.
$(B)/bin/plan_memory: $(B)/obj/tests/programs/plan_memory.o $(GRAPH) $(KEYGEN)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc -o $@ $^ -lm $(CRYPTO)
$(B)/tests/all $(B)/tests/test_plan_memory: | $(B)/bin/plan_memory
$(B)/tests/all $(patsubst tests/kernels/%.c,$(B)/tests/%,$(wildcard tests/kernels/test_*.c)): $(KERNELS) $(EXEC) $(GRAPH) $(KEYGEN)

# Set-up: installs the Debian packages that are missing. make itself is there already.
PACKAGES_BUILD = gcc libc6-dev libuv1-dev liblmdb-dev libxxhash-dev libssl-dev zlib1g-dev libzstd-dev libncurses-dev libsodium-dev libcurl4-openssl-dev
PACKAGES_DEMO  = $(PACKAGES_BUILD) ca-certificates python3-pip
PACKAGES_TEST  = $(PACKAGES_DEMO) curl g++ musl-tools libcriterion-dev python3-redis python3-prometheus-client redis-server redis-tools nginx-light openssl systemd procps groff-base zstd
PACKAGES_CLIENTS = $(PACKAGES_TEST) python3-venv python3-dev
PACKAGES_FUZZ  = $(PACKAGES_TEST) clang libclang-rt-14-dev
#: make setup         install the packages that a build needs
.PHONY: setup setup-test setup-clients setup-fuzz setup-format
setup:
	@./setup.sh $(PACKAGES_DEMO)
setup-test:
	@./setup.sh $(PACKAGES_TEST)
setup-clients:
	@./setup.sh $(PACKAGES_CLIENTS)
setup-fuzz:
	@./setup.sh $(PACKAGES_FUZZ)
setup-format:
	@./setup.sh clang-format-14

# The demo compiles kernels cold, warm, and warm after a restart of the daemon.
#: make demo          install missing packages, build, compile kernels cold and warm
.PHONY: demo
demo: setup toolchain
	@mkdir -p $(B)
	@echo "demo: building into $(B), see $(B)/make.log" >&2
	@./progress.sh $(B)/make.log $$($(MAKE) -n B=$(B) $(DEMO) | grep -c -- ' -c -o ') $(MAKE) -j$$(nproc) B=$(B) $(DEMO) || \
	    { tail -n 15 $(B)/make.log; echo "demo: the build failed"; exit 1; } >&2
	@echo "demo: compiling kernels cold, warm, and warm after a restart of the daemon" >&2
	@kernels/demo.sh $(B)
	@echo "demo: next: \`make install PREFIX=~/.local\`, or as root \`make install\`; then \`warm run python train.py\`" >&2
DEMO = all $(B)/bin/warm-kernels

# Installation. DESTDIR goes before every path; the paths inside the files are without it. Below the
# home folder (PREFIX=~/.local) nothing of the system's daemon is installed.
override PREFIX := $(patsubst ~/%,$(HOME)/%,$(PREFIX))
FOR_USER   = $(filter $(HOME)/%,$(PREFIX))
BINDIR     = $(PREFIX)/bin
LIBDIR     = $(PREFIX)/lib
MANDIR     = $(PREFIX)/share/man
SYSCONFDIR = /etc
SYSTEMDDIR = $(LIBDIR)/systemd
USERUNITS  = $(if $(FOR_USER),$(PREFIX)/share/systemd/user,$(SYSTEMDDIR)/user)
for_system = $(if $(FOR_USER),,$(1))
VERSION    = $(shell sed -n 's/.*WARM_VERSION "\(.*\)"/\1/p' client/wire/version.h)
FILLED     = sed -e 's|@bindir@|$(BINDIR)|g' -e 's|@sysconfdir@|$(SYSCONFDIR)|g' \
                 -e 's|@prefix@|$(PREFIX)|g' -e 's|@version@|$(VERSION)|g'
# FILE=PLACE: files of the source tree, installed as they are, or with the paths filled in
INSTALLED_AS_IS  = client/lib/warm.h=$(PREFIX)/include/warm.h \
    systemd/user/warmd.socket=$(USERUNITS)/warmd.socket \
    $(call for_system,systemd/warmd.socket=$(SYSTEMDDIR)/system/warmd.socket \
        systemd/warmd-admin.socket=$(SYSTEMDDIR)/system/warmd-admin.socket \
        systemd/warm-tier.socket=$(SYSTEMDDIR)/system/warm-tier.socket \
        systemd/warm.sysusers=$(LIBDIR)/sysusers.d/warm.conf \
        systemd/warm.tmpfiles=$(LIBDIR)/tmpfiles.d/warm.conf) \
    $(foreach page,$(wildcard client/man/*.1),$(page)=$(MANDIR)/man1/$(notdir $(page))) \
    systemd/man/warmd.conf.5=$(MANDIR)/man5/warmd.conf.5 \
    client/man/warm-reactant.7=$(MANDIR)/man7/warm-reactant.7 \
    systemd/man/warmd.8=$(MANDIR)/man8/warmd.8
INSTALLED_FILLED = client/lib/warm.pc=$(LIBDIR)/pkgconfig/warm.pc \
    $(call for_system,systemd/warmd.service=$(SYSTEMDDIR)/system/warmd.service \
        systemd/warm-tier@.service=$(SYSTEMDDIR)/system/warm-tier@.service) \
    systemd/user/warmd.service=$(USERUNITS)/warmd.service
BUILT_PROGRAMS   = $(B)/bin/warm=$(BINDIR)/warm $(B)/bin/warmd=$(BINDIR)/warmd \
    $(B)/libexec/warm/warm-nvrtc=$(PREFIX)/libexec/warm/warm-nvrtc \
    $(B)/libexec/warm/warm-tier=$(PREFIX)/libexec/warm/warm-tier \
    $(B)/libexec/warm/warm-exec=$(PREFIX)/libexec/warm/warm-exec
BUILT_LIBRARIES  = $(B)/lib/libwarm.a=$(LIBDIR)/libwarm.a $(B)/lib/libwarm.so=$(LIBDIR)/libwarm.so.0 \
    $(foreach library,$(if $(LOADED),$(shell ls $(LOADED) 2>/dev/null)),$(library)=$(PREFIX)$(library:$(B)%=%))
PYTHON_FILES     = $(shell cd client/python && find * -type f ! -name '*.pyc' ! -name pyproject.toml ! -name README.md)
INSTALLED_PYTHON = $(foreach file,$(PYTHON_FILES),client/python/$(file)=$(PREFIX)/share/warm/python/$(file))
COMPLETIONS      = bash=$(PREFIX)/share/bash-completion/completions/warm \
    zsh=$(PREFIX)/share/zsh/site-functions/_warm fish=$(PREFIX)/share/fish/vendor_completions.d/warm.fish
CONF             = $(SYSCONFDIR)/warm/warmd.conf
from  = $(firstword $(subst =, ,$(1)))
place = $(DESTDIR)$(word 2,$(subst =, ,$(1)))
define newline


endef

#: make install       into PREFIX (/usr/local), or below the home folder without root
.PHONY: install uninstall
install: all
	@$(SAY) "install: programs into $(DESTDIR)$(BINDIR) and $(DESTDIR)$(PREFIX)/libexec/warm"
	$(foreach i,$(BUILT_PROGRAMS),@install -D -m 755 $(call from,$i) $(call place,$i)$(newline)	)
	@$(SAY) "install: libraries into $(DESTDIR)$(LIBDIR)"
	$(foreach i,$(BUILT_LIBRARIES),@install -D -m 644 $(call from,$i) $(call place,$i)$(newline)	)
	@ln -sf libwarm.so.0 $(DESTDIR)$(LIBDIR)/libwarm.so
	@$(SAY) "install: header, manual pages and systemd units"
	$(foreach i,$(INSTALLED_AS_IS),@install -D -m 644 $(call from,$i) $(call place,$i)$(newline)	)
	$(foreach i,$(INSTALLED_FILLED),@install -D -m 644 /dev/null $(call place,$i) && \
	    $(FILLED) $(call from,$i) >$(call place,$i)$(newline)	)
	@$(SAY) "install: Python package into $(DESTDIR)$(PREFIX)/share/warm/python"
	$(foreach i,$(INSTALLED_PYTHON),@install -D -m 644 $(call from,$i) $(call place,$i)$(newline)	)
	@$(SAY) "install: completions for bash, zsh and fish"
	$(foreach i,$(COMPLETIONS),@install -D -m 644 /dev/null $(call place,$i) && \
	    $(B)/bin/warm completion $(call from,$i) >$(call place,$i) || rm $(call place,$i)$(newline)	)
	$(call for_system,@[ -e $(DESTDIR)$(CONF) ] || { $(SAY) "install: settings into $(DESTDIR)$(CONF)" && \
	    install -D -m 644 systemd/warmd.conf $(DESTDIR)$(CONF); })
	$(if $(DESTDIR),,$(if $(filter /usr/% /lib%,$(LIBDIR)),-@ldconfig 2>/dev/null))
	$(if $(DESTDIR),,@$(SAY) "install: done. Next: $(NEXT)")
# What a person does after an installation: PATH has the folder below the home folder only in some systems.
in_path = $(filter $(BINDIR),$(subst :, ,$(PATH)))
NEXT = $(if $(in_path),,put $(BINDIR) into PATH$(comma) then )\`warm doctor\`$(comma) and \`warm run PROGRAM\`$(if $(filter /usr/%,$(LIBDIR)),. \
    A daemon for all users: \`systemctl enable --now warmd.socket\`)
comma = ,

# A wheel for pip, for every x86-64 Linux with glibc 2.17 or newer.
#: make wheel         build/wheel/*.whl for pip
.PHONY: wheel
wheel: setup
	@./setup.sh python3-venv
	@packaging/wheel.sh $(B)

# Debian packages, for the release on which they are built and later ones.
#: make deb           build/deb/*.deb: warm, libwarm0, libwarm-dev
.PHONY: deb
deb: setup
	@./setup.sh build-essential debhelper lintian
	@packaging/deb.sh $(B)

# RPM packages, for x86-64 distributions with glibc 2.17 or newer.
#: make rpm           build/rpm/*.rpm: warm, warm-libs, warm-devel
.PHONY: rpm
rpm: setup
	@./setup.sh python3-venv rpm
	@packaging/rpm.sh $(B)

# Installs wheel and packages in bare Debian roots and builds a program there. Needs root. The first
# run downloads the roots.
RELEASES     = bullseye bookworm trixie
DEB_RELEASES = bookworm trixie
RPM_RELEASES = bookworm
PREFIX_RELEASES = bookworm
#: make test-install  try the wheel and the packages in bare Debian roots
.PHONY: test-install test-wheel test-deb test-rpm test-prefix
test-install: test-wheel test-deb test-rpm test-prefix
test-wheel: wheel
	PATH=$(abspath $(B))/portable/venv/bin:$$PATH tests/install/wheel.sh $(B)/wheel/*.whl $(RELEASES)
test-deb: deb
	tests/install/deb.sh $(B)/deb $(DEB_RELEASES)
test-rpm: rpm
	tests/install/rpm.sh $(B)/rpm $(RPM_RELEASES)
test-prefix:
	tests/install/prefix.sh $(PREFIX_RELEASES)

# Leaves the configuration and the store.
uninstall:
	rm -f $(foreach i,$(BUILT_PROGRAMS) $(BUILT_LIBRARIES) $(INSTALLED_AS_IS) $(INSTALLED_FILLED) \
	    $(INSTALLED_PYTHON) $(COMPLETIONS),$(call place,$i)) $(DESTDIR)$(LIBDIR)/libwarm.so

#: make check-layers  check that includes follow the order of the folders, and names of modules
.PHONY: check-layers
check-layers:
	@mkdir -p $(B); n=0; for folder in $(LAYERS); do n=$$((n + 1)); echo "$$folder $$n"; done >$(B)/layers
	@git ls-files 'keygen/*.[ch]' 'store/*.[ch]' 'client/*.[ch]' 'tier/*.[ch]' 'daemon/*.[ch]' 'kernels/*.[ch]' | \
	    xargs grep -no '^#include "[a-z].*"' | awk -F: -v layers=$(B)/layers ' \
	        function folder(path) { sub("/[^/]*$$", "", path); return path } \
	        BEGIN { while ((getline line <layers) > 0) { split(line, f, " "); layer[f[1]] = f[2] } } \
	        { split($$3, q, "\""); to = folder(q[2]); from = folder($$1) } \
	        !(from in layer) { print $$1 ": its folder is not in LAYERS of the Makefile"; bad = 1; next } \
	        !(to in layer) || layer[to] > layer[from] { \
	            print $$1 ":" $$2 ": includes " q[2] ", which is in a higher layer"; bad = 1 } \
	        END { exit bad }'
	@for program in "$(IN_WARM)" "$(IN_WARMD)" "$(IN_WORKER)" "$(IN_PRELOAD)"; do \
	    twice=$$(printf '%s\n' $$program | sed 's|.*/||' | sort | uniq -d); \
	    [ -z "$$twice" ] || { echo "two modules of one name in one program:" $$twice; exit 1; }; \
	done
# The modules of each program, but for its main.c.
modules    = $(filter-out %/main.c,$(call src,$(KEYGEN_DIRS) $(LIBWARM_DIRS) $(1)))
IN_WARM    = $(call modules,$(CLI_DIRS) client/tool $(GRAPH_DIRS) tier)
IN_WARMD   = $(call modules,$(DAEMON_DIRS) $(STORE_DIRS) tier)
IN_WORKER  = $(call modules,$(WORKER_DIRS))
IN_PRELOAD = $(call modules,$(PRELOAD_DIRS))

#: make check-circles check that no files of one folder call one another in a circle
.PHONY: check-circles
check-circles: all
	@python3 tests/circles.py $(B)/obj

#: make check-style   check figures of style, which must not get worse
.PHONY: check-style
check-style: setup
	@python3 tests/style.py

#: make format        format all sources; check-format only checks them
FORMATTED = $(shell git ls-files '*.c' '*.h')
CLANG_FORMAT = clang-format-14
.PHONY: format check-format
format: setup-format
	@$(CLANG_FORMAT) -i $(FORMATTED)
check-format: setup-format
	@$(CLANG_FORMAT) --dry-run --Werror $(FORMATTED)

-include $(shell find $(B)/obj $(B)/fuzz/obj -name '*.d' 2>/dev/null)
