#!/bin/sh
# usage: ptxas_log.sh COMPILER ARGUMENT... -o OBJECT ARGUMENT...
# Compiles. What ptxas says of each kernel (-Xptxas=-v) goes to OBJECT.ptxas, for ci/kernel-report, not to the screen.
set -u
object=
previous=
for argument; do
    if [ "$previous" = -o ]; then object=$argument; fi
    previous=$argument
done
messages=$(mktemp) || exit 3
trap 'rm -f "$messages"' EXIT
"$@" 2>"$messages"
status=$?
about='^ptxas info |^ +[0-9]+ bytes stack frame,'
grep -Ev "$about" "$messages" >&2
if [ -n "$object" ]; then grep -E "$about" "$messages" >"$object.ptxas"; fi
exit "$status"
