#!/usr/bin/env python3
"""usage: ci/peers_kernels.py FOLDER [--quick]
       ci/peers_kernels.py FOLDER --loads

The process of ci/peers.py that runs the kernels of the packs unpacked in FOLDER. The numbers of its rows come as JSON
on stdin; each is answered by a line of JSON on stdout, [number, result], after one with the number -1 that describes
the machine. --loads loads every library and says what it cannot load, which needs no GPU. Exit status: 0; 1 a library
cannot be loaded; 2 usage; 9 the device is broken, and the last row that was answered did it.
"""
import copy
import glob
import json
import math
import os
import sys
import time

from peers import FATAL, MLA, MLA_PAGE, MLA_V_DIM, PAGE, PEERS, all_rows, has_sinks, last_line, row_bytes

DEVICE = "cuda"
SEED = 20261123
WRONG_ABOVE = 0.15  # fp8 arithmetic errs by about 0.05, a wrong kernel by about 1
FLUSH_BYTES = 256 << 20  # more than four times the L2 of an H200
WORKSPACE_BYTES = 3 << 30  # partial results of a prefill of 8 Ki tokens in eight chunks: 2 GiB
PROBES = 8  # query tokens of a row that are asked again alone
FIXED_SPLIT = {False: 2048, True: 4096}  # tokens, by "is a prefill": what SGLang's deterministic mode takes


# --- What FlashInfer compiles, by the names under which it looks for it ----------------------------------------------

def sink_arguments(torch, kind, decl):
    """Of FlashInfer's own attention with sinks (`jit_args`, `jit_kwargs`). Its wrapper's name for the library leaves
    out K's and V's type and head_dim, hence these."""
    kv = {"bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}[kind]
    args = [f"kvgold_peer_sink_{kind}_64", torch.bfloat16, kv, torch.bfloat16, torch.int32, 64, 64, ["sink"], ["float"],
            ["sm_scale"], ["double"], "AttentionSink", decl]
    return args, {"paged_kv_stride_mode": "equal", "module_surface": "full"}


# --- The machine: timing and inputs -----------------------------------------------------------------------------------

def make_reader(torch):
    """A kernel that reads `words` int32 from one end to the other, as (shape) -> launch(tensor, words); all shapes."""
    try:
        global tl
        import triton
        import triton.language as tl

        @triton.jit
        def read_words(data, words, sink, BLOCK: tl.constexpr, STREAM: tl.constexpr):
            place = tl.arange(0, BLOCK)
            at = tl.program_id(0).to(tl.int64) * BLOCK + place
            if STREAM:
                got = tl.load(data + at, mask=at < words, other=0, eviction_policy="evict_first")
            else:
                got = tl.load(data + at, mask=at < words, other=0, cache_modifier=".cg")
            tl.store(sink + place, got, mask=got == 0x7F7F7F7F)  # hardly ever, but what is read must be looked at

        sink = torch.empty(16384, dtype=torch.int32, device=DEVICE)

        def read(shape, data, words):
            block, warps, stream = shape
            read_words[((words + block - 1) // block,)](data, words, sink, BLOCK=block, STREAM=stream, num_warps=warps)

        shapes = [(block, warps, stream) for block, warps in ((2048, 16), (4096, 16), (8192, 16), (4096, 8), (2048, 4))
                  for stream in (True, False)]
        probe = torch.zeros(1 << 16, dtype=torch.int32, device=DEVICE)
        for shape in shapes:
            read(shape, probe, probe.numel())
        torch.cuda.synchronize()
        return read, shapes
    except Exception as error:
        print(f"peers: no Triton, so torch.amax stands for the plain read: {last_line(error)}", file=sys.stderr)
        return (lambda shape, data, words: torch.amax(data[:words])), ["torch.amax"]


class Machine:
    """Pool, flush and timing of one process on one GPU."""

    def __init__(self, torch, pool_bytes, quick):
        self.torch, self.quick = torch, quick
        self.pool = torch.empty(pool_bytes, dtype=torch.uint8, device=DEVICE)
        self.words = self.pool.view(torch.int32)
        self.flush_words = torch.full((FLUSH_BYTES // 4,), 0x5A5A5A5A, dtype=torch.int32, device=DEVICE)
        self.workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=DEVICE)
        self.read, self.shapes = make_reader(torch)
        self.best_shape = {}
        self.inputs = None

    def flush(self):
        self.read(self.shapes[-1], self.flush_words, self.flush_words.numel())

    def event(self):
        return self.torch.cuda.Event(enable_timing=True)

    def once(self, op):
        """Microseconds with a cold L2, and seconds that the host needs to queue it."""
        begin, end = self.event(), self.event()
        self.torch.cuda._sleep(1000000)
        self.flush()
        begin.record()
        start = time.perf_counter()
        op()
        host = time.perf_counter() - start
        end.record()
        self.torch.cuda.synchronize()
        return 1e3 * begin.elapsed_time(end), host

    def shape_for(self, words):
        """The fastest for so many words."""
        if words not in self.best_shape:
            times = {s: min(self.once(lambda s=s: self.read(s, self.words, words))[0] for _ in range(3))
                     for s in self.shapes}
            self.best_shape[words] = min(times, key=times.get)
        return self.best_shape[words]

    def measure(self, op, nbytes):
        """Medians and quartiles of op and of the plain read, in turn."""
        words = nbytes // 4
        shape = self.shape_for(words)
        self.once(op)
        us, host = min(self.once(op) for _ in range(2))
        runs = 5 if self.quick or us > 4000 else 11
        # The host queues two flushes, a plain read and op; the GPU must not be done before it is.
        lead = max(0.0, 2 * host + 4e-4 - 1e-6 * us)
        pairs = [[self.event() for _ in range(4)] for _ in range(runs)]
        self.torch.cuda._sleep(4000000)
        for p in pairs:
            if lead > 0:
                self.torch.cuda._sleep(int(lead * 2e9))
            self.flush()
            p[0].record()
            self.read(shape, self.words, words)
            p[1].record()
            self.flush()
            p[2].record()
            op()
            p[3].record()
        clock, power = self.clock()
        self.torch.cuda.synchronize()
        times = sorted(1e3 * p[2].elapsed_time(p[3]) for p in pairs)
        plain = sorted(1e3 * p[0].elapsed_time(p[1]) for p in pairs)
        return {"us": times[runs // 2], "lower_quartile_us": times[runs // 4],
                "upper_quartile_us": times[-1 - runs // 4], "plain_us": plain[runs // 2], "runs": runs,
                "plain_shape": str(shape), "sm_mhz": clock, "power_w": power}

    def empty(self):
        """Microseconds that the events show around a kernel of one word."""
        return sorted(self.once(lambda: self.read(self.shapes[0], self.words, 16))[0] for _ in range(9))[4]

    def clock(self):
        try:
            return self.torch.cuda.clock_rate(), self.torch.cuda.power_draw() / 1e3
        except Exception:
            return None, None

    def inputs_of(self, row):
        kind = PEERS[row.peer].format
        key = (row.geometry, row.batch, row.tokens, row.queries, kind)
        if self.inputs is None or self.inputs.key != key:
            self.inputs = Inputs(self, key)
        return self.inputs


class Inputs:
    """q, K and V of a case in one format. K, V and their scales lie one after another in the pool."""

    def __init__(self, machine, key):
        torch = self.torch = machine.torch
        self.key = key
        self.geometry, self.batch, self.tokens, self.queries, self.kind = key
        g = self.geometry
        self.one_row = g in MLA
        self.page = MLA_PAGE if self.one_row else PAGE
        self.pages = self.batch * self.tokens // self.page
        rows = self.pages * self.page * g.kv_heads
        torch.manual_seed(SEED + hash(key[1:4]) % 1000)
        width = {"bf16": 2 * g.head_dim, "e4m3": g.head_dim, "nvfp4": g.head_dim // 2}[self.kind]
        sides = 1 if self.one_row else 2
        sizes = [rows * width] * sides + ([rows * g.head_dim // 16] * sides if self.kind == "nvfp4" else [])
        parts, at = [], 0
        for size in sizes:
            parts.append(machine.pool[at:at + size])
            at += size
        self.bytes = at
        self.sides = [self.fill(p) for p in parts[:sides]]
        self.scales = [p.random_(0x20, 0x31).view(torch.float8_e4m3fn) for p in parts[sides:]]  # 2^-3 to 2^-1
        self.table = torch.randperm(self.pages, device=DEVICE).to(torch.int32).view(self.batch, -1)
        self.lengths = torch.full((self.batch,), self.tokens, dtype=torch.int32, device=DEVICE)
        # Scores spread by about 2. Beside fp8 caches, values that fp8 has: peers that round q to fp8 lose nothing.
        q = 2 * torch.randn(self.batch * self.queries, g.query_heads, g.head_dim, device=DEVICE)
        self.q8 = q.to(torch.float8_e4m3fn)
        self.q = self.q8.to(torch.bfloat16) if self.kind == "e4m3" else q.to(torch.bfloat16)
        logits = math.log(self.tokens) + 2 + torch.randn(g.query_heads, device=DEVICE)  # as heavy as all keys
        self.sinks = logits.to(torch.bfloat16).float()
        self.answers = {}

    def alone(self, sequence, query):
        """Inputs of one query token as a decode step of its sequence alone. The token sees whole pages."""
        seen = self.tokens - self.queries + query + 1
        one = copy.copy(self)
        one.batch, one.tokens, one.queries = 1, seen, 1
        one.table = self.table[sequence:sequence + 1, :seen // self.page].contiguous()
        one.lengths = self.torch.full((1,), seen, dtype=self.torch.int32, device=DEVICE)
        at = sequence * self.queries + query
        one.q, one.q8, one.answers = self.q[at:at + 1], self.q8[at:at + 1], {}
        return one

    def probes(self):
        """Up to 8 query tokens that see whole pages, in different sequences: (sequence, query)."""
        whole = range(self.queries - 1, -1, -self.page)
        count = min(PROBES, self.batch * len(whole))
        return [(n * self.batch // count, whole[n * len(whole) // count]) for n in range(count)]

    def fill(self, part):
        torch = self.torch
        if self.kind == "nvfp4":
            return part.random_(0, 256)
        if self.kind == "bf16":
            return part.view(torch.bfloat16).normal_()
        for chunk in part.view(torch.float8_e4m3fn).split(1 << 27):
            chunk.copy_(torch.randn(chunk.numel(), device=DEVICE, dtype=torch.bfloat16))
        return part.view(torch.float8_e4m3fn)

    def paged(self, flat, layout):
        """[page, token, head, element], or with head and token exchanged in memory and in the shape: hnd."""
        heads = self.geometry.kv_heads
        return flat.view(self.pages, *((heads, self.page) if layout == "hnd" else (self.page, heads)), -1)

    def logical(self, flat, layout, contiguous=False):
        """[page, token, head, element] whatever the layout; contiguous: [sequence, token, head, element]."""
        heads = self.geometry.kv_heads
        if contiguous:
            shape = (self.batch, heads, self.tokens, -1) if layout == "hnd" else (self.batch, self.tokens, heads, -1)
            made = flat.view(shape)
        else:
            made = self.paged(flat, layout)
        return made.transpose(1, 2) if layout == "hnd" else made

    def keys(self, side, layout, contiguous, sequence, head):
        """A head of a sequence in float64: [token, element]."""
        torch = self.torch

        def rows_of(flat):
            made = self.logical(flat, layout, contiguous)
            if contiguous:
                return made[sequence, :, head]
            return made[self.table[sequence].long(), :, head].reshape(self.tokens, -1)

        got = rows_of(self.sides[0 if self.one_row else side])
        if self.one_row and side:
            got = got[:, :MLA_V_DIM]
        if self.kind != "nvfp4":
            return got.float().double()
        e2m1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64, device=DEVICE)
        codes = torch.stack((got & 15, got >> 4), -1).reshape(self.tokens, -1).long()  # the low half comes first
        values = e2m1[codes & 7] * (1 - 2 * (codes >> 3))
        return values * rows_of(self.scales[side]).float().double().repeat_interleave(16, 1)

    def sample(self):
        """Rows that are checked: (sequence, query, head)."""
        b, n, h = self.batch, self.queries, self.geometry.query_heads
        return sorted({(0, 0, 0), (b - 1, n - 1, h - 1), (b // 2, n // 2, h // 2), (b // 3, n - 1, 1),
                       (0, n - 1, h - 2)})

    def answer(self, layout, contiguous, sinks):
        key = layout, contiguous, sinks
        if key not in self.answers:
            self.answers[key] = [self.exact_row(layout, contiguous, sinks, *row) for row in self.sample()]
        return self.answers[key]

    def exact_row(self, layout, contiguous, sinks, sequence, query, head):
        torch, g = self.torch, self.geometry
        kv_head = head // (g.query_heads // g.kv_heads)
        seen = self.tokens - self.queries + query + 1
        k, v = (self.keys(side, layout, contiguous, sequence, kv_head)[:seen] for side in (0, 1))
        q = (self.q if self.kind != "e4m3" else self.q8.float()).double()[sequence * self.queries + query, head]
        scores = k @ q / math.sqrt(g.head_dim)
        top = torch.maximum(scores.max(), self.sinks[head].double()) if sinks else scores.max()
        weights = torch.exp(scores - top)
        total = weights.sum() + (torch.exp(self.sinks[head].double() - top) if sinks else 0)
        return (weights / total) @ v

    def error(self, out, layout, contiguous, sinks):
        """The largest relative error of a sampled row; NaN if any is."""
        worst = 0.0
        for (sequence, query, head), exact in zip(self.sample(), self.answer(layout, contiguous, sinks)):
            got = out.reshape(-1, *out.shape[-2:])[sequence * self.queries + query, head].double()
            one = float((got - exact).norm() / exact.norm())
            worst = one if not one <= worst else worst
        return worst


# --- Peers: each gives what it can be run as, [(name, layout, contiguous, make)], make() -> (op, out) --------------

def poisoned(m, shape):
    return m.torch.full(shape, float("nan"), dtype=m.torch.bfloat16, device=DEVICE)


def layouts(m):
    return ("hnd",) if m.quick else ("hnd", "nhd")


def fa3_ways(m, row, x):
    peer, torch = PEERS[row.peer], m.torch
    g, splits = row.geometry, {"auto": 0, "none": 1}[peer.splits]
    causal = row.queries > 1

    def make(layout, lengths):
        k, v = (x.logical(s, layout, peer.contiguous) for s in x.sides)
        q = (x.q8 if peer.format == "e4m3" else x.q).view(row.batch, row.queries, g.query_heads, g.head_dim)
        out = poisoned(m, tuple(q.shape))
        options = {"softmax_scale": g.head_dim ** -0.5, "is_causal": causal, "num_splits": splits}
        if not peer.contiguous:
            options["page_table"] = x.table
        if lengths:  # as engines call it: lengths on the device, the schedule made once for all layers
            options["seqused_k"] = x.lengths
            options["scheduler_metadata"] = torch.ops.flash_attn_3.get_scheduler_metadata(
                row.batch, row.queries, row.tokens, g.query_heads, g.kv_heads, g.head_dim, g.head_dim, q.dtype,
                x.lengths, page_size=PAGE, is_causal=causal, num_splits=splits)
        if peer.format == "e4m3":
            one = torch.ones(row.batch, g.kv_heads, device=DEVICE)
            options.update(q_descale=one, k_descale=one, v_descale=one)
        if has_sinks(row):
            options["sinks"] = x.sinks.to(torch.bfloat16)
        return (lambda: torch.ops.flash_attn_3.fwd(q, k, v, out=out, **options)), out

    for layout in layouts(m):
        for lengths in ((False,) if peer.contiguous else (True, False)):
            name = layout + (", lengths on the device" if lengths else "")
            yield name, layout, peer.contiguous, lambda a=layout, b=lengths: make(a, b)


def flashinfer_ways(m, row, x):
    peer, torch, g = PEERS[row.peer], m.torch, row.geometry
    from flashinfer.jit.attention.variants import attention_sink_decl
    from flashinfer.prefill import BatchPrefillWithPagedKVCacheWrapper
    backend = {"fi-fa2": "fa2", "fi-fa3": "fa3"}[peer.kind]
    kv_type = {"bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn, "nvfp4": torch.uint8}[peer.format]
    q = x.q8 if backend == "fa3" and peer.format == "e4m3" else x.q  # its FA3 takes fp8 for all or for none
    scale = g.head_dim ** -0.5

    def make(layout):
        options, extra, scales = {}, (), {}
        if has_sinks(row):
            args, kwargs = sink_arguments(torch, peer.format, attention_sink_decl["fa2"])
            options = {"jit_args": args, "jit_kwargs": kwargs}
            extra = (x.sinks, scale)
        wrapper = BatchPrefillWithPagedKVCacheWrapper(m.workspace, layout.upper(), backend=backend, **options)
        steps = torch.arange(row.batch + 1, dtype=torch.int32)
        split = {"auto": {}, "none": {"disable_split_kv": True},
                 "fixed": {"fixed_split_size": FIXED_SPLIT[row.queries > 64] // PAGE}}[peer.splits]
        wrapper.plan(steps * row.queries, steps * (row.tokens // PAGE), x.table.view(-1),
                     torch.full((row.batch,), PAGE, dtype=torch.int32), g.query_heads, g.kv_heads, g.head_dim, PAGE,
                     causal=row.queries > 1, sm_scale=scale, q_data_type=q.dtype, kv_data_type=kv_type,
                     o_data_type=torch.bfloat16, **split)
        kv = tuple(x.paged(s, layout) for s in x.sides)
        if x.scales:
            scales = {"kv_cache_sf": tuple(x.paged(s, layout) for s in x.scales)}
        out = poisoned(m, tuple(q.shape))
        return (lambda: wrapper.run(q, kv, *extra, out=out, **scales)), out

    for layout in layouts(m):
        yield layout, layout, False, lambda a=layout: make(a)


def xqa_ways(m, row, x):
    g, torch = row.geometry, m.torch
    from flashinfer.decode import xqa_batch_decode_with_kv_cache
    workspace = torch.zeros(1 << 30, dtype=torch.uint8, device=DEVICE)  # its semaphores must be zero
    shape = (row.batch, row.queries, g.query_heads, g.head_dim) if row.queries > 1 else tuple(x.q.shape)
    options = {"sinks": x.sinks if has_sinks(row) else None, "q_len_per_req": row.queries}
    if row.queries > 1:  # a word of 32 bits for each query, as two halves: the queries that it sees
        seen = [[(2 << i) - 1, 0] for i in range(row.queries)]
        options["mask"] = torch.tensor([seen] * row.batch, dtype=torch.uint16, device=DEVICE)

    def make(layout):
        kv = tuple(x.paged(s, layout) for s in x.sides)
        out = poisoned(m, shape)
        return (lambda: xqa_batch_decode_with_kv_cache(
            x.q, kv, workspace, x.table, x.lengths, row.tokens, bmm1_scale=g.head_dim ** -0.5, bmm2_scale=1.0, out=out,
            kv_layout=layout.upper(), **options)), out

    for layout in layouts(m):
        yield layout, layout, False, lambda a=layout: make(a)


def flashmla_ways(m, row, x):
    """Its schedule is made by the first call; engines make it once for all layers."""
    torch, g = m.torch, row.geometry

    def make():
        q = x.q.view(row.batch, row.queries, g.query_heads, g.head_dim)
        out = torch.empty(0, dtype=torch.bfloat16, device=DEVICE)  # becomes what the op allocates
        plan = [None, None]

        def op():
            answer, _, *plan[:] = torch.ops.flash_mla_legacy.dense_decode_fwd(
                q, x.paged(x.sides[0], "nhd"), MLA_V_DIM, x.lengths, x.table, g.head_dim ** -0.5, row.queries > 1,
                *plan)
            out.set_(answer)

        return op, out

    yield "nhd", "nhd", False, make


WAYS = {"fa3": fa3_ways, "fi-fa2": flashinfer_ways, "fi-fa3": flashinfer_ways, "xqa": xqa_ways,
        "flashmla": flashmla_ways}


def bits_alone(m, row, x, name, out):
    """How many query tokens of out were asked again, each as a decode step of its sequence alone, and how many of
    these got other bits. (0, 0): the row is a decode step of one sequence, or its K and V are not in pages."""
    if row.batch * row.queries == 1 or PEERS[row.peer].contiguous:
        return 0, 0
    whole, differ = out.reshape(row.batch, row.queries, *out.shape[-2:]), 0
    for sequence, query in x.probes():
        one = x.alone(sequence, query)
        asked = row._replace(batch=1, queries=1, tokens=one.tokens)
        make = next(w[-1] for w in WAYS[PEERS[row.peer].kind](m, asked, one) if w[0] == name)
        op, answer = make()
        op()
        error = one.error(answer, name.partition(",")[0], False, has_sinks(row))
        if not error <= WRONG_ABOVE:
            raise RuntimeError(f"a query token that is asked alone is wrong, relative error {error:.3g}")
        got, want = (t.reshape(-1).view(m.torch.int16) for t in (answer, whole[sequence, query].contiguous()))
        differ += not bool((got == want).all())
    return len(x.probes()), differ


def run_row(m, row):
    """What is known of a row: {"status": TIMED, WRONG or NOT RUN, ...}."""
    x = m.inputs_of(row)
    assert x.bytes == row_bytes(row), f"{x.bytes} bytes of inputs, {row_bytes(row)} planned"
    found, best, ways, why = None, None, {}, []
    for name, layout, contiguous, make in WAYS[PEERS[row.peer].kind](m, row, x):
        try:
            op, out = make()
            op()
            m.torch.cuda.synchronize()
            error = x.error(out, layout, contiguous, has_sinks(row))
            if not error <= WRONG_ABOVE:
                ways[name] = f"WRONG, relative error {error:.3g}"
                continue
            timed = m.measure(op, x.bytes)
            after = x.error(out, layout, contiguous, has_sinks(row))
            if not after <= WRONG_ABOVE:
                ways[name] = f"WRONG once it was timed, relative error {after:.3g}"
                continue
        except Exception as e:
            ways[name] = last_line(e)
            why.append(ways[name])
            m.torch.cuda.synchronize()  # raises again if the device is broken
            continue
        ways[name] = timed["us"]
        if found is None or timed["us"] < found["us"]:
            found, best = dict(timed, way=name, error=error), out
    if found is None:
        wrong = [w for w in ways.values() if str(w).startswith("WRONG")]
        return {"status": "WRONG" if wrong else "NOT RUN", "why": (wrong + why + ["no way to run it"])[0], "ways": ways}
    try:
        found["tokens_alone"], found["tokens_alone_differ"] = bits_alone(m, row, x, found["way"], best)
    except Exception as e:
        found["alone_not_run"] = last_line(e)
        m.torch.cuda.synchronize()
    return dict(found, status="TIMED", ways=ways)


def load_libraries(torch, folder):
    """A line of the error for each pack that cannot be loaded."""
    faults = {}
    for pack, library in (("fa3", "_C.abi3.so"), ("flashmla", "_C_legacy.abi3.so")):
        try:
            torch.ops.load_library(os.path.join(folder, pack, library))
        except Exception as e:
            faults[pack] = last_line(e)
    try:
        import flashinfer  # noqa: F401
    except Exception as e:
        faults["flashinfer"] = last_line(e)
    return faults


def worker(folder, quick, answers):
    """Runs the rows whose numbers come on stdin; a line of JSON for each goes to `answers`."""
    numbers = json.load(sys.stdin)
    rows = all_rows()

    def say(number, result):
        print(json.dumps([number, result]), file=answers, flush=True)

    import torch
    faults = load_libraries(torch, folder)
    m = Machine(torch, max(row_bytes(rows[n]) for n in numbers), quick)
    say(-1, {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "empty_us": m.empty(), "faults": faults})
    for n in numbers:
        kind = PEERS[rows[n].peer].kind
        pack = kind if kind in ("fa3", "flashmla") else "flashinfer"
        if pack in faults:
            say(n, {"status": "NOT RUN", "why": faults[pack]})
            continue
        try:
            say(n, run_row(m, rows[n]))
        except Exception as e:
            say(n, {"status": "NOT RUN", "why": last_line(e)})
            try:
                m.inputs = None
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
            except Exception:
                os._exit(FATAL)
    return 0


def loads(folder):
    import torch
    faults = load_libraries(torch, folder)
    libraries = sorted(glob.glob(os.path.join(folder, "site", "flashinfer", "data", "aot", "*", "*.so")))
    if "flashinfer" not in faults:
        import tvm_ffi
        for path in libraries:
            name = os.path.basename(path)
            try:
                module = tvm_ffi.load_module(path)
                wanted = ["xqa_wrapper"] if name.startswith("xqa") else ["plan", "paged_run"]
                for function in wanted:
                    getattr(module, function)
            except Exception as e:
                faults[name] = last_line(e)
    for name, why in faults.items():
        print(f"peers: {name}: {why}", file=sys.stderr)
    print(f"FlashAttention-3, FlashMLA and {len(libraries)} libraries of FlashInfer: "
          + (f"{len(faults)} faults" if faults else "each can be loaded"))
    return 1 if faults or not libraries else 0


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") or not set(sys.argv[2:]) <= {"--quick", "--loads"}:
        print(__doc__)
        return 2
    if "--loads" in sys.argv:
        return loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    return worker(sys.argv[1], "--quick" in sys.argv, answers)


if __name__ == "__main__":
    sys.exit(main())
