#!/usr/bin/env bash
# usage: test_golden.sh KVGOLD SOURCE_DIR WORK_DIR
#
# `kvgold golden` as a user sees it: exit codes, error lines, files, errata. One line per check; the last reads
# "N passed, N failed". Exit status 1 if a check failed. WORK_DIR is emptied first.
set -uo pipefail
[[ $# -eq 3 ]] || { sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2; }
kvgold=$(realpath "$1")
source_dir=$(realpath "$2")
packs=$source_dir/golden/data/packs
rm -rf "$3"
mkdir -p "$3"
cd "$3" || exit 2
# shellcheck source=tests/checks.sh
source "$source_dir/tests/checks.sh"

golden() { "$kvgold" golden "$@"; }

# config FILE NAME SEED GROUP...: writes a pack's config.
config() {
    local file=$1 name=$2 seed=$3
    shift 3
    local IFS=,
    echo '{"kvgold_golden": 1, "name": "'"$name"'", "version": "1.0.0", "licence": "Apache-2.0", "seed": "'"$seed"'",
           "notes": {"a": "the first", "b": "the second"}, "groups": ['"$*"']}' >"$file"
}

small='"layout": "hnd", "kv_heads": 2, "head_dim": 64, "tokens": 6, "block_tokens": 4, "scale": {"k": 0.3, "v": 0.7}'
append='{"flags": ["b", "a"], "cases": [{"op": "append", "format": ["nvfp4", "int4"], "fill": "adversarial", '$small'}]}'
recipe='{"flags": ["a"], "stored": false, "cases": [{"op": "flatten", "format": "nvfp4", "fill": "random", '$small'}]}'
decode='{"flags": ["b"], "cases": [{"op": "decode", "format": "e4m3", "group": 2, "profile": ["exact", "simt.fma.v1"], "fill": "random", '$small'}]}'
config one.json one 0x1 "$append" "$recipe" "$decode"

# --- make, verify, inspect, expand ---
expect make 0 "made one: 5 cases" golden make one.json -o one
expect "make again" 0 "made one: 5 cases" golden make one.json -o again
expect "make without separations" 0 "made one: 5 cases" golden make one.json -o quick --no-separation
check "... which are nowhere else" cmp one/manifest.json quick/manifest.json
for file in manifest.json manifest.sha256 prompt.safetensors expected.safetensors provenance.json; do
    check "same bytes twice: $file" cmp "one/$file" "again/$file"
done
check "sha256sum reads the sums" env -C one sha256sum --strict -c manifest.sha256 provenance.sha256
check "no path, host or time in any byte" bash -c "! grep -aqe '$PWD' -e '$(hostname)' -e '$(date +%Y-%m-%d)' one/*"
expect verify 0 "5 of 5 cases computed again, 0 differences" golden verify one
expect "verify hashes alone" 0 "0 of 5 cases computed again" golden verify --no-regenerate one
expect inspect 0 "(recipe)" golden inspect one
expect "inspect a case" 0 "judged by bound, or bits of simt.fma.v1" golden inspect one --case 0004
expect "inspect a case by id" 0 "K: turbomind" golden inspect one --case "$("$kvgold" golden inspect one | awk '/int4/ {print $NF}')"
expect "inspect no case" 2 "no case '0009'" golden inspect one --case 0009
expect expand 0 "expanded one: 5 cases" golden expand one -o wide
expect "verify what was expanded" 0 "5 of 5 cases computed again, 0 differences" golden verify wide
separations() { grep -o '"separations": .*' "$1/provenance.json"; }
check "... its separations are those that were measured" test -n "$(separations one)" -a "$(separations one)" = "$(separations wide)"
expect "expand a case" 0 "expanded one: 5 cases" golden expand one -o narrow --case 0002
check "... it alone is stored" test "$(golden inspect narrow | grep -c '(recipe)')" = 4
expect "... and it is the recipe" 0 "5 of 5 cases computed again, 0 differences" golden verify narrow
expect "expand no case" 2 "no case '0009'" golden expand one -o none --case 0009
expect "int4 as PyTorch packs it" 0 "K: halves" golden inspect "$packs/rows" --case quantise/int4.pytorch/rows/bf16/12x1x64/adversarial/-/reference
expect "nvfp4's packing" 0 "V: low_first" golden inspect "$packs/hnd" --case 0000
expect "what expanding changed" 1 "no case's bytes" golden diff one wide

keeps "expand in its own place" one/manifest.json golden expand one -o "$PWD/one/"
keeps "compare: the report is the answer" one/expected.safetensors "$kvgold" compare again one/expected.safetensors --json one/./expected.safetensors
keeps "compare: the report is a file of the pack" one/manifest.json "$kvgold" compare one again/expected.safetensors --json one/manifest.json

# --- diff ---
expect "diff of the same" 0 "" golden diff one again
config two.json one 0x1 "$append" "$decode"
"$kvgold" golden make two.json -o two >/dev/null
expect "diff: a case less" 1 "removed case 0002 flatten/nvfp4" golden diff one two
expect "diff: a case more" 1 "added case 0002 flatten/nvfp4" golden diff two one
config seed.json one 0x2 "$append" "$recipe" "$decode"
"$kvgold" golden make seed.json -o seed >/dev/null
expect "diff: other bytes" 1 "changed expected k_data of append/nvfp4" golden diff one seed
expect "diff: the seed" 1 "changed seed: 0x1 and 0x2" golden diff one seed

# --- a pack whose bytes are not what its cases give: sealed again after a byte of an answer was changed ---
# seal DIR: renews the hashes of a pack that was tampered with.
seal() {
    local folder=$1 prompt expected
    prompt=$(sha256sum <"$folder/prompt.safetensors" | cut -d' ' -f1)
    expected=$(sha256sum <"$folder/expected.safetensors" | cut -d' ' -f1)
    sed -i -E "s/(\"prompt.safetensors\": \{\"bytes\": [0-9]+, \"sha256\": \")[0-9a-f]+/\1$prompt/
               s/(\"expected.safetensors\": \{\"bytes\": [0-9]+, \"sha256\": \")[0-9a-f]+/\1$expected/" "$folder/manifest.json"
    (cd "$folder" && sha256sum manifest.json >manifest.sha256)
}
# The first tensor of the file starts where its header ends: 8 + its length, which is in bytes 0 and 1 here.
cp -r one forged
header=$(od -An -tu2 -N2 one/expected.safetensors)
at=$((8 + header + 77))
byte=$(od -An -tu1 -j$at -N1 one/expected.safetensors)
printf '%b' "\\x$(printf '%02x' $((byte ^ 1)))" | dd of=forged/expected.safetensors bs=1 seek=$at conv=notrunc status=none
expect "a changed byte" 2 "expected.safetensors: its SHA-256 is not what the manifest says" golden verify forged
seal forged
expect "a changed byte, file sealed again" 2 "the SHA-256 of tensor '0000.k_data'" golden verify forged
old=$(grep -o '"0000.k_data", "dtype": "U8", "shape": \[[0-9]*\], "bytes": [0-9]*, "sha256": "[0-9a-f]*' one/manifest.json | tail -n 1 | grep -o '[0-9a-f]*$')
new=$(dd if=forged/expected.safetensors bs=1 skip=$((8 + header)) count="$(grep -o '"0000.k_data".*"bytes": [0-9]*' one/manifest.json | grep -o '[0-9]*$' | head -n 1)" status=none | sha256sum | cut -d' ' -f1)
sed -i "s/$old/$new/" forged/manifest.json
seal forged
expect "a changed byte, all sealed: the hashes hold" 0 "every hash holds" golden verify --no-regenerate forged
expect "a changed byte, all sealed: computing tells" 1 "0000.k_data differs when computed: byte 77" golden verify forged
cp -r one layer
sed -i '0,/"layer": 0/s//"layer": 1/' layer/manifest.json
seal layer
expect "another layer, sealed" 2 "is not the manifest's layer" golden verify layer
cp -r one line
sed -i 's/"fill": "random"/"fill": "codes"/' line/manifest.json
seal line
expect "another line, sealed" 2 "is not the manifest's line" golden verify line

# --- errata ---
expect erratum 0 "marked one: 5 cases" golden erratum one --id E1 --date 2026-11-21 --cases 0000,0002 --text 'rounds "wrong"' --superseded-by one-2
for file in prompt.safetensors expected.safetensors provenance.json; do check "an erratum leaves $file" cmp "one/$file" "again/$file"; done
expect "verify warns" 0 'WARNING: erratum E1 of pack one (2026-11-21, 2 cases): rounds "wrong"' golden verify one
expect "verify warns of the successor" 0 "WARNING: pack one is superseded: use one-2" golden verify one
expect "what has an erratum is not computed" 0 "3 of 5 cases computed again, 0 differences" golden verify one
expect "inspect shows it" 0 "(ERRATUM)" golden inspect one
expect "inspect shows it with its case" 0 "erratum E1" golden inspect one --case 0002
expect "a case without one" 0 "pack one is superseded" golden inspect one --case 0001
expect "expand cannot" 2 "case 0002 has an erratum" golden expand one -o wider
expect "expand can for another case" 0 "expanded one" golden expand one -o narrow --case 0003
stays() { # NAME COMMAND...: refused; the pack stays marked
    expect "$1" 2 "one: the pack there has errata or a successor, and stays: give another folder" "${@:2}"
    expect "... is still marked" 0 "erratum E1" golden inspect one
}
stays "make in a marked pack's place" golden make one.json -o one
stays "expand in a marked pack's place" golden expand again -o one
cp -r again successor
sed -i 's/"superseded_by": null/"superseded_by": "two"/' successor/manifest.json
expect "make in a superseded pack's place" 2 "successor: the pack there has errata" golden make one.json -o successor
check "... leaves its manifest" grep -q '"superseded_by": "two"' successor/manifest.json
expect "another erratum" 0 "marked one" golden erratum one --id E2 --date 2026-11-22 --cases 0003 --text "more"
expect "both are there" 0 "erratum E2" golden inspect one
expect "a text with control bytes" 0 "marked one" golden erratum one --id E2b --date 2026-11-22 --cases 0003 --text $'red \x1b[31m\ntwo'
expect "is one line without them" 0 "erratum E2b of pack one (2026-11-22, 1 cases): red ?[31m?two" golden inspect one
expect "the same erratum twice" 2 "has an erratum E2 already" golden erratum one --id E2 --date 2026-11-22 --cases 0003 --text "more"
expect "an erratum of no case" 2 "no case '0042'" golden erratum one --id E3 --date 2026-11-22 --cases 0042 --text "more"
expect "an erratum out of order" 2 "each greater than the one before" golden erratum one --id E3 --date 2026-11-22 --cases 0003,0001 --text "more"
expect "an erratum's date" 2 "date 'today' is not YYYY-MM-DD" golden erratum one --id E3 --date today --cases 0003 --text "more"
for date in 2026-13-99 2026-02-30 2026-02-29 2100-02-29 2026-04-31 2026-00-01 2026-01-00 2026-1-001 26-01-0100 2026-01-1x; do
    expect "an erratum of $date" 2 "date '$date' is not YYYY-MM-DD" golden erratum one --id E3 --date "$date" --cases 0003 --text "more"
done
cp -r again leap
expect "an erratum of a leap day" 0 "marked one" golden erratum leap --id E3 --date 2028-02-29 --cases 0003 --text "more"
for keys in "0003,,0004" ",0003" "0003," "," ""; do
    expect "an erratum of cases '$keys'" 2 "--cases: a key is empty" golden erratum one --id E3 --date 2026-11-22 --cases "$keys" --text "more"
done
expect "an empty text" 2 "text is empty" golden erratum one --id E3 --date 2026-11-22 --cases 0003 --text ""
expect "a text that is not UTF-8" 2 "is not UTF-8" golden erratum one --id E3 --date 2026-11-22 --cases 0003 --text $'\xff'
expect "superseded by itself" 2 "cannot be superseded by itself" golden erratum one --id E3 --date 2026-11-22 --cases 0003 --text "more" --superseded-by one
expect "what was refused has left the pack as it was" 0 "every hash holds" golden verify --no-regenerate one
expect "an erratum without a text" 2 "erratum needs" golden erratum one --id E3 --date 2026-11-22 --cases 0003

# --- what is refused ---
config bad.json one 0x1 '{"flags": ["c"], "cases": []}'
expect "a flag without a note" 2 "flag 'c' has no note" golden make bad.json -o bad
config bad.json one 0x1 "$decode"
expect "a note of no group" 2 "note 'a' is of no group's flags" golden make bad.json -o bad
config bad.json one 0x1 "$append" "$append"
expect "a case twice" 2 "two groups give case append/" golden make bad.json -o bad
config bad.json One 0x1 "$append"
expect "a name in upper case" 2 "name 'One'" golden make bad.json -o bad
config bad.json one 0x1 "${append/adversarial/noise}"
expect "no such fill" 2 "unknown fill 'noise'" golden make bad.json -o bad
config bad.json one 0x1 "$append" '{"flags": ["a"], "cases": [{"op": "decode", "format": "bf16", "operands": "e4m3", "fill": "random", '"$small"'}]}'
expect "a case that tells nothing" 1 "that a wrong answer passes" golden make bad.json -o others
check "... is named" grep -q "^REFUSED decode/bf16.canonical/hnd:.*:e4m3/" <<<"$output"
expect "... and the others are made" 0 "every hash holds; 2 of 2 cases computed again" golden verify others
expect "... is made unmeasured" 0 "made one" golden make bad.json -o blind --no-separation
expect "... and expanded, which makes no wrong answer" 0 "expanded one" golden expand blind -o seen
config bad.json one 0x1 "$append" '{"flags": ["a"], "cases": [{"op": "decode", "format": "bf16", "window": 99, "fill": "random", '"$small"'}]}'
expect "a window that no query reaches" 1 "window is asked for and never seen" golden make bad.json -o others
config bad.json one 0x1 "$append" '{"flags": ["a"], "cases": [{"op": "quantise", "format": "int8", "kv_heads": 2, "head_dim": 64, "tokens": 2, "fill": "zero"}]}'
expect "a fill that tells nothing" 1 "no known-wrong answer differs" golden make bad.json -o others
config bad.json one 0x1 '{"flags": ["b"], "cases": [{"op": "quantise", "format": "int8", "kv_heads": 2, "head_dim": 64, "tokens": 2, "fill": "zero"}]}' "${recipe/nvfp4/e4m3}"
expect "a refused case before another" 1 "1 cases are refused: the pack has the others" golden make bad.json -o others
expect "... leaves its key to it" 0 "flatten/e4m3" golden inspect others --case 0000
check "... and takes its note away" grep -q '"notes": {"a": "the first"}' others/manifest.json
config bad.json one 0x1 '{"flags": ["a", "b"], "cases": [{"op": "quantise", "format": "int8", "kv_heads": 2, "head_dim": 64, "tokens": 2, "fill": "zero"}]}'
expect "nothing but cases that tell nothing" 2 "pack one: every case is refused: quantise/int8" golden make bad.json -o bad
config bad.json one 0x1 "$append" '{"flags": ["a"], "cases": [{"op": "append", "format": "int8", "fill": {"capture": "x.safetensors", "k": "k", "v": "v"}, '"$small"'}]}'
expect "a capture" 2 "no captures" golden make bad.json -o bad
check "nothing was made" test ! -e bad
check "nothing is left behind" bash -c '! ls -d .*.tmp-* 2>/dev/null'
expect "no such config" 2 "none.json" golden make none.json -o bad
expect "no such pack" 2 "none" golden verify none
expect "a pack that is a file" 3 "is not a folder" golden verify one.json
ln -s one link
expect "a link to a pack" 3 "is a symbolic link" golden verify link/
expect "no action" 2 "no action 'frobnicate'; known: make, verify" golden frobnicate
expect "make without a folder" 2 "-o DIR" golden make one.json
expect "an option of another action" 2 "--no-regenerate is not for diff" golden diff one two --no-regenerate
expect "one path for diff" 2 "diff takes 2 paths" golden diff one
expect help 0 "usage: kvgold golden make" golden --help

# --- a carried pack follows from its config, byte by byte ---
expect "make a carried pack" 0 "made vllm" golden make "$source_dir/configs/pack_vllm.json" -o vllm
for file in manifest.json manifest.sha256 prompt.safetensors expected.safetensors; do
    check "carried: $file" cmp "vllm/$file" "$packs/vllm/$file"
done

echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
