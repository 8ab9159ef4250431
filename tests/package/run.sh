#!/usr/bin/env bash
# usage: tests/package/run.sh BUILD_DIR
#
# Installs a build into a temporary prefix, asks whether target kvgold builds all of that, and uses it as a stranger would:
# builds this folder's project against it, runs it, compares the bytes with docs/spec/formats.md, asks whether every public
# header is installed, compiles each installed header alone as C17 and C++17, builds and judges the plug-in of
# docs/guide/plugin.md, and runs examples/ (examples.sh).
set -euo pipefail
[[ $# -eq 1 && -f $1/CMakeCache.txt ]] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 2; }
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
expected="38 80 A2 42 E4 76 0F 18 68" # docs/spec/formats.md section 10: nvfp4 canonical, g = 1, block A

fail() {
    echo "package: $1" >&2
    exit 1
}

cmake --install "$1" --prefix "$scratch/first"
mv "$scratch/first" "$scratch/prefix" # the package must not know where it was installed

# After ci/quickstart, which builds target kvgold alone, nothing is missing that the install step wants.
ninja -C "$1" -t inputs kvgold >"$scratch/built.txt"
while read -r library; do
    grep -q "\(^\|/\)$library\$" "$scratch/built.txt" || fail "target kvgold does not build $library, which is installed"
done < <(find "$scratch/prefix" -type f -name 'lib*' -printf '%f\n')

consume() { cmake -S "$here" -B "$scratch/$1" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" -DWANTED_VERSION="$2"; }

consume build 0.1
cmake --build "$scratch/build"
for program in consumer_c consumer_cpp; do
    bytes=$("$scratch/build/$program")
    [[ $bytes == "$expected" ]] || fail "$program printed $bytes, docs/spec/formats.md has $expected"
    echo "package: $program printed $bytes"
done

if [[ -f $scratch/prefix/include/kvgold/gpu/ops.h ]]; then
    gpu=$("$scratch/build/consumer_gpu") || fail "consumer_gpu failed"
    echo "package: consumer_gpu: $gpu"
else
    echo "package: no gpu/ in this build"
fi

consume newer 1.0 >"$scratch/newer.log" 2>&1 && fail "a consumer that wants version 1.0 was given this one"
tr -s ' \n' ' ' <"$scratch/newer.log" | grep -q 'compatible with requested version "1.0"' ||
    fail "the consumer that wants version 1.0 failed for another reason: $(grep -m 1 Error "$scratch/newer.log")"

# Folders whose row of the table of rooms says that public headers alone lie there.
public=0
while read -r folder; do
    [[ $folder != gpu || -d $scratch/prefix/include/kvgold/gpu ]] || continue
    for header in "$here/../../$folder"/*.h; do
        [[ -f $scratch/prefix/include/kvgold/$folder/${header##*/} ]] || fail "$folder/${header##*/} is not installed"
        public=$((public + 1))
    done
done < <(sed -n "s,^| .\(\w*\)/. |.*its public headers alone.*,\1,p" "$here/../../docs/dev/architecture.md")
[[ $public -gt 0 ]] || fail "no folder of public headers in the table of rooms"
echo "package: $public public headers are installed"

headers=0
while read -r header; do
    for language in "c -std=c17" "c++ -std=c++17"; do
        # shellcheck disable=SC2086  # two words
        gcc -x $language -Wall -Wextra -pedantic -Werror -fsyntax-only -I "$scratch/prefix/include/kvgold" "$header" ||
            fail "$header does not compile alone as $language"
    done
    headers=$((headers + 1))
done < <(find "$scratch/prefix/include/kvgold" -name '*.h')
[[ $headers -gt 0 ]] || fail "no header installed"
echo "package: $headers headers compile alone as C17 and C++17"

# block NUMBER: a block of code of docs/guide/plugin.md.
block() { awk -v wanted="$1" '/^```/ { inside = !inside; n += inside; next } inside && n == wanted' "$here/../../docs/guide/plugin.md"; }

mkdir "$scratch/empty"
cd "$scratch/empty"
for config in "$here"/../../configs/{ci,nightly,sm90,bench,pack}_*.json; do
    name=$(basename "$config" .json)
    case $name in
        *_pool | bench_gpu_generate | pack_*) ;; # not of cases
        *) "$scratch/prefix/bin/kvgold" list "$name" >cases.txt || fail "the installed kvgold does not read $name: $(<cases.txt)" ;;
    esac
done
"$scratch/prefix/bin/kvgold" check ci_smoke --no-html >out.txt || fail "ci_smoke by its name: $(<out.txt)"
"$scratch/prefix/bin/kvgold" pool run ci_pool >out.txt || fail "ci_pool by its name: $(<out.txt)"
"$scratch/prefix/bin/kvgold" golden verify hnd >out.txt || fail "pack hnd by its name: $(<out.txt)"
echo "package: shipped configs and packs are found by their names"
(cd / && "$scratch/prefix/bin/kvgold" generate --prompt "SQLite" --new 4) >"$scratch/text.txt" 2>&1 ||
    fail "the carried model is not found: $(<"$scratch/text.txt")"
mkdir "$scratch/plugin"
cd "$scratch/plugin"
block 1 >engine.c
block 2 >libengine.json
block 3 >mine.json
for language in "gcc -x c -std=c11" "g++ -x c++ -std=c++17"; do
    # shellcheck disable=SC2086  # words
    $language -Wall -Wextra -pedantic -Werror -shared -fPIC -I "$scratch/prefix/include/kvgold" engine.c -o libengine.so ||
        fail "the plug-in of docs/guide/plugin.md does not compile with $language"
    "$scratch/prefix/bin/kvgold" check mine.json --backend ./libengine.so --no-html >out.txt ||
        fail "the plug-in of docs/guide/plugin.md, compiled with $language: $(<out.txt)"
    grep -qx "4 passed, 0 failed, 12 skipped; 2 of 4 cells judged; public seed" out.txt || fail "the plug-in of docs/guide/plugin.md: $(<out.txt)"
    grep -q "^unclaimed  12 cases: " out.txt || fail "nothing is unclaimed: $(<out.txt)"
done
sed -i 's/out\[side\].bytes);/out[side].bytes - 1);/' engine.c # a control: a byte that is not written
gcc -std=c11 -shared -fPIC -I "$scratch/prefix/include/kvgold" engine.c -o libengine.so
"$scratch/prefix/bin/kvgold" check mine.json --backend ./libengine.so --no-html >out.txt && fail "a wrong plug-in passed"
grep -q "^0 passed, 4 failed, 12 skipped" out.txt || fail "a wrong plug-in: $(<out.txt)"
echo "package: the plug-in of docs/guide/plugin.md passes as C11 and as C++17, and fails with a byte unwritten"

"$here/examples.sh" "$scratch/prefix"
