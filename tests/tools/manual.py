#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""manual.py prototypes HEADER MANUAL: every function of HEADER stands in the SYNOPSIS of MANUAL as
it is declared, and none else.
manual.py functions HEADER: their names.
manual.py example MANUAL: the program of its EXAMPLES section."""
import re
import shlex
import sys


def plain(declaration):
    declaration = re.sub(r"\s+", " ", declaration).strip()
    return re.sub(r"\s*([*(),;])\s*", r"\1", declaration)


def header_prototypes(path):
    text = re.sub(r"/\*.*?\*/", " ", open(path).read(), flags=re.S)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    return {plain(p) for p in re.findall(r"[a-z][\w\s*]*\bkvs_\w+\([^()]*\);", text)}


def section(path, name):
    return re.search(rf"^\.SH {name}\n(.*?)^\.SH ", open(path).read(), re.S | re.M).group(1)


def manual_prototypes(path):
    lines = [line for line in section(path, "SYNOPSIS").splitlines() if line.startswith(".BI")]
    text = " ".join("".join(shlex.split(line)[1:]) for line in lines)
    return {plain(p + ";") for p in text.split(";") if p.strip()}


def prototypes(header, manual):
    declared, described = header_prototypes(header), manual_prototypes(manual)
    for p in sorted(declared - described):
        print(f"declared, not in the manual: {p}")
    for p in sorted(described - declared):
        print(f"in the manual, not declared: {p}")
    return int(declared != described or not declared)


def functions(header):
    print(*sorted(re.search(r"kvs_\w+(?=\()", p).group() for p in header_prototypes(header)), sep="\n")
    return 0


def example(manual):
    code = re.search(r"^\.EX\n(.*?)^\.EE$", section(manual, "EXAMPLES"), re.S | re.M).group(1)
    print(code.replace("\\-", "-").replace("\\e", "\\"), end="")
    return 0


if __name__ == "__main__":
    sys.exit({"prototypes": prototypes, "functions": functions, "example": example}[sys.argv[1]](*sys.argv[2:]))
