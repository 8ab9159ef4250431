"""The models of docs/spec/generate.md in numpy float64, and how far a right implementation's logits may be from them.

Written from Hugging Face's model code and docs/spec/generate.md sections 3 and 4, numpy only; shares nothing with kvgold.

The bound (its derivation is that of golden/data/model/forward.py, for every family and for kvgold's own roundings)
  An implementation rounds after every operation. To first order its logits are off by sum_i J_i r_i over all roundings
  r_i, J_i the logit's derivative by that value. `Noise` adds, at every step below, a random sign times a scale S that is
  derived beside the step and covers the step's roundings in ANY order of its sums: one noisy run is off by one draw of
  that sum, with the true J_i. Roundings that are the same number in several places have one sign (constants of the
  model, frequencies, biases rounded to T, the first layer's rows of equal tokens).
  Assumption, the only one: roundings are independent and symmetric about 0 (Higham & Mary, SIAM J. Sci. Comput. 41,
  2019). Noise comes in pairs of opposite signs: half of the difference of their logits is the part of odd order, d1;
  their mean less the exact logits is the part of even order, d2. Then
    1. Hoeffding: P(|sum J_i r_i| > z s) <= 2 exp(-z^2 / 2), s^2 = sum J_i^2 S_i^2;
    2. s^2 is estimated by the mean square of d1, PAIRS of them, chi-square: Chernoff gives
       P(e^2 < s^2 / a) <= (exp(1 - 1/a) / a)^(PAIRS / 2);
    3. the part of second order is a form of degree 2 in signs: P(|Q| > t |Q|_2) <= exp(-t / e) for t >= 2 e
       (O'Donnell, Analysis of Boolean Functions, theorem 9.23); |Q|_2^2 by the mean square of d2, with a as above.
  z, a and t are set so that each event has probability below P over ALL numbers compared:
  bound = sqrt(a) (z rms d1 + t rms d2). P and PAIRS are the only numbers chosen.

  A choice of experts is a jump and has no derivative. The same bound holds for the gaps between chosen and other router
  logits; where a gap is not above its bound the choice is open. Every row's open choices are taken both ways, down a tree
  (a choice changes the row's later ones), and the largest change that any leaf makes to a logit or gap is added
  to that one's bound, summed over the rows that have such a tree, until no further choice opens (`branches`)."""
import json
import math
import os
import struct

import numpy as np

U = 2.0 ** -24  # unit roundoff of float32
F = 4.0         # a library's exp, cos, sin, pow, rsqrt: relative error at most F u (2 ulp)
P = 1e-9        # that a right implementation fails, under the assumption
PAIRS = 128

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E2M1 = np.concatenate((E2M1, -E2M1))


# ---- What implementations round to ----

class Arithmetic:
    """float32; `exp` is the relative error of an exponential. T (`dtype`): q, k, v and attention's output are rounded to
    it. `tile`: keys of a running maximum (docs/spec/simt-contract.md section 3); 0: the whole row has one."""

    def __init__(self, exp=F * U, dtype=None, tile=0):
        self.exp, self.dtype, self.tile = exp, dtype, tile

    def to_t(self, x):
        """RN_T."""
        if self.dtype == "f16":
            return x.astype(np.float16).astype(np.float64)
        bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
        bits = (bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) & np.uint64(0xFFFF0000)
        return bits.astype(np.uint32).view(np.float32).astype(np.float64)

    def half_step(self, x):
        """Half an ulp of T at x: at most 2^-p |x|, p digits, and half a step of the subnormals."""
        unit, least = {"f16": (2.0 ** -11, 2.0 ** -25), "bf16": (2.0 ** -8, 2.0 ** -134)}[self.dtype]
        return np.maximum(unit * np.abs(x), least)


TRANSFORMERS = Arithmetic()
# exp2 of docs/spec/decode-contract.md section 6: 3.4e-6.
KVGOLD = {t: Arithmetic(3.4e-6, t, 32) for t in ("f16", "bf16")}


class Noise:
    """x + sign * scale with independent random signs, all turned round by direction -1; without an arithmetic, x."""

    def __init__(self, arithmetic=None, seed=0, direction=1):
        self.arithmetic, self.direction = arithmetic, direction
        self.rng = np.random.default_rng(seed)

    def __call__(self, x, scale):
        """scale: a function that gives it; not called without noise."""
        if self.arithmetic is None:
            return x
        return x + self.signs(np.shape(x)) * scale()

    def signs(self, shape):
        return (self.rng.integers(0, 2, shape, dtype=np.int8) * 2.0 - 1) * self.direction

    def rounded(self, x):
        """To T, if there is one."""
        return x if self.arithmetic is None or not self.arithmetic.dtype else self(x, lambda: self.arithmetic.half_step(x))

    def parameter(self, x):
        """A parameter that is rounded to T: the same error at every token."""
        if self.arithmetic is None or not self.arithmetic.dtype:
            return x
        return self(x, lambda: np.abs(self.arithmetic.to_t(x) - x))


# ---- Steps ----

def linear(noise, x, w, b=None):
    """x w + b with n = len(x). Products round by u |x_i w_i|, together at most u m in the root of squares,
    m = |x||w| + |b|. The n additions (bias included) each round a partial sum of at most m, in any order; a fused
    multiply-add rounds once for both. S = sqrt(n + 1) u m."""
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
    """w x / sqrt(v), v = mean(x^2) + eps. All terms of v are positive: squares (u v together), n - 1 additions, the
    division and eps give v a relative error of sqrt(n + 2) u, half of it reaches 1 / sqrt(v); rsqrt, or a root and a
    quotient, adds F u. These hit the whole row. Each element then passes two products: sqrt(2) u."""
    v = (x * x).mean(-1, keepdims=True) + eps
    r = 1 / np.sqrt(v)
    r = noise(r, lambda: r * U * math.hypot(math.sqrt(x.shape[-1] + 2) / 2, F))
    y = w * x * r
    return noise(y, lambda: math.sqrt(2) * U * np.abs(y))


def frequencies(noise, rope, d, opt):
    """[d / 2], and the factor on cos and sin. Roundings, all relative to f unless said otherwise:
    default: pow F u, a reciprocal u, and the exponent e = 2i/d u, which pow makes e ln(theta) u.
    linear: a division u.
    llama3, between the two wavelengths: a = (N/l - low) / (high - low). N/l has f's error, which is noise already, and 3 u
    (2 pi, two divisions); the difference u N/l at most; the divisor and the division u a each: absolutely
    4 u (N/l) / (high - low) + 2 u a. Then 1 - a u, its product and quotient, a's product and the sum: 5 u f.
    yarn: the ramp (i - low) / (high - low): low and the difference round by u low + u (i - low) <= u high before the
    division, the divisor and the division by u ramp each, 1 - ramp and 1 - (1 - ramp) by u each; as
    ramp <= 1 <= high / (high - low): absolutely 5 u high / (high - low), and none where the clip makes it exact. The
    blend: 4 u f; the quotient by the factor u."""
    theta, kind = rope["rope_theta"], rope["rope_type"]
    e = 2.0 * np.arange(d // 2) / d
    f = theta ** -e
    f = noise(f, lambda: U * f * np.sqrt(F * F + 1 + (e * math.log(theta)) ** 2))
    if kind == "default" or opt["rope_plain"]:
        return f, 1.0
    s = rope["factor"] * opt["rope_stretch"]
    if kind == "linear":
        f = f / s
        return noise(f, lambda: U * f), 1.0
    n = rope["original_max_position_embeddings"]
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        turns = n * f / (2 * math.pi)
        a = np.clip((turns - low) / (high - low), 0, 1)
        inside = (a > 0) & (a < 1)
        a = noise(a, lambda: inside * U * (4 * turns / (high - low) + 2 * a))
        f = (1 - a) * f / s + a * f
        return noise(f, lambda: 5 * U * f), 1.0
    assert kind == "yarn", kind

    def dim_of(rotations):  # the real-valued dimension that turns so often in the old context
        return d * math.log(n / (rotations * 2 * math.pi)) / (2 * math.log(theta))
    low, high = dim_of(rope.get("beta_fast") or 32), dim_of(rope.get("beta_slow") or 1)
    if rope.get("truncate", True) != opt["truncate_other"]:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    i = np.arange(d // 2)
    ramp = np.clip((i - low) / max(high - low, 0.001), 0, 1)
    inside = (ramp > 0) & (ramp < 1)
    ramp = noise(ramp, lambda: inside * 5 * U * high / (high - low))
    f = f * (1 - ramp) + f / s * ramp
    factor = rope.get("attention_factor") or (0.1 * math.log(s) + 1 if s > 1 else 1.0)
    return noise(f, lambda: 5 * U * f), factor if opt["rope_factor"] else 1.0


def rope_table(noise, c, t, opt):
    """The angle pos f rounds once; cos and sin have F u; the factor is rounded and multiplied: sqrt(2) u. One table
    serves all heads and layers, as it does there."""
    f, factor = frequencies(noise, c["rope"], c["head_dim"], opt)
    angle = (np.arange(t) + opt["position"])[:, None] * f
    angle = noise(angle, lambda: U * angle)
    cos, sin = np.cos(angle) * factor, np.sin(angle) * factor
    s = math.hypot(F, math.sqrt(2)) * U * factor
    return noise(cos, lambda: s)[:, None], noise(sin, lambda: s)[:, None]


def rotate(noise, x, cos, sin, opt):
    """Half-split rotation of [t, heads, d]: y = a cos - b sin, so two products and a sum; then T."""
    a, b = (x[..., ::2], x[..., 1::2]) if opt["pair_neighbours"] else np.split(x, 2, -1)
    y = np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)

    def scale():
        p = np.concatenate(((a * cos) ** 2 + (b * sin) ** 2, (b * cos) ** 2 + (a * sin) ** 2), -1)
        return U * np.sqrt(p + y * y)
    return noise.rounded(noise(y, scale))


def softmax(noise, s, n):
    """Softmax of n live logits (-inf: masked), natural units. Exponents: the product before s rounds by u |s|, s - max by
    u |s - max| (a maximum that lags by 2^8: 8 ln 2 more), log2 e as f32 by u |s - max|. exp as the arithmetic has it; the
    sum of n positive terms sqrt(n) u on the whole row; the division u. With tiles the sums so far are multiplied by exp2
    of a difference when the maximum grows: once for each tile and once for the sink, all keys of a tile alike."""
    top = s.max(-1, keepdims=True)
    live = np.isfinite(s)
    z = np.where(live, s - top, -np.inf)

    def scale():
        return U * np.sqrt(np.where(live, s, 0) ** 2 + 2 * (np.where(live, z, 0) - 8 * math.log(2)) ** 2)
    e = np.exp(noise(z, scale))
    e = noise(e, lambda: noise.arithmetic.exp * e)
    if noise.arithmetic is not None and noise.arithmetic.tile and s.shape[-1] > noise.arithmetic.tile:
        tiles = -(-s.shape[-1] // noise.arithmetic.tile)
        spread = np.where(live, -z, 0).max(-1, keepdims=True)
        each = noise(np.ones(s.shape[:-1] + (tiles,)),
                     lambda: (tiles + 1) * (noise.arithmetic.exp + U) + U * spread)
        e = e * np.repeat(each, noise.arithmetic.tile, -1)[..., :s.shape[-1]]
    total = e.sum(-1, keepdims=True)
    total = noise(total, lambda: np.sqrt(n) * U * total)
    p = e / total
    return noise(p, lambda: U * p)


def attention(noise, c, w, x, same, table, sliding, opt):
    """[rows, hidden] -> [t, hidden]; `same`: the row of x that each token has (rows of equal tokens are computed once, so
    that their roundings are the same ones)."""
    hq, hkv, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]

    def project(name, heads):
        y = noise.rounded(linear(noise, x, w[f"{name}_proj.weight"].T))
        if f"{name}_proj.bias" in w and name not in opt["drop_bias"]:
            y = noise.rounded(add(noise, y, noise.parameter(w[f"{name}_proj.bias"])))
        y = y.reshape(len(x), heads, d)
        if f"{name}_norm.weight" in w and opt["qk_norm"]:
            norm = w[f"{'qk'['kq'.index(name)] if opt['swap_norms'] else name}_norm.weight"]
            y = noise.rounded(rms_norm(noise, y, norm, c["eps"] if opt["qk_eps"] is None else opt["qk_eps"]))
        return y[same]
    q, k, v = project("q", hq), project("k", hkv), project("v", hkv)
    q, k = rotate(noise, q, *table, opt), rotate(noise, k, *table, opt)
    i = np.arange(len(same))
    mask = i[None, :] <= i[:, None]
    if sliding:  # a window of w: the query itself and the w - 1 before it
        mask = mask & (i[None, :] > i[:, None] - c["window"] - opt["window"])
    head = np.arange(hq) % hkv if opt["head_map"] else np.arange(hq) // (hq // hkv)
    q, k, v = q.transpose(1, 0, 2), k.transpose(1, 0, 2)[head], v.transpose(1, 0, 2)[head]
    # 1 / sqrt(d) as f32, times log2 e as f32: one number for all, 3 u and the division
    scale = d ** -0.5 * opt["scale"] * (1 + c["constant"])
    s = np.where(mask, linear(noise, q, k.transpose(0, 2, 1)) * scale, -np.inf)
    seen = mask.sum(1)[:, None] + 1.0  # keys seen, and the sink
    sinks = w.get("sinks") if opt["sinks"] else None
    if sinks is None:
        p = softmax(noise, s, seen)
    else:
        column = np.broadcast_to((sinks * opt["sink_scale"])[:, None, None], s.shape[:2] + (1,))
        p = softmax(noise, np.concatenate((s, column), -1), seen)[..., :-1]  # the sink has no value
    # like `linear`, with as many terms as keys are seen
    out = noise(p @ v, lambda: np.sqrt(seen) * U * (p @ np.abs(v)))
    out = noise.rounded(out.transpose(1, 0, 2).reshape(len(same), -1))
    bias = None if "o" in opt["drop_bias"] else w.get("o_proj.bias")
    return linear(noise, out, w["o_proj.weight"].T, bias)


def sigmoid(noise, z):
    """1 / (1 + exp(-z)): the argument passes log2 e and a product, 2 u |z|; exp; a sum and a quotient, 2 u."""
    arg = noise(z, lambda: 2 * U * np.abs(z))
    s = 1 / (1 + np.exp(-arg))
    return noise(s, lambda: (noise.arithmetic.exp + 2 * U) * s)


def swiglu(noise, gate, up, limit, opt):
    """g sigmoid(g) u; with a limit g sigmoid(1.702 g) (u + 1), clamped. 1.702 is the f32 in every implementation; its
    product rounds u. Then two products, sqrt(2) u, and the sum u."""
    if opt["swap_gate_up"]:
        gate, up = up, gate
    if limit is None:
        y = gate * sigmoid(noise, gate) * up
        return noise(y, lambda: math.sqrt(2) * U * np.abs(y))
    if opt["clamp"]:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    arg = float(np.float32(opt["alpha"])) * gate
    y = add(noise, up, opt["up_offset"]) * gate * sigmoid(noise, noise(arg, lambda: U * np.abs(arg)))
    return noise(y, lambda: math.sqrt(2) * U * np.abs(y))


def mlp(noise, c, w, x, opt):
    def dense(name, x):
        bias = None if name in opt["drop_bias"] else w.get(f"{name}_proj.bias")
        return linear(noise, x, w[f"{name}_proj.weight"].T, bias)
    return dense("down", swiglu(noise, dense("gate", x), dense("up", x), None, opt))


def experts(noise, c, w, x, opt, choose):
    """`choose` takes the router logits and gives the experts: noisy runs keep the choices of the clean one."""
    logits = linear(noise, x, w["router.weight"].T, None if "router" in opt["drop_bias"] else w["router.bias"])
    top = choose(logits)
    k = top.shape[1]
    rows = np.arange(len(x))[:, None]
    if opt["softmax_first"]:
        p = softmax(noise, logits, float(logits.shape[1]))[rows, top]
    else:
        p = softmax(noise, logits[rows, top], float(k))
    p = p[:, ::-1] if opt["router_reversed"] else p
    out = np.zeros_like(x)
    for j in range(c["num_local_experts"]):
        at, slot = np.nonzero(top == j)
        gu = linear(noise, x[at], w["experts.gate_up_proj"][j],
                    None if "experts" in opt["drop_bias"] else w["experts.gate_up_proj_bias"][j])
        gate, up = np.split(gu, 2, -1) if opt["gate_up_halves"] else (gu[:, ::2], gu[:, 1::2])
        y = swiglu(noise, gate, up, c["limit"], opt)
        y = linear(noise, y, w["experts.down_proj"][j],
                   None if "experts" in opt["drop_bias"] else w["experts.down_proj_bias"][j])
        y = y * p[at, slot][:, None]
        out[at] = add(noise, out[at], noise(y, lambda: U * np.abs(y)))
    return out


def best(logits, k):
    return np.argsort(-logits, axis=-1, kind="stable")[..., :k]


# ---- Checkpoints ----

def read_safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    n, = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    out = {}
    for name, t in head.items():
        a, b = t["data_offsets"]
        data = raw[8 + n + a:8 + n + b]
        if t["dtype"] == "BF16":  # the upper half of a float32
            x = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").astype(np.float64)
        else:
            x = np.frombuffer(data, {"F32": "<f4", "F16": "<f2", "I32": "<i4", "U8": "u1"}[t["dtype"]])
            x = x.astype(np.float64) if t["dtype"][0] == "F" else x
        out[name] = x.reshape(t["shape"])
    return out


def decode_mxfp4(blocks, scales, bias=127, high_first=False):
    """[E, out, in/32, 16] and [E, out, in/32] -> [E, in, out]. Byte j holds elements 2j (low nibble) and 2j + 1."""
    codes = np.stack((blocks & 15, blocks >> 4), -1)
    codes = codes[..., ::-1] if high_first else codes
    x = E2M1[codes].reshape(scales.shape + (32,)) * 2.0 ** (scales.astype(int) - bias)[..., None]
    return x.reshape(*scales.shape[:2], -1).transpose(0, 2, 1)


DEFAULTS = {"llama": {"rms_norm_eps": 1e-6}, "qwen3": {"rms_norm_eps": 1e-6, "head_dim": 128},
            "gpt_oss": {"rms_norm_eps": 1e-5, "head_dim": 64}}


def read_config(path):
    with open(path) as f:
        c = json.load(f)
    c = {**DEFAULTS[c["model_type"]], **{k: v for k, v in c.items() if v is not None}}
    c.setdefault("head_dim", c["hidden_size"] // c["num_attention_heads"])
    c["eps"] = float(np.float32(c["rms_norm_eps"]))
    c["limit"] = c.get("swiglu_limit", 7.0)
    c["window"] = c.get("sliding_window")
    c["sliding"] = [t == "sliding_attention" for t in c.get("layer_types", ["full"] * c["num_hidden_layers"])]
    c["rope"] = {"rope_type": "default", "rope_theta": c.get("rope_theta"), **(c.get("rope_scaling") or {}),
                 **(c.get("rope_parameters") or {})}
    return c


# What planted deviations change; these are the right values.
OPTIONS = {"eps": None, "qk_eps": None, "rope_plain": False, "rope_stretch": 1.0, "truncate_other": False,
           "rope_factor": True, "position": 0, "pair_neighbours": False, "drop_bias": (), "qk_norm": True,
           "swap_norms": False, "window": 0, "swap_layers": False, "head_map": False, "scale": 1.0, "sinks": True,
           "sink_scale": 1.0, "swap_gate_up": False, "clamp": True, "alpha": 1.702, "up_offset": 1.0,
           "softmax_first": False, "router_reversed": False, "gate_up_halves": False, "output_embedding": "the model's",
           "layer_order": 1}


class Model:
    def __init__(self, folder, **mxfp4):
        self.c = read_config(os.path.join(folder, "config.json"))
        index = os.path.join(folder, "model.safetensors.index.json")
        names = ["model.safetensors"]
        if os.path.exists(index):
            with open(index) as f:
                names = sorted(set(json.load(f)["weight_map"].values()))
        w = {}
        for name in names:
            w.update(read_safetensors(os.path.join(folder, name)))
        for name in [n for n in w if n.endswith("_blocks")]:
            w[name[:-7]] = decode_mxfp4(w[name], w[name[:-7] + "_scales"], **mxfp4)
        self.w = w

        def part(prefix):
            return {k[len(prefix):]: v for k, v in w.items() if k.startswith(prefix)}
        self.layers = [[part(f"model.layers.{i}.{p}") for p in ("", "self_attn.", "mlp.")]
                       for i in range(self.c["num_hidden_layers"])]

    def run(self, tokens, noise=None, choices=None, **change):
        """Logits [t, vocab] and each layer's router logits [layers, t, experts]. `choices`: [layers, t, k] experts, -1
        in place of the first one: the row chooses itself."""
        assert set(change) <= set(OPTIONS), change
        opt, noise, c = {**OPTIONS, **change}, noise or Noise(), dict(self.c)
        if opt["eps"] is not None:
            c["eps"] = opt["eps"]
        c["constant"] = noise(np.zeros(()), lambda: 4 * U)
        table = rope_table(noise, c, len(tokens), opt)
        embed = self.w["model.embed_tokens.weight"]
        x, routers = embed[tokens], []
        different, first, same = np.unique(tokens, return_index=True, return_inverse=True)
        for i, (w, attn, ffn) in enumerate(self.layers[::opt["layer_order"]]):
            sliding = c["sliding"][i] != opt["swap_layers"]

            def choose(logits):
                routers.append(logits)
                own = best(logits, c["num_experts_per_tok"])
                return own if choices is None else np.where(choices[i][:, :1] < 0, own, choices[i])
            norm = rms_norm(noise, x if i else x[first], w["input_layernorm.weight"], c["eps"])
            y = attention(noise, c, attn, norm, np.arange(len(tokens)) if i else same, table, sliding, opt)
            x = add(noise, x, y)
            y = rms_norm(noise, x, w["post_attention_layernorm.weight"], c["eps"])
            y = experts(noise, c, ffn, y, opt, choose) if "router.weight" in ffn else mlp(noise, c, ffn, y, opt)
            x = add(noise, x, y)
        x = rms_norm(noise, x, self.w["model.norm.weight"], c["eps"])
        tied = self.c.get("tie_word_embeddings") or opt["output_embedding"] == "the input's"
        return linear(noise, x, (embed if tied else self.w["lm_head.weight"]).T), np.array(routers)


# ---- The bound ----

def factors(count):
    """z sqrt(a) and t sqrt(a) of the header, for `count` numbers: each of the three events below P / 3 together."""
    log = math.log(2 * count * 3 / P)
    a, need = 1.0, 2 / PAIRS * log  # ln a - 1 + 1/a >= need
    while math.log(a) - 1 + 1 / a < need:
        a *= 1.01
    return math.sqrt(2 * log * a), math.e * log * math.sqrt(a)


def gaps_of(router, order, k):
    """[layers, t, chosen, others]: chosen less other logits, in the order of the clean run."""
    chosen = np.take_along_axis(router, order[..., :k], -1)
    others = np.take_along_axis(router, order[..., k:], -1)
    return chosen[..., :, None] - others[..., None, :]


class Bound:
    """of one arithmetic for the logits of one token sequence. `logits`: the exact ones; `bound`; `open`: rows with an open
    choice of experts; `curved`: the largest share of the part of second order in the bound."""

    def __init__(self, model, tokens, arithmetic):
        self.model, self.tokens = model, np.asarray(tokens)
        self.logits, router = model.run(self.tokens)
        self.k = model.c.get("num_experts_per_tok", 0)
        self.order = best(router, router.shape[-1]) if router.size else router
        self.choices = self.order[..., :self.k] if router.size else None
        exact = [self.logits, self.gaps(router)]
        squares = [[np.zeros_like(x), np.zeros_like(x)] for x in exact]
        for seed in range(PAIRS):
            pair = [self.noisy(Noise(arithmetic, seed, d)) for d in (1, -1)]
            for x, sums, plus, minus in zip(exact, squares, *pair):
                sums[0] += ((plus - minus) / 2) ** 2 / PAIRS
                sums[1] += ((plus + minus) / 2 - x) ** 2 / PAIRS
        z, t = factors(sum(x.size for x in exact))
        parts = [(z * np.sqrt(one), t * np.sqrt(two)) for one, two in squares]
        self.bound, self.gap, self.gap_bound = sum(parts[0]), exact[1], sum(parts[1])
        self.curved = float((parts[0][1] / self.bound).max())
        self.open = self.branches() if router.size else 0

    def gaps(self, router):
        return gaps_of(router, self.order, self.k) if router.size else np.zeros(0)

    def noisy(self, noise):
        logits, router = self.model.run(self.tokens, noise, self.choices)
        return logits, self.gaps(router)

    def branches(self):
        """Adds what open choices can change; returns the rows that have one."""
        effects = {}  # row -> largest change of logits and gaps
        while True:
            logits_more = sum((e[0] for e in effects.values()), np.zeros_like(self.bound))
            gaps_more = sum((e[1] for e in effects.values()), np.zeros_like(self.gap))
            doubt = ~(self.gap > self.gap_bound + gaps_more)
            rows = set(np.nonzero(doubt.any((0, 2, 3)))[0].tolist())
            if rows <= set(effects):
                self.bound = self.bound + logits_more
                return len(effects)
            for row in rows - set(effects):
                effects[row] = self.tree(row, self.gap_bound + gaps_more)

    def tree(self, row, gap_bound):
        """The largest change of every logit and gap over all choices that the row may come to make."""
        worst = [np.zeros_like(self.bound), np.zeros_like(self.gap)]
        experts = self.order.shape[-1]
        # doubt of the row's router logits by layer: the largest of its gaps' bounds there
        slack = gap_bound[:, row].max((1, 2))

        def visit(made):
            choices = self.choices.copy()
            choices[:, row] = -1
            for layer, chosen in enumerate(made):
                choices[layer, row] = chosen
            logits, router = self.model.run(self.tokens, choices=choices)
            for layer in range(len(made), len(router)):
                values = router[layer, row]
                order = best(values, experts)
                sure = [e for e in order[:self.k] if values[e] - values[order[self.k]] > slack[layer]]
                maybe = [e for e in order if e not in sure and values[order[self.k - 1]] - values[e] <= slack[layer]]
                for more in subsets(maybe, self.k - len(sure)):
                    chosen = np.array(sorted(sure + more, key=lambda e: -values[e]))
                    if set(chosen) != set(order[:self.k]):
                        visit(made + [chosen])
                made = made + [order[:self.k]]
            worst[0] = np.maximum(worst[0], np.abs(logits - self.logits))
            worst[1] = np.maximum(worst[1], np.abs(self.gaps(router) - self.gap))
        visit([])
        worst[1][:, row] = 0  # the tree has looked at the row's own choices
        return worst


def subsets(items, size):
    if size == 0:
        return [[]]
    return [[x] + rest for i, x in enumerate(items) for rest in subsets(items[i + 1:], size - 1)]


def worst_ratio(difference, bound):
    """The largest |difference| / bound; NaN counts as infinite."""
    ratio = np.abs(difference) / bound
    return float(np.max(np.where(np.isnan(ratio), np.inf, ratio)))
