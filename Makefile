# SPDX-License-Identifier: MIT
#
# Builds libkvswap and its programs into build/ and needs no network for that.
# What may use the network (deps, model, and the two that call them: run, check)
# leaves the work to scripts/.  Kernel module, VM tests and benchmarks come from
# the included targets.mk files.

VERSION := 0.1.0
SOVERSION := 0

CC ?= cc
CXX ?= g++
AR ?= ar
PKG_CONFIG ?= pkg-config
CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= $(PREFIX)/lib
MODEL ?= smollm2-135m

ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := g++
endif
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-5s %s\n' $(1) $(2))

# SAN=address,undefined or SAN=thread builds into a directory of its own.
comma := ,
SAN ?=
B := build$(if $(SAN),-san-$(subst $(comma),-,$(SAN)))
ifneq ($(SAN),)
SAN_FLAGS := -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
endif

# What is outside: ggml and libllama, the libraries of libkvswap.

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kvswap
LLAMA_DIR ?= $(CACHE)/llama-0.3.36
LLAMA_LIB := $(wildcard $(LLAMA_DIR)/lib/lib*.a)
ifneq ($(LLAMA_LIB),)
LLAMA_CFLAGS := -isystem $(LLAMA_DIR)/include
LLAMA_LIBS := -L$(LLAMA_DIR)/lib -Wl,--start-group -lllama -lggml -lggml-cpu -lggml-base \
	-Wl,--end-group -lgomp -lpthread -ldl -lm
else
LLAMA_CFLAGS := $(shell $(PKG_CONFIG) --cflags llama ggml 2>/dev/null)
LLAMA_LIBS := $(shell $(PKG_CONFIG) --libs llama ggml 2>/dev/null)
endif

LIB_PKGS := liburing lapacke openblas libisal blkid
LIB_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(LIB_PKGS) 2>/dev/null)
LIB_LIBS := $(shell $(PKG_CONFIG) --libs $(LIB_PKGS) 2>/dev/null) -lpthread -lm
# kvswapctl builds without any of these and says at run time what is missing.
CTL_PKGS := $(foreach p,libnvme libkmod ncursesw json-c,$(if $(shell $(PKG_CONFIG) --exists $p 2>/dev/null && echo y),$p))
CTL_CFLAGS := $(addprefix -DHAVE_,$(shell echo $(CTL_PKGS) | tr a-z- A-Z_)) \
	$(if $(CTL_PKGS),$(shell $(PKG_CONFIG) --cflags $(CTL_PKGS)))
CTL_LIBS := $(if $(CTL_PKGS),$(shell $(PKG_CONFIG) --libs $(CTL_PKGS)))
CHECK_LIBS = $(shell $(PKG_CONFIG) --libs check 2>/dev/null)

# Flags and sources.

# -std=c11 also keeps the compiler from contracting a * b + c on its own, so the
# portable kernels round alike wherever they are built.
BASE_FLAGS := -std=c11 -D_GNU_SOURCE -DKVSWAP_VERSION='"$(VERSION)"' \
	-Wall -Wextra -Wshadow -Wmissing-prototypes -Iinclude $(SAN_FLAGS)
AVX2_FLAGS := -mavx2 -mfma -mf16c
AVX512_FLAGS := $(AVX2_FLAGS) -mavx512f -mavx512bw -mavx512vl -mavx512dq

MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)
ifneq ($(filter x86_64-%,$(MACHINE)),)
OTHER_KERNELS := lib/kernels/neon%
else ifneq ($(filter aarch64-%,$(MACHINE)),)
OTHER_KERNELS := lib/kernels/avx%
else
OTHER_KERNELS := lib/kernels/neon% lib/kernels/avx%
endif

LIB_SRC := $(filter-out $(OTHER_KERNELS),$(wildcard lib/*.c lib/kernels/*.c))
RUN_SRC := $(wildcard tools/kvswap/*.c)
BENCH_SRC := $(wildcard tools/kvswap-bench/*.c)
CTL_SRC := $(wildcard tools/kvswapctl/*.c)
EXAMPLE_SRC := $(wildcard examples/*.c)
UNIT_SRC := $(wildcard tests/unit/*.c)
COMPARE_SRC := $(wildcard tests/compare/*.c)

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
LIB_OBJ := $(call obj,$(LIB_SRC))
RUN_OBJ := $(call obj,$(RUN_SRC))
BENCH_OBJ := $(call obj,$(BENCH_SRC))
CTL_OBJ := $(call obj,$(CTL_SRC))
EXAMPLE_OBJ := $(call obj,$(EXAMPLE_SRC))
UNIT_OBJ := $(call obj,$(UNIT_SRC))
COMPARE_OBJ := $(call obj,$(COMPARE_SRC))
ALL_OBJ := $(LIB_OBJ) $(RUN_OBJ) $(BENCH_OBJ) $(CTL_OBJ) $(EXAMPLE_OBJ) $(UNIT_OBJ) $(COMPARE_OBJ)

LIBS_OUT := $(B)/libkvswap.so $(B)/libkvswap.a
PROGRAMS := $(if $(RUN_SRC),$(B)/kvswap) $(if $(BENCH_SRC),$(B)/kvswap-bench) \
	$(if $(CTL_SRC),$(B)/kvswapctl) $(if $(EXAMPLE_SRC),$(B)/example)

# What the test scripts call: one program for each file of tests/compare, linked to libllama.
TEST_PROGRAMS := $(patsubst tests/compare/%.c,$(B)/tests/%,$(COMPARE_SRC))

# The included files add theirs: to what tests/run takes, to the lists of packages that deps installs.
CHECK_SCRIPTS := $(filter-out tests/e2e/lib.sh,$(sort $(wildcard tests/e2e/*.sh)))
CHECK_MODELS := smollm2-135m qwen2.5-coder-0.5b
PACKAGE_LISTS :=

.DELETE_ON_ERROR:
.PHONY: all lib deps model run check check-built check-san check-style unit \
	install dist clean have-libs have-llama FORCE

all: $(LIBS_OUT) $(PROGRAMS)
lib: $(LIBS_OUT)
unit: $(B)/tests/unit

-include kmod/targets.mk tests/vm/targets.mk tools/kvswap-bench/targets.mk

# One line instead of a page of compiler errors.

have-libs:
	@$(PKG_CONFIG) --exists $(LIB_PKGS) 2>/dev/null || \
		{ echo 'kvswap: $(LIB_PKGS) not all found by $(PKG_CONFIG): run `make deps`' >&2; exit 1; }

have-llama:
	@test -n '$(strip $(LLAMA_LIBS))' || \
		{ echo 'kvswap: no libllama in $(LLAMA_DIR) or by $(PKG_CONFIG): run `make deps`' >&2; exit 1; }

# Objects.

$(LIB_OBJ): FLAGS = -fPIC -fvisibility=hidden -Ilib $(LIB_CFLAGS) $(KERNEL_FLAGS)
$(B)/obj/lib/kernels/avx2%: KERNEL_FLAGS := $(AVX2_FLAGS)
$(B)/obj/lib/kernels/avx512%: KERNEL_FLAGS := $(AVX512_FLAGS)
$(B)/obj/lib/kernels/avx512vnni%: KERNEL_FLAGS := $(AVX512_FLAGS) -mavx512vnni
$(B)/obj/lib/kernels/avx512bf16%: KERNEL_FLAGS := $(AVX512_FLAGS) -mavx512vnni -mavx512bf16
$(RUN_OBJ) $(BENCH_OBJ) $(COMPARE_OBJ): FLAGS = -Ilib -Itools $(LLAMA_CFLAGS) $(LIB_CFLAGS)
$(CTL_OBJ): FLAGS = -Ilib -Itools $(LLAMA_CFLAGS) $(LIB_CFLAGS) $(CTL_CFLAGS)
$(UNIT_OBJ): FLAGS = -Ilib -Itests -Itools $(CTL_CFLAGS) -include $(B)/obj/tests/unit/suites.h $(LIB_CFLAGS)

$(LIB_OBJ) $(UNIT_OBJ): | have-libs
$(RUN_OBJ) $(BENCH_OBJ) $(COMPARE_OBJ): | have-libs have-llama
$(CTL_OBJ): | have-libs have-llama
$(UNIT_OBJ): $(B)/obj/tests/unit/suites.h

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(BASE_FLAGS) $(CFLAGS) $(FLAGS) $(CPPFLAGS) -MMD -MP -c -o $@ $<

-include $(ALL_OBJ:.o=.d)

# The table of test suites: every function `Suite *suite_NAME(void)` in tests/unit.
$(B)/obj/tests/unit/suites.h: FORCE
	@mkdir -p $(@D)
	@{ echo '#include <check.h>'; \
	   sed -n 's/^Suite \*\(suite_[a-z0-9_]*\)(void)$$/Suite *\1(void);/p' $(UNIT_SRC); \
	   echo '#define SUITES \'; \
	   sed -n 's/^Suite \*\(suite_[a-z0-9_]*\)(void)$$/\1, \\/p' $(UNIT_SRC); \
	   echo 'NULL'; } > $@.tmp; \
	if cmp -s $@.tmp $@; then rm $@.tmp; else mv $@.tmp $@; fi

# Libraries and programs.

$(B)/libkvswap.a: $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/libkvswap.so.$(SOVERSION): $(LIB_OBJ) lib/libkvswap.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(SAN_FLAGS) $(CFLAGS) $(LDFLAGS) -Wl,-soname,libkvswap.so.$(SOVERSION) \
		-Wl,--version-script=lib/libkvswap.map $(if $(SAN),,-Wl$(comma)-z$(comma)defs) \
		-o $@ $(LIB_OBJ) $(LIB_LIBS)

$(B)/libkvswap.so: $(B)/libkvswap.so.$(SOVERSION)
	$(Q)ln -sf $(<F) $@

# What kvswap-bench shares with the runner: all of it but main.
$(B)/obj/kvswap-common.a: $(filter-out %/main.o,$(RUN_OBJ))
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/kvswap: $(RUN_OBJ) $(B)/libkvswap.a $(LLAMA_LIB)
	$(call say,LD,$@)
	$(Q)$(CXX) $(SAN_FLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $(RUN_OBJ) $(B)/libkvswap.a \
		$(LLAMA_LIBS) $(LIB_LIBS)

$(B)/kvswap-bench: $(BENCH_OBJ) $(B)/obj/kvswap-common.a $(B)/libkvswap.a $(LLAMA_LIB)
	$(call say,LD,$@)
	$(Q)$(CXX) $(SAN_FLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $(BENCH_OBJ) \
		$(B)/obj/kvswap-common.a $(B)/libkvswap.a $(LLAMA_LIBS) $(LIB_LIBS)

# What the unit tests take of kvswapctl: only what needs no libllama is pulled out of it.
$(B)/obj/kvswapctl.a: $(filter-out %/main.o,$(CTL_OBJ))
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/kvswapctl: $(CTL_OBJ) $(B)/obj/kvswap-common.a $(B)/libkvswap.a $(LLAMA_LIB)
	$(call say,LD,$@)
	$(Q)$(CXX) $(SAN_FLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $(CTL_OBJ) $(B)/obj/kvswap-common.a \
		$(B)/libkvswap.a $(LLAMA_LIBS) $(CTL_LIBS) $(LIB_LIBS)

$(B)/example: $(EXAMPLE_OBJ) $(B)/libkvswap.so
	$(call say,LD,$@)
	$(Q)$(CC) $(SAN_FLAGS) $(CFLAGS) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN' -o $@ $(EXAMPLE_OBJ) \
		-L$(B) -lkvswap -lm

$(B)/tests/unit: $(UNIT_OBJ) $(B)/obj/kvswapctl.a $(B)/obj/tools/kvswap/json.o $(B)/libkvswap.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(SAN_FLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(CTL_LIBS) $(LIB_LIBS)

$(TEST_PROGRAMS): $(B)/tests/%: $(B)/obj/tests/compare/%.o $(LLAMA_LIB)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CXX) $(SAN_FLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(LLAMA_LIBS)

# People's commands.

# A second make reads what the first one installed.
deps:
	@CC='$(CC)' LLAMA_DIR='$(LLAMA_DIR)' scripts/deps.sh $(PACKAGE_LISTS)

model:
	@scripts/model.sh $(MODEL)

run: deps
	$(Q)$(MAKE) --no-print-directory all
	$(Q)scripts/model.sh smollm2-135m
	$(Q)scripts/run-demo.sh

check: deps
	$(Q)$(MAKE) --no-print-directory all unit $(TEST_PROGRAMS)
	$(Q)for m in $(CHECK_MODELS); do scripts/model.sh $$m || exit 1; done
	$(Q)$(MAKE) --no-print-directory check-built

check-built: all unit $(TEST_PROGRAMS)
	$(Q)tests/run --unit $(B)/tests/unit $(CHECK_SCRIPTS)

check-san: deps
	$(Q)$(MAKE) --no-print-directory SAN=address,undefined unit
	$(Q)$(MAKE) --no-print-directory SAN=thread unit
	$(Q)tests/run --unit build-san-address-undefined/tests/unit --unit build-san-thread/tests/unit

check-style:
	$(Q)scripts/check-style.sh

# Install, dist, clean.

D = $(DESTDIR)$(PREFIX)
install: all
	umask 022; install -d $(D)/bin $(D)/include $(DESTDIR)$(LIBDIR)/pkgconfig
	install -m 755 $(filter $(B)/kvswap $(B)/kvswap-bench,$(PROGRAMS)) $(D)/bin
	install -m 755 $(B)/libkvswap.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)
	ln -sf libkvswap.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/libkvswap.so
	install -m 644 $(B)/libkvswap.a $(DESTDIR)$(LIBDIR)
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
		-e 's|@REQUIRES@|$(LIB_PKGS)|' lib/libkvswap.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/libkvswap.pc
	install -m 644 include/kvswap.h $(D)/include
	$(if $(CTL_SRC),install -D -m 755 -t $(D)/sbin $(B)/kvswapctl)
	for m in $(wildcard man/*.[1-8]); do \
		install -D -m 644 -t $(D)/share/man/man$${m##*.} $$m || exit 1; done
	$(if $(wildcard udev/*.rules),install -D -m 644 -t $(D)/lib/udev/rules.d $(wildcard udev/*.rules))
	for c in $(wildcard tools/*/*.bash); do \
		install -D -m 644 $$c $(D)/share/bash-completion/completions/$$(basename $$c .bash) || exit 1; done

dist:
	@mkdir -p build
	git archive --format=tar.gz --prefix=kvswap-$(VERSION)/ -o build/kvswap-$(VERSION).tar.gz HEAD

clean:
	rm -rf build build-san-*
