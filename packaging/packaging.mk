# SPDX-License-Identifier: Apache-2.0
# Wheel, Debian and RPM packages, and whether they install. The Makefile includes this.

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

#: make check-glibc   check which glibc the preloaded libraries need
.PHONY: check-glibc
check-glibc: $(LOADED)
	@for library in $(LOADED); do \
	    objdump -T $$library | sed -n 's/.*(\{0,1\}GLIBC_\([0-9.]*\))\{0,1\} *\(.*\)/\1 \2/p' | sort -V | \
	    awk -v most=$(OLDEST_GLIBC) -v library=$$library '{ split($$1, v, "."); split(most, m, ".") } \
	        v[1] > m[1] || (v[1] == m[1] && v[2] + 0 > m[2] + 0) { print library ": wants " $$2 " of glibc " $$1; bad = 1 } \
	        END { exit bad }' || exit; \
	done
