# shellcheck shell=bash
# What the scripts of ci/ share; sourced, after `set -euo pipefail`. Leaves the shell in the repository's root.

self=$(realpath "$0")
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 3

# die LINE: one clear line on stderr, exit status 3 (environment; CONTRIBUTING.md "Exit codes").
die() {
    echo "$(basename "$0"): $1" >&2
    exit 3
}

# usage: prints the comment that heads the calling script.
usage() {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$self"
}

# about NAME: the comment beside the function of a stage or step of the calling script.
about() { sed -n "s/^[a-z]*_$1() { # //p" "$self"; }

# has_test BUILD NAME: whether the build has that test.
has_test() { [[ $(ctest --test-dir "$1" -N -R "^${2//./\\.}\$") == *"Total Tests: 1"* ]]; }

# logged NAME LOG COMMAND...: runs the command, adds its output to LOG, and ends with its status. Whoever waits is told
# how far it is: on a terminal the last line of LOG stands on the screen, elsewhere it is printed every $pause seconds.
pause=20
logged() {
    { "${@:3}" >>"$2" 2>&1 </dev/null || exit; } | tell_last_line "$1" "$2"
}

# tell_last_line NAME LOG: as `logged` says, until stdin ends.
tell_last_line() {
    local begin=$SECONDS every=$pause width line status
    [[ ! -t 1 ]] || every=1
    width=$(tput cols 2>/dev/null || echo 80)
    while status=0 && { read -r -t "$every" || status=$?; } && [[ $status -gt 128 ]]; do
        line=$(tail -n 1 "$2")
        line=${line/Building * object /} # of CMake's lines the source file alone
        line=${line/CMakeFiles\/*.dir\//}
        line="   $1, $((SECONDS - begin)) s: ${line%.o}"
        if [[ -t 1 ]]; then printf '\r\033[K%s' "${line:0:$((width - 1))}"; else echo "$line"; fi
    done
    [[ ! -t 1 ]] || printf '\r\033[K'
}

# ask_engines PROGRAM OUT [OPTION...]: engines' own kernels must answer as docs/results/engines.md says; needs a Python with
# PyTorch, Triton and ml_dtypes.
torch_python=${KVGOLD_TORCH_PYTHON:-python3}
has_torch() { "$torch_python" -c 'import torch, triton, ml_dtypes' 2>/dev/null; }
ask_engines() {
    "$torch_python" ci/engines fetch
    "$torch_python" ci/engines ask --kvgold "$1" --out "$2" --like docs/results/engines.md "${@:3}"
}

export NINJA_STATUS="%f of %t built, now "

# OpenMP threads that spin while they wait starve what runs beside them: on a busy machine a check of seconds takes
# minutes.
export OMP_WAIT_POLICY=passive
