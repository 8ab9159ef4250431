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

# OpenMP threads that spin while they wait starve what runs beside them: on a busy machine a check of seconds takes
# minutes.
export OMP_WAIT_POLICY=passive
