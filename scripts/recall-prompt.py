#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""recall-prompt.py TOKENS PAIRS QUERIES SEED OUT: a look-up prompt for the recall model.

OUT gets the token ids: BOS, PAIRS key-value pairs at random places in filler, the separator, then
QUERIES times a key and its value.  OUT.answers gets a line "position value" for each query: the
logits after the token at `position` (from 0) ought to be greatest at `value`.
"""
import random
import sys

BOS, SEPARATOR = 0, 1
KEYS, VALUES, FILLER = range(2, 450), range(450, 898), range(898, 1024)


def prompt(n_tokens, n_pairs, n_queries, seed):
    rng = random.Random(seed)
    pairs = [(key, rng.choice(VALUES)) for key in rng.sample(KEYS, n_pairs)]
    n_filler = n_tokens - 2 - 2 * n_pairs - 2 * n_queries
    body = [[*pair] for pair in pairs] + [[rng.choice(FILLER)] for _ in range(n_filler)]
    rng.shuffle(body)
    tokens = [BOS] + [t for unit in body for t in unit] + [SEPARATOR]
    answers = []
    for key, value in rng.sample(pairs, n_queries):
        answers.append((len(tokens), value))
        tokens += [key, value]
    return tokens, answers


def main():
    if len(sys.argv) != 6:
        print(__doc__.splitlines()[0], file=sys.stderr)
        sys.exit(2)
    tokens, answers = prompt(*map(int, sys.argv[1:5]))
    out = sys.argv[5]
    with open(out, "w") as f:
        print(*tokens, file=f)
    with open(out + ".answers", "w") as f:
        for answer in answers:
            print(*answer, file=f)


if __name__ == "__main__":
    main()
