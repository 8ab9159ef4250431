#!/usr/bin/env bash
# usage: test_headers.sh SOURCE_DIR CC CXX
# Every public header compiles alone, as C17 and as C++17, without warnings.
set -euo pipefail
source_dir=$1 cc=$2 cxx=$3
passed=0 failed=0
cd "$source_dir"
for header in core/*.h reference/*.h golden/golden.h golden/json.h golden/safetensors.h gpu/gpu.h; do
    for language in c c++; do
        compiler=$cc standard=c17
        if [ "$language" = c++ ]; then compiler=$cxx standard=c++17; fi
        # golden/ is C only: its enums and compound literals stay out of the C++ promise
        if [ "$language" = c++ ] && [[ $header == golden/* ]]; then continue; fi
        if printf '#include "%s"\n' "$header" |
            "$compiler" -x "$language" -std=$standard -Wall -Wextra -Werror -I. -fsyntax-only -; then
            passed=$((passed + 1))
        else
            echo "FAILED: $header as $language"
            failed=$((failed + 1))
        fi
    done
done
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
