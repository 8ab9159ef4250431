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

# check NAME COMMAND...: the command succeeds.
check() {
    local name=$1 text
    shift
    text=$("$@" 2>&1)
    report "$name" $? "${text:0:300}"
}
