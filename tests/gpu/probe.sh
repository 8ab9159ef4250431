#!/usr/bin/env bash
# usage: probe.sh KVGOLD FOLDER [BACKEND]
# `kvgold probe` shows the same bytes at the same places whether the reference answers or BACKEND (default: cuda): of
# caches that it reads, and of op append caches that it has written.
set -uo pipefail
kvgold=$1 folder=$2 backend=${3:-cuda}
mkdir -p "$folder"
config=$folder/probe.json
# shellcheck source=tests/checks.sh
source "$(dirname "$0")/../checks.sh"

cat >"$config" <<'END'
{"kvgold": 1, "name": "probe", "seed": "0x5", "cases": [{"op": "append", "layout": ["turbomind", "trtllm", "nhd", "vllm", "slot"],
    "format": "nvfp4", "dtype": "bf16", "kv_heads": 2, "head_dim": 64, "tokens": 12, "layers": 2, "block_tokens": 4, "fill": "random",
    "include": [{"layout": ["hnd", "vllm_hnd"], "v_scale_swizzle": true},
        {"layout": ["turbomind", "nhd"], "format": ["int8", "int4"]},
        {"op": "flatten", "layout": ["hnd", "ring"], "format": ["mxfp4", {"k": "e4m3", "v": "nvfp4"}]},
        {"op": "probe", "layout": "mla", "kv_heads": 1, "head_dim": 576, "shared_kv": {"v_dim": 512}, "format": "e4m3"}]}]}
END

# same CASE OPTION...: the reference's answer and the backend's, all but the line with the case's id.
same() {
    local case=$1 right is="the reference fails"
    shift
    right=$("$kvgold" probe "$config" --case "$case" "$@" 2>&1) &&
        is=$("$kvgold" probe "$config" --backend "$backend" --case "${case%/*}/$backend" "$@" 2>&1) &&
        [[ $right == *"K codes"* && ${is#*$'\n'} == "${right#*$'\n'}" ]]
    report "$case $*" $? "${is//$'\n'/; }"
}

while read -r case; do
    where=(--token 11)
    for ((n = 36; n-- > 0;)); do # of op flatten the last token that some sequence has
        [[ $case == flatten* ]] || break
        where=(--token $((n / 3)) --sequence $((n % 3)))
        ! "$kvgold" probe "$config" --case "$case" "${where[@]}" >/dev/null 2>&1 || break
    done
    same "$case" "${where[@]}" --layer 1 # append has not written there
    [[ $case == */mla:* ]] || where+=(--head 1)
    same "$case" "${where[@]}"
done < <("$kvgold" list "$config")

echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
