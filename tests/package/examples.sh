#!/usr/bin/env bash
# usage: tests/package/examples.sh PREFIX
#
# Copies each folder of examples/ away from the checkout, and runs the first block of code of its README.md against the
# kvgold that is installed in PREFIX; of examples/ci also the steps of the workflows. Then plants a defect in the copy, with
# which the same commands must fail. The Python package is that of the checkout, run by PYTHON (default: the Python of
# build/venv, if it is there).
set -euo pipefail
[[ $# -eq 1 && -x $1/bin/kvgold ]] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 2; }
PREFIX=$(realpath "$1")
export PREFIX CMAKE_GENERATOR=Ninja
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

python=${PYTHON:-$here/../../build/venv/bin/python}
mkdir "$scratch/bin"
cat >"$scratch/bin/pytest" <<END
#!/bin/sh
export KVGOLD=$PREFIX/bin/kvgold PYTHONPATH=$here/../../golden/python PYTHONDONTWRITEBYTECODE=1
exec "$python" -m pytest -p kvgold.pytest_plugin "\$@"
END
chmod +x "$scratch/bin/pytest"
# In place of Slurm: runs a job of --wrap, or the tasks of an array one after the other.
cat >"$scratch/bin/sbatch" <<'END'
#!/bin/bash
while [[ $1 == --* && $1 != --wrap ]]; do shift; done
if [[ $1 == --wrap ]]; then exec bash -c "$2"; fi
last=$(sed -n 's/^#SBATCH .*--array=1-\([0-9]*\).*/\1/p' "$1")
for ((i = 1; i <= last; i++)); do SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_TASK_COUNT=$last bash "$@" >&2; done
echo 1
END
chmod +x "$scratch/bin/sbatch"
export PATH=$scratch/bin:$PREFIX/bin:$PATH

fail() {
    echo "examples: $1" >&2
    exit 1
}

# run EXAMPLE: the commands of its README.md, in its copy.
run() {
    awk '/^```/ { if (inside) exit; inside = 1; next } inside' "$scratch/$1/README.md" >"$scratch/commands"
    (cd "$scratch/$1" && bash -euo pipefail "$scratch/commands") >"$scratch/out.txt" 2>&1
}

# steps FILE JOB SHARE: what a job of a workflow runs, but for the installation of kvgold, after the workflow's variables.
steps() {
    sed -n 's/^  \([A-Z]*\): \([^ ]*\).*/export \1=\2/p' "$1"
    awk -v job="$2:" '/^ *(judge|report):$/ { inside = $1 == job } inside && sub(/^ *- (run: )?/, "") && !/^(uses|pip)/' "$1" |
        sed "s/\${{ matrix.shard }}/$3/g"
}

# workflow FILE: its job judge once for each share, then its job report, each whatever the others say.
workflow() {
    local status=0 shares i
    export CI_NODE_INDEX CI_NODE_TOTAL
    shares=$(sed -n 's/.*shard: \[.*\([0-9]\)\].*/\1/p; s/^  parallel: //p' "$1")
    rm -rf "$scratch/empty" && mkdir "$scratch/empty" && cd "$scratch/empty"
    for ((i = 1; i <= shares; i++)); do
        CI_NODE_INDEX=$i CI_NODE_TOTAL=$shares
        bash -euo pipefail <(steps "$1" judge "$i") || status=1
    done
    bash -euo pipefail <(steps "$1" report 0) || status=1
    ls report/report.html report/junit.xml || status=1
    return "$status"
}

# says EXAMPLE TEXT: the last run printed TEXT.
says() { grep -qF -- "$2" "$scratch/out.txt" || fail "$1 does not print '$2': $(<"$scratch/out.txt")"; }

# works EXAMPLE [TEXT]
works() {
    cp -r "$here/../../examples/$1" "$scratch/$1"
    run "$1" || fail "$1: $(<"$scratch/out.txt")"
    [[ $# -eq 1 ]] || says "$1" "$2"
}

# fails EXAMPLE FILE SED TEXT: fails with TEXT when SED has changed FILE.
fails() {
    cp "$scratch/$1/$2" "$scratch/right"
    sed -i "$3" "$scratch/$1/$2"
    cmp -s "$scratch/$1/$2" "$scratch/right" && fail "$1: '$3' changes nothing"
    run "$1" && fail "$1 passes with '$3'"
    says "$1" "$4"
    echo "examples: $1 works, and fails with a planted defect"
}

works plugin-c "12 passed, 0 failed, 36 skipped"
fails plugin-c append_engine.c 's/KVG_APPEND_IN_K + side/KVG_APPEND_IN_K/' "0 passed, 12 failed, 36 skipped"

works plugin-cpp "8 passed, 0 failed, 8 skipped"
fails plugin-cpp decode_engine.cpp 's/position <= last/position < last/' "0 passed, 8 failed, 8 skipped"

works plugin-pages " passed, 0 failed; 5 of 5 cells judged"
rm "$scratch/plugin-pages/pages.json"
fails plugin-pages pages_engine.c 's/key <= position/key < position/' "10 passed, 10 failed; 5 of 5 cells judged"

works manager "PASS: "
fails manager manager.c 's/b->salt == salt && //' ": A7: "

works engine " passed, 0 failed, "
fails engine engine.c 's/key <= asked->position/key < asked->position/' "their answers are those of defect mask_less"

if command -v nvcc >/dev/null; then
    works plugin-cuda
    echo "examples: plugin-cuda compiles; it was not run"
else
    echo "examples: plugin-cuda skipped: no nvcc"
fi

works packs-ctest "100% tests passed, 0 tests failed out of 2"
fails packs-ctest nvfp4_rows.c 's/(i % 2)/(1 - i % 2)/' "FAIL v of dequantise/nvfp4.modelopt/rows/bf16"

if [[ -x $python ]]; then
    works packs-pytest "2 passed"
    fails packs-pytest numpy_engine.py 's/codes & 15, codes >> 4/codes >> 4, codes \& 15/' "equals nibbles_swapped"
else
    echo "examples: packs-pytest skipped: no $python"
fi

works engine-reference "same bytes"
fails engine-reference quantise_row.c 's/here == there && i % 2 == 0/here == there/' DIFFERENT

cases=$(kvgold list ci_smoke | wc -l)
expected="$cases passed, 0 failed; $cases of $cases cells judged"
works ci "$expected"
# shellcheck disable=SC2016 # of slurm.sh
fails ci slurm.sh 's/"$SLURM_ARRAY_TASK_ID\//"1\//' "shard"
for file in github.yml gitlab.yml; do
    (workflow "$scratch/ci/$file") >"$scratch/out.txt" 2>&1 || fail "$file: $(<"$scratch/out.txt")"
    says "$file" "$expected"
    sed -i 's/BACKEND: reference/BACKEND: defect:v_scales_of_k/' "$scratch/ci/$file"
    (workflow "$scratch/ci/$file") >"$scratch/out.txt" 2>&1 && fail "$file passes with a wrong backend"
    says "$file" "0 passed, $cases failed"
    says "$file" "report/report.html"
    echo "examples: $file works, and fails with a wrong backend"
done
