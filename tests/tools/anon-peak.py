#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""anon-peak.py FILE COMMAND...: runs COMMAND and writes the most anonymous memory that it was seen
to have, in bytes, to FILE.  Ends with the status of COMMAND."""
import os
import subprocess
import sys
import time


def anonymous_bytes(pid):
    """RssAnon is counted per thread and brought up to date late; smaps_rollup walks the pages."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return next((int(line.split()[1]) * 1024 for line in f if line.startswith("Anonymous:")), 0)
    except (OSError, ValueError):
        return 0


def main():
    process = subprocess.Popen(sys.argv[2:])
    most = 0
    while process.poll() is None:
        most = max(most, anonymous_bytes(process.pid))
        time.sleep(0.005)
    with open(sys.argv[1], "w") as f:
        print(most, file=f)
    os._exit(process.returncode if process.returncode >= 0 else 128 - process.returncode)


if __name__ == "__main__":
    main()
