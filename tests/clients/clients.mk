# SPDX-License-Identifier: Apache-2.0
# Programs of others, and the first run on a GPU. The Makefile includes this.

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
