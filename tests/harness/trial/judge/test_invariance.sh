#!/usr/bin/env bash
# usage: test_invariance.sh KVGOLD ROOT WORK_DIR
# Kernels that are right and depend on company pass every other check, and invariance names the axis.
set -u
kvgold=$1
root=$2
work=$3
# shellcheck source-path=SCRIPTDIR/../../..
source "$root/tests/checks.sh"
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1

axes='"repeat", "batch", "place", "neighbours", "queries", "chunks", "pages", "prefix", "unowned"'
# write FILE MORE: a config whose rows see 94 to 120 keys.
write() {
    cat >"$1" <<END
{"kvgold": 1, "name": "company", "seed": "0x696e76", "cases": [{"op": "decode", "layout": "hnd", "kv_heads": 1,
 "head_dim": 64, "group": 2, "layers": 1, "blocks": 80, "sequences": 4, "tokens": 120, "lengths": "even",
 "queries": "27 each", "format": "f16", "dtype": "f32", "fill": "random", "backend": "reference"$2}]}
END
}
write plain.json ''
write asked.json ", \"relations\": false, \"invariant\": [$axes]"
write misspelt.json ', "invariant": ["batches"]'
claim='"kvgold_capabilities": 1, "claims": [{"ops": ["decode"], "formats": ["f16"], "features": ["queries", "gqa", "lse"]'
echo "{$claim}]}" >none.json
echo "{$claim, \"invariant\": [\"batch\", \"queries\"]}]}" >some.json
echo "{$claim, \"invariant\": [\"speed\"]}]}" >unknown.json

# varies COMPANY AXES: a kernel whose bits depend on COMPANY passes, and these axes vary, and no other one.
varies() {
    local found
    expect "$1: a finding" "$3" "1 of 1 cases answered" env "KVGOLD_COMPANY=$1" "$kvgold" invariance plain.json \
        --backend company -o out
    found=$(sed -n 's/^\([a-z]*\) .*  varies$/\1/p' <<<"$output" | xargs)
    [[ $found == "$2" ]]
    report "... along: $2" $? "along: $found"
}
varies nothing "" 0
[[ $(grep -c "  holds$" <<<"$output") == 9 ]]
report "... and all nine axes hold" $? "$output"
varies batch "batch" 0
varies queries "queries chunks" 0 # the last chunk has few query tokens
[[ $output == *"from 97 keys on (96 keys agree): a tile or a split ends at key 96"* ]]
report "... from the tile on that explains it" $? "$output"
varies place "batch place" 0 # who is alone is the first
varies pages "pages" 0
varies repeat "repeat" 1 # and nothing else is answered
[[ $(grep -c "not answered: repeat varies" <<<"$output") == 8 ]]
report "... and no other axis has an answer" $? "$output"
varies neighbours "neighbours" 0
varies prefix "batch prefix" 0 # a crowd shares its pages
varies unowned "unowned" 0

export KVGOLD_COMPANY=queries
check=("$kvgold" check --backend company --no-html -o out)
expect "relations and bound pass it" 0 "1 passed" "${check[@]}" plain.json
expect "an axis of the config must hold" 1 "axis queries: " "${check[@]}" asked.json
expect "... unless a capability file does not claim it" 0 "1 passed" "${check[@]}" asked.json --capabilities none.json
grep -q '"varies":\["queries","chunks"\]' out/results.jsonl
report "... then it is a finding" $? "$(tail -n 2 out/results.jsonl)"
expect "a claim must hold" 1 "axis queries: " "${check[@]}" asked.json --capabilities some.json
expect "... of the command, too" 1 "FAILS: it must hold" "$kvgold" invariance plain.json --backend company -o out \
    --capabilities some.json --axis queries,batch
expect "an axis that is not claimed" 0 "varies" "$kvgold" invariance plain.json --backend company -o out \
    --capabilities some.json --axis chunks
expect "a wrong answer that keeps its bits" 0 "1 of 1 cases answered, 1 of them outside of the config's bound" \
    "$kvgold" invariance plain.json --backend defect:half_row -o out
expect "a misspelt axis in a config" 2 "did you mean 'batch'" "$kvgold" list misspelt.json
expect "... on the command line" 2 "did you mean 'batch'" "$kvgold" invariance --backend company --axis batches
expect "an unknown axis in a claim" 2 "unknown axis of invariance 'speed'" "${check[@]}" plain.json --capabilities unknown.json
expect "no implementation" 2 "name an implementation by --backend" "$kvgold" invariance
expect "no decode" 2 "no case of op decode" "$kvgold" invariance ci_mma --backend reference

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
