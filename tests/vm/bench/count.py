#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""count.py FOLDER OUT.json [FUNCTIONS]: sums up what count.c and records wrote in FOLDER/KERNEL/{map,log,out/NNN}.

Instructions a record are those of user space, kernel, device and other interrupts; the timer and idling are left out. A
repeated string instruction counts once, as in hardware."""
import bisect
import collections
import json
import os
import re
import sys

DOING = ("user", "kernel", "device_irq", "timer", "other_irq", "idle")
BUSY = ("user", "kernel", "device_irq", "other_irq")
LAYERS = (
    ("module", r"kvswap_|trace_.*kvswap"),
    ("io_uring", r"io_|__io_|__x64_sys_io_uring|tctx_|iov_iter|loop_rw_iter|kiocb|ctx_flush"),
    ("direct I/O", r"blkdev_|bio_iov|import_|rw_verify|security_|vfs_|generic_|__blkdev|bio_alloc|mempool|bio_put|bio_free"),
    ("nvme", r"nvme"),
    ("block", r"blk|__blk|bio_|__bio|submit_bio|sbitmap|__sbitmap|bdev|__submit_bio|update_io|rq_|__rq|part_|disk_|blkcg|elv|dd_|"
              r"wbt|__rq_qos|should_fail|ioc_|block_"),
    ("dma", r"dma_|swiotlb|sg_|__sg"),
    ("interrupt", r"asm_common|common_interrupt|irq|__irq|handle_|__handle|apic|native_apic|msi|x2apic|ack_|asm_sysvec|"
                  r"error_|sysvec|run_irq|__common"),
    ("scheduler", r"schedule|__schedule|try_to_wake|ttwu|enqueue|dequeue|pick_|put_prev|update_curr|update_load|__update_load|"
                  r"set_next|select_task|finish_task|switch_|__switch|prepare_to|finish_wait|__wake_up|autoremove|default_wake|"
                  r"resched|check_preempt|reweight|place_|cpuacct|psi_|sched|update_rq|cgroup_rstat|__x86_indirect|wake"),
    ("time", r"ktime|read_tsc|read_hpet|hrtimer|timekeeping|acpi_pm"),
    ("system call", r"entry_SYSCALL|do_syscall|syscall|__x64_sys|exit_to_user|__do_sys|fdget|__fget|__fdget|_copy|copy_|fput"),
)


def symbols(path):
    table = []
    with open(path, errors="replace") as f:
        for line in f:
            part = line.rstrip("\0\n").split()
            if len(part) >= 3 and part[1] in "tTwW":
                table.append((int(part[0], 16), part[2]))
    return sorted(table)


def layer_of(symbol):
    for name, pattern in LAYERS:
        if re.match(pattern, symbol):
            return name
    return "other"


class Phase:
    def __init__(self, path, table, keys):
        self.doing = collections.Counter()
        self.functions = collections.Counter()
        with open(path) as f:
            for line in f:
                va, insns, repeats, *runs = line.split()
                self.add(int(va, 16), int(insns), [int(r) for r in runs], repeats == "1", table, keys)

    def add(self, va, insns, runs, repeats, table, keys):
        if repeats:
            return
        symbol = "[user]" if not va >> 63 else table[bisect.bisect_right(keys, va) - 1][1]
        for name, n in zip(DOING, runs):
            self.doing[name] += n * insns
            if name in BUSY:
                self.functions[symbol] += n * insns

    def busy(self):
        return sum(self.doing[d] for d in BUSY)

    def layers(self):
        out = collections.Counter()
        for symbol, n in self.functions.items():
            out["user" if symbol == "[user]" else layer_of(symbol)] += n
        return out


def read(folder):
    table = symbols(os.path.join(folder, "map"))
    keys = [va for va, _ in table]
    with open(os.path.join(folder, "log"), errors="replace") as f:
        lines = re.findall(r"PHASE (\S+) (\S+) (\d+) (\d+) (\d+) (\d+)", f.read())
    for number, (side, kind, size, depth, run, records) in enumerate(lines):
        yield {
            "side": side, "kind": kind, "bytes": int(size), "depth": int(depth), "run": int(run),
            "records": int(records), "phase": Phase(os.path.join(folder, "out", f"{number:03d}"), table, keys),
        }


def ratio(a, b):
    return round(a / b, 4)


def rows(kernel, phases, kind):
    found = collections.defaultdict(dict)
    for p in phases:
        if p["kind"] == kind:
            found[p["bytes"], p["depth"], p["run"]][p["side"]] = p["phase"].busy() / p["records"]
    for (size, depth, run), side in found.items():
        row = {"kernel": kernel, "bytes": size, "depth": depth, "run": run, "module": round(side["module"], 1),
               "io_uring": round(side["io_uring"], 1), "ratio": ratio(side["module"], side["io_uring"])}
        if "io_uring_joined" in side:
            row["io_uring_joined"] = round(side["io_uring_joined"], 1)
            row["ratio_joined"] = ratio(side["module"], side["io_uring_joined"])
        yield row


def print_rows(title, table):
    print(f"{title}\n  kernel  bytes depth run   module io_uring  ratio   joined  ratio")
    for r in table:
        joined = f"{r['io_uring_joined']:8.0f}  {r['ratio_joined']:.3f}" if "ratio_joined" in r else ""
        print(f"  {r['kernel']:6s} {r['bytes']:6d} {r['depth']:5d} {r['run']:3d} {r['module']:8.0f} {r['io_uring']:8.0f}"
              f"  {r['ratio']:.3f} {joined}")


def print_layers(kernel, phases, size, run, functions):
    both = {p["side"]: p for p in phases if (p["kind"], p["bytes"], p["depth"], p["run"]) == ("null", size, 32, run)}
    print(f"by layer, {kernel}, {size} bytes, depth 32, runs of {run}")
    layers = {side: p["phase"].layers() for side, p in both.items()}
    for name in sorted(set().union(*layers.values()), key=lambda n: -layers["module"][n]):
        print("  " + "".join(f"{layers[s][name] / both[s]['records']:9.1f}" for s in ("module", "io_uring")) + f"  {name}")
    for name, n in both["module"]["phase"].functions.most_common(functions):
        print(f"  {n / both['module']['records']:9.1f}           {name}")


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: count.py FOLDER OUT.json [FUNCTIONS]")
    folder, functions = sys.argv[1], int(sys.argv[3]) if len(sys.argv) > 3 else 0
    out = {"records": [], "data": [], "file": [], "iommu": []}
    for name in sorted(os.listdir(folder)):
        if not os.path.exists(os.path.join(folder, name, "log")):
            continue
        phases = list(read(os.path.join(folder, name)))
        kernel = name.removesuffix("-iommu")
        for key in out:
            out[key] += rows(kernel, phases, "null" if key == "records" else key)
        if kernel == name:
            print_layers(kernel, phases, 4096, 1, functions)
            print_layers(kernel, phases, 65536, 1, functions)
    titles = {"records": "instructions a record", "data": "the same, interrupts as they come",
              "file": "regular file on ext4", "iommu": "behind an IOMMU"}
    for key, title in titles.items():
        print_rows(title, out[key])
    with open(sys.argv[2] + ".new", "w") as f:
        json.dump(out, f, indent=1)
    os.replace(sys.argv[2] + ".new", sys.argv[2])


main()
