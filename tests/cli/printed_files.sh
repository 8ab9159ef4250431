#!/bin/bash
# usage: printed_files.sh KVGOLD ROOT [--print]
# Files of the repository that kvgold prints are what it prints. --print writes them again. Pages of docs/reference
# have a line "<!-- kvgold COMMAND -->", and end with what that command prints, perhaps between two lines "```".
set -u
kvgold=$1
root=$2
print=${3-}
status=0

# usage: compare FILE LINES FENCE COMMAND...
# FILE must have its first LINES lines, then what kvgold COMMAND prints, between two fences if FENCE is one.
compare()
{
    local file=$1 lines=$2 fence=$3 new
    shift 3
    new=$(mktemp)
    head -n "$lines" "$file" >"$new"
    [ -z "$fence" ] || echo "$fence" >>"$new"
    if ! "$kvgold" "$@" >>"$new"; then
        echo "kvgold $* fails"
        status=1
        return
    fi
    [ -z "$fence" ] || echo '```' >>"$new"
    if [ "$print" = --print ]; then
        cat "$new" >"$file"
    elif ! diff "$file" "$new"; then
        echo "$file is not what kvgold $* prints: print it again by tests/cli/printed_files.sh KVGOLD ROOT --print"
        status=1
    fi
    rm "$new"
}

for name in config-keys defects witnesses matrix-tables; do
    page=$root/docs/reference/$name.md
    read -r line mark < <(grep -n '^<!-- kvgold .* -->$' "$page" | sed 's/:<!-- kvgold \(.*\) -->/ \1/')
    if [ -z "${mark-}" ]; then
        echo "$page has no line <!-- kvgold COMMAND -->"
        status=1
        continue
    fi
    # shellcheck disable=SC2086 # the words are arguments
    compare "$page" "$line" "$(sed "1,${line}d" "$page" | grep -m 1 '^```')" $mark
done
compare "$root/docs/reference/commands.md" 0 "" help --markdown
compare "$root/configs/schema.json" 0 "" list schema
compare "$root/configs/capabilities_schema.json" 0 "" list capabilities
compare "$root/golden/python/kvgold/layouts.txt" 0 "" layout
exit $status
