#!/usr/bin/env bash
# usage: test_generate.sh KVGOLD SOURCE_DIR WORK_DIR
#
# `kvgold generate` as a user sees it: texts, files, exit codes, error lines, and that nothing is left behind. One line
# per check; the last reads "N passed, N failed". Exit status 1 if a check failed. WORK_DIR is emptied first.
set -uo pipefail
[[ $# -eq 3 ]] || { sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2; }
kvgold=$(realpath "$1")
source_dir=$(realpath "$2")
rm -rf "$3"
mkdir -p "$3"
cd "$3" || exit 2
# shellcheck source=tests/checks.sh
source "$source_dir/tests/checks.sh"

carried=$source_dir/golden/data/model
generate() { "$kvgold" generate --model "$carried" "$@"; }

# field FILE EXPRESSION: of the JSON d.
field() { python3 -c "import json, sys; d = json.load(open(sys.argv[1])); print($2)" "$1"; }
hashes() { field "$1" "[r['logits_sha256'] for r in d['requests']] + [r['tokens'] for r in d['requests']]"; }
# fails NAME TEXT OPTIONS...: exit code 2, one line on stderr and nothing on stdout.
fails() {
    local name=$1
    expect "$@" # sets $output
    [[ $(wc -l <<<"$output") == 1 ]]
    report "$name: one line" $? "$output"
}
bad() {
    local name=$1 text=$2
    shift 2
    fails "$name" 2 "$text" generate --prompt "The " --new 4 "$@"
}

# --- what is generated ---
prompts=(--prompt "The cache holds " --prompt "The cache holds the keys" --ids "83,81,76" --prompt "The cache holds ")
expect "a text" 0 "The cache holds " generate --prompt "The cache holds " --new 12
expect "ids" 0 "83,81,76," generate --ids 83,81,76 --new 3
expect "text as ids" 0 "84,104,101," generate --prompt "The" --new 2 --print ids
expect "ids as text" 0 "SQL" generate --ids 83,81,76 --new 2 --print text
expect "a prompt is only read" 0 "1 new" generate --prompt "The" --new 1
expect "no new token" 0 "The" generate --prompt "The" --new 0
printf 'from a \x01file\xff' >prompt.txt
expect "a file, with bytes that no terminal shows" 0 'from a \x01file' generate --prompt-file prompt.txt --new 1
expect "several requests" 0 "--- request 3" generate "${prompts[@]}" --new 4
for kv in none nvfp4 "int8:canonical,fp8_e4m3"; do
    for temperature in 0 0.9; do
        options=("${prompts[@]}" --new 10 --kv "$kv" --temperature "$temperature" --seed 0x7)
        expect "$kv, temperature $temperature" 0 "new tokens" generate "${options[@]}" --batch 1 --json one.json
        expect "... in another order" 0 "drafts accepted" generate "${options[@]}" --share-prefixes --chunk 5 \
            --block-tokens 4 --drafts 3 --json other.json
        check "... gives the same" test "$(hashes one.json)" == "$(hashes other.json)"
        check "... shares prefixes" test "$(field other.json "d['counts']['shared_tokens']")" -gt 20
        expect "... with few blocks" 0 "preemptions" generate "${options[@]}" --blocks 5 --block-tokens 8 --json few.json
        check "... gives the same" test "$(hashes one.json)" == "$(hashes few.json)"
    done
done
generate "${prompts[@]}" --new 10 --kv int8 --temperature 0.9 --seed 0x8 --json seed.json >/dev/null 2>&1
check "another storage and seed give something else" test "$(hashes one.json)" != "$(hashes seed.json)"
expect "a mode and a policy number" 0 "new tokens" generate --prompt a --new 3 --kv fp4_mx --json mode.json
expect "... that means it" 0 "new tokens" generate --prompt a --new 3 --kv 16 --sm 90 --json policy.json
check "... are the same" test "$(hashes mode.json)" == "$(hashes policy.json)"
expect "a tensor's scales" 0 "new tokens" generate --prompt a --new 3 --kv nvfp4 --tensor-scale 0.01,0.02 --json scaled.json
expect "f16" 0 "new tokens" generate --prompt abc --new 3 --dtype f16 --layout vllm --json f16.json
check "... says so" test "$(field f16.json "d['dtype'] + d['layout'] + d['kv'][0]")" == "f16vllmf16:canonical"
second expect "a plug-in answers append and decode" 0 "new tokens" generate --prompt abc --new 3 --dtype f16 --backend slowref \
    --json slow.json
second check "... with the same bits" test "$(hashes f16.json | cut -c-80)" == "$(hashes slow.json | cut -c-80)"
expect "logits" 0 "new tokens" generate --ids 1,2 --ids 3 --new 5 --logits logits.safetensors
check "... have their shape" python3 - logits.safetensors <<'PYTHON'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + size])
assert all(header[f"request_{i}"]["shape"] == [5, 256] and header[f"request_{i}"]["dtype"] == "F32" for i in (0, 1))
PYTHON
expect "memory" 0 "fp4_nv" generate --prompt abc --new 100 --memory --budget 1000000
check "... counts what fits" grep -q "^nvfp4 .* 864.0 .* 13824 .* 7 .* 96768 .* 10$" <<<"$output"

# --- every family, and a model whose layers all slide: what its window has passed is given back ---
families() { "$kvgold" generate --ids 1,2,3,4,5,6,7 --ids 1,2,3,4,5,6,7,9 --ids 8 --new 25 --temperature 0.6 --kv int8 "$@"; }
for model in "$source_dir"/golden/data/checkpoints/*/; do
    name=$(basename "$model")
    expect "$name" 0 "new tokens" families --model "$model" --batch 1 --json one.json
    expect "... in another order" 0 "preemptions" families --model "$model" --share-prefixes --chunk 3 --block-tokens 4 \
        --blocks 10 --drafts 2 --json other.json
    check "... gives the same" test "$(hashes one.json)" == "$(hashes other.json)"
    check "... copies a block" test "$(field other.json "d['counts']['copies']")" -gt 0
done
cp -r "$source_dir/golden/data/checkpoints/qwen3_shards" slides
chmod -R u+w slides
sed -i 's/"full_attention"/"sliding_attention"/' slides/config.json
expect "all layers slide" 0 "new tokens" families --model slides --block-tokens 64 --json one.json
expect "... over small blocks" 0 "new tokens" families --model slides --block-tokens 2 --batch 1 --json other.json
check "... gives the same" test "$(hashes one.json)" == "$(hashes other.json)"
check "... and holds less than all" test "$(field other.json "d['counts']['peak_blocks']")" -lt 10

# --- options ---
fails "no prompt" 2 "give a --prompt" generate
fails "an empty prompt" 2 "is empty" generate --prompt ""
fails "no such file" 3 "missing: cannot read" generate --prompt-file missing
fails "ids that are none" 2 "no token id at character 3" generate --ids 1,,2
fails "an id beyond the vocabulary" 2 "token 2 of its prompt is 256: the model has ids 0 to 255" generate --ids 1,2,256
bad "a format that is none" "'fp3' is no format" --kv fp3
bad "a dialect that is none" "no nvfp4 dialect 'x'" --kv nvfp4:x
bad "a policy on no chip" "give --sm N: policy fp4 is not supported on SM 0: use one of 89 (fp4_mx)" --kv 16
expect "a policy that is the same on all" 0 "new token" generate --prompt a --new 1 --kv 0
bad "a chip without a policy" "--sm goes with a policy number: --kv nvfp4" --kv nvfp4 --sm 90
bad "... for either side" "--sm goes with a policy number: --kv nvfp4,int8" --kv nvfp4,int8 --sm 90
expect "... and for one of them" 0 "new token" generate --prompt a --new 1 --kv nvfp4,16 --sm 90
bad "a policy that is none" "policy" --kv 3
bad "scales of a format without" "has no tensor scale" --kv int8 --tensor-scale 2
bad "a scale of 0" "above 0" --kv nvfp4 --tensor-scale 0
bad "a scale that is none" "neither a number nor two" --kv nvfp4 --tensor-scale 1,2,3
bad "more positions than the model has" "the model has positions for 131072" --new 131072
bad "a prompt longer than the pool" "need 2 blocks of 4 tokens: the pool has 1" --blocks 1 --block-tokens 4
bad "a layout without tables" "layout ring has no block table" --layout ring
bad "... whose memory is asked for" "layout mla has no block table" --layout mla --memory
expect "... and that no format fits" 2 "kvgold generate: layout trtllm needs a power of two" \
    generate --prompt a --layout trtllm --block-tokens 24 --memory
bad "a model type" "use f16 or bf16" --dtype f32
bad "a temperature" "--temperature must not be below 0" --temperature -1
bad "NaN for a temperature" "'nan' is not a number" --temperature nan
bad "top-p without temperature" "--top-p goes with a --temperature" --top-p 0.5
bad "one file for two" "are the same file" --json same --logits same
bad "one file for two, by two names" "are the same file" --json same --logits "$PWD/./same"
echo text >same.txt
keeps "a prompt's file" same.txt generate --prompt a --prompt-file same.txt --new 1 --json ./same.txt
bad "a top-p of 0" "above 0 and at most 1" --temperature 1 --top-p 0
bad "a seed" "seed '7'" --seed 7
bad "a chunk of 0" "--chunk: '0' is not a whole number from 1" --chunk 0
bad "new tokens below 0" "--new: '-1' is not a whole number from 0 to 16777216" --new -1
bad "more drafts than that" "--drafts: '2000' is not a whole number from 0 to 1024" --drafts 2000
bad "a budget without memory" "--budget goes with --memory" --budget 5
bad "memory with files" "--memory generates nothing" --memory --json x.json
bad "a backend that is none" "no backend 'nobody'" --backend nobody
bad "a profile that is none" "no profile 'x'" --profile x
bad "products that are none" "neither fixed nor library" --products fast
expect "products of a library on the CPU" 77 "fixed order only" generate --prompt a --new 2 --products library
bad "an argument" "'more' is no option" more
expect "an option that is none" 2 "option --bogus is unknown" generate --prompt a --bogus
expect help 0 "usage: kvgold generate" generate --help

# --- checkpoints ---
bad_model() {
    local name=$1 code=$2 text=$3
    fails "$name" "$code" "$text" "$kvgold" generate --model model --prompt a --new 2 --json left.json
}
copy() { rm -rf model && cp -r "$carried" model && chmod -R u+w model; }
fails "no such folder" 2 "nowhere/config.json: no such file" "$kvgold" generate --model nowhere --prompt a
copy && rm model/model.safetensors
bad_model "no weights" 2 "model"
copy && sed -i 's/"gpt_oss"/"mamba"/' ./model/config.json
bad_model "an architecture that is not there" 2 "model type 'mamba' is not supported"
copy && sed -i 's/"yarn"/"longrope"/' ./model/config.json
bad_model "a rope that is not there" 2 "rope type 'longrope' is not supported"
copy && sed -i 's/"hidden_size": 256/"hidden_size": 128/' ./model/config.json
bad_model "another shape" 2 "model.safetensors"
copy && truncate -s -1000 model/model.safetensors
bad_model "a shard that is cut short" 2 "model.safetensors"
copy && echo '{"weight_map": {"model.norm.weight": "../model.safetensors"}}' >model/model.safetensors.index.json
rm model/model.safetensors
bad_model "an index that points outside" 2 "../model.safetensors"
copy && python3 - model/model.safetensors <<'PYTHON'
import json, struct, sys
with open(sys.argv[1], "r+b") as file:
    size, = struct.unpack("<Q", file.read(8))
    at = json.loads(file.read(size))["model.layers.3.self_attn.v_proj.weight"]["data_offsets"][0]
    file.seek(8 + size + at + 4)
    file.write(b"\xc0\x7f" * 1)  # a NaN in bf16
PYTHON
bad_model "a weight that is NaN" 2 "model.layers.3.self_attn.v_proj.weight"
sed -i 's/"vocab_size": 256/"vocab_size": 512/' ./model/config.json
bad_model "text for a model that has no bytes" 2 "this model has 512 tokens: give its prompts as --ids"
keeps "the checkpoint's weights" model/model.safetensors "$kvgold" generate --model model --prompt a --new 1 \
    --logits model/model.safetensors
check "nothing is left of all these" test ! -e left.json

# --- files ---
rm -f ./*.json
fails "a folder that is not there" 3 "cannot write" generate --prompt a --new 2 --json nowhere/x.json
expect "a full device" 3 "No space left" generate --prompt a --new 2 --json /dev/full
for to in /dev/full "&-"; do
    rm -f whole.json logits.safetensors
    fails "a text that goes nowhere, to $to" 3 "kvgold: cannot write the output" \
        eval "generate --prompt a --new 2 --json whole.json --logits logits.safetensors >$to"
    check "... the files are written all the same" test -s whole.json -a -s logits.safetensors
done
rm -f whole.json
limited() { (ulimit -f "$1" && shift && "$@"); }
expect "a folder for a file" 3 "Is a directory" generate --prompt a --new 1 --json .
expect "... by its name alone" 3 "Is a directory" generate --prompt a --new 1 --json ./
expect "a full device for logits" 3 "No space left" generate --prompt a --new 1 --json whole.json --logits /dev/full
check "... leaves no JSON that vouches for them" test ! -e whole.json
echo old >logits.safetensors
expect "logits over the file size limit" 3 "File too large" limited 8 generate --prompt a --new 40 --logits logits.safetensors
check "... leave what was there" grep -q old logits.safetensors
# catches PID: until that is kvgold and catches signals, 20 seconds at most.
catches() {
    for ((i = 0; i < 400; i++)); do
        if [[ /proc/$1/exe -ef $kvgold ]] && grep -qs '^SigCgt:.*[1-9a-f]' "/proc/$1/status"; then return; fi
        sleep 0.05
    done
    return 1
}
for signal in INT TERM; do
    "$kvgold" generate --model "$carried" --prompt a --new 20000 --json left.json >"$signal.txt" 2>&1 &
    pid=$! # the program's own: not that of a shell function
    catches "$pid"
    sleep 0.5
    kill "-$signal" "$pid"
    wait "$pid"
    report "SIG$signal: exit code 3" $(($? != 3))
    check "SIG$signal: one line" grep -q "^kvgold generate: interrupted" "$signal.txt"
done
check "... and no file, whole or in part" test -z "$(find . -name 'left*' -o -name '*.part')"

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
