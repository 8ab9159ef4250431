#!/usr/bin/env bash
# usage: test_pack_reader.sh SOURCE_DIR SCRATCH MADE
#
# The single-file reader as an engine would use it: copied alone, built as C99, C17, C++11 and C++17 by every compiler
# here, every warning an error; then the example over every carried pack. With wrong answers, and on each pack that must
# be refused at once, it must fail; those are in MADE, the folder that tests/made/make_files.py fills.
set -euo pipefail
source_dir=$1 scratch=$2 bad=$3/golden/bad/packs
fail() {
    echo "pack_reader: $1" >&2
    exit 1
}

rm -rf "$scratch"
mkdir -p "$scratch"
cp "$source_dir"/golden/reader/{kvgold_pack.h,pack_example.c} "$scratch"
cd "$scratch"
warnings=(-Wall -Wextra -Wconversion -Wshadow -pedantic -Werror)
built=0
for compiler in gcc clang; do
    command -v "$compiler" >/dev/null || continue
    for language in "c -std=c99" "c -std=c17" "c++ -std=c++11" "c++ -std=c++17"; do
        # shellcheck disable=SC2086  # two words
        "$compiler" -x $language "${warnings[@]}" -O1 -o pack_example pack_example.c ||
            fail "$compiler does not build it as $language"
        ./pack_example "$source_dir/golden/bad/packs/good" >out || fail "built by $compiler as $language it fails: $(cat out)"
        # shellcheck disable=SC2086
        printf '#include "kvgold_pack.h"\n' | "$compiler" -x $language "${warnings[@]}" -fsyntax-only - ||
            fail "the interface alone does not compile with $compiler as $language"
        built=$((built + 1))
    done
done
[[ $built -gt 0 ]] || fail "no compiler"

packs=("$source_dir"/golden/bad/packs/good)
for pack in "$source_dir"/golden/data/packs/*/; do [[ ! -d $pack ]] || packs+=("$pack"); done
./pack_example "${packs[@]}" | tail -n 1
for pack in "${packs[@]}"; do
    status=0
    ./pack_example --wrong "$pack" >out || status=$?
    if [[ $status -ne 1 ]] || ! grep -q '^0 answers right' out; then
        fail "$pack: wrong answers are not all found: $(tail -n 1 out)"
    fi
done
report="pack_reader: built $built ways, ${#packs[@]} packs read"
if [[ ! -d $bad ]]; then
    echo "$report; skipped: there is no $bad: a build without Python makes no bad packs"
    exit
fi
refused=0
while IFS=$'\t' read -r name who _; do
    status=0
    ./pack_example "$bad/$name" >out 2>error || status=$?
    if [[ $who == open ]]; then
        [[ $status -eq 2 && $(wc -l <error) -eq 1 ]] || fail "$name: status $status: $(cat out error)"
        refused=$((refused + 1))
    fi
done <"$bad/expect_packs.txt"
echo "$report, $refused refused"
[[ $refused -gt 0 ]]
