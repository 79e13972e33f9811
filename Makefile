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

# Fuzz targets: $(B)/fuzz/NAME from tests/fuzz/NAME.c, with clang's libFuzzer.
FUZZ_FLAGS = -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
$(B)/fuzz/%: tests/fuzz/%.c $(wildcard keygen/*.[ch] store/*.[ch] client/*.[ch] tests/fuzz/*.h)
	@mkdir -p $(@D)
	clang $(CPPFLAGS) -std=c11 $(FUZZ_FLAGS) -o $@ $< $(wildcard keygen/*.c client/*.c) $(CRYPTO)

# The CUDA toolchain: fetched once, only for what needs it (the demo, the tests); a run that finds it
# complete takes some milliseconds. Only kernels/ sees cuda.h.
.PHONY: toolchain
toolchain:
	@kernels/toolchain.sh $(B)/toolchain
$(call obj,kernels): | toolchain
$(call obj,kernels): CPPFLAGS += -isystem $(B)/toolchain/13.5.37/include

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
