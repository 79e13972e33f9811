# SPDX-License-Identifier: Apache-2.0
# Wheel, Debian and RPM packages, and whether they install. The Makefile includes this.

# `make wheel deb rpm ARCH=aarch64` builds for another architecture: wheel and RPMs with zig, Debian packages with Debian's
# cross compiler, both with Debian's libraries of that architecture.
ARCH     = $(shell uname -m)
DEB_ARCH = $(if $(filter aarch64,$(ARCH)),arm64,amd64)
CROSS    = $(filter-out $(shell uname -m),$(ARCH))
FOREIGN  = $(if $(CROSS),crossbuild-essential-$(DEB_ARCH) $(patsubst %,%:$(DEB_ARCH),$(filter-out gcc,$(PACKAGES_BUILD))))
PACKAGES_wheel = python3-venv $(FOREIGN)
PACKAGES_deb   = build-essential debhelper lintian $(FOREIGN)
# pkgconf: rpmbuild asks it what a .pc file needs and provides, and says nothing without it.
PACKAGES_rpm   = python3-venv rpm pkgconf $(FOREIGN)

# They share folders of $(B): under `make -j` one waits for the other.
PACK = @mkdir -p $(B) && flock $(B)/packing packaging

# A wheel for pip, for every Linux with glibc 2.17 or newer.
#: make wheel         build/wheel/*.whl for pip
.PHONY: wheel
wheel: setup
	@./setup.sh $(PACKAGES_wheel)
	$(PACK)/wheel.sh $(B) $(ARCH)

# Debian packages, for the release on which they are built and later ones.
#: make deb           build/deb/*.deb: warm, libwarm0, libwarm-dev
.PHONY: deb
deb: setup
	@./setup.sh $(PACKAGES_deb)
	$(PACK)/deb.sh $(B) $(DEB_ARCH)

# RPM packages, for distributions with glibc 2.17 or newer.
#: make rpm           build/rpm/*.rpm: warm, warm-libs, warm-devel
.PHONY: rpm
rpm: setup
	@./setup.sh $(PACKAGES_rpm)
	$(PACK)/rpm.sh $(B) $(ARCH)

# Installs wheel and packages in bare Debian roots and builds a program there. Needs root. The first
# run downloads the roots. With ARCH=aarch64 under qemu-user, slowly: DEB_RELEASES=bookworm, or one target alone.
RELEASES     = bullseye bookworm trixie
DEB_RELEASES = bookworm trixie
RPM_RELEASES = bookworm
PREFIX_RELEASES = bookworm
IN_ROOTS = $(if $(CROSS),ROOT_ARCH=$(DEB_ARCH))
#: make test-install  try the wheel and the packages in bare Debian roots
.PHONY: test-install test-wheel test-deb test-rpm test-prefix
test-install: test-wheel test-deb test-rpm test-prefix
test-wheel: wheel
	PATH=$(abspath $(B))/portable/venv/bin:$$PATH $(IN_ROOTS) tests/install/wheel.sh $(B)/wheel/*$(ARCH).whl $(RELEASES)
test-deb: deb
	$(IN_ROOTS) tests/install/deb.sh $(B)/deb $(DEB_RELEASES)
test-rpm: rpm
	$(IN_ROOTS) tests/install/rpm.sh $(B)/rpm $(RPM_RELEASES)
test-prefix:
	$(IN_ROOTS) tests/install/prefix.sh $(PREFIX_RELEASES)

#: make check-glibc   check which glibc the preloaded libraries need
.PHONY: check-glibc
check-glibc: $(LOADED)
	@for library in $(LOADED); do \
	    $(if $(CROSS),$(ARCH)-linux-gnu-)objdump -T $$library | sed -n 's/.*(\{0,1\}GLIBC_\([0-9.]*\))\{0,1\} *\(.*\)/\1 \2/p' | sort -V | \
	    awk -v most=$(OLDEST_GLIBC) -v library=$$library '{ split($$1, v, "."); split(most, m, ".") } \
	        v[1] > m[1] || (v[1] == m[1] && v[2] + 0 > m[2] + 0) { print library ": wants " $$2 " of glibc " $$1; bad = 1 } \
	        END { exit bad }' || exit; \
	done

# Everything that a release consists of, for both architectures: docs/releasing.md.
ARCHES = x86_64 aarch64
#: make release       build/release: packages, sources, SHA256SUMS (KEY=FILE signs them with an SSH key)
.PHONY: release setup-release test-release test-upgrade
release:
	@for arch in $(ARCHES); do $(MAKE) wheel deb rpm ARCH=$$arch || exit; done
	@packaging/release.sh $(B) $(KEY)
setup-release: setup
	@./setup.sh $(PACKAGES_wheel) $(PACKAGES_deb) $(PACKAGES_rpm)
# Two users build it in two folders, at two times. Needs root. ARCHES=aarch64: for that architecture alone.
test-release:
	tests/install/release.sh $(ARCHES)
# From the packages of the previous release in the folder PREVIOUS to those in build/. Needs root. With ARCH=aarch64 under
# qemu-user.
#: make test-upgrade  PREVIOUS=FOLDER of older packages: upgrade and downgrade in bare roots
test-upgrade: wheel deb rpm
	$(IN_ROOTS) tests/install/upgrade.sh $(PREVIOUS) $(B)
