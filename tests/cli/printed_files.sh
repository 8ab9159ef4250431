#!/bin/bash
# usage: printed_files.sh KVGOLD ROOT [--print]
# Files of the repository that kvgold prints are what it prints. --print writes them again. A page of docs/reference that
# has a line "<!-- kvgold COMMAND -->" ends with what that command prints, perhaps between two lines "```".
set -u
kvgold=$1
root=$2
print=${3-}
status=0

# usage: compare FILE COMMAND...: the new FILE is on stdin.
compare()
{
    local file=$1 new
    shift
    new=$(mktemp)
    cat >"$new"
    if [ "$print" = --print ]; then
        cat "$new" >"$file"
    elif ! diff "$file" "$new"; then
        echo "$file is not what kvgold $* prints: print it again by tests/cli/printed_files.sh KVGOLD ROOT --print"
        status=1
    fi
    rm "$new"
}

pages=0
for page in "$root"/docs/reference/*.md; do
    command=$(sed -n 's/^<!-- kvgold \(.*\) -->$/\1/p' "$page")
    [ -n "$command" ] || continue
    pages=$((pages + 1))
    fence=$(sed '1,/^<!-- kvgold /d' "$page" | grep -m 1 '^```')
    # shellcheck disable=SC2086 # the words are arguments
    compare "$page" $command < <(
        sed '/^<!-- kvgold /q' "$page"
        [ -z "$fence" ] || echo "$fence"
        "$kvgold" $command
        [ -z "$fence" ] || echo '```'
    )
done
[ "$pages" -gt 0 ] || { echo "$root/docs/reference has no page with a line <!-- kvgold COMMAND -->"; status=1; }
compare "$root/docs/reference/commands.md" help --markdown < <("$kvgold" help --markdown)
compare "$root/configs/schema.json" list schema < <("$kvgold" list schema)
compare "$root/configs/capabilities_schema.json" list capabilities < <("$kvgold" list capabilities)
exit $status
