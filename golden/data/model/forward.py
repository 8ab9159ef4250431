#!/usr/bin/env python3
"""An independent forward pass of this folder's GPT-OSS model, in numpy float64.

What it checks (exit status 0: all passed, 1: not)
  * the logits that transformers computed in float32 and froze in vectors.safetensors
    agree with this code's float64 logits within a derived tolerance;
  * the same check rejects each planted defect (sinks dropped, window 127, ...), so it can
    see them;
  * the captures in ../captures agree: layer 0's K and V with the weights, and every
    layer's K after RoPE with its K before.
It also reports bits per byte on the first bytes of heldout.txt.

Command:  python3 forward.py          (needs numpy only, no PyTorch)

The tolerance
  A float32 implementation rounds after every elementary operation, by a factor 1 + d with
  |d| <= u = 2^-24. To first order its logits are off by sum_i J_i r_i over all roundings r_i,
  J_i being the logit's derivative by that value. `Noise` adds, at each step below, a random
  sign times a scale S that is derived beside the step and covers the step's roundings for
  ANY order of its sums, so one noisy run is off by one draw of that sum, with the true J_i.
  Assumption (the only one; Higham & Mary, SIAM J. Sci. Comput. 41, 2019): roundings are
  independent with mean zero. Then
    1. Hoeffding: P(|sum J_i r_i| > z s) <= 2 exp(-z^2 / 2), s^2 = sum J_i^2 S_i^2;
    2. s^2 is estimated by the mean square e^2 of RUNS noisy runs. A draw sums many small
       terms, so it is close to normal and RUNS e^2 / s^2 chi-square; Chernoff:
       P(e^2 < s^2 / a) <= (exp(1 - 1/a) / a)^(RUNS / 2).
  z and a are set so that either event has probability below P over ALL compared values
  together, and a value may be off by z sqrt(a) e. P and RUNS are the only numbers chosen.
  Why not worst-case bounds: a running bound that adds absolute values at every step,
  |W| e + gamma_n |W||x|, was written and measured. It is sound and useless here: 15 in
  the mean after the first of six layers, where the logits' spread is about 5.
"""
import json
import math
import os
import struct
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
U = 2.0 ** -24      # unit roundoff of float32
UB = 2.0 ** -8      # and of bfloat16
F = 4.0             # exp, cos, sin, pow, rsqrt: relative error at most F u (2 ulp)
P = 1e-9            # probability that a right implementation fails, under the assumption
RUNS = 64


def read_safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    n, = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8:8 + n])
    meta, out = head.pop("__metadata__", {}), {}
    for name, t in head.items():
        a, b = t["data_offsets"]
        data = raw[8 + n + a:8 + n + b]
        if t["dtype"] == "BF16":      # the upper half of a float32
            bits = np.frombuffer(data, "<u2").astype("<u4") << 16
            x = bits.view("<f4").astype(np.float64)
        else:
            x = np.frombuffer(data, {"F32": "<f4", "I32": "<i4", "U8": "u1"}[t["dtype"]])
        out[name] = x.reshape(t["shape"])
    return out, meta


class Noise:
    """x + sign * scale with independent random signs; without a seed, x."""

    def __init__(self, seed=None):
        self.rng = None if seed is None else np.random.default_rng(seed)

    def __call__(self, x, scale):
        """scale: a number or array, or a function giving it (not called without noise)"""
        if self.rng is None:
            return x
        s = scale() if callable(scale) else scale
        sign = self.rng.integers(0, 2, np.shape(x), dtype=np.int8) * 2.0 - 1
        return x + sign * s


def linear(noise, x, w, b=None):
    """x w + b with n = len(x). Products round by u |x_i w_i|, together at most u m in the
    root of squares, m = |x||w| + |b|. The n additions (bias included) each round a partial
    sum of at most m, in any order. S = sqrt(n + 1) u m."""
    y = x @ w if b is None else x @ w + b

    def scale():
        m = np.abs(x) @ np.abs(w)
        return math.sqrt(x.shape[-1] + 1) * U * (m if b is None else m + np.abs(b))
    return noise(y, scale)


def add(noise, x, y):
    """One rounding: S = u |x + y|."""
    z = x + y
    return noise(z, lambda: U * np.abs(z))


def rms_norm(noise, x, w, eps):
    """w x / sqrt(v), v = mean(x^2) + eps. All terms of v are positive: squares (u v together),
    n - 1 additions, the division and eps give v a relative error of sqrt(n + 2) u, half of
    it reaches 1/sqrt(v); rsqrt adds F u. These hit the whole row. Each element then
    passes two products: sqrt(2) u."""
    v = (x * x).mean(-1, keepdims=True) + eps
    r = 1 / np.sqrt(v)
    r = noise(r, lambda: r * U * math.hypot(math.sqrt(x.shape[-1] + 2) / 2, F))
    y = w * x * r
    return noise(y, lambda: math.sqrt(2) * U * np.abs(y))


def yarn(noise, c, opt):
    """Frequencies f = a (1 - ramp) + b ramp with a = base^(-2i/d), b = a / factor; the factor
    on cos and sin; and the worst case of f's float32 error.
    Roundings: pow F u and a reciprocal u: a relative error of a. The ramp
    (i - low) / (high - low): low and the difference round by u low + u (i - low) <= u high
    before the division, the divisor and the division by u ramp each, and 1 - ramp and
    1 - (1 - ramp) by u each; as ramp <= 1 <= high / (high - low), at most
    5 u high / (high - low) in all. The blend: two products and a sum, 2 u f each way:
    4 u f at most."""
    r, d, base = c["rope_scaling"], c["head_dim"], c["rope_theta"]

    def dim_of(rotations):     # the real-valued dimension that turns so often in the old context
        return d * math.log(r["original_max_position_embeddings"] / (rotations * 2 * math.pi)) \
            / (2 * math.log(base))
    low, high = dim_of(r["beta_fast"]), dim_of(r["beta_slow"])
    if opt["truncate"]:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    i = np.arange(d // 2)
    a = float(base) ** (-2.0 * i / d)
    a = noise(a, math.hypot(F, 1) * U * a)
    ramp = np.clip((i - low) / (high - low), 0, 1)
    inside = (ramp > 0) & (ramp < 1)              # outside the clip makes it exact
    e_ramp = inside * 5 * U * high / (high - low)
    ramp = noise(ramp, e_ramp)
    f = a * (1 - ramp) + a / r["factor"] * ramp
    worst = a * e_ramp + (F + 1 + 4) * U * f
    return noise(f, 4 * U * f), 0.1 * math.log(r["factor"]) + 1 if opt["rope_factor"] else 1.0, worst


def rope_table(noise, c, t, opt):
    """The angle pos f rounds once; cos and sin have F u; the factor is rounded and
    multiplied: sqrt(2) u. One table serves all heads and layers, as it does there."""
    f, factor, _ = yarn(noise, c, opt)
    angle = np.arange(t)[:, None] * f
    angle = noise(angle, lambda: U * angle)
    cos, sin = np.cos(angle) * factor, np.sin(angle) * factor
    s = math.hypot(F, math.sqrt(2)) * U * factor
    return noise(cos, s)[:, None], noise(sin, s)[:, None]


def rope(noise, x, cos, sin):
    """Half-split rotation of [t, heads, d]: y = a cos - b sin, so two products and a sum."""
    a, b = np.split(x, 2, -1)
    y = np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)

    def scale():
        p = np.concatenate(((a * cos) ** 2 + (b * sin) ** 2, (b * cos) ** 2 + (a * sin) ** 2), -1)
        return U * np.sqrt(p + y * y)
    return noise(y, scale)


def softmax(noise, s, n):
    """Softmax of n live logits (-inf: masked). s - max rounds by u |s - max|; exp has F u;
    the sum of n positive terms sqrt(n) u on the whole row; the division u."""
    z = s - s.max(-1, keepdims=True)
    live = np.isfinite(z)
    e = np.exp(noise(z, lambda: U * np.abs(np.where(live, z, 0))))
    e = noise(e, F * U * e)
    total = e.sum(-1, keepdims=True)
    total = noise(total, np.sqrt(n) * U * total)
    p = e / total
    return noise(p, U * p)


def attention(noise, c, w, x, table, sliding, opt):
    """[t, hidden] -> [t, hidden]; also K before and after RoPE and V, each [t, Hkv, d]."""
    t = x.shape[0]
    hq, hkv, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]

    def project(name, heads):
        bias = w[name + "_proj.bias"] * (name != opt["drop_bias"])
        return linear(noise, x, w[name + "_proj.weight"].T, bias).reshape(t, heads, d)
    q, k0, v = project("q", hq), project("k", hkv), project("v", hkv)
    q, k = rope(noise, q, *table), rope(noise, k0, *table)
    i = np.arange(t)
    mask = i[None, :] <= i[:, None]
    if sliding:                    # a window of w: the query itself and the w - 1 before it
        mask = mask & (i[None, :] > i[:, None] - opt["window"])
    seen = mask.sum(1)[:, None] + 1.0             # keys seen, and the sink
    out = np.empty((t, hq, d))
    for h in range(hq):
        g = h % hkv if opt["head_map"] else h // (hq // hkv)
        s = linear(noise, q[:, h], k[:, g].T)
        s = noise(s * d ** -0.5, lambda: U * np.abs(s) * d ** -0.5)
        sink = w["sinks"][h] if opt["sinks"] else -np.inf
        s = np.concatenate((np.where(mask, s, -np.inf), np.full((t, 1), sink)), 1)
        p = softmax(noise, s, seen)[:, :-1]       # the sink has no value
        # like `linear`, with as many terms as keys are seen
        out[:, h] = noise(p @ v[:, g], lambda: np.sqrt(seen) * U * (p @ np.abs(v[:, g])))
    y = linear(noise, out.reshape(t, -1), w["o_proj.weight"].T, w["o_proj.bias"])
    return y, (k0, k, v)


def swiglu(noise, gate, up, limit, opt):
    """(up + 1) g sigmoid(1.702 g). The constant and its product round: sqrt(2) u |a g| in the
    sigmoid's argument; the sigmoid is an exp, a sum and a quotient: F + 2 u; then a sum
    and two products."""
    a = opt["alpha"]
    if limit is not None:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    arg = noise(a * gate, lambda: math.sqrt(2) * U * np.abs(a * gate))
    s = 1 / (1 + np.exp(-arg))
    s = noise(s, (F + 2) * U * s)
    y = add(noise, up, opt["up_offset"]) * gate * s
    return noise(y, lambda: math.sqrt(2) * U * np.abs(y))


def experts(noise, c, w, x, opt, choose):
    """Top-k experts. The choice is a jump and has no derivative: `choose` takes the router
    logits and returns the experts, so that noisy runs keep the choice of the clean run;
    whether the choice itself is certain is checked apart (`certain`)."""
    logits = linear(noise, x, w["router.weight"].T, w["router.bias"])
    top = choose(logits)
    k = top.shape[1]
    rows = np.arange(len(x))[:, None]
    if opt["softmax_first"]:
        p = softmax(noise, logits, float(logits.shape[1]))[rows, top]
    else:
        p = softmax(noise, logits[rows, top], float(k))
    out = np.zeros_like(x)
    for j in range(c["num_local_experts"]):
        at, slot = np.nonzero(top == j)
        gu = linear(noise, x[at], w["experts.gate_up_proj"][j], w["experts.gate_up_proj_bias"][j])
        y = swiglu(noise, gu[:, ::2], gu[:, 1::2], c["swiglu_limit"] if opt["clamp"] else None, opt)
        y = linear(noise, y, w["experts.down_proj"][j], w["experts.down_proj_bias"][j])
        y = y * p[at, slot][:, None]
        out[at] = add(noise, out[at], noise(y, lambda: U * np.abs(y)))
    return out


class Model:
    def __init__(self, folder=HERE):
        with open(os.path.join(folder, "config.json")) as f:
            self.c = json.load(f)
        w, _ = read_safetensors(os.path.join(folder, "model.safetensors"))

        def part(prefix):
            return {k[len(prefix):]: v for k, v in w.items() if k.startswith(prefix)}
        self.w = w
        self.layers = [(part(f"model.layers.{i}."), part(f"model.layers.{i}.self_attn."),
                        part(f"model.layers.{i}.mlp."))
                       for i in range(self.c["num_hidden_layers"])]

    def options(self, **change):
        """The right function; planted defects change one of these."""
        o = {"sinks": True, "window": self.c["sliding_window"], "clamp": True, "alpha": 1.702,
             "truncate": self.c["rope_scaling"]["truncate"], "rope_factor": True,
             "swap_layers": False, "drop_bias": "", "up_offset": 1.0, "head_map": False,
             "softmax_first": False, "eps": self.c["rms_norm_eps"]}
        assert set(change) <= set(o)
        return {**o, **change}

    def run(self, tokens, opt=None, seed=None, choices=None):
        """Logits [t, vocab], each layer's (K before RoPE, K, V), each layer's router logits."""
        c, opt, noise = self.c, opt or self.options(), Noise(seed)
        table = rope_table(noise, c, len(tokens), opt)
        x = self.w["model.embed_tokens.weight"][tokens]
        kvs, routers = [], []
        for i, (w, attn, mlp) in enumerate(self.layers):
            sliding = (c["layer_types"][i] == "sliding_attention") != opt["swap_layers"]

            def choose(logits):
                routers.append(logits)
                return best(logits, c["num_experts_per_tok"]) if choices is None else choices[i]
            y, kv = attention(noise, c, attn, rms_norm(noise, x, w["input_layernorm.weight"],
                                                       opt["eps"]), table, sliding, opt)
            x = add(noise, x, y)
            y = experts(noise, c, mlp, rms_norm(noise, x, w["post_attention_layernorm.weight"],
                                                opt["eps"]), opt, choose)
            x = add(noise, x, y)
            kvs.append(kv)
        x = rms_norm(noise, x, self.w["model.norm.weight"], opt["eps"])
        return linear(noise, x, self.w["lm_head.weight"].T), kvs, np.stack(routers)


def best(logits, k):
    return np.argsort(-logits, axis=-1, kind="stable")[..., :k]


def factors(count):
    """z sqrt(a) of the header, for `count` values compared: both events below P together."""
    z = math.sqrt(2 * math.log(2 * count * 2 / P))
    a, need = 1.0, 2 / RUNS * math.log(count * 2 / P)    # ln a - 1 + 1/a >= need
    while math.log(a) - 1 + 1 / a < need:
        a *= 1.01
    return z * math.sqrt(a)


class Tolerance:
    """Tolerances for the logits of one token sequence, from RUNS noisy runs."""

    def __init__(self, model, tokens, report=print):
        logits, kvs, router = model.run(tokens)
        k = model.c["num_experts_per_tok"]
        choice = best(router, k)
        order = best(router, router.shape[-1])

        def gaps(r):       # [layers, t, chosen, not chosen]: chosen minus not chosen logits
            low = np.take_along_axis(r, order[..., :k], -1)
            high = np.take_along_axis(r, order[..., k:], -1)
            return low[..., :, None] - high[..., None, :]
        g = gaps(router)
        square, g_square = np.zeros_like(logits), np.zeros_like(g)
        for seed in range(RUNS):
            y, _, r = model.run(tokens, seed=seed, choices=choice)
            square += (y - logits) ** 2 / RUNS
            g_square += (gaps(r) - g) ** 2 / RUNS
        m = factors(logits.size + g.size)
        self.logits, self.kvs = logits, kvs
        self.tolerance = m * np.sqrt(square)
        self.certain = bool(np.all(g > m * np.sqrt(g_square)))
        report(f"tolerance: {m:.1f} standard deviations of rounding; largest "
               f"{self.tolerance.max():.3g}, median {np.median(self.tolerance):.3g}; logits' "
               f"standard deviation {logits.std():.3g}; smallest router gap over its tolerance "
               f"{(g / (m * np.sqrt(g_square))).min():.3g}")


def accepts(frozen, computed, tolerance):
    """True when every element agrees. NaN compares false, so it fails."""
    return frozen.shape == computed.shape and bool(np.all(np.abs(frozen - computed) <= tolerance))


DEFECTS = {
    "sinks dropped": {"sinks": False},
    "window 127": {"window": 127},
    "window 129": {"window": 129},
    "sliding and full layers swapped": {"swap_layers": True},
    "YaRN range truncated": {"truncate": True},
    "YaRN factor on cos and sin dropped": {"rope_factor": False},
    "SwiGLU clamp dropped": {"clamp": False},
    "SwiGLU with silu (alpha 1)": {"alpha": 1.0},
    "SwiGLU without up + 1": {"up_offset": 0.0},
    "router softmax over all experts": {"softmax_first": True},
    "query heads mapped to KV heads by modulo": {"head_map": True},
    "K bias dropped": {"drop_bias": "k"},
    "RMSNorm eps 1e-6": {"eps": 1e-6},
}


def gamma(n, u):
    """Bound on |prod (1 + d_i) - 1| over n roundings: n u / (1 - n u) (Higham, lemma 3.1)."""
    return n * u / (1 - n * u)


def check_captures(model, path, check):
    """The captures come from a bfloat16 run (sums in float32 or better, each result rounded
    to bfloat16). Worst-case bounds are short here, because few steps lie between."""
    t, meta = read_safetensors(path)
    a, b = (int(x) for x in meta["byte_range"].split(":"))
    with open(os.path.join(HERE, meta["text_file"]), "rb") as f:
        tokens = np.frombuffer(f.read()[a:b], np.uint8).astype(int)
    opt, quiet = model.options(), Noise()
    w, attn, _ = model.layers[0]
    # x: RMSNorm in float32 (n + 2 + F + 2 roundings), then to bfloat16.
    x = rms_norm(quiet, model.w["model.embed_tokens.weight"][tokens],
                 w["input_layernorm.weight"], opt["eps"])
    n = x.shape[1]
    ex = (gamma(n + 2 + F + 2, U) + gamma(1.01, UB)) * np.abs(x)
    for name, key in (("k", "k_pre"), ("v", "v")):
        W, bias = attn[name + "_proj.weight"].T, attn[name + "_proj.bias"]
        y = x @ W + bias
        # ex through |W|; float32 sums; one or two roundings to bfloat16 (product, bias).
        m = (np.abs(x) + ex) @ np.abs(W)
        prod = np.abs(x @ W) + ex @ np.abs(W)
        e = ex @ np.abs(W) + gamma(n + 1, U) * (m + np.abs(bias)) + gamma(2, UB) * \
            (prod + np.abs(y) + ex @ np.abs(W))
        got = t[f"layers.0.{key}"]
        check(f"captures: layer 0 {key} from the weights",
              accepts(got, y.reshape(got.shape), e.reshape(got.shape)),
              np.max(np.abs(got - y.reshape(got.shape)) / e.reshape(got.shape)))
    cos, sin = rope_table(quiet, model.c, len(tokens), opt)
    # cos and sin are rounded to bfloat16, each product and each sum too: 3 roundings. The
    # float32 table: the angle is off by pos worst and its rounding u pos f; cos and sin by
    # no more than that and F u; all times YaRN's factor, with its 2 roundings.
    f, factor, worst = yarn(quiet, model.c, opt)
    e_table = np.arange(len(tokens))[:, None] * (worst + U * f) + F * U
    e_table = (factor * (e_table * (1 + gamma(2, U)) + gamma(2, U)))[:, None]
    for i in range(model.c["num_hidden_layers"]):
        k0, k1 = t[f"layers.{i}.k_pre"], t[f"layers.{i}.k_post"]
        y = rope(quiet, k0, cos, sin)
        lo, hi = np.split(np.abs(k0), 2, -1)
        C, S = np.abs(cos) + e_table, np.abs(sin) + e_table
        half = np.concatenate((lo * C + hi * S, hi * C + lo * S), -1)
        e = gamma(3, UB) * half + np.concatenate(((lo + hi) * e_table,) * 2, -1)
        check(f"captures: layer {i} k_post from k_pre", accepts(k1, y, e),
              np.max(np.abs(k1 - y) / np.maximum(e, 1e-30)))
        if i == 0:
            for change in ({"truncate": True}, {"rope_factor": False}):
                y = rope(quiet, k0, *rope_table(quiet, model.c, len(tokens), model.options(**change)))
                check(f"captures: planted defect rejected: {next(iter(change))}",
                      not accepts(k1, y, e), np.max(np.abs(k1 - y) / np.maximum(e, 1e-30)))
    _, kvs, _ = model.run(tokens)
    for i, (k0, k1, v) in enumerate(kvs):
        print(f"report: layer {i}, relative RMS difference of the bfloat16 captures from float64: " +
              ", ".join(f"{key} {np.sqrt(((t[f'layers.{i}.{key}'] - y) ** 2).sum() / (y * y).sum()):.4f}"
                        for key, y in (("k_pre", k0), ("k_post", k1), ("v", v))))


def bits_per_byte(model, data, window=1024, stride=512):
    """As in train.py: each byte scored once, in the first window that holds it."""
    nll, scored = 0.0, 0
    for s in range(0, max(len(data) - (window - stride), 1), stride):
        ids = np.frombuffer(data[s:s + window], np.uint8).astype(int)
        y = model.run(ids)[0][:-1]
        y = y - y.max(1, keepdims=True)
        lost = np.log(np.exp(y).sum(1)) - y[np.arange(len(y)), ids[1:]]
        lost = lost[0 if s == 0 else window - stride - 1:]
        nll, scored = nll + lost.sum(), scored + len(lost)
    return nll / math.log(2) / scored, scored


def main():
    passed = failed = 0

    def check(name, ok, ratio=None):
        nonlocal passed, failed
        passed, failed = passed + bool(ok), failed + (not ok)
        print(("ok    " if ok else "FAIL  ") + name +
              ("" if ratio is None else f" (largest difference / tolerance {ratio:.3g})"))
    model = Model()
    vectors, _ = read_safetensors(os.path.join(HERE, "vectors.safetensors"))
    tokens, frozen = vectors["tokens"].astype(int), vectors["logits"].astype(np.float64)
    tol = Tolerance(model, tokens)
    check("every choice of experts is certain", tol.certain)

    def ratio(computed):
        return np.max(np.abs(frozen - computed) / tol.tolerance)
    check("transformers' logits agree", accepts(frozen, tol.logits, tol.tolerance),
          ratio(tol.logits))
    for name, change in DEFECTS.items():
        y = model.run(tokens, model.options(**change))[0]
        check(f"planted defect rejected: {name}", not accepts(frozen, y, tol.tolerance), ratio(y))
    broken = frozen.copy()
    broken[len(broken) // 2, 7] = np.nan
    check("planted NaN rejected", not accepts(broken, tol.logits, tol.tolerance))
    captures = os.path.join(HERE, "..", "captures", "heldout.safetensors")
    if os.path.exists(captures):
        check_captures(model, captures, check)
    with open(os.path.join(HERE, "heldout.txt"), "rb") as f:
        bpb, n = bits_per_byte(model, f.read(4096))
    print(f"report: {bpb:.4f} bits per byte on heldout.txt's bytes 1 to 4095 ({n} scored, "
          "windows of 1024, stride 512)")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
