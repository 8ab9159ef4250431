#!/bin/sh
# usage: commands_page.sh KVGOLD PAGE
# docs/reference/commands.md is what `kvgold help --markdown` prints.
set -eu
"$1" help --markdown | diff "$2" - || { echo "print $2 again: kvgold help --markdown"; exit 1; }
