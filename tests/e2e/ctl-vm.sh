#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# kvswapctl in a virtual machine: NVMe disks with sectors of 512 and 4096 bytes, an SD card, a loop device, the module.

# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

# The program and the libraries that it wants, for a guest that has none.
pack() {
    mkdir -p "$TMP/share/lib"
    cp "$BUILD/kvswapctl" "$TMP/share/"
    ldd "$BUILD/kvswapctl" | awk '/=> \//{ print $3 } /^\t\/.*ld-linux/{ print $1 }' | xargs -I{} cp -L {} "$TMP/share/lib/"
    cat >"$TMP/job" <<'J'
ctl() { /share/lib/ld-linux-x86-64.so.2 --library-path /share/lib /share/kvswapctl "$@"; }
echo   # ends what the firmware left on the line
for disk in kv512 kv4k kvsd; do
    echo "== $disk"
    ctl probe /dev/$disk --seconds 3 --bytes 32M --json 2>/dev/null || echo "rc $?"
done
echo "== scratch"
ctl probe /dev/kv4k --scratch /dev/kv4k --scratch-size 16M --seconds 1 --json 2>/dev/null || echo "rc $?"
echo "== loop"
dd if=/dev/zero of=/tmp/image bs=1M count=8 2>/dev/null
losetup /dev/loop0 /tmp/image && ctl probe /dev/loop0 --look --json || echo "rc $?"
echo "== load"
ctl load -f /t/kvswap.ko max_pinned_mib=64 2>&1 || echo "rc $?"
echo "== status"
ctl status --json || echo "rc $?"
echo "== again"
ctl load max_pinned_mib=1 2>&1 || echo "rc $?"
echo "== held"
exec 9<>/dev/kvswap
ctl unload 2>&1 || echo "rc $?"
exec 9>&-
echo "== unload"
ctl unload 2>&1 && echo gone
echo "== end"
J
}

boot() {
    pack
    tests/vm/module.sh 6.1 "$TMP/vm" || skip "the module for 6.1 cannot be built here"
    SHARE=$TMP/share SECONDS_MAX=600 tests/vm/boot.sh 6.1 "$TMP/job" "$TMP/vm/6.1/kvswap.ko" >"$TMP/guest" 2>&1 ||
        fail "the guest did not come to its end: $(tail -n 20 "$TMP/guest")"
}

part() { sed -n "/^== $1\$/,/^== /{/^== /!p}" "$TMP/guest" | grep -v '^\['; }

booted() { [ -s "$TMP/guest" ] || skip "the guest did not run"; }

nvme_disks() {
    booted
    part kv512 >"$TMP/a.json"
    part kv4k >"$TMP/b.json"
    "$python" - "$TMP/a.json" "$TMP/b.json" <<'P'
import json, sys
for path, block in zip(sys.argv[1:], (512, 4096)):
    p = json.load(open(path))
    assert p["kind"] == "nvme" and p["direct_io"] and p["logical_block"] == block, p
    n = p["nvme"]
    assert n["model"].startswith("QEMU NVMe"), n
    assert n["max_transfer_bytes"] == 512 * 1024, n
    assert [f["block_bytes"] for f in n["formats"] if f["in_use"]] == [block], n
    assert 0 < n["temperature_c"] < 100 and n["spare_percent"] >= 0, n
    assert p["transport"] == "pcie", p
    assert p["reads"] and all(c["iops"] > 0 for c in p["reads"])
P
}

sd_card() {
    booted
    part kvsd >"$TMP/c.json"
    [ "$(json "$TMP/c.json" kind)" = sd ]
    holds "$(json "$TMP/c.json" reads.0.iops) > 0"
}

scratch_and_loop() {
    booted
    part scratch >"$TMP/d.json"
    holds "$(json "$TMP/d.json" writes.0.mib_s) > 0"
    part loop >"$TMP/e.json"
    [ "$(json "$TMP/e.json" stack.0.what)" = loop ]
    [ "$(json "$TMP/e.json" kind)" = memory ]
}

module_comes_and_goes() {
    booted
    part load | grep -q 'kvswap 0.1.0 loaded, ABI 1' || fail "load said: $(part load)"
    part status >"$TMP/s.json"
    [ "$(json "$TMP/s.json" device)" = ready ]
    [ "$(json "$TMP/s.json" pinned_bytes_max)" = $((64 << 20)) ]
    part again | grep -q 'loaded already' || fail "load again said: $(part again)"
    part again | grep -qx 'rc 1'
    part held | grep -qx 'kvswapctl: cannot unload kvswap: it is in use, by sh ([0-9]*)' || fail "unload of what is held said: $(part held)"
    part unload | grep -qx gone || fail "unload said: $(part unload)"
}

case_ "kvswapctl in a virtual machine" boot
case_ "kvswapctl probe on NVMe with sectors of 512 and 4096" nvme_disks
case_ "kvswapctl probe on an SD card" sd_card
case_ "kvswapctl probe with a device as scratch, on a loop device" scratch_and_loop
case_ "kvswapctl load, status and unload of the module" module_comes_and_goes
