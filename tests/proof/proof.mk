# SPDX-License-Identifier: Apache-2.0
# What looks for wrong answers at length. The Makefile includes this.

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
	$(Q) $(LINK) -o $@ $^ -lcriterion -ldl $(CRYPTO)
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
proof-torch: setup-clients all
	venv=$$(tests/clients/venv.sh tests/clients/torch.txt) && \
	    WARM_EXE=$(abspath $(B)/bin/warm) $$venv/bin/python tests/proof/torch/mutations.py --cases $(PROOF_TORCH) --python client/python
proof-compiler: setup-clients toolchain
	$(MAKE) B=$(B) $(B)/proof/compiler
	venv=$$(tests/clients/venv.sh tests/proof/ptxas.txt) && \
	    $(B)/proof/compiler --cases $(PROOF_CASES) --compiles $(PROOF_COMPILES) \
	    --nvrtc $(wildcard $(TOOLCHAIN)/12.9.86/lib/libnvrtc-builtins.so.*),$(TOOLCHAIN)/12.9.86/lib/libnvrtc.so.12 \
	    --nvrtc $(wildcard $(TOOLCHAIN)/13.5.37/lib/libnvrtc-builtins.so.*),$(TOOLCHAIN)/13.5.37/lib/libnvrtc.so.13 \
	    --ptxas $$(echo $$venv/$(PTXAS)) $(PROVEN_CUDA)

# Compiles every generated kernel by both NVRTCs for each architecture, takes out the barriers of each graph without
# run-time indices, and runs each graph; flips more bytes of a store. `make test` has samples.
#: make test-codegen  every generated kernel compiles without a spill; barriers are needed; all graphs run
.PHONY: test-codegen
test-codegen: setup-test toolchain
	$(MAKE) B=$(B) $(B)/tests/all
	WARM_TEST_ALL=1 WARM_TOOLCHAIN=$(abspath $(TOOLCHAIN)) $(B)/tests/all --filter 'codegen/both*'
	WARM_TEST_ALL=1 $(B)/tests/all --filter '@(barriers|exec|graph_bundle|store_corruption)/*'

# Checks the store after a power failure in each of 10 000 states. `make test` tries a sample.
#: make power-loss    check the store after a power failure, in 10 000 states
.PHONY: power-loss
POWER_STATES = 10000
power-loss: setup-test
	$(MAKE) B=$(B) $(B)/tests/test_power_loss
	WARM_POWER_STATES=$(POWER_STATES) $(B)/tests/test_power_loss

# Hostile users against a well-behaved one, for an hour; `make nightly` has ten minutes of it.
.PHONY: siege
SIEGE_SECONDS = 3600
$(B)/siege/siege: $(call obj,tests/siege) $(TEST_SUPPORT) $(DAEMON) $(CLIENT)
	$(Q) $(LINK) -o $@ $^ -lcriterion -ldl $(CRYPTO)
siege: setup-test toolchain
	$(MAKE) B=$(B) all $(B)/siege/siege
	WARM_TOOLCHAIN=$(abspath $(TOOLCHAIN)) $(B)/siege/siege --seconds $(SIEGE_SECONDS) || \
	    [ $$? = 77 ] # it has said that it needs root
