#!/bin/sh
# usage: on_chip.sh sm90 KVGOLD ARGUMENT...
# Runs KVGOLD with the arguments where the first GPU is that chip. Elsewhere exit status 77, or 1 where
# KVGOLD_REQUIRE names the chip.
set -eu
chip=$1
shift
gpu=$("$1" env | sed -n '/^gpu:/{s/^gpu: *//p;q}')
case $gpu in
*", sm_${chip#sm},"*)
    echo "$gpu"
    exec "$@"
    ;;
esac
if [ "${KVGOLD_REQUIRE:-}" = "$chip" ]; then
    echo "FAILED: KVGOLD_REQUIRE=$chip, but the first GPU is: $gpu"
    exit 1
fi
echo "skipped: needs an $chip; the first GPU is: $gpu"
exit 77
