#!/bin/sh
# usage: hostile.sh TEST_GPU_HOSTILE FOLDER
# Runs the program under compute-sanitizer's memcheck, every tensor an allocation of its own size: nothing may be
# reported. Before that memcheck must report the byte that the program plants past a tensor. Exit status 77 without
# compute-sanitizer.
set -eu
program=$1 folder=$2
mkdir -p "$folder"

# shellcheck source=tests/gpu/find_sanitizer.sh
. "$(dirname "$0")/find_sanitizer.sh"

# memcheck MODE: the program in that mode; succeeds if it does and nothing is reported.
memcheck() {
    log=$folder/$1.log
    "$sanitizer" --tool memcheck --error-exitcode 9 --print-limit 20 "$program" "$1" > "$log" 2>&1 &&
        grep -q 'SUMMARY: 0 ' "$log"
}

fail() {
    echo "FAILED: $1"
    cat "$log"
    exit 1
}

if memcheck planted; then fail "memcheck did not see the byte that is planted"; fi
says='Invalid __global__ [a-z]* of size 1 bytes'
grep -q "$says" "$log" || fail "memcheck does not say '$says' of the byte that is planted"
memcheck exact || fail "memcheck, or the program"
echo "memcheck: the planted byte is seen; then:"
grep 'runs\|SUMMARY' "$log"
