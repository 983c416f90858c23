#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""summary.py DIR: ratios of DIR/runs/*.json as DIR/summary.json, plots' data as DIR/*.dat, a table on stdout."""

import json
import pathlib
import sys

# (run, ratio of the run) -> name in the summary. Ratios that are not here keep their name after that of the run.
NAMES = {
    ("0.5b-decode-30k", "decode_over_depth0"): "decode_30k_over_depth0",
    ("0.5b-decode-30k", "depth0_over_llamacpp"): "depth0_over_llamacpp",
    ("0.5b-decode-30k", "decode_over_llamacpp"): "decode_30k_over_llamacpp",
    ("0.5b-decode-30k", "disk_over_memory"): "disk_over_memory",
    ("1.5b-decode-8k", "decode_over_llamacpp"): "decode_8k_1.5b_over_llamacpp",
    ("0.5b-prefill-8k", "prefill_over_llamacpp"): "prefill_8k_over_llamacpp",
    ("0.5b-prefill-16k", "prefill_over_llamacpp"): "prefill_16k_over_llamacpp",
    ("0.5b-prefill-8k-avx2", "prefill_over_llamacpp"): "prefill_8k_avx2_over_llamacpp",
    ("io", "bandwidth_over_fio"): "bandwidth_over_fio",
}
SIDES = ("kvswap disk", "kvswap memory", "kvswap dense", "libllama")


def named(run, ratio):
    name = NAMES.get((run, ratio["name"]), f"{run}:{ratio['name']}")
    return {**ratio, "name": name}


def speeds(run):
    """Tokens per second: the sides at depth, then our runner at depth 0; the best of each."""
    best = {}
    for side in run["sides"]:
        if ", depth " in side["name"]:
            best[side["name"]] = max(best.get(side["name"], 0), side["median"])
    deep = [best.get(f"{side}, depth {run['depth']}", float("nan")) for side in SIDES]
    return deep + [best.get("kvswap disk, depth 0", float("nan"))]


def write_table(path, head, rows):
    with open(path, "w", encoding="utf-8") as f:
        print(*(json.dumps(word) for word in head), file=f)
        for row in sorted(rows):
            print(*row, file=f)


def write_plots(out, runs):
    context = [[r["depth"], *speeds(r)] for n, r in runs.items() if n.startswith("0.5b-context-")]
    context += [[runs[n]["depth"], *speeds(runs[n])] for n in ("0.5b-decode-30k",) if n in runs]
    budget = []
    for name, run in runs.items():
        if name.startswith("0.5b-budget-"):
            deep = speeds(run)
            memory = run["memory"]
            ratio = memory["kv_full_bytes"] / memory["kv_resident_peak_bytes"]
            budget.append([ratio, *deep[:3], deep[4]])
    if len(context) > 1:
        write_table(out / "context.dat", ["tokens", *SIDES, "kvswap, depth 0"], context)
    if len(budget) > 1:
        write_table(out / "budget.dat", ["ratio", *SIDES[:3], "kvswap, depth 0"], budget)


def main():
    out = pathlib.Path(sys.argv[1])
    paths = sorted((out / "runs").glob("*.json"))
    runs = {p.stem: json.loads(p.read_text(encoding="utf-8")) for p in paths}
    ratios = [named(name, ratio) for name, run in runs.items() for ratio in run["ratios"]]
    part = out / "summary.json.part"
    part.write_text(json.dumps({"ratios": ratios}, indent=1) + "\n", encoding="utf-8")
    part.rename(out / "summary.json")
    write_plots(out, runs)
    for r in ratios:
        print(f"{r['name']:48} {r['value']:10.3f}  {r['low']:.3f} to {r['high']:.3f}  "
              f"{r['a']:.4g} / {r['b']:.4g} {r['unit']}")
    return 0 if ratios else 1


if __name__ == "__main__":
    sys.exit(main())
