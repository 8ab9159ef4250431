#!/bin/sh
# usage: on_chip.sh CHIP KVGOLD COMMAND [ARGUMENT...]
# Runs the command where the first GPU that KVGOLD sees is that chip, sm90 for one. Elsewhere exit status 77, or 1 where
# KVGOLD_REQUIRE names the chip; a command that skips by itself likewise. A KVGOLD_REQUIRE that is no chip's name, and so
# would forbid nothing, is a failure everywhere. Under `ctest --resource-spec-file`, the first GPU is the one that CTest
# has given out.
set -eu
chip=$1 kvgold=$2
shift 2

case ${KVGOLD_REQUIRE:-} in
"" | sm80 | sm86 | sm89 | sm90 | sm100 | sm103 | sm120 | sm121) ;;
*)
    echo "FAILED: KVGOLD_REQUIRE='$KVGOLD_REQUIRE': give one of sm80 sm86 sm89 sm90 sm100 sm103 sm120 sm121"
    exit 1
    ;;
esac

skip() {
    if [ "${KVGOLD_REQUIRE:-}" = "$chip" ]; then
        echo "FAILED: KVGOLD_REQUIRE=$chip, but $1"
        exit 1
    fi
    echo "skipped: $1"
    exit 77
}

# "id:1,slots:1": the second of the GPUs that are visible already.
given=$(printenv "CTEST_RESOURCE_GROUP_0_$(echo "$chip" | tr '[:lower:]' '[:upper:]')" || true)
given=${given#id:}
given=${given%%,*}
case $given in
[0-9]*)
    if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
        given=$(echo "$CUDA_VISIBLE_DEVICES" | cut -d, -f$((given + 1)))
    fi
    export CUDA_VISIBLE_DEVICES="$given"
    ;;
esac

gpu=$("$kvgold" doctor | sed -n '/^gpu:/{s/^gpu: *//p;q}')
case $gpu in
*", sm_${chip#sm},"*) echo "$gpu" ;;
*) skip "needs an $chip; the first GPU is: $gpu" ;;
esac
status=0
"$@" || status=$?
if [ "$status" = 77 ]; then skip "a part of it did not run"; fi
exit "$status"
