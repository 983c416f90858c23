#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""qmp-unplug.py SOCKET LOG DEVICE: tells QEMU to take DEVICE out once the guest's LOG says "UNPLUG NOW"."""
import json
import socket
import sys
import time


def wait_for(done, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if done():
            return
        time.sleep(0.2)
    sys.exit("qmp-unplug: waited in vain")


def says(path, words):
    try:
        with open(path, errors="replace") as f:
            return words in f.read()
    except FileNotFoundError:
        return False


def main():
    path, log, device = sys.argv[1:]
    wait_for(lambda: says(log, "UNPLUG NOW"), 180)
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    stream = sock.makefile("rw")
    stream.readline()
    for command in ({"execute": "qmp_capabilities"}, {"execute": "device_del", "arguments": {"id": device}}):
        stream.write(json.dumps(command) + "\n")
        stream.flush()
        print(stream.readline(), file=sys.stderr, end="")
    time.sleep(2)


main()
