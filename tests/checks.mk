# SPDX-License-Identifier: Apache-2.0
# Layout, layers and style of the sources, and what runs at night. The Makefile includes this.

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

# The keys and canonical texts that the tests expect, after the rule of a key has changed.
#: make goldens       write tests/data/golden anew; `git diff` then shows what a rule does
.PHONY: goldens
goldens: $(B)/tests/all
	WARM_GOLDENS=1 $(B)/tests/all --filter '*/*golden*'

#: make format        format all sources; check-format only checks them
FORMATTED = $(shell git ls-files '*.c' '*.h')
CLANG_FORMAT = clang-format-14
.PHONY: format check-format
format: setup-format
	@$(CLANG_FORMAT) -i $(FORMATTED)
check-format: setup-format
	@$(CLANG_FORMAT) --dry-run --Werror $(FORMATTED)

# The checks that .ci/run leaves out. Those that find most faults come first.
#: make nightly       everything else: all suites under sanitizers, proofs, packages, all clients, benchmarks
.PHONY: nightly
nightly:
	$(MAKE) asan
	$(MAKE) tsan
	$(MAKE) test-clients
	$(MAKE) siege SIEGE_SECONDS=600
	$(MAKE) test TESTS='sums/*' WARM_SUMS=28
	$(MAKE) proof power-loss test-codegen proof-torch PROOF_TORCH=500
	$(MAKE) check-glibc wheel deb rpm test-pages test-arm64
	$(MAKE) bench BENCH_ROUNDS=1

# The suites that run in a minute or two there: all tests would take hours. ARM64_ROOT names a root that is there already.
#: make test-arm64    run SUITES under qemu-user in a bare arm64 root, and compare all keys (needs root)
.PHONY: test-arm64 test-pages
SUITES = @(key|canon*|domains|cuda*|mlir*|hlo*|ptx*|graph_key|wire*|store|change|redis_set|resp|tool_cpu|sandbox|request|lease)/*
test-arm64:
	@tests/arm64.sh $(B)/arm64 '$(SUITES)' $(PACKAGES_test)

#: make test-arm64-keys run the suites of keys and wire under qemu-user, and compare all keys; skips if the machine lacks a part
.PHONY: test-arm64-keys
test-arm64-keys:
	@tests/arm64_keys.sh $(B)

# The store on kernels with larger pages. `make test` runs a sample.
#: make test-pages    all suites of the store, as on kernels with pages of 16 and 32 KiB
test-pages: setup-test
	$(MAKE) B=$(B) $(B)/tests/all
	for page in 16384 32768; do WARM_TEST_PAGE=$$page $(B)/tests/all --filter '@(change|store*|blob|power_loss)/*' || exit; done
