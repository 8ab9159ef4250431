#!/usr/bin/env python3
"""Train the byte-level GPT-OSS model of this folder from scratch.

What it does
  Reads WORK/train.bin.xz and WORK/heldout.bin.xz (written by make_corpus.py), trains a
  GPT-OSS model with a fast PyTorch forward of its own, rounds the weights to bfloat16,
  writes OUT/model.safetensors and OUT/config.json in transformers' layout, checks that
  transformers' GptOssForCausalLM gives the same logits, and writes OUT/loss_curve.json
  and OUT/training.json (hardware, steps, time, held-out bits per byte).

Command:  python3 train.py WORK OUT --seconds 440
          (--steps N repeats a run of N steps; --device cpu --smoke tests the script)
Seed:     1 for weights and batches (--seed). Runs with one seed are alike, not bitwise
          equal: GPU sums have no fixed order, and --seconds turns time into steps.
"""
import argparse
import json
import lzma
import math
import os
import time

import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
LN2 = math.log(2.0)

# The shape. Written in the form of the published GPT-OSS config.json files.
CONFIG = {
    "architectures": ["GptOssForCausalLM"],
    "attention_bias": True,
    "attention_dropout": 0.0,
    "bos_token_id": None,
    "dtype": "bfloat16",
    "eos_token_id": None,
    "experts_per_token": 2,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 256,
    "initial_context_length": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 96,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
    "max_position_embeddings": 131072,
    "model_type": "gpt_oss",
    "num_attention_heads": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 6,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "output_router_logits": False,
    "pad_token_id": None,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "rope_type": "yarn",
        "truncate": False,
    },
    "rope_theta": 150000,
    "router_aux_loss_coef": 0.01,
    "sliding_window": 128,
    "swiglu_limit": 7.0,
    "tie_word_embeddings": False,
    "use_cache": True,
    "vocab_size": 256,
}


def yarn(c):
    """YaRN's rotation frequencies (truncate: false) and the factor on cos and sin."""
    r, d, base = c["rope_scaling"], c["head_dim"], c["rope_theta"]

    def dim_of(rotations):    # the (real) dimension that turns so often in the old context
        return d * math.log(r["original_max_position_embeddings"] / (rotations * 2 * math.pi)) \
            / (2 * math.log(base))
    low, high = max(dim_of(r["beta_fast"]), 0), min(dim_of(r["beta_slow"]), d - 1)
    i = torch.arange(d // 2, dtype=torch.float64)
    freq = base ** (-2 * i / d)
    ramp = ((i - low) / (high - low)).clamp(0, 1)       # 0: keep, 1: interpolate
    return freq * (1 - ramp) + freq / r["factor"] * ramp, 0.1 * math.log(r["factor"]) + 1


class Norm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x):
        x = x.float()
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Attention(nn.Module):
    def __init__(self, c, layer):
        super().__init__()
        h, d = c["hidden_size"], c["head_dim"]
        self.hq, self.hkv, self.d = c["num_attention_heads"], c["num_key_value_heads"], d
        self.q_proj = nn.Linear(h, self.hq * d)
        self.k_proj = nn.Linear(h, self.hkv * d)
        self.v_proj = nn.Linear(h, self.hkv * d)
        self.o_proj = nn.Linear(self.hq * d, h)
        self.sinks = nn.Parameter(torch.zeros(self.hq))
        self.sliding = c["layer_types"][layer] == "sliding_attention"

    def forward(self, x, cos, sin, masks):
        b, t, _ = x.shape

        def heads(y, n):
            return y.view(b, t, n, self.d).transpose(1, 2)

        def rotate(y):
            y1, y2 = y.float().chunk(2, -1)
            return torch.cat((y1 * cos - y2 * sin, y2 * cos + y1 * sin), -1).to(y.dtype)
        q = rotate(heads(self.q_proj(x), self.hq))
        k = rotate(heads(self.k_proj(x), self.hkv))
        v = heads(self.v_proj(x), self.hkv)
        mask = masks[self.sliding]
        scale = self.d ** -0.5
        if isinstance(mask, torch.Tensor):              # plain attention
            k = k.repeat_interleave(self.hq // self.hkv, 1)
            v = v.repeat_interleave(self.hq // self.hkv, 1)
            w = (q @ k.transpose(2, 3)).float() * scale
            w = w.masked_fill(~mask, float("-inf"))
            lse = torch.logsumexp(w, -1)
            y = torch.softmax(w, -1).to(v.dtype) @ v
        else:
            from torch.nn.attention.flex_attention import flex_attention
            y, lse = flex_attention(q, k, v, block_mask=mask, scale=scale, enable_gqa=True,
                                    return_lse=True)
        # A sink is one more logit in the softmax with no value: with l the log-sum-exp of
        # the others, every weight shrinks by e^l / (e^l + e^sink) = sigmoid(l - sink).
        y = y * torch.sigmoid(lse - self.sinks[None, :, None])[..., None].to(y.dtype)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, -1))


class Router(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(c["num_local_experts"], c["hidden_size"]))
        self.bias = nn.Parameter(torch.zeros(c["num_local_experts"]))


class Experts(nn.Module):
    def __init__(self, c):
        super().__init__()
        e, h, i = c["num_local_experts"], c["hidden_size"], c["intermediate_size"]
        self.gate_up_proj = nn.Parameter(torch.empty(e, h, 2 * i))
        self.gate_up_proj_bias = nn.Parameter(torch.zeros(e, 2 * i))
        self.down_proj = nn.Parameter(torch.empty(e, i, h))
        self.down_proj_bias = nn.Parameter(torch.zeros(e, h))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.router, self.experts = Router(c), Experts(c)
        self.top_k, self.limit = c["num_experts_per_tok"], c["swiglu_limit"]

    def forward(self, x):
        b, t, h = x.shape
        x = x.reshape(-1, h)
        with torch.autocast(x.device.type, enabled=False):   # the choice of experts in float32
            logits = F.linear(x.float(), self.router.weight, self.router.bias)
        top, index = logits.topk(self.top_k, -1)
        n = logits.shape[-1]
        # Every expert runs on every token (they are tiny) and unchosen ones get weight 0.
        weight = torch.zeros_like(logits).scatter(-1, index, top.softmax(-1))
        ex = self.experts
        gu = torch.matmul(x, ex.gate_up_proj) + ex.gate_up_proj_bias[:, None]
        gate, up = gu[..., ::2].clamp(max=self.limit), gu[..., 1::2].clamp(-self.limit, self.limit)
        act = (up + 1) * gate * torch.sigmoid(1.702 * gate)
        y = torch.matmul(act, ex.down_proj) + ex.down_proj_bias[:, None]
        y = (y * weight.t()[..., None]).sum(0)
        # Load balance: share of tokens per expert times mean router probability.
        used = torch.zeros_like(logits).scatter(-1, index, 1.0).mean(0)
        balance = n * (used * logits.softmax(-1).mean(0)).sum()
        return y.view(b, t, h), balance, used


class Layer(nn.Module):
    def __init__(self, c, layer):
        super().__init__()
        self.self_attn, self.mlp = Attention(c, layer), Mlp(c)
        self.input_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])
        self.post_attention_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])


class Body(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c, i) for i in range(c["num_hidden_layers"]))
        self.norm = Norm(c["hidden_size"], c["rms_norm_eps"])


class Model(nn.Module):
    """Parameter names are those of transformers' GptOssForCausalLM."""

    def __init__(self, c):
        super().__init__()
        self.model = Body(c)
        self.lm_head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        self.freq, self.factor = yarn(c)
        for name, p in self.named_parameters():
            if p.dim() < 2 or "bias" in name:
                continue
            fan_in = p.shape[-2] if "experts" in name else p.shape[-1]
            std = fan_in ** -0.5
            if "o_proj" in name or "down_proj" in name:     # residual branches start small
                std *= (2 * c["num_hidden_layers"]) ** -0.5
            if "embed" in name:
                std = 0.5
            nn.init.normal_(p, 0.0, std)
        for name, p in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(p)
        nn.init.zeros_(self.lm_head.weight)

    def rope(self, t, device):
        a = torch.arange(t, dtype=torch.float64)[:, None] * self.freq[None]
        return ((a.cos() * self.factor).float().to(device),
                (a.sin() * self.factor).float().to(device))

    def forward(self, ids, cos, sin, masks):
        x = self.model.embed_tokens(ids)
        balance, used = 0.0, []
        for layer in self.model.layers:
            x = x + layer.self_attn(layer.input_layernorm(x), cos, sin, masks)
            y, bal, u = layer.mlp(layer.post_attention_layernorm(x))
            x, balance = x + y, balance + bal
            used.append(u)
        return self.lm_head(self.model.norm(x)), balance, torch.stack(used)


def make_masks(t, window, device, flex):
    """{sliding?: mask}: position q sees keys k <= q, and when sliding k > q - window."""
    if flex:
        from torch.nn.attention.flex_attention import create_block_mask
        return {False: create_block_mask(lambda b, h, q, k: k <= q, None, None, t, t, device),
                True: create_block_mask(lambda b, h, q, k: (k <= q) & (k > q - window),
                                        None, None, t, t, device)}
    i = torch.arange(t, device=device)
    causal = i[None, :] <= i[:, None]
    return {False: causal, True: causal & (i[None, :] > i[:, None] - window)}


@torch.no_grad()
def bits_per_byte(forward, data, device, window, stride, batch=32):
    """Mean bits per byte. Windows of `window` bytes start every `stride` bytes; each byte is
    scored once, in the first window that holds it, so with at least window - stride bytes
    before it (those of the first window excepted; its first byte is not scored)."""
    n = data.numel()
    starts = list(range(0, max(n - (window - stride), 1), stride))
    nll, scored = 0.0, 0
    for a in range(0, len(starts), batch):
        part = starts[a:a + batch]
        ids = torch.zeros(len(part), window, dtype=torch.long)
        use = torch.zeros(len(part), window, dtype=torch.bool)
        for r, s in enumerate(part):
            chunk = data[s:s + window].long()
            ids[r, :len(chunk)] = chunk
            use[r, (1 if s == 0 else window - stride):len(chunk)] = True
        if stride == window:
            use[:, 0] = False
        ids, use = ids.to(device), use.to(device)
        logits = forward(ids).float()
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(),
                               reduction="none").view(len(part), -1)
        nll += loss[use[:, 1:]].double().sum().item()
        scored += int(use[:, 1:].sum())
    return nll / LN2 / scored, scored


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("work")
    ap.add_argument("out")
    ap.add_argument("--seconds", type=float, default=440, help="training time; sets the steps")
    ap.add_argument("--steps", type=int, default=0, help="number of steps (overrides --seconds)")
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--length", type=int, default=4096)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--device", default="cuda")
    ap.add_argument("--plain", action="store_true", help="plain attention, not flex_attention")
    ap.add_argument("--probe", action="store_true", help="only measure the speed")
    ap.add_argument("--smoke", action="store_true", help="tiny run to test the script")
    a = ap.parse_args()
    began = time.time()
    gpu, dev = a.device == "cuda", a.device
    torch.manual_seed(a.seed)
    os.makedirs(a.out, exist_ok=True)
    c = CONFIG

    def load(name):
        return torch.frombuffer(bytearray(lzma.open(os.path.join(a.work, name)).read()),
                                dtype=torch.uint8)
    train, held = load("train.bin.xz").to(dev), load("heldout.bin.xz")
    if a.smoke:
        a.batch, a.length, a.steps, held = 2, 256, 4, held[:9000]
    excerpt = torch.frombuffer(bytearray(open(os.path.join(HERE, "heldout.txt"), "rb").read()),
                               dtype=torch.uint8)
    if a.smoke:
        excerpt = excerpt[:4500]
    # The curve's held-out subset: 64 windows spread over the split.
    hop = (held.numel() - a.length - 1) // 63
    sub = torch.stack([held[i * hop:i * hop + a.length + 1] for i in range(64)])

    model = Model(c).to(dev)
    n_params = sum(p.numel() for p in model.parameters())
    print("parameters", n_params, "train bytes", train.numel(), "held-out bytes", held.numel(),
          flush=True)
    flex = gpu and not a.plain
    masks = make_masks(a.length, c["sliding_window"], dev, flex)
    cos, sin = model.rope(a.length, dev)
    if gpu:
        torch.set_float32_matmul_precision("high")
    decay = [p for n, p in model.named_parameters() if p.dim() >= 2 and "bias" not in n]
    other = [p for n, p in model.named_parameters() if p.dim() < 2 or "bias" in n]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1},
                             {"params": other, "weight_decay": 0.0}],
                            lr=a.lr, betas=(0.9, 0.95), fused=gpu)
    coef = c["router_aux_loss_coef"]

    def loss_of(ids):
        with torch.autocast(dev, dtype=torch.bfloat16):
            logits, balance, used = model(ids[:, :-1], cos, sin, masks)
        ce = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        return ce, ce + coef * balance, used
    step_loss = torch.compile(loss_of) if gpu else loss_of
    gen = torch.Generator(dev).manual_seed(a.seed)
    offsets = torch.arange(a.length + 1, device=dev)

    def one_step(lr):
        for g in opt.param_groups:
            g["lr"] = lr
        at = torch.randint(train.numel() - a.length - 1, (a.batch, 1), device=dev, generator=gen)
        ce, loss, used = step_loss(train[at + offsets].long())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        return ce.detach(), used.detach()

    def sync():
        if gpu:
            torch.cuda.synchronize()

    warm = 1 if a.smoke else 30
    steps, speed = a.steps, None
    # The first steps (learning rate 0 changes nothing but Adam's moments) compile and time.
    for i in range(2 * warm):
        if i == warm:
            sync()
            t0 = time.time()
        one_step(0.0)
    sync()
    speed = (time.time() - t0) / warm
    print(f"seconds per step {speed:.5f}, bytes per second {a.batch * a.length / speed:.4g}, "
          f"set-up {time.time() - began:.1f} s", flush=True)
    if a.probe:
        return
    opt.state.clear()
    steps = steps or int(a.seconds / speed)
    warmup, every = max(1, min(500, steps // 20)), max(1, steps // 60)
    curve, t0 = [], time.time()
    mean = 0.0
    for step in range(steps):
        if step < warmup:
            lr = a.lr * (step + 1) / warmup
        else:
            x = (step - warmup) / max(1, steps - warmup)
            lr = a.lr * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * x)))
        ce, used = one_step(lr)
        mean = mean + ce
        if (step + 1) % every == 0 or step + 1 == steps:
            count = (step % every) + 1
            model.eval()
            with torch.no_grad():
                val = sum(step_loss(sub[i:i + a.batch].to(dev).long())[0].item()
                          for i in range(0, 64, a.batch)) / math.ceil(64 / a.batch)
            model.train()
            curve.append({"step": step + 1, "train_bits_per_byte": round(mean.item() / count / LN2, 4),
                          "heldout_bits_per_byte": round(val / LN2, 4)})
            mean = 0.0
            print(curve[-1], f"lr {lr:.2e} t {time.time() - t0:.0f}",
                  "experts", [round(v, 2) for v in used.min(1).values.tolist()], flush=True)
    sync()
    seconds = time.time() - t0

    # Round to bfloat16 and save under transformers' names.
    from safetensors.torch import save_file
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(torch.bfloat16).float())
    state = {k: v.detach().to(torch.bfloat16).cpu().contiguous()
             for k, v in model.state_dict().items()}
    save_file(state, os.path.join(a.out, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(a.out, "config.json"), "w") as f:
        json.dump(c, f, indent=2)
        f.write("\n")
    with open(os.path.join(a.out, "loss_curve.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(x) for x in curve) + "\n]\n")

    # Held-out bits per byte in float32 with plain attention, of the bfloat16 weights.
    torch.set_float32_matmul_precision("highest")
    cache = {}

    def forward(ids):
        t = ids.shape[1]
        if t not in cache:
            cache[t] = (*model.rope(t, dev), make_masks(t, c["sliding_window"], dev, False))
        return model(ids, *cache[t])[0]
    result = {}
    for name, data, window, stride in [
            ("split", held, 1024, 512), ("split", held, 4096, 2048),
            ("txt", excerpt, 512, 512), ("txt", excerpt, 512, 256),
            ("txt", excerpt, 1024, 1024), ("txt", excerpt, 1024, 512),
            ("txt", excerpt, 2048, 1024), ("txt", excerpt, 4096, 2048)]:
        name = f"heldout_{name}_{window}_{stride}"
        bpb, scored = bits_per_byte(forward, data, dev, window, stride, max(1, 65536 // window))
        result[name] = {"bits_per_byte": round(bpb, 4), "window": window, "stride": stride,
                        "bytes_scored": scored}
        print(name, result[name], flush=True)

    # transformers must compute the same function.
    import transformers
    hf, info = transformers.GptOssForCausalLM.from_pretrained(
        a.out, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    hf = hf.to(dev).eval()
    with torch.no_grad():
        ids = excerpt[:512].long()[None].to(dev)
        ours, theirs = forward(ids), hf(ids).logits
    print("largest difference from transformers", (ours - theirs).abs().max().item(),
          "largest logit", theirs.abs().max().item(), flush=True)
    info = {"parameters": n_params, "seed": a.seed, "steps": steps, "batch": a.batch,
            "length": a.length, "peak_learning_rate": a.lr, "bytes_seen": steps * a.batch * a.length,
            "training_seconds": round(seconds, 1),
            "hardware": torch.cuda.get_device_name() if gpu else "CPU",
            "torch": torch.__version__, "transformers": transformers.__version__,
            "heldout": result, "max_abs_difference_from_transformers_float32":
            (ours - theirs).abs().max().item()}
    with open(os.path.join(a.out, "training.json"), "w") as f:
        json.dump(info, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
