#!/bin/sh
# usage: sanitize.sh TOOL KVGOLD CONFIG PLANTED FOLDER
# Runs the cases of CONFIG under compute-sanitizer's TOOL: all must pass and none be reported. Before that the tool must
# report the kernel that is planted for it, and nothing of a right one: PLANTED is tests/planted/planted_cuda.json.
# Exit status 77 without compute-sanitizer.
set -eu
tool=$1 kvgold=$2 config=$3 planted=$4 folder=$5
mkdir -p "$folder"

# shellcheck source=tests/gpu/find_sanitizer.sh
. "$(dirname "$0")/find_sanitizer.sh"

# sanitized LOG ARGUMENT...: `kvgold check` of these; succeeds if all cases pass and the tool has nothing to report.
sanitized() {
    log=$folder/$1.log
    shift
    "$sanitizer" --tool "$tool" --target-processes all --error-exitcode 9 --print-limit 20 \
        "$kvgold" check "$@" --unconfined --jobs 1 --no-html --output "$folder/run" > "$log" 2>&1 && grep -q 'SUMMARY: 0 ' "$log"
}

# planted HEADS: the id of that case; planted_cuda.cu says what its kernel does.
planted() {
    "$kvgold" list "$planted" | grep "/4x$1x64/"
}

fail() {
    echo "FAILED: $1"
    cat "$log"
    exit 1
}

case $tool in
memcheck) heads=20 says='Invalid __global__ write of size 1 bytes' ;;
racecheck) heads=21 says='Race reported between' ;;
initcheck) heads=22 says='Uninitialized __global__ memory read' ;;
synccheck) heads=23 says='Divergent thread(s) in warp' ;;
esac
if sanitized planted "$planted" --case "$(planted "$heads")"; then fail "$tool did not see what is planted for it"; fi
grep -q "$says" "$log" || fail "$tool does not say '$says' of what is planted for it"
sanitized right "$planted" --case "$(planted 1)" || fail "$tool reports a kernel that is right"
sanitized kernels "$config" || fail "$tool, or a case of $config"
echo "$tool: the planted defect is seen; $(grep -c '"type":"case"' "$folder/run/results.jsonl") cases:"
grep 'passed,\|SUMMARY' "$log"
