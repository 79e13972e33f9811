# SPDX-License-Identifier: Apache-2.0
# What a build needs of the system. The Makefile includes this; setup.sh installs.

# Set-up: installs the Debian packages that are missing. make itself is there already.
PACKAGES_BUILD = gcc libc6-dev libuv1-dev liblmdb-dev libxxhash-dev libssl-dev zlib1g-dev libzstd-dev libncurses-dev libsodium-dev libcurl4-openssl-dev
PACKAGES_demo    = $(PACKAGES_BUILD) ca-certificates python3-pip
PACKAGES_test    = $(PACKAGES_demo) curl g++ git musl-tools rpm libcriterion-dev python3-redis python3-prometheus-client redis-server redis-tools nginx-light openssl systemd procps groff-base zstd
PACKAGES_clients = $(PACKAGES_test) python3-venv python3-dev
PACKAGES_fuzz    = $(PACKAGES_test) clang libclang-rt-14-dev
PACKAGES_format  = clang-format-14
#: make setup         install the packages that a build needs
.PHONY: setup setup-demo setup-test setup-clients setup-fuzz setup-format
setup: setup-demo
setup-demo setup-test setup-clients setup-fuzz setup-format: setup-%:
	@./setup.sh $(PACKAGES_$*)

# Looks for the libraries' headers once, and names missing packages in a line, before a compiler prints errors.
LIBRARIES = uv.h=libuv1-dev lmdb.h=liblmdb-dev xxhash.h=libxxhash-dev openssl/sha.h=libssl-dev \
    zlib.h=zlib1g-dev sodium.h=libsodium-dev zstd.h=libzstd-dev curses.h=libncurses-dev \
    curl/curl.h=libcurl4-openssl-dev
$(B)/libraries:
	@missing=; for library in $(LIBRARIES); do \
	    echo "#include <$${library%=*}>" | $(CC) $(CPPFLAGS) $(CFLAGS) -E -x c - >/dev/null 2>&1 || \
	        missing="$$missing $${library#*=}"; \
	done; \
	[ -z "$$missing" ] || { echo "missing packages:$$missing (\`make setup\` installs them)" >&2; exit 1; }
	@mkdir -p $(@D)
	@touch $@
