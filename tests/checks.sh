#!/usr/bin/env bash
# Sourced by tests of the program: checks that print a line each and count. The caller ends with
#     echo "$passed passed, $failed failed"
passed=0 failed=0

# report NAME GOOD [WHY]: one check's line.
report() {
    if [[ $2 == 0 ]]; then
        echo "ok   $1"
        passed=$((passed + 1))
    else
        echo "FAIL $1${3:+: $3}"
        failed=$((failed + 1))
    fi
}

# expect NAME CODE TEXT COMMAND...: the exit code, and TEXT somewhere in what it prints. Leaves the output in $output.
expect() {
    local name=$1 code=$2 text=$3 status
    shift 3
    output=$("$@" 2>&1)
    status=$?
    if [[ $status -ne $code ]]; then
        report "$name" 1 "exit code $status, expected $code: ${output:0:300}"
    else
        [[ $output == *"$text"* ]]
        report "$name" $? "no '$text' in: ${output:0:300}"
    fi
}

# keeps NAME FILE COMMAND...: refused in one line, rc 2, as it would write over FILE, which stays.
keeps() {
    local name=$1 file=$2 before
    before=$(sha256sum "$file")
    shift 2
    expect "$name" 2 "are the same file: give another for what is written" "$@"
    [[ $(wc -l <<<"$output") == 1 && $(sha256sum "$file") == "$before" ]]
    report "... in one line, and $file stays" $? "$output"
}

# The backend that stands beside the reference, and whether the build has it (KVGOLD_SECOND); wants $kvgold.
other=slowref
[[ -e $(dirname "${kvgold-}")/libkvgold_slowref.so ]] || other=reference

# second CHECK NAME ...: a check that needs the second reference.
second() {
    if [[ $other == slowref ]]; then "$@"; else echo "skip $2: this build has no second reference"; fi
}

# check NAME COMMAND...: the command succeeds.
check() {
    local name=$1 text
    shift
    text=$("$@" 2>&1)
    report "$name" $? "${text:0:300}"
}
