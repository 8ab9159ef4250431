#!/bin/sh
# usage: model_sanitize.sh TOOL TEST_GPU_MODEL FOLDER
# Runs a few steps of the GPU's runner of models under compute-sanitizer's TOOL: they must be right, and nothing be
# reported. That the tool reports what it is for is shown by sanitize.sh. Exit status 77 without compute-sanitizer.
set -eu
tool=$1 program=$2 folder=$3
mkdir -p "$folder"

# shellcheck source=tests/gpu/find_sanitizer.sh
. "$(dirname "$0")/find_sanitizer.sh"

log=$folder/model_$tool.log
if "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 "$program" few > "$log" 2>&1 &&
    grep -q 'SUMMARY: 0 ' "$log"; then
    tail -n 2 "$log"
    exit 0
fi
echo "FAILED: $tool, or the program"
head -n 200 "$log"
exit 1
