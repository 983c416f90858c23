#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares two files of logits, raw float32 rows: how far the second's next-token distributions are
from the first's.

    kl.py REFERENCE.f32 OTHER.f32 N_VOCAB [--max-kl X] [--min-top1 Y] [--last N]

Prints one JSON object {"rows", "kl", "kl_max", "top1", "identical"}; exit 1 when a bound is passed.
kl is the mean over rows of KL(reference || other) in nats; --last compares the last N rows only.
"""
import argparse
import json
import os
import sys

import numpy as np


def log_softmax(rows):
    rows = rows.astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


def compare(reference, other):
    kl, same, identical = [], 0, True
    for i in range(0, len(reference), 64):
        a, b = reference[i:i + 64], other[i:i + 64]
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            sys.exit("kl.py: a logit is not finite")
        identical &= a.tobytes() == b.tobytes()
        p, q = log_softmax(a), log_softmax(b)
        kl.append((np.exp(p) * (p - q)).sum(axis=1))
        same += int((p.argmax(axis=1) == q.argmax(axis=1)).sum())
    kl = np.concatenate(kl)
    return {"rows": len(kl), "kl": float(kl.mean()), "kl_max": float(kl.max()),
            "top1": same / len(kl), "identical": identical}


def rows_of(path, n_vocab):
    if os.path.getsize(path) == 0 or os.path.getsize(path) % (4 * n_vocab):
        sys.exit(f"kl.py: {path}: not whole rows of {n_vocab}")
    return np.memmap(path, dtype=np.float32, mode="r").reshape(-1, n_vocab)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reference")
    parser.add_argument("other")
    parser.add_argument("n_vocab", type=int)
    parser.add_argument("--max-kl", type=float)
    parser.add_argument("--min-top1", type=float)
    parser.add_argument("--last", type=int)
    args = parser.parse_args()
    a, b = rows_of(args.reference, args.n_vocab), rows_of(args.other, args.n_vocab)
    if args.last:
        a, b = a[-args.last:], b[-args.last:]
    if len(a) != len(b):
        sys.exit(f"kl.py: {len(a)} rows against {len(b)}")
    result = compare(a, b)
    print(json.dumps(result))
    bad = args.max_kl is not None and not result["kl"] <= args.max_kl
    bad |= args.min_top1 is not None and not result["top1"] >= args.min_top1
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
