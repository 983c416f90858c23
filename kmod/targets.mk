# SPDX-License-Identifier: MIT
#
# The kernel module. It is built in a directory of links, so that several kernels can be built for from one tree
# and nothing is left beside the sources.

KVER ?= $(shell uname -r)
KDIR ?= $(firstword $(wildcard /lib/modules/$(KVER)/build) \
	$(shell ls -dv /usr/src/linux-headers-*[!n] /lib/modules/*/build 2>/dev/null | tail -n1))
KMOD_SRC := Kbuild include/uapi/kvswap.h $(wildcard kmod/*.c kmod/*.h)
KMOD_B ?= build/modules/$(notdir $(KDIR:%/build=%))
KMAKE = $(MAKE) --no-print-directory -C $(KDIR) M=$(abspath $(KMOD_B)) $(KFLAGS)

.PHONY: modules modules_install dkms check-style-kmod

$(KMOD_B)/.links: $(KMOD_SRC) kmod/targets.mk
	@test -n '$(KDIR)' || { echo 'kvswap: no kernel headers: install them or give KDIR=' >&2; exit 1; }
	@mkdir -p $(KMOD_B)/kmod $(KMOD_B)/include/uapi
	@for f in $(KMOD_SRC); do ln -sf $(CURDIR)/$$f $(KMOD_B)/$$f; done; touch $@

modules: $(KMOD_B)/.links
	$(Q)$(KMAKE) modules

modules_install: modules
	$(Q)$(KMAKE) modules_install
	install -D -m 644 -t $(DESTDIR)/lib/udev/rules.d kmod/70-kvswap.rules

# The sources where dkms looks for them, then built and installed for the running kernel.
dkms:
	@command -v dkms >/dev/null || { echo 'kvswap: dkms is not installed' >&2; exit 1; }
	install -d $(DESTDIR)/usr/src/kvswap-$(VERSION)
	cp --parents $(KMOD_SRC) kmod/dkms.conf $(DESTDIR)/usr/src/kvswap-$(VERSION)
	cp kmod/dkms.conf $(DESTDIR)/usr/src/kvswap-$(VERSION)/dkms.conf
	dkms install kvswap/$(VERSION) -k $(KVER)
