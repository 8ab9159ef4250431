#!/bin/sh
# usage: hostile.sh TEST_GPU_HOSTILE FOLDER
# Runs the program under compute-sanitizer's memcheck, every tensor an allocation of its own size: nothing may be
# reported. Before that memcheck must report each byte that the program plants before and past every tensor. Exit status
# 77 without compute-sanitizer.
set -eu
program=$1 folder=$2
mkdir -p "$folder"

# shellcheck source=tests/gpu/find_sanitizer.sh
. "$(dirname "$0")/find_sanitizer.sh"

# memcheck MODE: the program in that mode; succeeds if it does and nothing is reported. Padding: what cudaMalloc gives
# out lies side by side where sizes are multiples of 512, and a byte past one tensor would be the next one's.
memcheck() {
    log=$folder/$1.log
    "$sanitizer" --tool memcheck --padding 4096 --error-exitcode 9 --print-limit 10000 "$program" "$1" > "$log" 2>&1 &&
        grep -q 'SUMMARY: 0 ' "$log"
}

fail() {
    echo "FAILED: $1"
    head -n 200 "$log"
    exit 1
}

if memcheck planted; then fail "memcheck did not see the bytes that are planted"; fi
planted=$(sed -n 's/^planted: \([0-9]*\) bytes$/\1/p' "$log")
seen=$(grep -A 2 'Invalid __global__ write of size 1 bytes' "$log" | grep -o 'in block ([0-9]*,' | sort -u | wc -l)
if [ "${planted:-0}" = 0 ] || [ "$planted" != "$seen" ]; then
    fail "${planted:-no} bytes are planted, memcheck sees $seen"
fi
memcheck exact || fail "memcheck, or the program"
echo "memcheck: $planted planted bytes, each seen; then:"
grep 'runs\|SUMMARY' "$log"
