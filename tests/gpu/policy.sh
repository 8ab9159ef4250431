#!/bin/sh
# usage: policy.sh CHIP KVGOLD FOLDER
# Policy 16 on this chip gives the FP4 that docs/spec/modes.md says, and the kernels have it; both kinds of FP4 run by name,
# with the policy off.
set -eu
chip=$1 kvgold=$2 folder=$3
mkdir -p "$folder"
config=$folder/policy.json

# write WHAT: a config of appends and reads whose storage WHAT chooses.
write() {
    echo '{"kvgold": 1, "name": "policy", "seed": "0x1", "cases": [{"op": ["append", "flatten"], "layout": "turbomind", "kv_heads": 2,
        "head_dim": 128, "tokens": 40, "fill": "random", "backend": "cuda", '"$1"'}]}' > "$config"
}

# expect CODE TEXT: the exit code of a check, and what it prints.
expect() {
    code=0
    "$kvgold" check "$config" --no-html --output "$folder/run" > "$folder/log" 2>&1 || code=$?
    if [ "$code" != "$1" ] || ! grep -q "$2" "$folder/log"; then
        echo "FAILED: exit code $code, expected $1 and '$2' of"
        cat "$config" "$folder/log"
        exit 1
    fi
    grep "$2" "$folder/log"
}

write '"policy": {"number": 16, "sm": '"${chip#sm}"'}'
case $chip in
sm89 | sm90) expect 0 '^mode  .* 2 cases: fp4_mx$' ;;
sm1??) expect 0 '^mode  .* 2 cases: fp4_nv$' ;;
*) expect 2 "policy fp4 is not supported on SM ${chip#sm}" ;;
esac
write '"format": ["mx16", "nvfp4"]'
expect 0 '^policy  .*off: 4 cases by name of format$'
