# shellcheck shell=sh
# Sourced: sets `sanitizer` to compute-sanitizer; without one the test that sources this is skipped (exit status 77).
sanitizer=$(command -v compute-sanitizer || command -v "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" || true)
if [ -z "$sanitizer" ]; then
    echo "skipped: no compute-sanitizer on the PATH or in ${CUDA_HOME:-/usr/local/cuda}/bin"
    exit 77
fi
