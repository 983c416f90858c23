# SPDX-License-Identifier: MIT
#
# The performance tables: both sides of each ratio in one run, JSON and PNG in build/bench/. All of it
# takes two hours or so on two cores; bench-quick has the small model only, about a quarter of an hour.

.PHONY: bench bench-quick

bench bench-quick: deps
	$(Q)$(MAKE) --no-print-directory all
	$(Q)scripts/deps.sh tools/kvswap-bench/packages.txt
	$(Q)scripts/model.sh smollm2-135m
	$(Q)for m in $(if $(filter bench,$@),qwen2.5-coder-0.5b qwen2.5-coder-1.5b); do \
		scripts/model.sh $$m || exit 1; done
	$(Q)tools/kvswap-bench/bench.sh $(if $(filter bench-quick,$@),quick)
