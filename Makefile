# SPDX-License-Identifier: Apache-2.0
# Builds everything into $(B). `make help` lists the targets. Rules for packages, clients, proofs and
# benchmarks are in the *.mk files of packaging/ and tests/.
B        ?= build
PREFIX   ?= /usr/local
CC       ?= cc
CFLAGS   ?= -O2 -g
SAN      ?=
WERROR   ?= -Werror

# CPPFLAGS, CFLAGS and LDFLAGS are the user's, and come last. These are ours.
WARNINGS  = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual $(WERROR)
OUR_CPP   = -I. -I$(B)/include -D_GNU_SOURCE
OUR_C     = $(WARNINGS) $(SAN) -fPIC -fno-omit-frame-pointer -fvisibility=default
COMPILE   = $(CC) $(OUR_CPP) $(CPPFLAGS) -std=c11 $(OUR_C) $(CFLAGS) $(FASTER)
LINK      = $(CC) $(SAN) -pthread -Wl,--build-id=sha1 $(LDFLAGS)

# Archives, so that programs start sooner and run where the libraries are not installed. Systems without an archive
# give the shared library. $(call links,FLAGS): non-empty if a program can be linked with FLAGS.
links     = $(shell mkdir -p $(B); echo 'int main(void) { return 0; }' | \
                $(LINK) -x c -o $(B)/links - $(1) 2>/dev/null && echo yes)
archive   = $(foreach l,$(1),$(if $(call links,-l:lib$l.a),-l:lib$l.a,-l$l))
once      = $(eval $(1) := $(2))$($(1))
# SHA-256, from libcrypto.
CRYPTO    = $(call once,CRYPTO,$(call archive,crypto))
# Ed25519 signs the entries of the tier. EVP of libcrypto would add 3.8 MB to a static program (2026-11-24).
SIGNING   = $(call once,SIGNING,$(call archive,sodium))
# TLS for warm-tier alone, as shared libraries. It loads libcurl at run time, so a build needs only the header.
NETWORK   = -ldl -lssl -lcrypto
# The compression of the frameworks' caches, and of values of the tier.
ZSTD      = $(call once,ZSTD,$(call archive,zstd))
PACKED    = $(call once,PACKED,$(call archive,z) $(ZSTD))
# The screen of `warm top`.
CURSES    = $(call once,CURSES,$(call archive,ncursesw tinfo))
# `warm` is static: it starts in less time than a dynamic program takes to load. Sanitizers need it dynamic.
STATIC    = $(call once,STATIC,$(if $(SAN),,$(if $(call links,-static $(CRYPTO) $(SIGNING) $(PACKED) $(CURSES)),-static)))

# The sources and the objects of some folders.
src = $(foreach folder,$(1),$(wildcard $(folder)/*.c))
obj = $(patsubst %.c,$(B)/obj/%.o,$(call src,$(1)))

# Folders from the lowest layer up: a file includes headers of its own folder and of those before it.
# `make check-layers` checks every file.
KEYGEN_DIRS  = keygen $(addprefix keygen/,canon graph mlir bytecode ptx cuda)
GRAPH_DIRS   = $(addprefix kernels/,program vjp codegen bundle)
EXEC_DIRS    = kernels/eval kernels/exec
STORE_DIRS   = store
LIBWARM_DIRS = $(addprefix client/,wire lib exec)
# Of kernels/exec, what runs a bundle: the rest is warm-exec's.
RUN_OBJECTS  = $(addprefix $(B)/obj/kernels/,exec/driver.o exec/exec.o exec/cpu.o eval/eval.o)
TOOL_DIRS    = client/trace client/tool
WALK_DIRS    = client/walk
CLI_DIRS     = client/cli $(addprefix client/cli/,import run top report commands)
PRELOAD_DIRS = client/preload $(addprefix client/preload/,nvrtc nvjitlink nvvm driver pjrt mlir)
TIER_DIRS    = tier tier/backends
WORKER_DIRS  = daemon/worker
DAEMON_DIRS  = $(addprefix daemon/,process users history compiler tier nodes headers service pytorch net native redis http)
TEST_DIRS    = $(addprefix tests/,support keygen store client preload tool cli daemon tier install kernels)
LAYERS       = $(KEYGEN_DIRS) $(GRAPH_DIRS) $(EXEC_DIRS) $(STORE_DIRS) $(LIBWARM_DIRS) $(TIER_DIRS) $(PRELOAD_DIRS) $(TOOL_DIRS) $(WALK_DIRS) $(CLI_DIRS) \
    $(WORKER_DIRS) $(DAEMON_DIRS) daemon

KEYGEN  = $(B)/obj/keygen.a
STORE   = $(B)/obj/store.a
CLIENT  = $(B)/lib/libwarm.a
DAEMON  = $(B)/obj/daemon.a
TIER    = $(B)/obj/tier.a
GRAPH   = $(B)/obj/graph.a
EXEC    = $(B)/obj/exec.a

# The libraries that are loaded into other programs are never built with a sanitizer.
LOADED   = $(if $(SAN),,$(B)/lib/libwarm-preload.so $(addprefix $(B)/libexec/warm/libwarm-,trace.so python.so))
PROGRAMS = $(B)/bin/warm $(B)/bin/warmd $(addprefix $(B)/libexec/warm/warm-,nvrtc tier exec) \
    $(B)/lib/libwarm.a $(B)/lib/libwarm.so $(LOADED) $(B)/share/warm/python

# Each rule says what it makes. `make V=1` prints the command instead, `make -s` nothing.
SAY = $(if $(findstring s,$(firstword -$(MAKEFLAGS))),:,echo)
Q   = @mkdir -p $(@D); $(if $(V),set -x,$(SAY) "$(if $(filter %.o,$@),cc ,link) $@");

.PHONY: all help
all: $(PROGRAMS)

#: make               build into build/
#: make help          this list
help:
	@sed -n 's/^#: //p' Makefile $(PARTS)

# Each compile of a user's program makes a key, so the functions of keygen/ are worth inlining.
$(call obj,$(KEYGEN_DIRS)): FASTER = $(if $(filter -O2,$(CFLAGS)),-O3)
$(B)/obj/%.o: %.c | $(B)/libraries $(B)/include/warm_version.h
	$(Q) $(COMPILE) -MMD -MP -c -o $@ $<

# The version has the commit, so each make looks whether it changed.
VERSION = $(call once,VERSION,$(shell packaging/version.sh))
$(B)/include/warm_version.h: FORCE
	@mkdir -p $(@D)
	@echo '#define WARM_VERSION "$(VERSION)"' | cmp -s - $@ || echo '#define WARM_VERSION "$(VERSION)"' >$@
.PHONY: FORCE
FORCE:

# The program contains the text of the template.
$(B)/obj/kernels/codegen/tiled.o $(B)/fuzz/obj/kernels/codegen/tiled.o: kernels/codegen/tiled_product.cu

$(KEYGEN): $(call obj,$(KEYGEN_DIRS))
$(STORE): $(call obj,$(STORE_DIRS))
$(DAEMON): $(call obj,$(DAEMON_DIRS)) $(B)/obj/daemon/worker/line_digests.o
$(CLIENT): $(call obj,$(LIBWARM_DIRS) $(GRAPH_DIRS) $(KEYGEN_DIRS)) $(RUN_OBJECTS)
$(GRAPH): $(call obj,$(GRAPH_DIRS))
$(EXEC): $(filter-out $(B)/obj/kernels/exec/main.o,$(call obj,$(EXEC_DIRS)))
$(TIER): $(filter-out $(B)/obj/tier/main.o,$(call obj,$(TIER_DIRS)))
$(KEYGEN) $(STORE) $(DAEMON) $(TIER) $(GRAPH) $(EXEC) $(CLIENT) $(B)/obj/command.a $(B)/obj/preload.a $(B)/obj/tests/support.a:
	$(Q) rm -f $@; $(AR) rcs $@ $^

$(B)/lib/libwarm.so: $(call obj,$(LIBWARM_DIRS) $(GRAPH_DIRS) $(KEYGEN_DIRS)) $(RUN_OBJECTS)
	$(Q) $(LINK) -shared -Wl,-soname,libwarm.so.0 -Wl,--version-script,client/lib/libwarm.map -o $@ $^ -ldl -lm $(CRYPTO)

# Libraries that are loaded into other programs run with every glibc since 2.17, where dlopen is in
# libdl (client/preload/old_glibc.h). `make check-glibc` fails if they need a newer symbol.
OLDEST_GLIBC = 2.17
OLD_LIBDL    = -Wl,--no-as-needed -l:libdl.so.2 -Wl,--as-needed
# In every program that `warm run` starts. It exports only the functions that it replaces.
$(B)/lib/libwarm-preload.so: $(call obj,$(PRELOAD_DIRS)) $(CLIENT) client/preload/preload.map
	$(Q) $(LINK) -shared -Wl,-soname,libwarm-preload.so -Wl,-Bsymbolic -Wl,--exclude-libs,ALL \
	    -Wl,--version-script,client/preload/preload.map -o $@ $(filter %.o %.a,$^) $(OLD_LIBDL) $(CRYPTO)
# In the compilers that `warm tool` starts on a miss. It logs the files that they look for.
$(B)/libexec/warm/libwarm-trace.so: $(call obj,client/trace)
	$(Q) $(LINK) -shared -Wl,-soname,libwarm-trace.so -o $@ $^ $(OLD_LIBDL)

# In programs that use PyTorch. It calls functions of the Python that loads it.
$(B)/libexec/warm/libwarm-python.so: $(call obj,$(WALK_DIRS))
	$(Q) $(LINK) -shared -Wl,-soname,libwarm-python.so -Wl,-Bsymbolic -Wl,--exclude-libs,ALL -Wl,-z,undefs -o $@ $^ $(CRYPTO)

# `warm run` looks for the Python package where it will be installed.
$(B)/share/warm/python:
	@mkdir -p $(@D)
	@ln -sfn $(abspath client/python) $@

$(B)/bin/warm: $(call obj,$(CLI_DIRS) client/tool) $(TIER) $(CLIENT)
	$(Q) $(LINK) $(STATIC) -o $@ $^ $(CRYPTO) $(SIGNING) $(PACKED) $(CURSES)

$(B)/bin/warmd: $(B)/obj/daemon/main.o $(DAEMON) $(TIER) $(STORE) $(CLIENT)
	$(Q) $(LINK) -o $@ $^ -luv -llmdb $(CRYPTO) $(SIGNING)

# -rdynamic: NVRTC's open, fopen and stat must bind to the worker's own.
$(B)/libexec/warm/warm-nvrtc: $(call obj,$(WORKER_DIRS)) $(CLIENT)
	$(Q) $(LINK) -rdynamic -o $@ $^ -ldl $(CRYPTO)

$(B)/libexec/warm/warm-tier: $(B)/obj/tier/main.o $(TIER) $(CLIENT)
	$(Q) $(LINK) -o $@ $^ -luv $(NETWORK) $(ZSTD)

# Runs a compiled graph on a GPU: dynamic, so that it can load the driver.
$(B)/libexec/warm/warm-exec: $(B)/obj/kernels/exec/main.o $(EXEC) $(GRAPH) $(KEYGEN)
	$(Q) $(LINK) -o $@ $^ -ldl -lm $(CRYPTO)

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
	$(Q) $(LINK) -o $@ $^ -lcriterion -luv -llmdb -ldl -lm $(NETWORK) $(SIGNING) $(PACKED)
.SECONDEXPANSION:
$(B)/tests/test_%: $$(call obj_of_suite,$$*) $(FINI) $(TEST_SUPPORT) $(TEST_LIBS)
	$(Q) $(LINK) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -lcriterion -luv -llmdb -ldl -lm $(NETWORK) $(SIGNING) $(PACKED)

#: make test          install missing packages and run all tests
#: make list-tests    their names, SUITE/TEST; `make test TESTS='redis/*'` runs some
.PHONY: test test-run list-tests
test: setup-test toolchain
	$(MAKE) B=$(B) test-run
test-run: all $(B)/tests/all
	WARM_TOOLCHAIN=$(abspath $(TOOLCHAIN)) $(B)/tests/all -j$$(($$(nproc) + 1)) $(if $(TESTS),--filter '$(TESTS)') $(TEST_FLAGS)
list-tests: $(B)/tests/all
	@$(B)/tests/all --list | awk '/^[a-z]/ { suite = $$1; sub(":$$", "", suite) } /── / { print suite "/" $$2 }'

# The CUDA toolchain, fetched once, and only for the demo and the tests, with pip, which setup installs. If it is
# complete, the script takes some milliseconds.
TOOLCHAIN = $(B)/toolchain
.PHONY: toolchain
toolchain: setup
	@kernels/toolchain.sh $(TOOLCHAIN)
$(B)/bin/warm-kernels: $(call obj,tests/demo) $(EXEC) $(KEYGEN)
	$(Q) $(LINK) -o $@ $^ -ldl -lm

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
SYSTEMDDIR = $(PREFIX)/lib/systemd
USERUNITS  = $(if $(FOR_USER),$(PREFIX)/share/systemd/user,$(SYSTEMDDIR)/user)
for_system = $(if $(FOR_USER),,$(1))
FILLED     = sed -e 's|@bindir@|$(BINDIR)|g' -e 's|@sysconfdir@|$(SYSCONFDIR)|g' \
                 -e 's|@prefix@|$(PREFIX)|g' -e 's|@libdir@|$(LIBDIR)|g' -e 's|@version@|$(VERSION)|g' \
                 -e "s|0+source|$$(packaging/version.sh wheel)|"
# FILE=PLACE: files of the source tree, installed as they are, or with the paths filled in
INSTALLED_AS_IS  = client/lib/warm.h=$(PREFIX)/include/warm.h \
    systemd/user/warmd.socket=$(USERUNITS)/warmd.socket \
    $(call for_system,systemd/warmd.socket=$(SYSTEMDDIR)/system/warmd.socket \
        systemd/warmd-admin.socket=$(SYSTEMDDIR)/system/warmd-admin.socket \
        systemd/warm-tier.socket=$(SYSTEMDDIR)/system/warm-tier.socket \
        systemd/warm.sysusers=$(PREFIX)/lib/sysusers.d/warm.conf \
        systemd/warm.tmpfiles=$(PREFIX)/lib/tmpfiles.d/warm.conf) \
    $(foreach page,$(wildcard client/man/*.1),$(page)=$(MANDIR)/man1/$(notdir $(page))) \
    systemd/man/warmd.conf.5=$(MANDIR)/man5/warmd.conf.5 \
    client/man/warm-reactant.7=$(MANDIR)/man7/warm-reactant.7 \
    systemd/man/warmd.8=$(MANDIR)/man8/warmd.8
INSTALLED_FILLED = client/lib/warm.pc=$(LIBDIR)/pkgconfig/warm.pc \
    $(call for_system,systemd/warmd.service=$(SYSTEMDDIR)/system/warmd.service \
        systemd/warm-tier@.service=$(SYSTEMDDIR)/system/warm-tier@.service) \
    systemd/user/warmd.service=$(USERUNITS)/warmd.service \
    $(call into_python,$(PYTHON_FILLED))
BUILT_PROGRAMS   = $(B)/bin/warm=$(BINDIR)/warm $(B)/bin/warmd=$(BINDIR)/warmd \
    $(foreach helper,$(addprefix libexec/warm/warm-,nvrtc tier exec),$(B)/$(helper)=$(PREFIX)/$(helper))
BUILT_LIBRARIES  = $(B)/lib/libwarm.a=$(LIBDIR)/libwarm.a $(B)/lib/libwarm.so=$(LIBDIR)/libwarm.so.0 \
    $(foreach library,$(if $(LOADED),$(shell ls $(LOADED) 2>/dev/null)),$(library)=$(PREFIX)$(library:$(B)%=%))
PYTHON_FILES     = $(shell cd client/python && find * -type f ! -name '*.pyc' ! -name pyproject.toml ! -name README.md)
INSTALLED_PYTHON = $(call into_python,$(filter-out $(PYTHON_FILLED),$(PYTHON_FILES)))
# These state the version, in the form of Python's packages.
PYTHON_FILLED    = warm/_version.py warm_cache.dist-info/METADATA
into_python      = $(foreach file,$(1),client/python/$(file)=$(PREFIX)/share/warm/python/$(file))
COMPLETIONS      = bash=$(PREFIX)/share/bash-completion/completions/warm \
    zsh=$(PREFIX)/share/zsh/site-functions/_warm fish=$(PREFIX)/share/fish/vendor_completions.d/warm.fish
CONF             = $(SYSCONFDIR)/warm/warmd.conf
from  = $(firstword $(subst =, ,$(1)))
place = $(DESTDIR)$(word 2,$(subst =, ,$(1)))
copy  = $(foreach i,$(2),@install -D -m $(1) $(call from,$i) $(call place,$i)$(newline)	)
# Installs what a command writes: $(call write,FILE=PLACE,COMMAND)
write = @install -D -m 644 /dev/null $(call place,$(1)) && $(2) >$(call place,$(1))
define newline


endef

#: make install       into PREFIX (/usr/local), or below the home folder without root
.PHONY: install uninstall
install: all
	@$(SAY) "install: programs into $(DESTDIR)$(BINDIR) and $(DESTDIR)$(PREFIX)/libexec/warm"
	$(call copy,755,$(BUILT_PROGRAMS))
	@$(SAY) "install: libraries into $(DESTDIR)$(LIBDIR)"
	$(call copy,644,$(BUILT_LIBRARIES))
	@ln -sf libwarm.so.0 $(DESTDIR)$(LIBDIR)/libwarm.so
	@$(SAY) "install: header, manual pages and systemd units"
	$(call copy,644,$(INSTALLED_AS_IS))
	$(foreach i,$(INSTALLED_FILLED),$(call write,$i,$(FILLED) $(call from,$i))$(newline)	)
	@$(SAY) "install: Python package into $(DESTDIR)$(PREFIX)/share/warm/python"
	$(call copy,644,$(INSTALLED_PYTHON))
	@$(SAY) "install: completions for bash, zsh and fish"
	$(foreach i,$(COMPLETIONS),$(call write,$i,$(SPEAKS) completion $(call from,$i)) || rm $(call place,$i)$(newline)	)
	$(call for_system,@[ -e $(DESTDIR)$(CONF) ] || { $(SAY) "install: settings into $(DESTDIR)$(CONF)" && \
	    install -D -m 644 systemd/warmd.conf $(DESTDIR)$(CONF); })
	$(if $(DESTDIR),,$(if $(filter /usr/% /lib%,$(LIBDIR)),-@ldconfig 2>/dev/null))
	$(if $(DESTDIR),,@$(SAY) "install: done. Next: $(NEXT)")
# What a person does after an installation: PATH has the folder below the home folder only in some systems.
in_path = $(filter $(BINDIR),$(subst :, ,$(PATH)))
NEXT = $(if $(in_path),,put $(BINDIR) into PATH$(comma) then )\`warm doctor\`$(comma) and \`warm run PROGRAM\`$(if $(filter /usr/%,$(LIBDIR)),. \
    A daemon for all users: \`systemctl enable --now warmd.socket\`)
comma = ,
# The program that prints the completions. A cross build names one that runs here.
SPEAKS = $(B)/bin/warm

# Leaves the configuration and the store. The last two folders are ours alone; Python has written its own files there.
uninstall:
	rm -f $(foreach i,$(BUILT_PROGRAMS) $(BUILT_LIBRARIES) $(INSTALLED_AS_IS) $(INSTALLED_FILLED) \
	    $(INSTALLED_PYTHON) $(COMPLETIONS),$(call place,$i)) $(DESTDIR)$(LIBDIR)/libwarm.so
	rm -rf $(DESTDIR)$(PREFIX)/share/warm $(DESTDIR)$(PREFIX)/libexec/warm

# The rest: libraries and Debian packages, our packages, checks, sanitizers, proofs, programs of others, benchmarks.
PARTS = setup.mk $(wildcard packaging/*.mk tests/*.mk tests/*/*.mk)
include $(PARTS)
-include $(shell find $(B)/obj $(B)/fuzz/obj -name '*.d' 2>/dev/null)
