#!/usr/bin/env bash
# usage: test_cli.sh KVGOLD SOURCE_DIR WORK_DIR
#
# The program as a user sees it: exit codes, error lines, files, signals. One line per check; the last reads
# "N passed, N failed". Exit status 1 if a check failed. WORK_DIR is emptied first.
set -uo pipefail
[[ $# -eq 3 ]] || { sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2; }
kvgold=$(realpath "$1")
source_dir=$(realpath "$2")
rm -rf "$3"
mkdir -p "$3"
cd "$3" || exit 2
library_folder=$(dirname "$kvgold")
# shellcheck source=tests/checks.sh
source "$source_dir/tests/checks.sh"
esc=$'\033'

# --- helpers ----------------------------------------------------------------------------------------------------------

# config FILE GROUPS [LIMITS]: writes a config.
config() {
    echo '{"kvgold": 1, "name": "cli", "seed": "0x5", "limits": '"${3:-"{}"}"', "cases": ['"$2"']}' >"$1"
}

# wait_for FILE TEXT: until the file holds the text, 20 seconds at most.
wait_for() {
    for ((i = 0; i < 400; i++)); do
        grep -qs -- "$2" "$1" && return 0
        sleep 0.05
    done
    return 1
}

# children PID: its child processes.
children() {
    local stat rest
    for stat in /proc/[0-9]*/stat; do
        { read -r rest <"$stat"; } 2>/dev/null || continue
        read -r _ parent _ <<<"${rest##*) }"
        stat=${stat%/stat}
        [[ $parent == "$1" ]] && echo "${stat##*/}"
    done
}

# gone PID...: none of them is alive any more, after 5 seconds at most.
gone() {
    [[ $# -gt 0 ]] || { echo "there were no children"; return 1; }
    for ((i = 0; i < 100; i++)); do
        local alive=()
        for pid in "$@"; do
            if [[ -d /proc/$pid ]] && ! grep -qs '^State:.Z' "/proc/$pid/status"; then alive+=("$pid"); fi
        done
        [[ ${#alive[@]} -eq 0 ]] && return 0
        sleep 0.05
    done
    echo "still alive: ${alive[*]}"
    kill -KILL "${alive[@]}"
    return 1
}

# results COMMAND ...: questions to result files.
#   valid FILE             every line is JSON and ends
#   count FILE KEY VALUE   how many lines have it
#   get FILE KEY           the values of its case lines
#   same A B               the same cases with the same results, times apart
#   differ A B             the same ids, other data
results() {
    python3 - "$@" <<'PYTHON'
import json, sys

def lines(path):
    data = open(path, encoding="utf-8").read()
    if not data.endswith("\n"):
        sys.exit(f"{path}: the last line has no end")
    return [json.loads(line) for line in data.splitlines()]

def cases(path):
    found = {}
    for line in lines(path):
        if line["type"] == "case":
            if line["id"] in found:
                sys.exit(f"{path}: twice: {line['id']}")
            found[line["id"]] = {k: v for k, v in line.items() if k not in ("ms", "seconds", "slow", "repro")}
    return found

command, path, *rest = sys.argv[1:]
if command == "valid":
    lines(path)
elif command == "count":
    print(sum(str(line.get(rest[0])) == rest[1] for line in lines(path)))
elif command == "get":
    print(*[line[rest[0]] for line in lines(path) if line["type"] == "case"], sep="\n")
else:
    a, b = cases(path), cases(rest[0])
    if not a or set(a) != set(b):
        sys.exit(f"{len(a)} and {len(b)} cases, {len(set(a) ^ set(b))} of them on one side only")
    other = [id for id in a if a[id] != b[id]]
    if command == "same" and other:
        sys.exit(f"{len(other)} cases differ, first {other[0]}")
    if command == "differ" and len(other) != len(a):
        sys.exit(f"{len(a) - len(other)} of {len(a)} cases are the same")
PYTHON
}

group='"op": "quantise", "kv_heads": 2, "head_dim": 64, "tokens": 4, "fill": "random"'
config one.json "{$group, \"format\": \"nvfp4\"}"
config five.json "{$group, \"format\": [\"e4m3\", \"int8\", \"mx16\", \"mxfp4\", \"nvfp4\"]}"
config many.json "{$group, \"format\": [\"e4m3\", \"int8\", \"mx16\", \"nvfp4\"], \"dtype\": [\"f16\", \"bf16\"],
    \"backend\": \"$other\", \"include\": [{\"op\": [\"quantise\", \"dequantise\"], \"tokens\": [1, 2, 3, 5, 8]}]}"
config planted.json '{"op": "quantise", "format": "nvfp4", "kv_heads": [1, 19, 3], "head_dim": 64, "tokens": 4,
    "fill": "random", "backend": "planted"}'

# --- help and usage ---------------------------------------------------------------------------------------------------

for command in check invariance lint list new explain probe report coverage bench compare golden generate matrix memory mode pool doctor; do
    expect "$command --help" 0 "usage: kvgold $command" "$kvgold" "$command" --help
    check "$command --help is on stdout" test -z "$("$kvgold" "$command" --help 2>&1 >/dev/null)"
    expect "$command --wrong is a usage error" 2 "kvgold $command: " "$kvgold" "$command" --wrong
done
# refused TEXT COMMAND ARGUMENT...: an option is refused in one line that says why.
refused() {
    expect "$2 ${*:3}: $1" 2 "kvgold $2: option $1 (see \`kvgold $2 --help\`)" "$kvgold" "${@:2}"
    check "... in one line" test "$(wc -l <<<"$output")" == 1
}
for command in check invariance lint probe report coverage bench compare generate matrix memory mode pool; do
    refused "--wrong is unknown" "$command" --wrong
    refused "--help=5 takes no value" "$command" --help=5
    refused "-x is unknown" "$command" -xh
done
refused "--json needs a value" bench one.json --json
refused "-o needs a value" check one.json -o
refused "--s begins more than one" check --s one.json
refused "--cases needs a value" golden erratum pack --cases
expect "--help" 0 "Exit codes: 0 all passed" "$kvgold" --help
check "... has every action of golden" grep -q "make, verify, inspect, diff, expand, erratum$" <<<"$output"
check "help check is check --help" cmp <("$kvgold" help check) <("$kvgold" check --help)
expect "help of no command" 2 "no command 'chekc' (did you mean 'check'?)" "$kvgold" help chekc
expect "help in a form that is none" 2 "no form of help '--mann' (did you mean '--man'?)" "$kvgold" help --mann
for form in man bash zsh fish; do "$kvgold" help --$form >"completion.$form"; done
for command in check memory; do
    check "man page: $command" grep -q "^.SS kvgold $command" completion.man
done
# shellcheck disable=SC1091 # made above
completes() { # WANTED WORD...: what bash offers for the last word
    local found
    found=$(source completion.bash && COMP_WORDS=("${@:2}") && COMP_CWORD=$(($# - 2)) && _kvgold && echo "${COMPREPLY[*]}")
    check "bash completes: ${*:2}" test "$found" == "$1"
}
PATH=$(dirname "$kvgold"):$PATH completes "--seed --secret-seed" kvgold check --se
PATH=$(dirname "$kvgold"):$PATH completes "nvfp4" kvgold matrix --format nvf
PATH=$(dirname "$kvgold"):$PATH completes "ci_smoke" kvgold check ci_sm
PATH=$(dirname "$kvgold"):$PATH completes "hnd" kvgold golden verify hn
PATH=$(dirname "$kvgold"):$PATH completes "pack_hnd" kvgold golden make pack_hn
PATH=$(dirname "$kvgold"):$PATH completes "llama-3-8b" kvgold memory llama-3-8
PATH=$(dirname "$kvgold"):$PATH completes "llama-3-8b" kvgold mode --model llama-3-8
completes one.json kvgold check one.js
completes matrix kvgold ma
for shell in zsh fish; do
    if command -v $shell >/dev/null; then check "$shell reads its completion" $shell -n "completion.$shell"; fi
done
if command -v groff >/dev/null; then
    check "groff has nothing to say of the man page" test -z "$(groff -man -ww -Tutf8 completion.man 2>&1 >/dev/null)"
fi
expect "no command" 2 "usage: kvgold COMMAND" "$kvgold"
expect "--version" 0 "kvgold 0." "$kvgold" --version
# meant TEXT COMMAND...: the nearest right word in one line, before anything starts.
meant() {
    expect "${*:2}: the word that was meant" 2 "$1" "$kvgold" "${@:2}"
    check "... in one line" test "$(wc -l <<<"$output")" == 1
}
meant "no command 'chekc' (did you mean 'check'?)" chekc
meant "no command 'frobnicate'; known: check, invariance, lint" frobnicate
meant "no option --bakend (did you mean --backend?)" check one.json --bakend reference
meant "no option --sed (did you mean --seed?)" check one.json --sed=0x1
meant "no backend 'refrence' (did you mean 'reference'?)" check one.json -o bad --backend refrence
meant "no backend 'planted_plgin' (did you mean 'planted_plugin'?)" check one.json -o bad --backend planted_plgin
meant "no defect 'nibble_swapped' (did you mean 'nibbles_swapped'?)" check one.json -o bad --backend defect:nibble_swapped
meant "/libkvgold_planted_plugn.so: no such file (did you mean '" check one.json -o bad \
    --backend "$library_folder/libkvgold_planted_plugn.so"
meant "fiv.json: no such file (did you mean 'five.json'?)" check fiv.json -o bad
meant "ci_smok: no such file (did you mean 'ci_smoke'?)" check ci_smok -o bad
meant "compare: hn: no such file (did you mean 'hnd'?)" compare hn answer.safetensors
meant "golden: hn: no such file (did you mean 'hnd'?)" golden diff hnd hn
meant "memory: ci_memor: no such file (did you mean 'ci_memory'?)" memory --require ci_memor
expect "a shipped config by its name" 0 "mma/" "$kvgold" list ci_mma
expect "a shipped pack by its name" 0 "format 1.0.0, licence Apache-2.0, seed 0x686e64" "$kvgold" golden inspect hnd
mkdir hnd
expect "... and a folder of the user that has that name goes before it" 3 "hnd/manifest.sha256: cannot open" \
    "$kvgold" golden inspect hnd
rmdir hnd
mkdir ci_mma
expect "... but a folder is no config" 0 "mma/" "$kvgold" list ci_mma
rmdir ci_mma
meant "list: ci_smok: no such file (did you mean 'ci_smoke'?)" list ci_smok
meant "one.json: no case 'quantise/nvpf4" check one.json -o bad --case quantise/nvpf4
meant "no format 'nvpf4' (did you mean 'nvfp4'?)" matrix --format nvpf4
meant "no layout 'hdn' (did you mean 'hnd'?)" memory llama-3-8b --layout hdn
meant "no model 'lama-3-8b' (did you mean 'llama-3-8b'?)" memory lama-3-8b
meant "no list 'formts' (did you mean 'formats'?)" list formts
meant "no action 'verfy' (did you mean 'verify'?)" golden verfy pack
meant "no scenario 'nobody'; known: " pool run "$source_dir/configs/ci_pool.json" --scenario nobody
expect "check without a config" 2 "give one config" "$kvgold" check
expect "check with two configs" 2 "give one config" "$kvgold" check one.json five.json
for bad in "--seed 5" "--seed 0x" "--seed 0x11111111111111111" "--jobs 0" "--jobs 65" "-j x" "--shard 0/2" "--shard 3/2" \
    "--shard 1" "--shard /2" "--shard 1/10001"; do
    # shellcheck disable=SC2086 # an option and its value
    expect "check $bad is refused" 2 "kvgold check: " "$kvgold" check one.json -o bad $bad
done
check "a refused command line leaves no folder" test ! -e bad

# --- configs and folders ----------------------------------------------------------------------------------------------

expect "a missing config" 2 "missing.json: no such file" "$kvgold" check missing.json -o bad
expect "a folder as config" 3 "is a folder" "$kvgold" check "$source_dir/configs" -o bad
config unknown_key.json "{$group, \"formats\": \"nvfp4\"}"
expect "a malformed config names file and path" 2 \
    "unknown_key.json: \$.cases[0]: unknown key 'formats' (did you mean 'format'?)" "$kvgold" check unknown_key.json -o bad
check "a refused config leaves no folder" test ! -e bad
expect "an output folder below a file" 3 "cannot make the folder one.json/x" "$kvgold" check one.json -o one.json/x
expect "a good run" 0 "1 passed, 0 failed" "$kvgold" check one.json -o good
check "report.html is there" grep -q "</html>" good/report.html
expect "--no-html" 0 "1 passed, 0 failed" "$kvgold" check one.json -o plain --no-html
check "--no-html writes none" test ! -e plain/report.html
expect "--junit" 0 "1 passed" "$kvgold" check one.json -o good --junit good/junit.xml
check "the JUnit file is XML with one case" python3 -c \
    'import xml.etree.ElementTree as t; assert len(t.parse("good/junit.xml").findall(".//testcase")) == 1'
expect "list CONFIG" 0 "quantise/nvfp4.canonical/rows/bf16/4x2x64/random/P2/reference" "$kvgold" list one.json
second expect "another backend than the config's" 0 "1 passed" "$kvgold" check one.json -o other --backend slowref
second check "... is in the id" grep -q 'random/P2/slowref"' other/results.jsonl
second check "... its library is in the run's line" grep -qF "$(sha256sum "$library_folder/libkvgold_slowref.so" | cut -c-64)" \
    <(grep '"type":"run"' other/results.jsonl)
expect "an output folder in a folder that is not there" 0 "1 passed" "$kvgold" check one.json -o deep/er/out --junit deep/er/out/x.xml
expect "... of a report" 0 "1 passed" "$kvgold" report deep/er/out/results.jsonl -o deep/as/well
"$kvgold" check one.json -o piped >piped.txt 2>&1
check "no colour and no progress in a pipe" test -z "$(grep "[$esc"$'\r]' piped.txt)"

# --- outputs that are an input, or each other ---------------------------------------------------------------------------

echo '{"kvgold_capabilities": 1, "claims": [{"ops": ["quantise"]}]}' >claims.json
cp "$source_dir/configs/bench_pool.json" pool.json
ln -s "$PWD/one.json" link.json
keeps "check: the JUnit file is the results" good/results.jsonl "$kvgold" check one.json -o good --junit good/results.jsonl
keeps "... is the page, by another name" good/report.html "$kvgold" check one.json -o good --junit ./good/../good/report.html
keeps "... is the log" good/results.jsonl "$kvgold" check one.json -o good/ --junit good//candidate.log
keeps "... is the config" one.json "$kvgold" check one.json -o good --junit "$PWD/one.json"
keeps "... is the config, by a link" one.json "$kvgold" check link.json -o good --junit one.json
keeps "... is the capabilities" claims.json "$kvgold" check one.json -o good --backend $other --capabilities claims.json --junit claims.json
expect "... is the results, of a folder that is not there" 2 "are the same file" "$kvgold" check one.json -o none --junit ./none/results.jsonl
check "... and is not made" test ! -e none
expect "... is the page, with none" 0 "1 passed" "$kvgold" check one.json -o other --no-html --junit other/report.html
expect "a device may be given twice" 0 "1 passed" "$kvgold" check one.json -o other --no-html --junit /dev/null
keeps "report: the JUnit file is an input" good/results.jsonl "$kvgold" report good/results.jsonl --junit good/results.jsonl
keeps "report: the merged file is one of several" good/results.jsonl "$kvgold" report plain/results.jsonl good/results.jsonl -o good
keeps "coverage: the ledger is an input" good/results.jsonl "$kvgold" coverage plain/results.jsonl good/results.jsonl --json good/results.jsonl
cp good/results.jsonl before.jsonl
expect "report: a single file into its own place" 0 "1 passed" "$kvgold" report good/results.jsonl -o good
check "... stays what it was" results same good/results.jsonl before.jsonl
keeps "bench: the figures are the config" one.json "$kvgold" bench one.json --json ./one.json
keeps "bench of pools: the figures are the config" pool.json "$kvgold" bench pool.json --json pool.json
keeps "pool bench: the figures are the config" pool.json "$kvgold" pool bench pool.json --json "$PWD/pool.json"
keeps "pool run: pool.json is the config" pool.json "$kvgold" pool run pool.json -o .

# --- disks that are full ----------------------------------------------------------------------------------------------

limited() { (ulimit -f "$1" && shift && "$@"); }
expect "results over the file size limit" 3 "File too large" limited 1 "$kvgold" check five.json -o full
check "... keep whole lines" results valid full/results.jsonl
expect "a page over the file size limit" 3 "File too large" limited 8 "$kvgold" check five.json -o page
check "... leaves no part of itself" test -z "$(find page -name '*.part')"
expect "report: a page over the limit" 3 "File too large" limited 8 "$kvgold" report page/results.jsonl -o page2
expect "--junit to a folder that is not there" 3 "nowhere/x.xml: cannot write" "$kvgold" check one.json -o unborn --junit nowhere/x.xml
check "... is found before the run" test ! -e unborn
expect "--junit in the folder that the run makes" 0 "1 passed" "$kvgold" check one.json -o born --no-html --junit born/x.xml
check "... is there" test -s born/x.xml
expect "--junit on a full device" 3 "No space left" "$kvgold" check one.json -o good --no-html --junit /dev/full
to_full() { "$@" >/dev/full; }
to_nowhere() { "$@" >&-; }
cd_source() { (cd "$source_dir" && "$@"); }
commands=("list formats" "mode --json" "memory llama-3-8b --json" --help "bench --help" --version doctor)
"$kvgold" doctor --ctest-resources >/dev/null 2>&1 && # of a build with CUDA
    commands+=("doctor --ctest-resources")
for what in "${commands[@]}"; do
    for to in to_full to_nowhere; do
        # shellcheck disable=SC2086 # a command and its options
        expect "$what $to" 3 ": cannot write the output" cd_source $to "$kvgold" $what
        check "... in one line" test "$(wc -l <<<"$output")" == 1
    done
done
mkdir disk
if mount -t tmpfs -o size=8k tmpfs disk 2>/dev/null; then
    expect "results on a full disk" 3 "No space left" "$kvgold" check many.json -o disk --no-html
    check "... keep whole lines" results valid disk/results.jsonl
    check "... and some cases" test "$(results count disk/results.jsonl type case)" -gt 0
    umount disk
else
    echo "skip a full disk: cannot mount a tmpfs here"
fi

# --- signals ----------------------------------------------------------------------------------------------------------

# interrupt SIGNAL FOLDER: starts a run whose third case hangs and sends the signal once it does. Sets $status, $orphans.
interrupt() {
    "$kvgold" check planted.json -o "$2" -j 1 --no-html >"$2.txt" 2>&1 &
    local pid=$!
    wait_for "$2/results.jsonl" '"type":"start".*4x3x64'
    mapfile -t orphans < <(children "$pid")
    kill "-$1" "$pid"
    wait "$pid" 2>/dev/null
    status=$?
}

for signal in INT TERM; do
    interrupt "$signal" "on_$signal"
    check "SIG$signal: exit code 3" test "$status" -eq 3
    check "SIG$signal: no child is left" gone "${orphans[@]}"
    check "SIG$signal: whole lines" results valid "on_$signal/results.jsonl"
    check "SIG$signal: the finished cases are there" test "$(results count "on_$signal/results.jsonl" status PASS)" -eq 2
    check "SIG$signal: the end says so" grep -q '"type":"end","interrupted":true' "on_$signal/results.jsonl"
    check "SIG$signal: the table names the case that did not finish" grep -q "UNFINISHED.*4x3x64" "on_$signal.txt"
    expect "SIG$signal: a report of it fails" 1 "interrupted" "$kvgold" report "on_$signal/results.jsonl"
done
interrupt KILL on_KILL
check "SIGKILL: no child is left" gone "${orphans[@]}"
check "SIGKILL: whole lines" results valid on_KILL/results.jsonl
expect "SIGKILL: a report of it fails" 1 "no end line" "$kvgold" report on_KILL/results.jsonl
# childless SIGNAL COMMAND...: of a program that has children and gets the signal, none is left.
childless() {
    local pid child tree=()
    "${@:2}" >/dev/null 2>&1 &
    pid=$!
    for ((i = 0; i < 100 && ${#tree[@]} == 0; i++)); do
        sleep 0.1
        mapfile -t tree < <(children "$pid")
    done
    for child in "${tree[@]}"; do mapfile -t -O "${#tree[@]}" tree < <(children "$child"); done
    kill "-$1" "$pid"
    wait "$pid" 2>/dev/null
    gone "${tree[@]}"
}
for signal in TERM KILL; do
    check "SIG$signal: pool run leaves no child" childless $signal "$kvgold" pool run "$source_dir/configs/nightly_pool.json" -j 2 -o pool
    check "SIG$signal: bench leaves no child" childless $signal "$kvgold" bench five.json --seconds 20
done
config large.json "{${group/\"tokens\": 4/\"tokens\": 4096}, \"format\": [\"e4m3\", \"int8\", \"mx16\", \"mxfp4\"]}"
# stopped SIGNAL: a bench of four cases, a second each, gets it after the second one.
stopped() {
    "$kvgold" bench large.json --seconds 1 --threads 1 --json stopped.json >stopped.txt 2>&1 &
    local pid=$!
    wait_for stopped.txt quantise/int8
    kill "-$1" "$pid"
    wait "$pid" 2>/dev/null
}
for signal in INT TERM; do
    rm -f stopped.json stopped.txt # or the next one is taken for as far as the last one got
    stopped $signal
    report "SIG$signal: a bench ends with exit code 3" $(($? != 3))
    check "SIG$signal: ... says what it keeps" grep -q "interrupted by a signal. What was measured is in stopped.json" stopped.txt
    check "SIG$signal: ... keeps what it measured" python3 -c '
import json
kept = [case["status"] for case in json.load(open("stopped.json"))]
assert kept in (["TIMED"] * 2, ["TIMED"] * 3), kept # two before the signal was sent, and a third on a busy machine'
done
head -n -1 good/results.jsonl | head -c -200 >cut.jsonl
expect "a last line cut short is left out and said so" 1 "cut short" "$kvgold" report cut.jsonl

# --- layouts ----------------------------------------------------------------------------------------------------------

mine='[L B H N/4 G N%4] K.scales ; [L B H N]{ K.codes +7 }'
expect "the texts of layouts" 0 "mla         [L B N] K.codes ; [L B N] K.scales" "$kvgold" layout
expect "... and of V's scales in groups" 0 "trtllm      v_scale_swizzle [B L]{ [H N] K.codes" "$kvgold" layout
expect "a layout's map" 0 "k_scale_pool      8          0        512        128        128  4 x 1, 32        4" "$kvgold" layout "$mine"
expect "a place" 0 "byte 38 of k_scale_pool" "$kvgold" layout "$mine" --at token=6,dim=16
expect "... and back" 0 "K.scales of layer 0, block 0, head 0, token 6, byte 1 of the row" "$kvgold" layout "$mine" --byte 38
expect "padding" 0 "byte 64 of k_data: padding" "$kvgold" layout "$mine" --byte 64
expect "a place of a name" 0 "byte 57672 of k_data = 0 + layer 1 x 32768" "$kvgold" layout hnd --at layer=1,block=3,token=5,dim=17
expect "a place that is none" 2 "token is a number from 0 to 15, not '16'" "$kvgold" layout hnd --at token=16
expect "an axis that is none" 2 "'slot=3': layer, block, head, token or dim" "$kvgold" layout hnd --at slot=3
expect "a layout that is none" 2 "did you mean 'hnd'" "$kvgold" layout hdn
hnd_in_words="[L B H N] K.codes ; [L B H N] V.codes ; [L B H N] K.scales ; [L B H N] V.scales"
expect "a reader of itself" 0 "V.scales: all 8192 bytes are right" "$kvgold" layout hnd --compare hnd
expect "... of the same in other words" 0 "K.codes: all 65536 bytes" "$kvgold" layout "$hnd_in_words" --compare hnd
expect "a reader of another page" 1 "K.codes: 1.6 % of 65536 bytes are right; the others are of another head, token" "$kvgold" layout hnd --compare nhd
check "... and the first byte that is another" grep -q "it takes    V.codes of layer 0, block 0, head 1, token 0, byte 0" <<<"$output"
expect "... whose rows are shorter" 1 "lie beyond the pool" "$kvgold" layout vllm_lbnhc --compare hnd
expect "a reader of padding" 1 "are padding" "$kvgold" layout hnd --compare "[L B]{ [H N] K.codes +4096 } ; [L B H N] K.scales ; [L B H N] V.codes ; [L B H N] V.scales"
expect "... of a layout that is none" 2 "did you mean 'hnd'" "$kvgold" layout hnd --compare hdn
expect "... of rows that K and V share" 2 "one layout has one row for K and V, and the other has two" "$kvgold" layout hnd --compare mla
expect "a text that is none" 2 "column 10: an axis is L layer" "$kvgold" layout '[L B H N K.codes'
expect "a picture" 0 "| K t0 h0 | K t0 h1 | K t1 h0 |" "$kvgold" layout nhd --draw
expect "... of padding" 0 "| Ks t3 h0 7 | padding" "$kvgold" layout '[L B N H] K.codes ; [L B]{ [H N/4 G N%4] K.scales +9 }' --draw
expect "... and what a reader takes it for" 1 "|          | Vs t0 h1 | Vs t1 h0 |" "$kvgold" layout nhd --compare hnd --draw --block-tokens 2
expect "... as a file" 0 "" "$kvgold" layout nhd --svg page.svg
check "... with every row" grep -q '>Vs t3 h1</text>' page.svg
expect "... that cannot be written" 3 "nowhere/page.svg" "$kvgold" layout nhd --svg nowhere/page.svg
packs=$source_dir/golden/data/packs
expect "the layout of pages" 0 "100.0 %  hnd" "$kvgold" layout "$packs/hnd/expected.safetensors" --identify hnd
expect "... that are of another case" 1 "two mistakes away" "$kvgold" layout "$packs/nhd/expected.safetensors" --identify hnd
expect "... of a case that writes none" 2 "is not of op append" "$kvgold" layout "$packs/rows/expected.safetensors" --identify hnd --case "$(grep -o 'flatten/[^"]*' "$packs/hnd/manifest.json" | head -n 1)"
expect "... of a pack that has no pages" 2 "has no case of op append" "$kvgold" layout "$packs/rows/expected.safetensors" --identify rows
expect "... of a file without pools" 2 "has no pool of case 0000: 0000.k_data" "$kvgold" layout "$packs/rows/expected.safetensors" --identify hnd
expect "... of no file" 2 "give one answer file" "$kvgold" layout --identify hnd

# --- shards, order, seeds ---------------------------------------------------------------------------------------------

expect "the whole run" 0 "0 failed" "$kvgold" check many.json -o whole -j 1 --no-html
for i in 1 2 3; do
    expect "shard $i/3" 0 "0 failed" "$kvgold" check many.json -o "part$i" --shard "$i/3" --no-html
done
parts=(part1/results.jsonl part2/results.jsonl part3/results.jsonl)
expect "three shards make a whole" 0 "0 failed" "$kvgold" report "${parts[@]}" -o merged
check "... with the cases of the unsharded run" results same whole/results.jsonl merged/results.jsonl
check "... and every shard had some" test "$(cat part?/results.jsonl | grep -c '"type":"run"')" -eq 3
expect "a report of the merged file" 0 "0 failed" "$kvgold" report merged/results.jsonl
expect "a missing shard fails" 1 "Shard 2 of 3 is not in this report" "$kvgold" report part1/results.jsonl part3/results.jsonl
expect "a shard given twice is refused" 2 "both shard 1/3" "$kvgold" report part1/results.jsonl part1/results.jsonl
for i in 1 2 3; do
    "$kvgold" check one.json -o "share$i" --shard "$i/3" --no-html >"share$i.txt" || echo "$i" >>failing_shares
done
check "shards without a case pass" test ! -e failing_shares
check "... and say so" test "$(grep -l "has no case" share?.txt | wc -l)" -eq 2
expect "... and the whole has the one case" 0 "1 passed, 0 failed" "$kvgold" report share?/results.jsonl
expect "-j 4" 0 "0 failed" "$kvgold" check many.json -o jobs -j 4 --no-html
check "... gives the results of -j 1" results same whole/results.jsonl jobs/results.jsonl
expect "the config's own seed" 0 "0 failed" "$kvgold" check many.json -o seed5 --seed 0x5 --no-html
check "... changes nothing" results same whole/results.jsonl seed5/results.jsonl
expect "another seed" 0 "0 failed" "$kvgold" check many.json -o seed6 --seed 0x6 --no-html
check "... changes every case's data" results differ whole/results.jsonl seed6/results.jsonl
check "... and is in the file" grep -q '"seed":"0x6"' seed6/results.jsonl
expect "reports of two seeds do not mix" 2 "report them apart" "$kvgold" report whole/results.jsonl seed6/results.jsonl
"$kvgold" list many.json >ids.txt
check "list CONFIG has the ids of the run" cmp <(sort ids.txt) <(results get whole/results.jsonl id | sort)
expect "report without files" 2 "give at least one result file" "$kvgold" report
expect "report of a missing file" 2 "missing.jsonl" "$kvgold" report missing.jsonl
expect "report of something else" 2 "one.json" "$kvgold" report one.json

# --- the ledger of many runs ------------------------------------------------------------------------------------------

config mma.json "{\"op\": \"mma\", \"profile\": \"sm90.mma16816.v1\", \"dtype\": \"f16\", \"tokens\": 4, \"fill\": \"random\",
    \"backend\": \"$other\"}"
expect "a case of a profile" 0 "0 failed" "$kvgold" check mma.json -o mma --no-html
expect "the ledger of two configs" 0 "never judged" "$kvgold" coverage whole/results.jsonl mma/results.jsonl --json ledger.json
check "... has the profile, the commit and the date of the run" python3 -c '
import json
origin = json.loads(open("mma/results.jsonl").readline())["origins"][0]
row, = (row for row in json.load(open("ledger.json"))["judged"] if row["op"] == "mma")
assert row["profile"] == "sm90.mma16816.v1" and row["passed"] == 1 and row["failed"] == 0, row
assert (row["commit"], row["last"]) == (origin["commit"], origin["date"]), row'
expect "shards beside the merged file" 0 "never judged" "$kvgold" coverage "${parts[@]}" merged/results.jsonl --json ledger.json
check "... count once" python3 -c '
import json
cases = sum(row["passed"] + row["failed"] for row in json.load(open("ledger.json"))["judged"])
assert cases == len(open("ids.txt").readlines()), cases'
expect "a ledger as a page" 0 "never judged" "$kvgold" coverage whole/results.jsonl mma/results.jsonl --html ledger.html
check "... has a row for each line" python3 -c '
import sys
from html.parser import HTMLParser
class Page(HTMLParser):
    rows, text = 0, ""
    def handle_starttag(self, tag, attributes): self.rows += tag == "tr"
    def handle_data(self, data): self.text += data
page = Page()
page.feed(open("ledger.html").read())
lines = sys.argv[1].split("\n\n")[0].splitlines()
assert page.rows == len(lines) > 2 and "never judged" in page.text and "sm90.mma16816.v1" in page.text, page.rows' "$output"
keeps "coverage: the page is an input" good/results.jsonl "$kvgold" coverage good/results.jsonl --html good/results.jsonl
expect "a ledger of no file" 2 "give at least one result file" "$kvgold" coverage
expect "... of something else" 2 "kvgold coverage: one.json:1" "$kvgold" coverage whole/results.jsonl one.json
check "... in one line" test "$(wc -l <<<"$output")" == 1

# --- one case, and the line that repeats it ---------------------------------------------------------------------------

id=$(sed -n 7p ids.txt)
expect "--case" 0 "1 passed, 0 failed" "$kvgold" check many.json -o single --case "$id" --no-html
check "... runs that one" test "$(results get single/results.jsonl id)" == "$id"
check "... on the data of the whole run" python3 -c '
import json, sys
a, b = ([json.loads(l) for l in open(p)] for p in sys.argv[1:3])
key = lambda lines: [l["k"] for l in lines if l.get("id") == sys.argv[3] and l["type"] == "case"]
assert key(a) == key(b) != []' whole/results.jsonl single/results.jsonl "$id"
expect "--case of no case" 2 "no case 'x'" "$kvgold" check many.json -o bad --case x
mkdir -p "a folder's"
cp five.json "a folder's/five.json"
expect "a defect fails" 1 "FAIL" "$kvgold" check "a folder's/five.json" -o defect --backend defect:nibbles_swapped --no-html
expect "... and what the first wrong byte was made of is said" 1 "; x 0.4375 of a block from -0.625 to 0.75, g 0.0122999996" \
    "$kvgold" check "$source_dir/configs/ci_quick.json" -o defect --backend defect:v_scales_of_k --no-html \
    --case 'quantise/nvfp4.canonical/rows/bf16/12x3x64/adversarial/g0.300000012,0.0122999996/defect:v_scales_of_k'
repro=$(python3 -c '
import json
print(next(l["repro"] for l in map(json.loads, open("defect/results.jsonl")) if l.get("status") == "FAIL"))')
expect "its repro line fails too" 1 "0 passed, 1 failed" bash -c "${repro/kvgold/\"\$0\"} -o again --no-html" "$kvgold"
check "... with the same detail" grep -qF -- "$(results get again/results.jsonl detail)" <(results get defect/results.jsonl detail)

# --- policies ---------------------------------------------------------------------------------------------------------

config policies.json '{"op": "append", "layout": ["turbomind", "nhd"], "kv_heads": 2, "head_dim": 64, "tokens": 4, "fill": "random",
    "policy": [{"number": 16, "sm": 90}, {"number": 16, "sm": 100, "fp4_nv": false}, {"number": 16, "sm": 80, "on_unsupported": "fallback"}]}'
expect "policies" 0 "6 passed, 0 failed" "$kvgold" check policies.json -o policies --backend $other --junit policies.xml
"$kvgold" check policies.json -o policies --no-html 2>policies.err >policies.txt
check "... a line on stderr for each reason to fall back" \
    diff - <(cut -c1-69 policies.err) <<<"kvgold check: FELL BACK to none: fp4_nv is not rolled out: policy fp4
kvgold check: FELL BACK to none: policy fp4 is not supported on SM 80"
check "... the table has the modes" test "$(grep -c '^mode  .* 2 cases: ' policies.txt)" -eq 3
check "... and every result" python3 -c '
import json, collections
modes = [line["mode"] for line in map(json.loads, open("policies/results.jsonl")) if line["type"] == "case"]
count = collections.Counter((m["requested"], m["effective"], m["fell_back"], m["reason"][:20]) for m in modes)
assert count == {("fp4_mx", "fp4_mx", False, ""): 2, ("fp4_nv", "none", True, "fp4_nv is not rolled"): 2,
                 ("unsupported", "none", True, "policy fp4 is not su"): 2}, count'
check "... and JUnit" test "$(grep -c '<system-out>mode: none (fell back' policies.xml)" -eq 4
check "... and ids" test "$("$kvgold" list policies.json | grep -c 'S3:policy16@sm[0-9]*>none[:/]')" -eq 4
id=$("$kvgold" list policies.json | head -n 1)
expect "a case that does not fall back" 0 "1 passed" "$kvgold" check policies.json -o policies --case "$id" --no-html
check "... says nothing of it" test "${output/FELL BACK/}" == "$output"
expect "bench is loud too" 0 "FELL BACK to none: policy fp4 is not supported on SM 80" "$kvgold" bench policies.json --backend reference \
    --seconds 0.01 --threads 1
check "no policy chose what has a name" grep -q '^policy  .*off: 1 case by name of format$' <("$kvgold" report good/results.jsonl)
check "formats have no mode" test "$(grep -c '"mode"' good/results.jsonl)" -eq 0
config crash.json '{"op": "quantise", "kv_heads": 2, "head_dim": 64, "tokens": 4, "fill": "random", "backend": "planted",
    "policy": {"number": 16, "sm": 90}}'
expect "a crash has its mode" 1 "mode: fp4_mx" "$kvgold" check crash.json -o crash --no-html
check "... in its result" grep -q '"status":"CRASH".*"mode":{"requested":"fp4_mx","effective":"fp4_mx"' crash/results.jsonl
config refused.json '{"op": "append", "layout": "nhd", "kv_heads": 2, "head_dim": 64, "fill": "random", "policy": {"number": 16, "sm": 80}}'
expect "a policy that is refused" 2 '$.cases[0].policy: policy fp4 is not supported on SM 80' "$kvgold" check refused.json -o bad

# --- a terminal -------------------------------------------------------------------------------------------------------

# on_terminal COMMAND: what it writes where standard output and error are a terminal of 60 columns.
on_terminal() {
    TERM=xterm script -qec "stty cols 60; $*" /dev/null
}
output=$(on_terminal "'$kvgold' check five.json -o tty --no-html --backend defect:nibbles_swapped")
check "a terminal: FAIL is red" grep -q $'\033\\[1;31mFAIL\033\\[0m' <<<"$output"
check "... a line says how far the run is" grep -q "5 of 5 cases" <<<"$output"
lines=$(tr '\r' '\n' <<<"$output" | sed 's/\x1b\[[0-9;]*[mK]//g')
check "... no line of words is wider" test -z "$(grep -v '/\|sha256' <<<"$lines" | grep -E '.{61}')"
check "... nor a line of progress" test -z "$(grep '^\[' <<<"$lines" | grep -E '.{60}')"
output=$(on_terminal "NO_COLOR=1 '$kvgold' check five.json -o tty --no-html --backend defect:nibbles_swapped")
check "NO_COLOR: no colour" test -z "$(grep $'\033\\[[0-9;]*m' <<<"$output")"
"$kvgold" check five.json -o tty --no-html --backend defect:nibbles_swapped >piped.txt 2>&1
check "a pipe: no escapes, no progress" test -z "$(grep $'\033' piped.txt)"

# --- values that are no numbers ---------------------------------------------------------------------------------------

config nan.json '{"op": "quantise", "format": "e4m3", "kv_heads": 2, "head_dim": 64, "tokens": 12, "fill": "random"}'
"$kvgold" check nan.json -o nan --no-html --backend defect:copy_input >nan.txt 2>&1
check "NaN has neither a relative error nor an SQNR" grep -qE "^e4m3.canonical  .* 3067( +-){5}$" nan.txt

# --- a log of a command that is busy ------------------------------------------------------------------------------------

# 14 KV heads: the planted backend takes 1.2 s. A line comes every 20 s, here every 0.05 s.
config slow.json '{"op": "quantise", "format": "nvfp4", "kv_heads": [14, 19], "head_dim": 64, "tokens": 4, "fill": "random",
    "backend": "planted"}'
group_of_busy='{"op": "decode", "format": "nvfp4", "layout": "hnd", "kv_heads": 2, "head_dim": 64, "tokens": 400, "group": 4,
    "scale": {"k": 0.3, "v": 0.0123}, "fill": "random", "queries": 12}'
config busy.json "$group_of_busy"
busy_pack() {
    echo '{"kvgold_golden": 1, "name": "busy", "version": "1.0.0", "licence": "Apache-2.0", "seed": "0x5", "comment": "Busy.",
        "notes": {"large": "Takes long."}, "groups": [{"flags": ["large"], "stored": false, "cases": ['"$1"']}]}'
}
busy_pack "$group_of_busy" >busy_pack.json
busy_pack '{"op": "append", "format": "nvfp4", "layout": "hnd", "kv_heads": 8, "head_dim": 128, "tokens": 100,
    "fill": "random"}' >busy_append.json
busy=(env KVGOLD_PROGRESS_SECONDS=0.05)
"${busy[@]}" "$kvgold" check slow.json -o slow -j 1 --no-html >slow.txt 2>slow.log
check "check: the slow case is named while it runs" grep -qx \
    "kvgold check: 0 of 2 cases, 0 failed; 1 s in quantise/nvfp4.canonical/rows/bf16/4x14x64/random/P2/planted" slow.log
check "... by stderr alone" test -z "$(grep "of 2 cases," slow.txt)"
"${busy[@]}" "$kvgold" lint busy.json >busy.txt 2>busy.log
check "lint: the parts of a long case are counted" grep -qE \
    "^kvgold lint: 0 of 1 cases, 0 failed; [0-9]+ of [0-9]+ known-wrong answers after [0-9]+ s in decode/" busy.log
busy_id=$("$kvgold" list busy.json)
"${busy[@]}" "$kvgold" explain busy.json "$busy_id" >busy.txt 2>busy.log
check "explain: so they are" grep -qE "^kvgold explain: 0 of 1 cases; [0-9]+ of [0-9]+ known-wrong answers after [0-9]+ s in decode/" busy.log
"${busy[@]}" "$kvgold" golden make busy_pack.json -o busy >busy.txt 2>busy.log
check "golden make: so they are" grep -qE "^kvgold golden: 0 of 1 cases; [0-9]+ of [0-9]+ known-wrong answers after [0-9]+ s in decode/" busy.log
"${busy[@]}" "$kvgold" golden expand busy -o busy_expanded >busy.txt 2>busy.log
check "golden expand: the case is named" grep -qE "^kvgold golden: 0 of 1 cases; [0-9]+ s in decode/" busy.log
"$kvgold" golden make busy_append.json -o busy_append --no-separation >busy.txt
"$kvgold" golden expand busy_append -o busy_answers >busy.txt
python3 - busy_answers/expected.safetensors <<'END' >busy.safetensors # every 50th byte of the data is another
import sys
data = bytearray(open(sys.argv[1], "rb").read())
for i in range(2000, len(data), 50):
    data[i] ^= i // 50 * 37 % 255 + 1
sys.stdout.buffer.write(data)
END
"${busy[@]}" "$kvgold" compare busy_append busy.safetensors --why-seconds 1 >busy.txt 2>busy.log
check "compare: the parts of a search are counted" grep -qE \
    "^kvgold compare: 0 of 1 cases, 0 failed; [0-9]+ of [0-9]+ single defects after [0-9]+ s in append/" busy.log
check "... and it says where its limit of time has ended it" grep -qE \
    "^ *why: nothing found explains all of it: searched [0-9]+ defects and [0-9]+ of [0-9]+ pairs in [0-9.]+ s; --why-seconds 0 searches all$" \
    busy.txt
env KVGOLD_PROGRESS_SECONDS=0.001 "$kvgold" matrix --format nvfp4 >busy.txt 2>busy.log
check "matrix: the engines are named" grep -qE "^kvgold matrix: [0-9]+ of [0-9]+ writes and reads, .*; [0-9]+ s in flashinfer" busy.log
env KVGOLD_PROGRESS_SECONDS=1000 "$kvgold" lint busy.json >short.txt 2>short.log
check "a short run has no such line" test ! -s short.log

# --- backends and inputs that are not there ---------------------------------------------------------------------------

expect "an unknown backend" 2 "no backend 'nosuch'; known: reference, cuda" "$kvgold" check one.json -o absent --backend nosuch
check "... leaves no folder" test ! -e absent
if "$kvgold" doctor | grep -q '^gpu: *not built'; then
    config tiles.json '{"op": "mma", "profile": "sm90.mma16816.v1", "tokens": 1, "fill": "random", "backend": "cuda"}'
    expect "cuda where it is not built" 2 "configure with -DKVGOLD_CUDA=ON" "$kvgold" check tiles.json -o absent --no-html
fi
expect "a plug-in of another ABI" 1 "this kvgold speaks" "$kvgold" check one.json -o absent --no-html --backend wrong_abi
check "... is an ERROR" grep -q '"status":"ERROR"' absent/results.jsonl
expect "a library that is no backend" 1 "ERROR" "$kvgold" check one.json -o absent --no-html --backend ./one.json
second expect "a plug-in by path" 0 "1 passed" "$kvgold" check one.json -o by_path --backend "$library_folder/libkvgold_slowref.so"
second check "... judged on the same data" test "$(results get by_path/results.jsonl k)" == "$(results get good/results.jsonl k)"
config both.json "{$group, \"format\": \"nvfp4\", \"backend\": [\"reference\", \"slowref\"]}"
second expect "two backends in a config" 0 "2 passed" "$kvgold" check both.json -o both --no-html
second expect "... and one for all" 0 "1 passed" "$kvgold" check both.json -o both --no-html --backend slowref
config capture.json '{"op": "quantise", "format": "nvfp4", "kv_heads": 2, "head_dim": 64, "tokens": 4,
    "fill": {"capture": "no/such.safetensors", "k": "k", "v": "v"}}'
expect "a missing capture" 1 "no/such.safetensors" "$kvgold" check capture.json -o absent --no-html
check "... is an ERROR" grep -q '"status":"ERROR"' absent/results.jsonl
config zero.json "{${group/random/zero}, \"format\": \"mx16\"}"
expect "data that can tell nothing" 2 "MISTRUSTED" "$kvgold" check zero.json -o zero --no-html
decode='"op": "decode", "format": "nvfp4", "layout": "hnd", "kv_heads": 2, "head_dim": 64, "tokens": 60, "group": 4,
    "scale": {"k": 0.3, "v": 0.0123}, "fill": "random"'
config clear.json "{$decode, \"queries\": 8}"
config lax.json "{$decode, \"queries\": [4, 8], \"operands\": \"e4m3\"}"
config large.json "{${decode/60/400}, \"queries\": 12}" '{"slow_seconds": 1, "hang_seconds": 1}'
expect "a judge that takes longer than hang_seconds" 0 "1 passed" "$kvgold" check large.json -o large --no-html
check "... is slow and no HANG" grep -q '"slow":true' large/results.jsonl
expect "lint of cases that tell" 0 "1 cases, 0 refused; least separation " "$kvgold" lint clear.json
expect "lint -v names the unreached" 0 "; not reached: " "$kvgold" lint clear.json -v
config blind.json "{$group, \"format\": \"nvfp4\"}"
expect "lint says what is not caught" 0 "caught by none (an engine with one of them passes): " "$kvgold" lint blind.json
expect "lint of a case that cannot tell" 1 "refused: separation 0." "$kvgold" lint lax.json
check "... names the defect" test "${output/nearest tensor_scale_rounded/}" != "$output"
expect "... which is MISTRUSTED" 2 "nearest tensor_scale_rounded" "$kvgold" check lax.json -o lax --no-html
check "... in its result" grep -q '"status":"MISTRUSTED".*"separation":{"least":0.*"nearest":"tensor_scale_rounded"' lax/results.jsonl
check "... in every draw" grep -q '"redraws":8' lax/results.jsonl
expect "lint of no such case" 2 "no case 'nosuch'" "$kvgold" lint lax.json --case nosuch
config covered.json '{"op": "quantise", "format": "f16", "kv_heads": 1, "head_dim": 64, "tokens": 4, "fill": "random",
    "covers": {"strength": 2, "most_work": 1, "values": {"head_dim": [64, 80], "tokens": [4, 5]}},
    "include": [{"head_dim": 80}, {"tokens": 5}]}'
expect "lint of a pair that no row has" 1 "no row has head_dim 80, tokens 5" "$kvgold" lint covered.json --covers
expect "lint of no covering group" 2 'no group of clear.json has "covers"' "$kvgold" lint clear.json --covers
expect "lint of rows with a case" 2 "takes no --case" "$kvgold" lint covered.json --covers --case x
config noise.json '{"op": "quantise", "format": "nvfp4", "kv_heads": 12, "head_dim": 64, "tokens": 4, "fill": "random",
    "backend": "planted"}'
expect "a candidate that prints" 0 "1 passed" "$kvgold" check noise.json -o noise --no-html
check "... does not disturb the table" test "$output" == "${output/noise on/}"
check "... and has a log" grep -q "noise on stderr" noise/candidate.1.planted.log
cp "$(dirname "$kvgold")/libkvgold_planted.so" other.so
noises='"op": "quantise", "format": "nvfp4", "kv_heads": 12, "head_dim": [64, 80], "tokens": 4, "fill": "random"'
config noises.json "{$noises, \"backend\": \"planted\"}, {$noises, \"backend\": \"./other.so\"}"
expect "two candidates that print, in four children" 0 "4 passed" "$kvgold" check noises.json -o noise --no-html -j 4
check "... into a log of each child" test "$(grep -c "noise on stderr" noise/*.log | cut -d . -f 2- | tr '\n' ' ')" == \
    "1.planted.log:1 2.planted.log:1 3.other.so.log:1 4.other.so.log:1 "
expect "... and one child" 0 "4 passed" "$kvgold" check noises.json -o noise --no-html -j 1
check "... into a log of each candidate" test "$(grep -c "noise on stderr" noise/*.log | cut -d . -f 2- | tr '\n' ' ')" == \
    "1.planted.log:2 2.other.so.log:2 "
config crashes.json '{"op": "quantise", "format": "nvfp4", "kv_heads": 2, "head_dim": 64, "tokens": 4, "fill": "random",
    "backend": "planted"}'
expect "a candidate that prints and crashes" 1 $'\n    | line 2\n    | line 3\n' \
    "$kvgold" check crashes.json -o crashes --junit crashes.xml
check "... and does not steer the terminal" grep -qF "    | ?[31mred byte ?" <(echo "$output")
check "... as JUnit says, too" grep -q "^| line 8$" crashes.xml
check "... and the page's data" grep -qF '"printed":["line 2","line 3",' crashes/report.html
config floods.json '{"op": "quantise", "format": "nvfp4", "kv_heads": 20, "head_dim": 64, "tokens": 4, "fill": "random",
    "backend": "planted"}'
expect "a candidate that prints more than a log holds" 1 $'\n    | the end\n' "$kvgold" check floods.json -o floods --no-html
log=floods/candidate.1.planted.log
hole="the log has a hole"
: >empty && fallocate -p -l 1 empty 2>/dev/null || hole="the log has no hole" # of a file system without
check "... does not fill the disk" grep -qF "| $hole" <(echo "$output")
check "... keeps its first line" test "$(head -n 1 $log)" == "the beginning"
check "... and its last one" test "$(tail -n 1 $log)" == "the end"
line=$(grep -aFn "... kvgold cut " $log)
whole=$((80 * 1024 * 1024 + ${#hole} + 23))
check "... and says what is missing" test "$line" == "524290:... kvgold cut $((whole - 64 * 1024 * 1024)) bytes here ..."
check "... of 64 MiB and that line" test "$(stat -c %s $log)" == $((64 * 1024 * 1024 + ${#line} - 7 + 2))
rm -r floods
config refuses.json '{"op": "quantise", "format": "nvfp4", "kv_heads": 11, "head_dim": 64, "tokens": 4, "fill": "random",
    "backend": "planted"}'
expect "a case that the candidate does not do" 1 "UNIMPLEMENTED" "$kvgold" check refuses.json -o refuses --no-html

# --- the other commands -----------------------------------------------------------------------------------------------

# memory_is MODEL FORMAT BYTES
memory_is() {
    "$kvgold" memory "$1" --json --context 1000 | python3 -c '
import json, sys
table = json.load(sys.stdin)
row = next(f for f in table["formats"] if f["format"] == sys.argv[2])
assert table["model"] == sys.argv[1]
assert row["bytes_per_token"] == int(sys.argv[3]), row
context = row["contexts"][0]
used = context["data_bytes"] + context["scale_bytes"] - context["padding_bytes"] - context["tail_bytes"]
layers = sum(group["layers"] for group in table["groups"])
kept = sum(group["layers"] * min(1000, group["window"] or 1000) for group in table["groups"])
assert context["tokens"] == 1000 and used * layers == kept * int(sys.argv[3]), row' "$1" "$2" "$3"
}
cd "$source_dir" || exit 2
check "memory: llama-3-8b in nvfp4" memory_is llama-3-8b nvfp4 36864
check "memory: gpt-oss-20b in nvfp4" memory_is gpt-oss-20b nvfp4 13824
check "memory: deepseek-v3-mla in nvfp4" memory_is deepseek-v3-mla nvfp4 19764
check "memory: qwen3-8b in int8" memory_is qwen3-8b int8 76032
expect "memory: a table" 0 "131072 tokens" "$kvgold" memory llama-3-8b
expect "memory: states are not counted" 0 "not counted: the states of 28 layers that hold no KV" \
    "$kvgold" memory jamba-v0.1
expect "memory: an unknown model" 2 "no model 'llama'" "$kvgold" memory llama
expect "memory: a bad context" 2 "kvgold memory: " "$kvgold" memory llama-3-8b --context 0
expect "list models" 0 "llama-3-8b" "$kvgold" list models
cd - >/dev/null || exit 2
cat >two.json <<'EOF'
{"title": "two geometries", "query_heads": 8, "kv_heads": 4, "head_dim": 64, "source": "a test",
 "groups": [{"layers": 5, "window": 32}, {"layers": 1, "head_dim": 128}]}
EOF
echo '{"kvgold": 1, "name": "two", "seed": "0x1", "cases": [{"op": "quantise", "format": "nvfp4", "fill": "random", "tokens": 4,
    "model": "two.json", "backend": "slowref"}]}' >of_two.json
expect "memory: groups of layers" 0 "5 layers with KV: 4 KV heads, head_dim 64, a window of 32 tokens" "$kvgold" memory two.json
expect "memory: a format that fits one group" 0 "head_dim 64 does not fit format mlx4_g128" "$kvgold" memory two.json
expect "mode: a model of two geometries" 2 "the layers of model two differ" "$kvgold" mode --model two.json
expect "list: a model of two geometries" 2 "$.cases[0].model: the layers of model two differ" "$kvgold" list of_two.json
expect "memory: a missing file" 2 "missing.json" "$kvgold" memory ./missing.json
# mode_is KEY=VALUE,... OPTION...: the choice as JSON has these values.
mode_is() {
    "$kvgold" mode --json "${@:2}" 2>mode.err | python3 -c '
import json, sys
choice = json.load(sys.stdin)
for want in sys.argv[1].split(","):
    key, value = want.split("=")
    assert str(choice[key]) == value, (key, choice)' "$1"
}
expect "mode: the table" 0 "  0x10 fp4          fp4_mx      fp4_nv" "$kvgold" mode
check "mode: FP4 on SM 90" mode_is effective=fp4_mx,fell_back=False,format=mx16,data_block_bytes=2097152,scale_block_bytes=262144 \
    --policy 16 --sm 90
check "mode: FP4 on SM 120, of a model" mode_is effective=fp4_nv,data_block_bytes=1124352,shared_kv=True \
    --policy 0x10 --sm 120 --model "$source_dir/configs/models/deepseek-v3-mla.json"
check "mode: nothing on stderr without a fallback" test ! -s mode.err
check "mode: fp4_nv held back" mode_is requested=fp4_nv,effective=none,fell_back=True,format=f16 --policy 16 --sm 100 --no-fp4-nv --dtype f16
check "mode: ... said on stderr" grep -q "kvgold mode: FELL BACK to none: fp4_nv is not rolled out" mode.err
check "mode: a fallback on demand" mode_is requested=unsupported,effective=none,fell_back=True --policy 16 --sm 80 --on-unsupported fallback
check "mode: the other domain" mode_is effective=fp8_e4m3,q_bits=8,t_bits=0 --policy 16 --domain lmdeploy_2026
check "mode: kvgold gating" mode_is partial_kv=True,prefix_cache=True --policy 16 --sm 90 --partial-kv --prefix-cache
check "mode: design gating" mode_is partial_kv=False,prefix_cache=False \
    --policy 16 --sm 90 --partial-kv --prefix-cache --gating design
check "mode: no flatten" mode_is partial_kv=False,prefix_cache=True --policy 4 --partial-kv --prefix-cache --no-flatten
check "mode: the tables as JSON" python3 -c '
import json, subprocess, sys
tables = json.loads(subprocess.check_output([sys.argv[1], "mode", "--json", "--layers", "2097151", "--kv-heads", "2097151",
                                             "--block-tokens", "4095"]))
assert len(tables["modes"]) == 7 and len(tables["policies"]) == 12
assert tables["modes"][0]["data_block_bytes"] == 2097151 * 2097151 * 4095 * 512  # no double holds it
fp4 = next(p for p in tables["policies"] if p["name"] == "fp4")
assert fp4["sm"] == {"89": "fp4_mx", "90": "fp4_mx", **{sm: "fp4_nv" for sm in ("100", "103", "110", "120", "121")}}' "$kvgold"
expect "mode: SM 80 is refused" 2 "kvgold mode: policy fp4 is not supported on SM 80" "$kvgold" mode --policy 16 --sm 80
expect "mode: a build without FP4 is refused" 2 "needs a build with FP4" "$kvgold" mode --policy 16 --sm 90 --no-fp4-build
expect "mode: two bits are refused" 2 "exclude each other" "$kvgold" mode --policy 0x0c --sm 90
expect "mode: head_dim 80 has no kernels" 2 "no kernels for head_dim 80" "$kvgold" mode --policy 0 --head-dim 80 --engine-kernels
expect "mode: the kernel's block" 2 "not a multiple of the kernel's block of 48" "$kvgold" mode --policy 0 --kernel-block 48
for bad in "--policy" "--policy -1" "--policy 4x" "--policy 4294967296" "--policy 0 --domain x" "--policy 0 --gating x" \
    "--policy 0 --on-unsupported x" "--policy 0 --dtype f8" "--policy 0 --model nosuch" "--policy 0 x" "--sm 90" \
    "--head-dim 0" "--policy 0 --layers 0"; do
    # shellcheck disable=SC2086 # options and their values
    expect "mode $bad is refused" 2 "kvgold mode: " "$kvgold" mode $bad
done

config paged.json '{"op": "append", "layout": ["nhd", "hnd"], "format": "nvfp4", "kv_heads": 2, "head_dim": 64, "tokens": 12, "sequences": 1,
    "block_tokens": 4, "v_scale_swizzle": true, "fill": "random"}, {"op": "flatten", "layout": "hnd", "format": "mx16", "kv_heads": 2,
    "head_dim": 64, "tokens": 12, "fill": "random", "backend": "'$other'"}'
expect "probe" 0 "V scales" "$kvgold" probe paged.json --token 1 --head 1
check "probe: the slot is block and offset" python3 -c '
import re, sys
slot, block, offset = map(int, re.search(r"slot (\d+): block (\d+), offset (\d+), layer \d, head 1", sys.argv[1]).groups())
assert slot == 4 * block + offset' "$output"
check "probe: 32 bytes of codes in a row, scales in groups of 4 tokens one by one" \
    test "$(grep -c 'byte .*:\( [0-9a-f][0-9a-f]\)\{32\}$' <<<"$output") $(grep -c 'byte .*: [0-9a-f][0-9a-f]$' <<<"$output")" == "2 4"
second expect "probe: another implementation reads the same" 0 "$(tail -n +2 <<<"$output")" "$kvgold" probe paged.json --token 1 --head 1 --backend slowref
expect "probe: a sequence" 0 "flatten/mx16" "$kvgold" probe paged.json --sequence 1 --case "$("$kvgold" list paged.json | tail -n 1)"
expect "probe: wrong bytes are shown beside the right ones" 1 "the reference reads the bytes after 'but'" \
    "$kvgold" probe paged.json --token 1 --backend defect:hnd_as_nhd --case "$("$kvgold" list paged.json | sed -n '2s/reference$/defect:hnd_as_nhd/p')"
refusing=(unshare -Ur sh -c 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"' sh) # namespaces in this one
"${refusing[@]}" true 2>/dev/null || refusing=() # this machine refuses them itself
for command in "probe paged.json --token 1 --head 1" "bench one.json --seconds 0.01" \
    "matrix --backend reference --format mx16"; do
    read -ra words <<<"$command"
    expect "${words[0]} without namespaces" 0 "kvgold ${words[0]}: unconfined by namespaces: rights: the machine refuses" \
        "${refusing[@]}" "$kvgold" "${words[@]}"
done
expect "probe: a token that is not there" 2 "token 12 of sequence 0 has no place" "$kvgold" probe paged.json --token 12
expect "probe: a head that is not there" 2 "the case has 2 KV heads" "$kvgold" probe paged.json --head 2
expect "probe: plain rows" 2 "no case on a paged layout" "$kvgold" probe one.json
expect "probe: no such case" 2 "no case 'x'" "$kvgold" probe paged.json --case x
expect "doctor" 0 "backends:    reference, defect:<id>" "$kvgold" doctor
check "... finds the configs" grep -q "^configs: *[0-9]* in " <<<"$output"
check "... says what confines a candidate" grep -q "^candidates: *confined by" <<<"$output"
second expect "doctor: the second reference" 0 "backends:    reference, defect:<id>, slowref" "$kvgold" doctor
check "doctor: the commit of the source" grep -qE "^kvgold: +[0-9.]+, commit ([0-9a-f]{7}|unknown)( with changes)?$" \
    <(exec "$kvgold" doctor)
# shellcheck disable=SC2016 # of awk
check "doctor: the memory that is available" awk -v said="$("$kvgold" doctor | sed -n 's/^memory: *//p')" '
    /^MemTotal/ { total = $2 / 2^20 }
    /^MemAvailable/ { off = $2 / 2^20 - said }
    END { exit !(said ~ /GiB available of/ && off^2 < (total / 10)^2) }' /proc/meminfo
output=$(PATH=/nowhere "$kvgold" doctor)
check "doctor: what is missing, and what mends it" grep -q "^python3: *missing: .*apt-get install python3" <<<"$output"
for what in formats dialects ops fills defects; do
    expect "list $what" 0 "" "$kvgold" list "$what"
    check "list $what has lines" test "$(wc -l <<<"$output")" -ge 2
done
expect "list of a file that is not there" 2 "nosuch.json: no such file" "$kvgold" list nosuch.json
cp one.json plain_name
expect "list of a file without an extension" 0 "quantise/nvfp4" "$kvgold" list plain_name
pools=$source_dir/configs/bench_pool.json
# not_number OPTION VALUE TEXT COMMAND ARGUMENT...: the line names the option.
not_number() {
    expect "${*:4} $1 $2 is refused" 2 "kvgold $4: $1: '$2' is not $3" "$kvgold" "${@:4}" "$1" "$2"
    check "... in one line" test "$(wc -l <<<"$output")" == 1
}
not_number --jobs 0 "a whole number from 1 to 64" check one.json
not_number --context 0 "a whole number from 1 to 1073741824" memory llama-3-8b
not_number --padding 1,2 "three numbers" memory llama-3-8b
not_number --budget x "a number of bytes" memory llama-3-8b
not_number --sm x "a number from 0 to" mode
not_number --tokens 0 "a whole number from 1 to 4096" matrix
not_number --jobs 0 "a whole number from 1 to 256" pool run "$pools"
not_number --ops 0 "a whole number from 1 to" pool run "$pools"
not_number --threads 0 "a whole number from 1 to 1024" bench one.json
not_number --seconds 0 "a number above 0 and at most 60" bench one.json
not_number --token -1 "a whole number from 0 to 2147483647" probe one.json
not_number --why-seconds -1 "a whole number from 0 to 1000000" compare pack answer
expect "compare takes no limit of time" 2 "pack: no such file" "$kvgold" compare pack answer --why-seconds 0
mkdir begun
cd begun || exit 1
expect "new plugin" 0 "cc -std=c11 -shared -fPIC -I '" "$kvgold" new plugin mine
check "... its files" test "$(echo *)" == "libmine.json mine.c mine.json"
check "... build by the line that it prints" sh -c "$(grep '^cc ' <<<"$output")"
expect "... and pass" 0 "4 passed, 0 failed, 12 skipped" "$kvgold" check mine.json --no-html --backend ./libmine.so
expect "... and are not written over" 2 "mine.c is there" "$kvgold" new plugin mine
expect "new layout" 2 "new: dhn is added by hand, in the files that docs/guide/add.md lists" "$kvgold" new layout dhn
expect "new config" 0 "kvgold check asked.json" "$kvgold" new config asked
expect "... passes" 0 "16 passed, 0 failed" "$kvgold" check asked.json --no-html --backend reference
check "... has its name" grep -q '"name": "asked"' asked.json
cat >unstored.json <<'END'
{"kvgold_capabilities": 1, "claims": [
  {"ops": ["mma"], "formats": ["bf16", "f16"], "profiles": ["sm90.mma16816.v1"]},
  {"ops": ["merge"], "formats": ["bf16", "f16"], "dtypes": ["bf16", "f16"], "head_dims": [64, 128]}]}
END
expect "... of ops that store nothing" 0 "kvgold check merged.json" "$kvgold" new config merged --from unstored.json
expect "... which are claimed" 0 " passed, 0 failed; " "$kvgold" check merged.json --no-html --backend reference --capabilities unstored.json
for start in "append,decode nvfp4 hnd" "quantise,flatten int4 turbomind" "decode mlx4_g128 ring" \
    "append,flatten nvfp4 [B H L]{ [N] V.codes [N] V.scales [N] K.codes [N] K.scales }"; do
    read -r ops format layout <<<"$start"
    rm -rf start && mkdir start && cd start || exit 2
    expect "a start over pages: $start" 0 "./libpaged.so" "$kvgold" new plugin paged --ops "$ops" --format "$format" --layout "$layout"
    if [[ -e $(sed -n "s/^cc .* -L '\([^']*\)'.*/\1/p" <<<"$output")/libkvgold.so ]]; then # not in a build with sanitizers
        expect "... works as its commands are printed" 0 " passed, 0 failed; " bash -ec "$(grep '^cc\|check' <<<"$output")"
    fi
    cd .. || exit 2
done
expect "... of an op that it lacks" 2 "a start has no op 'expand'" "$kvgold" new plugin more --ops append,expand --format nvfp4 --layout hnd
expect "... of plain rows" 2 "a start has no layout rows" "$kvgold" new plugin more --ops append --format nvfp4 --layout rows
expect "... without a layout" 2 "give --ops, --format and --layout together" "$kvgold" new plugin more --ops append
expect "... in a config" 2 "--ops is not for config" "$kvgold" new config more --ops append
expect "new: a kind that is none" 2 "no kind of start 'plugn' (did you mean 'plugin'?)" "$kvgold" new plugn mine
expect "new: a name that is none" 2 "'../mine': a name has lower-case letters" "$kvgold" new plugin ../mine
expect "new: a name that is no identifier of C" 2 "'3foo': functions in C have the name of a plug-in" "$kvgold" new plugin 3foo
check "... writes nothing" test -z "$(compgen -G '*3foo*')"
expect "... names a config" 0 "3foo.json" "$kvgold" new config 3foo
sed -e 's/memcpy(out/if (0) memcpy(out/' mine.c >wrong.c
cc -std=c11 -shared -fPIC -I "$source_dir" wrong.c -o wrong.so
"$kvgold" check mine.json --no-html --backend ./libmine.so --watch -o watched >watched.txt 2>&1 &
watcher=$!
# until_runs COUNT: until so many runs have ended and the next change is waited for.
until_runs() {
    for _ in $(seq 300); do
        [[ $(grep -c "waiting for a change" watched.txt) -ge $1 ]] && return
        sleep 0.1
    done
}
until_runs 1
check "watch: a run" grep -q "^4 passed, 0 failed" watched.txt
cp wrong.so libmine.so
until_runs 2
check "... another when the library changes" grep -q "^0 passed, 4 failed" watched.txt
echo "{" >mine.json
until_runs 3
check "... a config that is broken is said" grep -q "^kvgold check: mine.json:" watched.txt
kill -INT $watcher
wait $watcher
check "... ends with the last run's code" test $? == 2
cd .. || exit 1
case_of_one=$("$kvgold" list one.json)
expect "explain" 0 "asks       quantise: " "$kvgold" explain one.json "$case_of_one"
check "... the tensors" grep -q "^  k_codes  *u8  *\[" <<<"$output"
check "... what is right" grep -q "^  every byte, or where its dialect" <<<"$output"
check "... known-wrong answers" grep -q "^  nibbles_swapped  *rejected  " <<<"$output"
check "... those alone that apply" test -z "$(grep "^  lse_base_2" <<<"$output")"
expect "explain: the case that was meant" 2 "(did you mean '$case_of_one'?)" "$kvgold" explain one.json "${case_of_one}x"
expect "explain: no case" 2 "give a config and a case" "$kvgold" explain one.json
expect "lint: a seed" 2 "kvgold lint: --seed: seed '5'" "$kvgold" lint one.json --seed 5
expect "matrix: answers of a folder that is not there" 3 "kvgold matrix: --answers: cannot read the folder nodir: No such file" \
    "$kvgold" matrix --answers nodir
check "... in one line, before the table" test "$(wc -l <<<"$output")" == 1
expect "bench" 0 "quantise/nvfp4.canonical" "$kvgold" bench one.json --seconds 0.01 --threads 1 --json bench.json
check "bench --json" python3 -c 'import json; assert json.load(open("bench.json"))[0]["runs"] >= 3'
expect "bench does not time what fails" 1 "FAIL" "$kvgold" bench one.json --seconds 0.01 --threads 1 --backend defect:zeros \
    --json bench.json
check "... and says so in the JSON" python3 -c '
import json
case, = json.load(open("bench.json"))
assert case["status"] == "FAIL" and case["detail"] and "median_ms" not in case'
expect "bench --json to a folder that is not there" 3 "nowhere/x.json: cannot write" "$kvgold" bench one.json --json nowhere/x.json
check "... is found before anything is measured" test "$(wc -l <<<"$output")" == 1
expect "bench of no case" 2 "one.json: no case's id contains 'nope'" "$kvgold" bench one.json --filter nope
check "... is said in one line" test "$(wc -l <<<"$output")" == 1
echo '{"kvgold": 1, "name": "sizes", "seed": "0x1", "bench": {"blocks": [256], "seconds": 0.01}}' >sizes.json
expect "pool bench" 0 "log2(blocks)" "$kvgold" bench sizes.json --json sizes_out.json
check "... writes JSON" python3 -c 'import json; assert json.load(open("sizes_out.json"))[0]["blocks"] == 256'
echo old >sizes_out.json
expect "... over the file size limit" 3 "File too large" limited 0 "$kvgold" bench sizes.json --json sizes_out.json
check "... leaves what was there" test "$(cat sizes_out.json)" == old
expect "pool bench: a folder that is not there" 3 "nowhere/x.json: cannot write" "$kvgold" pool bench sizes.json --json nowhere/x.json
check "... is found before anything is measured" test "$(wc -l <<<"$output")" == 1
expect "pool audit" 0 "all rules held" "$kvgold" pool audit "$source_dir/configs/traces/audit_good.jsonl"
expect "... of a double free" 1 "audit_double_free.jsonl:4: free, sequence r1, block 1: A9: " \
    "$kvgold" pool audit "$source_dir/configs/traces/audit_double_free.jsonl"
check "... counts by rule" grep -q "2 violations (A3 1, A9 1)$" <<<"$output"
expect "... of the standard input" 1 "(stdin):4: free" "$kvgold" pool audit - <"$source_dir/configs/traces/audit_double_free.jsonl"
expect "... of KV events" 0 "5 events of hashes: all rules held" "$kvgold" pool audit "$source_dir/configs/traces/audit_kv_events.jsonl"
head -c -9 "$source_dir/configs/traces/audit_good.jsonl" >torn.jsonl
expect "... of a torn log" 2 "torn.jsonl:18: the last line is torn" "$kvgold" pool audit torn.jsonl
check "... judges what stands before" grep -q "16 events, 3 sequences, a pool of 8 blocks: all rules held" <<<"$output"
head -c -9 "$source_dir/configs/traces/audit_double_free.jsonl" >torn.jsonl
expect "... of a torn log with a double free" 1 "torn.jsonl:9: the last line is torn" "$kvgold" pool audit torn.jsonl
expect "... of a file that is not there" 2 "nowhere.jsonl: no such file" "$kvgold" pool audit nowhere.jsonl
expect "... of a folder" 3 "cannot read: Is a directory" "$kvgold" pool audit .
mkdir -p blocked/pool.json
expect "pool run: a folder in the file's place" 3 "blocked/pool.json: cannot write: Is a directory" \
    "$kvgold" pool run "$source_dir/configs/ci_pool.json" --ops 1000 -o blocked
check "... is found before the run" test "$(wc -l <<<"$output")" == 1
expect "bench sees a kernel that stops working" 1 "FAIL" "$kvgold" bench one.json --seconds 0.01 --threads 1 --backend lazy
expect "bench outlives a crash" 1 "CRASH" "$kvgold" bench one.json --seconds 0.01 --threads 1 --backend planted
# unused TEXT COMMAND ARGUMENT...: an option that would do nothing is refused in one line.
unused() {
    expect "$2 ${*:3} is refused" 2 "kvgold $2: $1" "$kvgold" "${@:2}"
    check "... in one line" test "$(wc -l <<<"$output")" == 1
}
for option in "--filter nope" "--backend nope" "--seconds 1" "--threads 1" "--runs 2" --quick; do
    # shellcheck disable=SC2086 # an option and its value
    unused "a config of \`kvgold pool\` is measured whole: give --json or no option" bench "$pools" $option
done
for option in "--backend nope" "--seconds 1" "--threads 1"; do
    # shellcheck disable=SC2086
    unused "steps of models are timed without" bench "$source_dir/configs/bench_gpu_generate.json" $option
done
for option in "--seed 0x1" "--ops 5" "--scenario chat" "--jobs 1" "--output x" --defects "--json x"; do
    # shellcheck disable=SC2086
    unused "${option%% *} is not for replay: see" pool replay "$source_dir/configs/traces/pool_window.json" $option
done
for option in "--scenario chat" "--jobs 1" "--output x" --defects "--defect window_late"; do
    # shellcheck disable=SC2086
    unused "${option%% *} is not for bench: see" pool bench "$pools" $option
done
for option in "--seed 0x1" "--ops 5" "--pool 64:16"; do
    # shellcheck disable=SC2086 # an option and its value
    unused "--pool, --seed and --ops are for the bench of a library" pool bench "$pools" $option
done
for option in "--seed 0x1" "--ops 5" "--defect window_late" "--json x" "--output x"; do
    # shellcheck disable=SC2086
    unused "${option%% *} is not for audit: see" pool audit "$source_dir/configs/traces/audit_good.jsonl" $option
done
unused "--output is not for replay" pool replay "$source_dir/configs/traces/pool_window.json" -o x
unused "--json is not for run" pool run "$source_dir/configs/ci_pool.json" --ops 5 --json x
unused "give --defect or --defects, not both" pool run "$source_dir/configs/ci_pool.json" --ops 5 --defects --defect window_late
for option in "--json x" "--answers ." "--backend reference" --markdown; do
    # shellcheck disable=SC2086
    unused "--prompt prints no table" matrix --format nvfp4 --prompt x $option
done
check "... and nothing is made" test ! -e x
python3 - > cells.json <<'CELLS'
import json
shape = {"op": "decode", "id": "", "head_dim": 128, "kv_heads": 8, "query_heads": 64, "window": 0, "sinks": False,
         "layout": "hnd", "block_tokens": 16, "dtype": "bf16", "batch": 16, "tokens": 32768}
def timed(us):
    times = {"median_us": us, "lower_quartile_us": us, "upper_quartile_us": us}
    return {"status": "TIMED", "gpu": "a GPU", "sm_mhz": 1900, "throttle": [], "checked_bytes": 1000000, "seconds": 1,
            "bytes_read": 1e6, "bytes_written": 0, "gb_per_s": 1000, "cold": times, "cold_plain": {"median_us": 130},
            "empty": times}
print(json.dumps([dict(shape, **timed(500), format="bf16"), dict(shape, **timed(200), format="nvfp4"),
                  dict(shape, format="int4", status="UNIMPLEMENTED"),
                  dict(shape, format="int8", status="DOES_NOT_FIT", largest_batch=7)]))
CELLS
expect "bench-tables" 0 "| nvfp4 | 200.0 | 1000 | 65.0 % | - | 2.50 x |" "$source_dir/ci/bench-tables" cells.json
expect "bench-tables of what was not timed" 0 "| int8 | fits 7 |" "$source_dir/ci/bench-tables" cells.json
cat > models.json <<'CELLS'
[{"op": "generate", "id": "m", "model": "m", "weights": "random", "products": "library", "format": "bf16", "batch": 16,
  "context": 4096, "layout": "hnd", "block_tokens": 16, "dtype": "bf16", "layers": 2, "query_heads": 4, "kv_heads": 2,
  "head_dim": 64, "status": "TIMED", "gpu": "a GPU", "sm_mhz": 1900, "throttle": [], "checked_bytes": 0, "seconds": 1,
  "step": {"median_us": 4000, "lower_quartile_us": 4000, "upper_quartile_us": 4000}, "tokens_per_second": 4000,
  "share_of_cache": 0.25, "gain_over_bf16": 1}]
CELLS
expect "bench-tables of models" 0 "| bf16 | 4000, 4.00 ms, 25 %, 1.00 x |" "$source_dir/ci/bench-tables" models.json
sed 's/UNIMPLEMENTED/FAIL/' cells.json > wrong_cells.json
expect "bench-tables without its file" 2 "bench-tables: absent.json: No such file" "$source_dir/ci/bench-tables" absent.json
expect "bench-tables of no JSON" 2 "README.md: not JSON" "$source_dir/ci/bench-tables" "$source_dir/README.md"
expect "bench-tables of another JSON" 2 "not a list of cases" "$source_dir/ci/bench-tables" "$source_dir/configs/ci_formats.json"
echo '[{"us": 5}]' >other_bench.json
expect "bench-tables of another bench" 2 "no case has a status" "$source_dir/ci/bench-tables" other_bench.json
expect "bench-tables of a wrong answer" 1 "| int4 | FAIL |" "$source_dir/ci/bench-tables" wrong_cells.json
if [[ ! -e /dev/nvidia0 ]]; then
    expect "bench for a GPU where there is none" 77 "backend cuda" "$kvgold" bench "$source_dir/configs/bench_gpu_rows.json"
    check "... says so in one line" test "$(wc -l <<<"$output")" -eq 1
    expect "bench of models where there is no GPU" 77 "backend cuda" "$kvgold" bench "$source_dir/configs/bench_gpu_generate.json"
    check "... says so in one line" test "$(wc -l <<<"$output")" -eq 1
fi

# --- the wrapper of GPU tests, on a machine that is only pretended ------------------------------------------------------

cat >fake_kvgold <<'EOF'
#!/bin/sh
[ "$1" = doctor ] && echo "gpu:         NVIDIA Some, sm_90, 132 multiprocessors, of ${CUDA_VISIBLE_DEVICES:-all}"
EOF
chmod +x fake_kvgold
on_chip() { # CHIP COMMAND...
    local chip=$1
    shift
    "$source_dir/tests/gpu/on_chip.sh" "$chip" ./fake_kvgold "$@"
}
expect "GPU tests: on the chip" 0 "ran" on_chip sm90 echo ran
expect "GPU tests: a failure is one" 1 "" on_chip sm90 false
expect "GPU tests: another chip skips and says why" 77 "skipped: needs an sm100; the first GPU is: NVIDIA Some, sm_90" on_chip sm100 echo ran
check "... and runs nothing" test "${output/ran/}" == "$output"
KVGOLD_REQUIRE=sm100 expect "GPU tests: a skip that is forbidden fails" 1 "FAILED: KVGOLD_REQUIRE=sm100" on_chip sm100 echo ran
KVGOLD_REQUIRE=sm90 expect "GPU tests: another chip may skip" 77 "skipped" on_chip sm100 echo ran
for bad in sm90a SM90 90 sm9 "sm90 sm100" "sm90;sm100" "sm90|sm100" " "; do
    for chip in sm90 sm100; do
        KVGOLD_REQUIRE=$bad expect "GPU tests: '$bad' is no chip, for $chip" 1 "FAILED: KVGOLD_REQUIRE='$bad': give one of" on_chip $chip echo ran
        check "... in one line, and runs nothing" test "$(wc -l <<<"$output") ${output/ran/}" == "1 $output"
    done
done
read -ra chips < <(sed -n 's/^set(GPU_CHIPS \(.*\))/\1/p' "$source_dir/tests/gpu/CMakeLists.txt")
for chip in "${chips[@]}"; do
    KVGOLD_REQUIRE=$chip expect "GPU tests: $chip is one" 0 "ran" on_chip sm90 echo ran
done
KVGOLD_REQUIRE="" expect "GPU tests: an empty one requires nothing" 77 "skipped" on_chip sm100 echo ran
expect "GPU tests: a part that skips" 77 "skipped: a part" on_chip sm90 sh -c 'exit 77'
KVGOLD_REQUIRE=sm90 expect "GPU tests: a part that must not skip" 1 "FAILED" on_chip sm90 sh -c 'exit 77'
CTEST_RESOURCE_GROUP_0_SM90=id:1,slots:1 expect "GPU tests: the GPU that CTest gives" 0 "of 1" on_chip sm90 true
CUDA_VISIBLE_DEVICES=4,GPU-5 CTEST_RESOURCE_GROUP_0_SM90=id:1,slots:1 expect "GPU tests: ... among those that are visible" 0 "of GPU-5" \
    on_chip sm90 true
CTEST_RESOURCE_GROUP_0_SM90=id:none,slots:1 expect "GPU tests: no GPU to give" 0 "of all" on_chip sm90 true

echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
