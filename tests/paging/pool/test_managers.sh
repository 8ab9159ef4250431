#!/usr/bin/env bash
# usage: test_managers.sh KVGOLD SOURCE_DIR WORK_DIR
#
# `kvgold pool check` of examples/manager: right, and with one mistake at a time, which must break the rule that is about
# it. The last line reads "N passed, N failed". WORK_DIR is emptied first.
set -uo pipefail
[[ $# -eq 3 ]] || { sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2; }
kvgold=$(realpath "$1")
source_dir=$(realpath "$2")
rm -rf "$3"
mkdir -p "$3"
cd "$3" || exit 2
# shellcheck source=tests/checks.sh
source "$source_dir/tests/checks.sh"

build() { "${CC:-cc}" -std=c11 -O1 -w -shared -fPIC -I "$source_dir" manager.c -o libmanager.so; }

# mistake NAME TEXT SED...: the example with SED fails, in $pool if that is set, and TEXT stands in what is said. It
# promises no order, because a mistake can break that first, unless $promises is set.
mistake() {
    local name=$1 text=$2
    shift 2
    sed -E "$@" "$source_dir/examples/manager/manager.c" >other.c
    sed -E "${promises:-s/ \| PROMISES//}" other.c >manager.c
    if cmp -s other.c "$source_dir/examples/manager/manager.c" || ! build; then
        report "$name" 1 "the example has changed: change this test's mistake"
        return
    fi
    expect "$name" 1 "$text" "$kvgold" pool check ./libmanager.so -o out ${pool:+--pool "$pool"}
}

cp "$source_dir/examples/manager/manager.c" . && build
expect "the example is right" 0 "PASS: " "$kvgold" pool check ./libmanager.so -o out
expect "it is right in pools of its own" 0 "on 1 pool;" "$kvgold" pool check ./libmanager.so -o out --pool 200:8w30:16
expect "its log is right" 0 "all rules held" "$kvgold" pool audit out/manager.jsonl

sed 's/\.claims = .*/.claims = PROMISES,/' manager.c >other.c && mv other.c manager.c && build
expect "a manager without windows is right" 0 "on 5 pools" "$kvgold" pool check ./libmanager.so -o out

# right NAME SED...: the example with SED passes, in $pool if that is set.
right() {
    local name=$1
    shift
    sed -E "$@" "$source_dir/examples/manager/manager.c" >other.c
    sed -E "${promises:-s/ \| PROMISES//}" other.c >manager.c
    ! cmp -s other.c "$source_dir/examples/manager/manager.c" && build
    report "$name: it is built" $?
    expect "$name is right" 0 "PASS: " "$kvgold" pool check ./libmanager.so -o out ${pool:+--pool "$pool"}
}
pool=24:4:4w9
right "a group that takes what another gives up" -e 's/^        give_up\(m, group, of, first\);//' \
    -e 's/^    if \(count_available\(m, false\) < needed\).*/&\n    for (uint32_t g = 0; g < m->pool.group_count; g++) give_up(m, \&m->pool.groups[g], \&q->parts[g], first);/' \
    -e 's/const bool older = .*/const bool older = oldest \&\& b->released > oldest->released;/' \
    -e 's/if \(!oldest \|\| b->known < oldest->known \|\| older\)/if (!oldest || older)/'
pool=12+8:4
right "a manager that swaps and keeps nothing in the host" -e 's/ \| KVG_MANAGER_HOST_CACHE,$/,/' \
    -e 's/return b->known && b <.*/return NULL;/' -e 's/is_filled && m/is_filled \&\& !out \&\& m/'
right "a manager that keeps blocks in the host and does not swap" -e 's/ \| KVG_MANAGER_SWAP \|/ |/'
right "a manager that finds nothing that was swapped out" -e 's/if \(is_filled && m.*//'
unset pool

# promise NAME RULE CLAIM SED...: the example with SED breaks a promise, and passes if it makes none that matches CLAIM.
promise() {
    local name=$1 rule=$2 claim=$3 promises="s/^//"
    shift 3
    mistake "$name" ": $rule: " "$@"
    right "$name, without a promise" -e "/PROMISES =/s/$claim/0/g" "$@"
}
promise "the highest free block" B1 KVG_MANAGER_LOWEST_FIRST -e 's/if \(!oldest \|\| b->known </if (!oldest || b->known + oldest->known == 0 || b->known </'
promise "a cached block before a free one" B2 KVG_MANAGER_FREE_FIRST -e 's/b->known < oldest->known/b->known > oldest->known/'
promise "a failed admit renews what it found" B3 "KVG_MANAGER_(OLDEST|TAIL)_FIRST" -e 's/^    if \(s\) forget_found.*//'
promise "a window's blocks are the next" B3 "KVG_MANAGER_(OLDEST|TAIL)_FIRST" -e 's/^        of->table\[i\] = PASSED;/        if (of->table[i] != PASSED) m->blocks[of->table[i]].released = 0;\n&/'
promise "the head goes first" B4 KVG_MANAGER_TAIL_FIRST \
    -e 's/while \(of->entries > 0\) let_go\(m, of->table\[--of->entries\]\);/for (uint32_t i = 0; i < of->entries; i++) let_go(m, of->table[i]);/'
promises="s/^//" mistake "what comes back from the host counts as free" ": B" -e 's/if \(is_filled && m.*//'
promises="s/^//" mistake "the youngest goes first" ": B" -e 's/b->released < oldest->released/b->released > oldest->released/'

mistake "a block outside the pool" ": A1: " -e 's/table->count = of->entries;/table->blocks[0] += m->pool.blocks; &/'
mistake "a block twice in a table" ": A2: " -e 's/table->count = of->entries;/table->blocks[of->entries - 1] = *table->blocks; &/'
mistake "a block that is held" ": A3: " -e 's/table->count = of->entries;/*table->blocks = 0; &/'
mistake "the ids of a large pool are cut" ": A" -e 's/= (take\(m, g, false, table\));/= \1 \& 4095;/'
mistake "hits are not held" ": A25: " -e 's/m->blocks\[of->table\[i\]\].users\+\+;/(void)i;/'
mistake "a shared block is freed by the first" ": A3: " \
    -e 's/--m->blocks\[id\].users == 0/!(m->blocks[id].users = 0)/'
mistake "a block that was given away stays known" ": A5: " -e 's/^    b->known = false;//'
mistake "one block more is found" ": A5: " -e 's/= found;/= found + (found + 2 * m->pool.block_tokens < q->count) * m->pool.block_tokens;/'
mistake "another block is found" ": A5: " -e 's/= \(uint32_t\)found;/= (uint32_t)found ^ 1;/'
mistake "blocks are known before they are written" ": A5: " -e 's/of->known < count \/ m/of->known < q->count \/ m/'
mistake "the salt is forgotten" ": A7: " -e 's/b->salt == salt && //'
mistake "a weak hash decides" ": A7: " -e 's/memcmp\(b->tokens, tokens.*/true;/' \
    -e 's/hash = \(hash \^ \(uint32_t\)tokens\[i\]\).*/hash = (hash + (uint32_t)tokens[i]) % 64;/'
mistake "the tokens before a block are forgotten" ": A7: " -e 's/(hash_of\(.*, size, ).*\);/\10);/' \
    -e 's/ && b->before == before && *$/ \&\&/'
mistake "a block is lost" ": A25: " -e 's/(while \()of->entries > 0/\1of->entries > 1/'
mistake "a counter drifts" ": A25: " -e 's/\*blocks = count_available\(self, false\)/& + (((manager *)self)->clock > 40)/'
mistake "a failure keeps what it took" " blocks for " \
    -e 's/if \(count_available\(m, false\) < needed.*/if (count_available(m, false) < needed) { if (count_available(m, false)) q->parts->table[q->parts->entries++] = take(m, 0, false, table); return KVG_ERR_EXHAUSTED; }/'
mistake "a fork is not held" ": A25: " -e 's/if \(of->table\[of->entries\] != PASSED\).*//'
mistake "a shared block is written in place" ": A14: " -e 's/&& m->blocks\[of->table\[of->entries - 1\]\].users > 1/\&\& 0/'
mistake "a block is copied into itself" "not in its place in the table" \
    -e 's/(table->copies\[table->copy_count\+\+\] = )copy;/&\n    \1(kvg_manager_copy){copy.to, copy.to};/'
mistake "a copy is not said" "or copy them" -e 's/table->copies\[table->copy_count\+\+\] = copy;//'
mistake "a fork gets other blocks" "fork of sequence" -e 's/= from->table\[of->entries\];/= from->table[of->entries] ^ 1;/'
mistake "all tokens are found" "below them" -e 's/\(q->count - 1\) \/ size/q->count \/ size/'
mistake "a block too many" "give 1" -e 's/\(tokens \+ group->block_tokens - 1\) \//(tokens + group->block_tokens) \//'
mistake "a table is sorted" "in place of" -e 's/table->count = of->entries;/&\n    if (of->entries > 2) { *table->blocks = of->table[1]; table->blocks[1] = *of->table; }/'
mistake "a pool is never full" "too few blocks" -e 's/(count_available\(m, false\) <) needed/\1= needed/'
mistake "no sequence grows" "too few blocks" -e 's/^    if \(!set_tokens\(m, q, tokens, count\)\).*/    return KVG_ERR_EXHAUSTED;/'
mistake "a call fails" "written of sequence" -e 's/for \(; of->known < count/if (m->clock > 9) return KVG_ERR_IO;\n    &/'

mistake "a window is a token too short" "no window has passed" -e 's/written \+ 1 - window/written + 2 - window/'
mistake "a block that a window has passed is lost" ": A25: " -e 's/^        let_go\(m, of->table\[i\]\);//'
mistake "a block that a window has passed stays in its table" ": A" -e 's/^        of->table\[i\] = PASSED;//'
mistake "a block comes back" "which it had given up" \
    -e 's/^    const uint32_t before = q->count/&, gone = *q->parts->table == PASSED/; s/if \(s\) q->count = before;/&\n    else if (gone) *table->blocks = 0;/'
mistake "a fork gets a block that was given up" "which it had given up" -e 's/= (from->table\[of->entries\]);/= \1 == PASSED ? 0 : \1;/'
mistake "a hit lacks what the window sees" "no window has passed" -e 's/^    if \(s\) drop\(m, q\);/    if (!s \&\& table->cached \&\& m->pool.window) table->blocks[table->cached \/ m->pool.block_tokens - 1] = PASSED;\n&/'
mistake "no block without a window" "no window has passed" -e 's/table->count = of->entries;/&\n    if (!m->pool.window) *table->blocks = PASSED;/'
mistake "a group finds more than others" "in group 0: give what all have" \
    -e 's/^(    for \(kvg_manager_table \*t = table); (.*)= found;/\1->next; \2= 0;\n    table->cached = found;/'
mistake "a block of another group is found" ": A" -e 's/b->group == group && //' -e 's/m->pool.groups\[b->group\].block_tokens/1/'
mistake "a group is not asked for room" "not in its place in the table" -e 's/needed \+= (.*)/if (g == 0) needed += \1/' -e 's/^    return oldest;/    return oldest ? oldest : m->blocks;/'
mistake "a group has no table" "gives 0 blocks for" -e 's/(g < m->pool.group_count; g\+\+), table = table->next\) \{/\1, table = table->next) {\n        if (g > 1) break;/'
pool=12+8:4
mistake "a block of the host is given twice" ": A2: " -e 's/^    b->users = 1;/    b->users = !of_host;/'
mistake "a block of the host stays held" "too few blocks of the host" \
    -e 's/if \(id != PASSED && --m/if (id < m->pool.blocks \&\& --m/'
mistake "what goes to the host is not copied" "copy its tokens" \
    -e 's/if \(is_filled\) table/if (is_needed \&\& i + out < filled) table/'
mistake "what comes back is not copied" "swap_in of sequence" \
    -e 's/if \(is_filled\) table/if (is_filled \&\& out) table/'
mistake "a copy of another block comes back" "copy its tokens" \
    -e 's/copy = \{of->table\[i\], is_needed/copy = {of->table[!out \&\& i > passed ? i - 1 : i], is_needed/'
mistake "the host's block is kept in a table" "give one of the pool" \
    -e 's/is_needed \? take/is_needed \&\& !out \&\& i < filled ? of->table[i] : is_needed ? take/'
mistake "a swap forgets a block of the pool" ": A25: " \
    -e 's/i-- > 0;\) let_go\(m, of->table\[i\]\)/i-- > out;) let_go(m, of->table[i])/'
mistake "the host is never full" "died in swap_out" -e 's/(count_available\(m, true\)) </\1 + 1 </'
mistake "the host is always full" "too few blocks of the host" \
    -e 's/if \(count_available\(m, true\) <.*/return KVG_ERR_EXHAUSTED;/'
mistake "a swapped sequence lacks a block" "the sequence needs one there" -e 's/\(i < filled \|\| !out\)/i < filled/'
mistake "a copy is copied over" "not in its place in the table" \
    -e 's/if \(is_filled\) table.*/&\n            if (!out \&\& i > passed \&\& i < filled) table->copies[table->copy_count++] = (kvg_manager_copy){of->table[i - 1], copy.to};/'
mistake "the host has what was not copied" ": A5: " -e '/become\(m, kept, b\)/,/table->copies/{/table->copies/d}'
mistake "what the host has is not loaded" ": A5: " -e '/^        become\(m, &m->blocks\[copy.to\]/,/table->copies/{/table->copies/d}'
mistake "a copy that nobody asked for" "not in its place in the table" \
    -e 's/^    if \(s\) drop\(m, q\);/    if (!s \&\& table->copy_count \&\& m->sequences) table->copies[table->copy_count++] = (kvg_manager_copy){table->copies->to, *m->sequences->parts->table};\n&/'
mistake "the host keeps what it does not claim" "not in its place in the table" -e 's/ \| KVG_MANAGER_HOST_CACHE,$/,/'
mistake "the host keeps what is not known" ": A29: " -e 's/return b->known && b </return b </'
mistake "a block of the host that is held is filled" ": A" -e 's/        if \(b->users\) continue;/        if (b->users \&\& !of_host) continue;/'
mistake "a block of the host is filled and loaded at once" ": A7: " \
    -e 's/if \(is_of_host\(m, table->blocks\[i\]\)\) let_go.*/(void)i;/' -e 's/^        of->table\[i\] = copy.to;/        let_go(m, copy.from);\n&/'
unset pool
mistake "a window's blocks go to the host" "no tokens are needed there" \
    -e 's/is_needed = i >= passed &&/is_needed = i + 1 >= passed \&\&/; s/ - blocks_passed\(group, q->written\);/;/'

mistake "a failed open keeps its memory" "pieces of memory" -e 's/^    else end\(m\);/    else give_memory(m, m);/'
mistake "a failed admit keeps its memory" "pieces of memory" -e '/^    if \(got\) return q;/{n;s/drop\(m, q\)/give_memory(m, q)/}'
mistake "close keeps memory" "close leaves " -e 's/^    give_memory\(m, m->blocks\);//'
mistake "a failed admit holds what it found" "too few blocks" -e 's/^    const uint32_t found = .*match_all.*/&\n    void *more = get_memory(m, 1);\n    if (!more) return KVG_ERR_MEMORY;\n    give_memory(m, more);/'
mistake "a failed grow has grown" "FAIL: pool" -e 's/^    int32_t \*kept = get_memory/    q->count = count;\n&/'
mistake "memory that fails is used" "died in admit of sequence" -e 's/^    if \(!q\) return (NULL|KVG_ERR_MEMORY);//'
mistake "memory is said to fail" "fails: out of memory" -e 's/^    const kvg_status s = fill\(m, q, before, table\);/    if (m->clock > 9) return KVG_ERR_MEMORY;\n&/'

mistake "a crash" "died in admit of sequence 2, after 1 events: killed by signal 11" -e 's/if \(count_available.*//'
mistake "an answer that cannot be read" "died behind admit of sequence" -e 's/table->count = of->entries;/&\n    table->blocks = 0;/'
mistake "an exit" "died in admit of sequence 1, after 0 events: the process exited with status 0 in the midst of its work" \
    -e 's/if \(count_available.*/_exit(0);/'
mistake "a hang" "died in written of sequence 8, after 14 events: the call took longer than 10 s" \
    -e 's/for \(; of->known < count/if (m->clock > 9) pause();\n    &/'

# --- bytes ---

planted=$(dirname "$kvgold")/libkvgold_planted_defect.so
sed 's/\.swap_in = swap_in,//' "$source_dir/examples/manager/manager.c" >manager.c && build
expect "a claim without its functions" 2 "lacks swap_out or swap_in" "$kvgold" pool check ./libmanager.so -o out

cp "$source_dir/examples/manager/manager.c" . && build
for where in "nvfp4 hnd 96+40:16w40:8:32w70" "int4 vllm 64:16w40" "e4m3 turbomind 64:16"; do
    read -r format layout pool <<<"$where"
    expect "the example's blocks hold $format in $layout" 0 "each as it reads by itself" "$kvgold" pool check \
        ./libmanager.so -o out --backend reference --format "$format" --layout "$layout" --pool "$pool" --ops 300
done

# wrong DEFECT TEXT: with a known-wrong append or flatten some token of the example reads otherwise.
wrong() {
    expect "$1" 1 "$2" env KVGOLD_PLANTED="$1" "$kvgold" pool check ./libmanager.so -o out --backend "$planted" --ops 200
}
for defect in page_off_by_one stale_page block_off_by_one scales_shifted; do
    wrong $defect "of sequence 1: append or flatten is wrong"
done
for defect in zeros tail_short; do
    wrong $defect "give two tokens the same K, though their numbers differ"
done
wrong padding_ignored "FAIL: pool 24:4:2"

# bytes NAME TEXT SED...: as `mistake`; a token of another sequence is read.
bytes() {
    local name=$1 text=$2
    shift 2
    sed -E "$@" "$source_dir/examples/manager/manager.c" >manager.c && build
    expect "$name, in bytes" 1 "$text" "$kvgold" pool check ./libmanager.so -o out \
        --backend reference --pool "${pool-64:16}" --ops 400
}
for pool in 64:16 24:4:2 64:16:16; do
    bytes "a block that is held in $pool" " wrote token " -e 's/table->count = of->entries;/*table->blocks = 0; &/'
    [[ $output != *"flatten is wrong"* ]]
    report "... and the ops are not blamed" $? "$output"
done
unset pool
bytes "a shared block is written in place" " wrote token " \
    -e 's/&& m->blocks\[of->table\[of->entries - 1\]\].users > 1/\&\& 0/'
bytes "the salt is forgotten" " wrote token " -e 's/b->salt == salt && //'
bytes "blocks are known before they are written" "nothing was written there" \
    -e 's/of->known < count \/ m/of->known < q->count \/ m/'

cp "$source_dir/examples/manager/manager.c" . && build
expect "a layout whose blocks lie in pieces" 2 "a block does not lie in one piece" \
    "$kvgold" pool check ./libmanager.so -o out --backend reference --layout vllm_lhbnc
expect "a layout without blocks" 2 "has no blocks that a manager gives out" \
    "$kvgold" pool check ./libmanager.so -o out --backend reference --layout ring
expect "a format that there is not" 2 "nvfp4" "$kvgold" pool check ./libmanager.so -o out --backend reference --format nvfp5
expect "a backend without the ops" 2 "the last one: backend company has no append" "$kvgold" pool check ./libmanager.so \
    -o out --backend "$(dirname "$kvgold")/libkvgold_company.so" --pool 64:16
expect "a format without a backend" 2 "are for --backend" "$kvgold" pool check ./libmanager.so -o out --format e4m3
expect "no token is read" 2 "no token was read" "$kvgold" pool check ./libmanager.so -o out --backend reference --pool 64:16 --ops 1
expect "a backend that there is not" 2 "none.so" "$kvgold" pool check ./libmanager.so -o out --backend ./none.so
expect "a layout that cannot be padded, and groups" 2 "takes no pool that it is asked for: name one by --pool; the last one: layout trtllm cannot be padded" \
    "$kvgold" pool check ./libmanager.so -o out --backend reference --layout trtllm --pool 24:4:2

sed -E 's/^    uint32_t most = 0;/    if (pool->group_count > 1 || pool->block_tokens != 16) return KVG_ERR_UNIMPLEMENTED;\n&/' \
    "$source_dir/examples/manager/manager.c" >manager.c && build
expect "a manager of blocks of 16 tokens" 0 "on 5 pools" "$kvgold" pool check ./libmanager.so -o out
expect "it takes a pool that is named" 0 "on 1 pool;" "$kvgold" pool check ./libmanager.so -o out --pool 100:16w64
expect "it takes no other pool" 2 "name one by --pool" "$kvgold" pool check ./libmanager.so -o out --pool 100:32
expect "a text that is no pool" 2 "is no pool" "$kvgold" pool check ./libmanager.so -o out --pool 100:16:0
expect "more groups than blocks" 2 "is no pool" "$kvgold" pool check ./libmanager.so -o out --pool 2:1:1:1

expect "what an operation costs" 0 "64:16       1000 " "$kvgold" pool bench ./libmanager.so --pool 64:16 --ops 1000 --json b.json
expect "the same for machines" 0 '"kvgold_ns"' cat b.json
expect "a bench of a pool that it does not take" 2 "takes no pool" "$kvgold" pool bench ./libmanager.so --pool 64:8
expect "a config's bench has pools of its own" 2 "are for the bench of a library" \
    "$kvgold" pool bench "$source_dir/configs/bench_pool.json" --ops 5

cp "$source_dir/tests/paging/pool/quick_manager.c" manager.c && build
expect "another manager is right" 0 "PASS: " "$kvgold" pool check ./libmanager.so -o out
expect "a bench of a large pool" 0 " 200000:16 " "$kvgold" pool bench ./libmanager.so --pool 200000:16 --ops 20000 --json c.json
output=$(cat c.json)
[[ $output =~ \"held\":[[:space:]]*(0\.99|1[^0-9]) ]]
report "... is of a full one" $? "$output"
sed -i 's/\.available = available/&, .claims = KVG_MANAGER_OLDEST_FIRST/' manager.c && build
expect "it gives the youngest block, and promises the oldest" 1 ": B3: " "$kvgold" pool check ./libmanager.so -o out

"${CC:-cc}" -shared -fPIC -x c /dev/null -o libnone.so
expect "no manager" 2 "exports no kvg_manager_export" "$kvgold" pool check ./libnone.so -o out
expect "no library" 2 "cannot open the manager" "$kvgold" pool check ./nowhere.so -o out
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
