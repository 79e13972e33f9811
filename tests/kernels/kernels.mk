# SPDX-License-Identifier: Apache-2.0
# What the suites of this folder link, and programs that they run. The Makefile includes this.

# The kernels for the tests, by the host's C++ compiler and without its library.
C_ONLY = -Wstrict-prototypes -Wmissing-prototypes
$(B)/obj/tests/kernels/cuda_on_cpu.o: tests/kernels/cuda_on_cpu.cpp
	$(Q) $(CXX) $(OUR_CPP) $(CPPFLAGS) $(filter-out $(C_ONLY),$(OUR_C)) $(CFLAGS) -std=c++17 -fno-exceptions -fno-rtti \
	    -Wno-unknown-pragmas -MMD -MP -c -o $@ $<

# What the suites share, and the compiler that they try.
KERNEL_SUITES  = $(patsubst tests/kernels/%.c,$(B)/tests/%,$(wildcard tests/kernels/test_*.c))
KERNELS_ON_CPU = $(B)/obj/tests/kernels/cuda_on_cpu.o $(filter-out %/main.o,$(call obj,tests/demo))
$(B)/obj/tests/kernels.a: $(filter-out $(B)/obj/tests/kernels/test_%,$(call obj,tests/kernels)) $(KERNELS_ON_CPU)
	$(Q) rm -f $@; $(AR) rcs $@ $^
$(B)/tests/all: $(KERNELS_ON_CPU)
$(KERNEL_SUITES): $(B)/obj/tests/kernels.a
$(B)/tests/all $(KERNEL_SUITES): $(EXEC) $(GRAPH) $(KEYGEN)
$(B)/tests/all $(B)/tests/test_plan_memory: | $(B)/bin/plan_memory

# Plans graphs with allocations that fail.
$(B)/bin/plan_memory: $(B)/obj/tests/programs/plan_memory.o $(GRAPH) $(KEYGEN)
	$(Q) $(LINK) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc -o $@ $^ -lm $(CRYPTO)
