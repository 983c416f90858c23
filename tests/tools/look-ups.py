#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""look-ups.py N_VOCAB LOGITS ANSWERS [LOGITS ANSWERS]...: the share of look-ups that succeed.

LOGITS are raw float32 rows of every position of a prompt, ANSWERS the lines "position value" that
scripts/recall-prompt.py made with it."""
import sys

import numpy as np


def main():
    n_vocab, files = int(sys.argv[1]), sys.argv[2:]
    right = asked = 0
    for logits, answers in zip(files[::2], files[1::2]):
        rows = np.fromfile(logits, np.float32).reshape(-1, n_vocab)
        for line in open(answers):
            position, value = map(int, line.split())
            right += int(rows[position].argmax() == value)
            asked += 1
    print(right / asked)


if __name__ == "__main__":
    main()
