#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""count.py [--layers] KERNEL DIR: what count.c and records wrote (DIR/map, DIR/log, DIR/out/NNN), as JSON a phase.

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


def rows(kernel, folder, kind):
    found = collections.defaultdict(dict)
    for p in read(folder):
        if p["kind"] == kind:
            found[p["bytes"], p["depth"], p["run"]][p["side"]] = p["phase"].busy() / p["records"]
    for (size, depth, run), side in found.items():
        row = {"kernel": kernel, "bytes": size, "depth": depth, "run": run, "module": round(side["module"], 1),
               "io_uring": round(side["io_uring"], 1), "ratio": round(side["module"] / side["io_uring"], 4)}
        if "io_uring_joined" in side:
            row["io_uring_joined"] = round(side["io_uring_joined"], 1)
            row["ratio_joined"] = round(side["module"] / side["io_uring_joined"], 4)
        yield row


def print_layers(folder, kind, functions):
    for p in read(folder):
        if p["kind"] != kind:
            continue
        print(f"{p['side']:16s} {p['bytes']:6d} B, depth {p['depth']:2d}, run {p['run']}: "
              f"{p['phase'].busy() / p['records']:7.0f} instructions a record")
        for name, n in p["phase"].layers().most_common():
            print(f"    {n / p['records']:7.1f}  {name}")
        for name, n in p["phase"].functions.most_common(functions):
            print(f"        {n / p['records']:7.1f}  {name}")


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    if "--layers" in sys.argv:
        print_layers(arguments[1], "null", int(arguments[2]) if len(arguments) > 2 else 0)
    else:
        print(json.dumps({kind: list(rows(*arguments, kind)) for kind in ("null", "data")}))


main()
