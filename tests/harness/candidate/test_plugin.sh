#!/usr/bin/env bash
# usage: test_plugin.sh KVGOLD SOURCE_DIR WORK_DIR
#
# Other people's kernels as a user sees them: capability files, what is skipped and how that shows, secret seeds. One
# line per check; the last reads "N passed, N failed". Exit status 1 if a check failed. WORK_DIR is emptied first.
set -uo pipefail
[[ $# -eq 3 ]] || { sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2; }
kvgold=$(realpath "$1")
source_dir=$(realpath "$2")
config=$source_dir/tests/planted/fake_device.json
# shellcheck source=tests/checks.sh
source "$source_dir/tests/checks.sh"
rm -rf "$3"
mkdir -p "$3"
cd "$3" || exit 2
library_folder=$(dirname "$kvgold")
# holds NAME FILE TEXT
holds() { grep -qF -- "$3" "$2"; report "$1" $? "no '$3' in $2"; }

# claims FILE CLAIMS
claims() { echo "{\"kvgold_capabilities\": 1, \"claims\": [$2]}" >"$1"; }

run() { "$kvgold" check "$config" --no-html -j 1 "$@"; }

# Its cases after the one that ends its process are judged as the first ones, whatever it has made of its claims.
claims rewritten.json '{"ops": ["quantise"], "formats": ["nvfp4"]}'
KVGOLD_FAKE_CLAIMS=$PWD/rewritten.json expect "a library that rewrites its claims" 1 "2 passed, 8 failed, 5 skipped" \
    run --backend fake_device --capabilities rewritten.json -o a
holds "... has rewritten them" rewritten.json '"claims": []'

# The planted plug-in answers with 5 heads what it answered with 4, and is right where it was not asked those before.
heads() {
    echo '{"kvgold": 1, "name": "order", "seed": "0x5", "cases": [{"op": "quantise", "format": "nvfp4", "kv_heads": ['"$1"'],
        "head_dim": 64, "tokens": 4, "fill": "random", "backend": "planted_plugin"}]}' >order.json
}
check_order() { "$kvgold" check order.json --no-html -j 1 -o order "$@"; }
heads "5, 4"
mapfile -t ids < <("$kvgold" list order.json)
expect "an answer that is right before another case" 0 "2 passed, 0 failed" check_order
expect "... is wrong behind it" 1 "1 passed, 1 failed" check_order --after "${ids[1]}" --case "${ids[0]}"
holds "... and the repro line says behind which" <(echo "$output") "--after '${ids[1]}' --case '${ids[0]}'"
expect "... --after needs --case" 2 "--after goes with --case" check_order --after "${ids[1]}"
expect "... and a case" 2 "no/such" check_order --after no/such --case "${ids[0]}"
heads "4, 5"
expect "an answer that depends on the case before" 1 "alone it passes: it depends on the case before" check_order
holds "... has a repro line with both" <(echo "$output") "--after '${ids[1]}' --case '${ids[0]}'"
heads "4, 1, 5"
expect "one that depends on an earlier case" 1 "alone it passes, and behind the case before: it depends on earlier cases" \
    check_order

# The fake device does wrong with 2 to 9 heads: what it claims here is right.
claims right.json '{"ops": ["append", "flatten"], "formats": ["nvfp4"], "layouts": ["hnd"]}'
expect "what is not claimed is skipped" 0 "4 PASS, 11 SKIP" run --backend fake_device --capabilities right.json -o a --junit a.xml
holds "... which the table counts, with the reason" <(echo "$output") "unclaimed  11 cases: op decode 1, op quantise 10"
holds "... and the last line" <(echo "$output") "4 passed, 0 failed, 11 skipped"
holds "... and JUnit" a.xml '<skipped message="unclaimed: op quantise">'
holds "... and its totals" a.xml 'tests="15" failures="0" errors="0" skipped="11"'
holds "... and the result lines" a/results.jsonl '"status":"SKIP","detail":"unclaimed: op decode"'
holds "... and the end line" a/results.jsonl '"SKIP":11'
expect "a merged report has it, too" 0 "unclaimed  11 cases: " "$kvgold" report a/results.jsonl

holds "... and how many cells that is" <(echo "$output") "; 2 of 4 cells judged"
claims little.json '{"ops": ["append", "quantise"], "formats": ["nvfp4"], "dtypes": ["f32"]},
    {"ops": ["flatten"], "formats": ["nvfp4"]}'
expect "a claim of which nothing is asked" 1 "no case asks: op append (claims[0]), op quantise (claims[0])" \
    run --backend fake_device --capabilities little.json -o b
expect "... fails a merged report, too" 1 "claimed, and no case asks: op append" "$kvgold" report b/results.jsonl
id=$(grep -m 1 '"status":"SKIP"' b/results.jsonl | grep -o '"id":"[^"]*"' | cut -d '"' -f 4)
expect "... but not a part of a config" 77 "0 passed, 0 failed, 1 skipped; 0 of 1 cell judged" \
    run --backend fake_device --capabilities little.json -o b --case "$id"

claims wide.json '{"ops": ["append"], "formats": ["nvfp4", "nvfp4.vllm"], "dtypes": ["bf16", "f32"], "head_dims": [64, 96],
    "features": ["padding"]}'
expect "a claimed value that no case asks" 1 "INCOMPLETE: 2 passed, 0 failed, 13 skipped; 1 of 4 cells judged; 4 claimed values unasked" \
    run --backend fake_device --capabilities wide.json -o b
holds "... is named" <(echo "$output") \
    "claimed, and no case asks: format nvfp4.vllm (claims[0]), dtype f32 (claims[0]), head_dim 96 (claims[0]), feature padding (claims[0])"
expect "... and fails a merged report, too" 1 "feature padding (claims[0])" "$kvgold" report b/results.jsonl
holds "... with the remedy" <(echo "$output") "this proves little; kvgold new config claimed --from wide.json asks what is claimed"
expect "... which works" 0 "claimed.json: " "$kvgold" new config claimed --from wide.json
expect "... once: then another name is free" 1 "kvgold new config claimed2 --from wide.json" "$kvgold" report b/results.jsonl
run --backend fake_device --capabilities wide.json -o b --case "$id" >part.txt 2>&1
report "... and is not told of a part" "$(grep -c "new config" part.txt)" "$(tail -n 5 part.txt)"
claims most.json '{"ops": ["quantise", "append", "flatten"], "formats": ["nvfp4"], "layouts": ["rows", "hnd"], "features": ["padding"]}'
expect "the remedy where most is judged" 1 "kvgold new config claimed2 --from most.json asks what is claimed" \
    run --backend reference --capabilities most.json -o b
report "... and most is" "$(grep -c "this proves" <<<"$output")" "$output"

own='{"name": "mine", "text": "[L B N H]{ K.codes K.scales V.codes V.scales }"}'
claims serving.json '{"ops": ["append", "decode"], "formats": ["nvfp4", "int4.pytorch"], "layouts": ["hnd", "contiguous", '"$own"'],
    "features": ["lse", "gqa", "window", "padding"]}, {"ops": ["quantise"], "formats": ["mlx4_g128"], "head_dims": [64, 256]}'
expect "a config that asks what is claimed" 0 "serving_config.json: " "$kvgold" new config serving_config --from serving.json
holds "... and says what no case can ask" <(echo "$output") "no case can ask head_dim 64 (claims[1])"
expect "... which is not written over" 2 "serving_config.json is there" "$kvgold" new config serving_config --from serving.json
claims serving.json '{"ops": ["append", "decode"], "formats": ["nvfp4", "int4.pytorch"], "layouts": ["hnd", "contiguous", '"$own"'],
    "features": ["lse", "gqa", "window", "padding"]}, {"ops": ["quantise"], "formats": ["mlx4_g128"], "head_dims": [256]}'
expect "... asks all of it, and the reference is right" 0 " passed, 0 failed; 13 of 13 cells judged" \
    "$kvgold" check serving_config.json --backend reference --capabilities serving.json --no-html -o f
python3 - <<'END'
import itertools, json, sys
rows = [r for r in json.load(open("serving_config.json"))["cases"] if r["op"] == "decode"]
axes = {"format": ["nvfp4", "int4"], "layout": ["hnd", "contiguous"], "group": [4, None], "window": [33, None],
        "padding": [{"data": 16}, None]}
for (a, b) in itertools.combinations(axes, 2):
    for x, y in itertools.product(axes[a], axes[b]):
        if (x, y) == ("contiguous", {"data": 16}):
            continue  # that layout has no padding
        if not any(r.get(a) == x and r.get(b) == y for r in rows):
            sys.exit(f"{a} {x} never meets {b} {y}")
END
report "... in which every two values meet" $? "see above"
expect "a config for another of a kind" 2 "--from is not for plugin" "$kvgold" new plugin other --from serving.json

claims none.json ''
expect "nothing claimed: nothing could run" 77 "15 SKIP" run --backend fake_device --capabilities none.json -o b
claims sm90.json '{"ops": ["append"], "formats": ["nvfp4"], "sms": [90]}'
expect "another GPU than the claimed one" 77 "sm 77 2" run --backend fake_device --capabilities sm90.json -o b
claims sm77.json '{"ops": ["append"], "formats": ["nvfp4"], "sms": [77]}'
expect "the claimed GPU" 0 "2 PASS, 13 SKIP" run --backend fake_device --capabilities sm77.json -o b

claims lying.json '{"ops": ["append", "quantise"], "formats": ["nvfp4"]}'
expect "what is claimed must be done" 1 "claimed in lying.json, but: backend lazy has no append" \
    run --backend lazy --capabilities lying.json -o c
holds "... and counts as failed" <(echo "$output") "2 UNIMPLEMENTED"
repro=$(python3 -c '
import json
print(next(l["repro"] for l in map(json.loads, open("c/results.jsonl")) if l.get("status") == "UNIMPLEMENTED"))')
expect "... its repro line has the claims" 1 "claimed in lying.json, but: " \
    bash -c "${repro/kvgold/\"\$0\"} -o again --no-html" "$kvgold"
expect "without a file everything is claimed" 1 "5 UNIMPLEMENTED" run --backend lazy -o c
expect "kvgold's own reference" 0 "15 passed" run --backend reference -o c
[[ $output != *"reference  "* ]]
report "... is no copy of it" $?

cp "$library_folder/libkvgold_fake_device.so" libengine.so
claims libengine.json '{"ops": ["flatten"], "formats": ["nvfp4.canonical"]}'
expect "the file beside the library" 0 "2 PASS, 13 SKIP" run --backend ./libengine.so -o d
echo '{"kvgold_capabilities": 1, "claims": [{"ops": ["flaten"]}]}' >libengine.json
expect "... malformed costs its cases" 1 "15 ERROR" run --backend ./libengine.so -o d
holds "... with the place" <(echo "$output") 'libengine.json: $.claims[0].ops[0]'
expect "a given one that is malformed stops the run" 2 'libengine.json: $.claims[0].ops[0]' \
    run --backend fake_device --capabilities libengine.json -o d
expect "a given one that is missing" 2 "no.json" run --backend fake_device --capabilities no.json -o d
expect "one needs --backend" 2 "name it by --backend" run --capabilities right.json -o d
claims libengine.json '{"ops": ["flatten"], "formats": ["nvfp4"]}'
expect "bench asks what is claimed" 1 "SKIP: unclaimed: op quantise" "$kvgold" bench "$config" --backend ./libengine.so \
    --seconds 0.001 --threads 1

expect "a secret seed is told" 1 "secret seed 0x" run --backend defect:nibbles_swapped --secret-seed -o e
first=$(grep -o 'seed 0x[0-9a-f]*' <<<"$output" | head -n 1)
detail=$(grep -m 1 '"status":"FAIL"' e/results.jsonl | grep -o '"detail":"[^"]*"')
repro=$(grep -m 1 '"status":"FAIL"' e/results.jsonl | grep -o '"repro":"[^"]*"' | cut -d '"' -f 4)
holds "... to the repro line" <(echo "$repro") "--${first}"
(PATH=$library_folder:$PATH eval "$repro" >/dev/null 2>&1)
holds "... which gives the same answer again" kvgold-repro/results.jsonl "$detail"
expect "... and is another one each time" 1 "secret seed 0x" run --backend defect:nibbles_swapped --secret-seed -o f
[[ $output != *"$first"* ]]
report "... indeed" $? "$first twice"
[[ $detail != "$(grep -m 1 '"status":"FAIL"' f/results.jsonl | grep -o '"detail":"[^"]*"')" ]]
report "... with other data" $?
expect "not with --seed" 2 "not both" run --secret-seed --seed 0x1 -o f
expect "not with --shard" 2 "shards need one seed" run --secret-seed --shard 1/2 -o f

# Whose answers a plug-in gives: it opens the library in its run.
# borrowed HEADS
borrowed() {
    echo '{"kvgold": 1, "name": "borrowed", "seed": "0x5", "cases": [{"op": "quantise", "format": "bf16", "kv_heads": ['"$1"'],
        "head_dim": 64, "tokens": 4, "fill": "random", "backend": "borrower"}]}' >borrowed.json
    "$kvgold" check borrowed.json --no-html -j 1 -o borrowed
}
expect "a plug-in that answers by itself" 0 "1 passed" borrowed 1
[[ $output != *"reference  "* ]]
report "... is told so" $? "$output"
expect "... and by a library with the reference" 0 "reference  1 case: libkvgold_lazy.so 1" borrowed "1, 3"
if [[ -e $library_folder/libkvgold_slowref.so ]]; then
    expect "... and by another plug-in of kvgold" 0 "reference  1 case: libkvgold_slowref.so 1" borrowed "1, 2"
    expect "the second reference" 0 "2 passed" "$kvgold" check borrowed.json --backend slowref --no-html -j 1 -o borrowed
    [[ $output != *"reference  "* ]]
    report "... is no other plug-in" $? "$output"
fi

# The result file is what its run wrote.
attacker=(check "$source_dir/tests/planted/attacker.json" --no-html -j 1 -o g)
expect "a plug-in that attacks its judge" 0 "9 passed, 0 failed; 1 of 1 cell judged; public seed" "$kvgold" "${attacker[@]}"
[[ $output != *unconfined* ]]
report "... is confined" $? "this machine refuses namespaces"
holds "... and answers by the reference" <(echo "$output") "reference  9 cases: libkvgold_attacker.so 9"
sum=$(grep '^sha256: ' <<<"$output" | tr -s ' ' | cut -d ' ' -f 2)
[[ $sum == "$(sha256sum <g/results.jsonl | cut -d ' ' -f 1)" ]]
report "... and the SHA-256 of its results is printed" $? "'$sum'"
expect "a report of that file" 0 "9 passed" "$kvgold" report g/results.jsonl --sha256 "$sum"
expect "... of two" 2 "1 --sha256 for 2 files" "$kvgold" report g/results.jsonl g/results.jsonl --sha256 "$sum"
expect "... with half a digest" 2 "'$(cut -c 1-32 <<<"$sum")' is not 64" "$kvgold" report g/results.jsonl --sha256 "$(cut -c 1-32 <<<"$sum")"
sed -i 's/"seconds":/&1/' g/results.jsonl
expect "... that somebody changed" 2 "not as its run wrote it" "$kvgold" report g/results.jsonl --sha256 "$sum"
expect "... which nobody notices without the digest" 0 "9 passed" "$kvgold" report g/results.jsonl
expect "a plug-in that may write into the results" 2 "not as its run wrote it" "$kvgold" "${attacker[@]}" --unconfined
expect "no public seed" 0 "3 cells judged" run --backend fake_device --capabilities right.json -o h --seed 0x7 --shard 1/2
[[ $output != *"public seed"* ]]
report "... is not told as one" $?

# Times that the implementation's process says, and that are not those of its runs.
forger=$source_dir/tests/planted/forger.json
expect "times that cannot be pass" 0 "6 passed" "$kvgold" check "$forger" --no-html -j 1 -o i
holds "... and are counted" <(echo "$output") "SUSPECT    3 cases: -5 ms in a call of "
holds "... with the time" i/results.jsonl '"suspect":"1e+06 ms in a call of '
[[ $(grep -c '"suspect":"nan ms in a call of ' i/results.jsonl) == 1 && $(grep -cE '"ms":(-|"|1000)' i/results.jsonl) == 0 ]]
report "... and the call's stands in its place" $? "$(grep -o '"ms":[^,]*' i/results.jsonl)"
# timed HEADS TEXT JSON
timed() {
    expect "a timed forger of $1 heads" 0 "64x$1x64" "$kvgold" bench "$forger" --filter "64x$1x64" --seconds 0.05 --threads 1 \
        --json bench.json
    holds "... says so" <(echo "$output") "$2"
    holds "... in the JSON" bench.json "$3"
}
timed 1 "% " '"TIMED"'
[[ $output != *SUSPECT* && $(cat bench.json) != *suspect* ]]
report "... and is honest" $? "$output"
for heads in 2 3 4; do timed $heads "runs gave times below 0 or above that of the call" '"suspect"'; done
timed 5 "  SUSPECT: 0.001 ms a run, and the fastest call 2" '"suspect"'
timed 6 "  SUSPECT: 125960 bytes in 1e-09 ms: " '"suspect"'
expect "copies to a device are no time of its runs" 0 "P2" "$kvgold" bench "$config" --backend fake_device --seconds 0.01 --threads 1 \
    --filter 4x1x64
[[ $output != *SUSPECT* ]]
report "... and not suspect" $? "$output"

echo "$passed passed, $failed failed"
[[ $passed -gt 0 && $failed -eq 0 ]]
