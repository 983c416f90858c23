# SPDX-License-Identifier: MIT
#
# The module in virtual machines: see vmcheck.sh, debug.sh and bench.sh.

KERNEL ?= 6.1
VM_KERNELS ?= 5.10 6.1 6.12 newest 6.1-arm64 6.12-arm64-16k

.PHONY: vmcheck vmcheck-all vmcheck-debug vmcheck-uml bench-module

vmcheck:
	$(Q)tests/vm/vmcheck.sh $(KERNEL)

vmcheck-all:
	$(Q)tests/vm/vmcheck.sh $(VM_KERNELS)

bench-module:
	$(Q)tests/vm/bench.sh

# Kernels that look for mistakes: User-Mode Linux is the quick one.
vmcheck-uml:
	$(Q)tests/vm/vmcheck.sh uml

vmcheck-debug:
	$(Q)MEMORY=2048 SECONDS_MAX=3600 tests/vm/vmcheck.sh full
