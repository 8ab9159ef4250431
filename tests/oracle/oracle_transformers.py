#!/usr/bin/env python3
"""Small random checkpoints of every family, Hugging Face transformers' logits of them, and how far kvgold's may be.

    oracle_transformers.py --write [NAME...]   make golden/data/checkpoints/NAME anew (PyTorch, transformers; minutes)
    oracle_transformers.py --check [NAME...]   run transformers on the carried ones again, and derive the bounds again
    oracle_transformers.py --numpy [NAME...]   numpy only: exact logits against the frozen ones, planted deviations

Each folder is what save_pretrained wrote, and vectors.safetensors:
    tokens        I32 [t]
    logits        F32 [t, vocab]: transformers on a CPU, weights widened to float32, eager attention and experts
    bound_f32     F32 [t, vocab]: how far transformers may be from exact arithmetic (model_forward.py says how)
    bound_f16     bound_f32 + how far kvgold may be from it where K, V and q are stored in f16: |kvgold - logits|
    bound_bf16    the same in bf16
golden/data/model has tokens and logits in its own vectors.safetensors and the bounds in bounds.safetensors.

Ends with `N passed, M failed`."""
import argparse
import importlib.util
import json
import os
import shutil
import sys
import tempfile

import numpy as np

import model_forward as mf

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "golden", "data")
FOLDER = os.path.join(ROOT, "checkpoints")
CARRIED = os.path.join(ROOT, "model")
LENGTH = 48

# Sizes are small, unequal, and no multiples of each other where they need not be. `gains` are standard deviations, of
# matrices times sqrt(inputs): by the end of a tensor's name, the first that fits. `wide`: tensors kept in float32.
COMMON = {"bos_token_id": None, "eos_token_id": None, "use_cache": True, "max_position_embeddings": 4096}
GAINS = {"embed_tokens.weight": 0.5, "lm_head.weight": 3.0, "norm.weight": 0.3, "q_proj.weight": 1.1,
         "k_proj.weight": 1.1, "v_proj.weight": 1.0, "o_proj.weight": 0.4, "down_proj.weight": 0.5, "proj.weight": 1.0,
         "proj.bias": 0.4, "sinks": 3.0, "router.weight": 3.0, "router.bias": 1.0, "gate_up_proj": 4.0,
         "down_proj": 0.05, "gate_up_proj_bias": 1.0, "down_proj_bias": 0.3}
GPT_OSS = {"hidden_size": 64, "vocab_size": 128, "num_hidden_layers": 3, "sliding_window": 9, "num_local_experts": 4,
           "num_experts_per_tok": 2, "rms_norm_eps": 0.05, "tie_word_embeddings": False}
SPECS = {
    "llama_tied": dict(kind="Llama", seed=1, dtype="bfloat16", wide=(), config={
        "hidden_size": 64, "intermediate_size": 88, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 160, "rms_norm_eps": 0.05, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
                            "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}),
    "llama_biases": dict(kind="Llama", seed=2, dtype="float16", wide=("norm.weight", "bias", "up_proj.weight"), config={
        "hidden_size": 72, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 6,
        "num_key_value_heads": 2, "head_dim": 24, "vocab_size": 96, "rms_norm_eps": 0.05, "attention_bias": True,
        "mlp_bias": True, "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 3.0}}),
    "qwen3_shards": dict(kind="Qwen3", seed=3, dtype="bfloat16", wide=(), shard="60KB", config={
        "hidden_size": 64, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 1, "head_dim": 32, "vocab_size": 128, "rms_norm_eps": 0.05, "use_sliding_window": True,
        "sliding_window": 11, "max_window_layers": 1, "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
    "qwen3_biases": dict(kind="Qwen3", seed=4, dtype="float32", wide=(), config={
        "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 3,
        "num_key_value_heads": 3, "head_dim": 16, "vocab_size": 96, "rms_norm_eps": 0.05, "attention_bias": True,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "beta_fast": 8.0,
                            "beta_slow": 1.0, "original_max_position_embeddings": 256}}),
    "gpt_oss": dict(kind="GptOss", seed=5, dtype="bfloat16", wide=("norm.weight", "sinks"), config={
        **GPT_OSS, "intermediate_size": 24, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 16.0, "beta_fast": 32.0,
                            "beta_slow": 1.0, "original_max_position_embeddings": 256, "truncate": False}}),
    "gpt_oss_mxfp4": dict(kind="GptOss", seed=6, dtype="bfloat16", wide=(), mxfp4=True, shard="60KB", config={
        **GPT_OSS, "intermediate_size": 32, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 64,
        "num_hidden_layers": 2, "num_local_experts": 5,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0,
                            "beta_slow": 1.0, "original_max_position_embeddings": 4096, "truncate": False}}),
}


# Deviations that a checkpoint does not show beside the roundings of f16; others do, and forward.py sees the carried
# model's three in float32.
BLIND = {"model": ("eps 1e-6", "window one short", "window one long"),
         "gpt_oss_mxfp4": ("YaRN's truncate the other way",)}


class Count:
    passed = failed = 0


def check(name, good, text=""):
    Count.passed += bool(good)
    Count.failed += not good
    print(f"{'ok  ' if good else 'FAIL'} {name} {text}", flush=True)


# ---- Planted deviations ----

def deviations(model):
    """name -> (logits with that one thing wrong), for what the model has."""
    c, w = model.c, model.w
    has = lambda end: any(n.endswith(end) for n in w)
    out = {"eps 1e-6": dict(eps=1e-6), "query heads mapped to KV heads by modulo": dict(head_map=True),
           "scores not divided by sqrt(head_dim)": dict(scale=c["head_dim"] ** 0.5),
           "pairs of RoPE are neighbours": dict(pair_neighbours=True), "layers in reverse": dict(layer_order=-1),
           "gate and up swapped": dict(swap_gate_up=True)}
    if c["num_attention_heads"] == c["num_key_value_heads"] or c["num_key_value_heads"] == 1:
        del out["query heads mapped to KV heads by modulo"]
    if c["rope"]["rope_type"] != "default":
        out.update({"RoPE not scaled": dict(rope_plain=True), "RoPE's factor a quarter larger": dict(rope_stretch=1.25)})
    if c["rope"]["rope_type"] == "yarn":
        out.update({"YaRN's truncate the other way": dict(truncate_other=True),
                    "YaRN's factor on cos and sin dropped": dict(rope_factor=False)})
    if not c.get("tie_word_embeddings"):
        out["the input's embedding for the output"] = dict(output_embedding="the input's")
    for name in ("q", "k", "v", "o", "gate", "up", "down"):
        if has(f".{name}_proj.bias"):
            out[f"bias of {name} dropped"] = dict(drop_bias=(name,))
    if has("q_norm.weight"):
        out.update({"QK-norm dropped": dict(qk_norm=False), "QK-norm's eps 1e-6": dict(qk_eps=1e-6),
                    "norms of q and k swapped": dict(swap_norms=True)})
    if any(c["sliding"]):
        out.update({"window one short": dict(window=-1), "window one long": dict(window=1),
                    "sliding and full layers swapped": dict(swap_layers=True)})
    if has("sinks"):
        out.update({"sinks dropped": dict(sinks=False), "sinks scaled like scores": dict(sink_scale=c["head_dim"] ** -0.5)})
    if has("router.weight"):
        out.update({"clamp dropped": dict(clamp=False), "silu (alpha 1)": dict(alpha=1.0), "no up + 1": dict(up_offset=0.0),
                    "router's softmax over all experts": dict(softmax_first=True),
                    "router's weights in reverse": dict(router_reversed=True),
                    "router's bias dropped": dict(drop_bias=("router",)),
                    "experts' biases dropped": dict(drop_bias=("experts",)),
                    "gate and up in halves": dict(gate_up_halves=True)})
    return out


def deviating_logits(name, folder, model, tokens):
    for title, change in deviations(model).items():
        yield title, model.run(tokens, **change)[0]
    if SPECS.get(name, {}).get("mxfp4"):
        for title, change in {"mxfp4: high nibble first": dict(high_first=True), "mxfp4: bias 126": dict(bias=126)}.items():
            yield title, mf.Model(folder, **change).run(tokens)[0]


# ---- Making checkpoints ----

def spread(name, shape, rng):
    """Random numbers for a tensor."""
    gain = next(g for end, g in GAINS.items() if name.endswith(end))
    x = rng.standard_normal(shape) * gain
    if name.endswith("norm.weight"):
        return 1 + x
    if len(shape) == 3:
        return x / np.sqrt(shape[1])  # experts, [expert, in, out]
    return x / np.sqrt(shape[1]) if len(shape) == 2 and not name.endswith(("embed_tokens.weight", "bias")) else x


def write_checkpoint(name, spec):
    """The folder as save_pretrained leaves it."""
    import torch
    import transformers
    rng = np.random.default_rng(spec["seed"])
    folder = os.path.join(FOLDER, name)
    shutil.rmtree(folder, ignore_errors=True)
    config = getattr(transformers, spec["kind"] + "Config")(**COMMON, **spec["config"])
    model = getattr(transformers, spec["kind"] + "ForCausalLM")(config).to(getattr(torch, spec["dtype"]))
    tensors = {}
    for key, p in model.named_parameters():
        x = torch.from_numpy(spread(key, tuple(p.shape), rng).astype(np.float32))
        p.data = x if key.endswith(spec["wide"]) else x.to(p.dtype)
    model.config._name_or_path = ""
    if not spec.get("mxfp4"):
        model.save_pretrained(folder, max_shard_size=spec.get("shard", "1GB"))
    else:
        # As in the released checkpoint: experts' weights [out, in] in codes and scales.
        for key, x in model.state_dict().items():
            if x.dim() != 3:
                tensors[key] = x.contiguous()
                continue
            e, inputs, outputs = x.shape
            least = 123 if "gate_up" in key else 117
            tensors[key + "_blocks"] = torch.from_numpy(rng.integers(0, 256, (e, outputs, inputs // 32, 16), np.uint8))
            tensors[key + "_scales"] = torch.from_numpy(rng.integers(least, least + 4, (e, outputs, inputs // 32), np.uint8))
        save_shards(model, tensors, folder, spec["shard"])
    for file in os.listdir(folder):
        os.chmod(os.path.join(folder, file), 0o644)
        if file == "generation_config.json":
            os.remove(os.path.join(folder, file))


def save_shards(model, tensors, folder, size):
    """What save_pretrained does, for tensors that the class has no parameters for."""
    from huggingface_hub import save_torch_state_dict
    model.config.quantization_config = {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    save_torch_state_dict(tensors, folder, max_shard_size=size)


def choose_tokens(model, length, seed):
    """Different ids at first, then any; for experts one by one, so that no choice of a row is near: the bounds of what
    follows stay small. Rows depend on earlier tokens alone."""
    rng = np.random.default_rng(seed)
    vocab, k = model.c["vocab_size"], model.c.get("num_experts_per_tok")
    if not k:
        return rng.integers(0, vocab, length)
    tokens = []
    while len(tokens) < length:
        candidates = rng.permutation(vocab)[:24]
        least = []
        for token in candidates:
            router = model.run(np.array(tokens + [token]))[1][:, -1]
            order = np.sort(router, -1)[:, ::-1]
            least.append((order[:, k - 1] - order[:, k]).min())
            if least[-1] > 0.8:
                break
        tokens.append(candidates[int(np.argmax(least))])
    return np.array(tokens)


# ---- transformers ----

def transformers_logits(folder, tokens):
    import torch
    import transformers
    kind = {"llama": "Llama", "qwen3": "Qwen3", "gpt_oss": "GptOss"}[mf.read_config(f"{folder}/config.json")["model_type"]]
    more = {"experts_implementation": "eager"} if kind == "GptOss" else {}
    with open(f"{folder}/config.json") as f:
        if "quantization_config" in json.load(f):
            more["quantization_config"] = transformers.Mxfp4Config(dequantize=True)
    model, info = getattr(transformers, kind + "ForCausalLM").from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True, **more)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
    with torch.no_grad():  # experts that were mxfp4 come as bfloat16, exactly
        return model.float().eval()(torch.from_numpy(tokens)[None].long(), use_cache=False).logits[0].numpy()


def bounds_of(model, tokens):
    """name -> [t, vocab] as frozen; and a line about them."""
    parts = {t: mf.Bound(model, tokens, a) for t, a in {"f32": mf.TRANSFORMERS, **mf.KVGOLD}.items()}
    out = {"bound_f32": parts["f32"].bound}
    for t in mf.KVGOLD:
        out["bound_" + t] = parts["f32"].bound + parts[t].bound
    text = "; ".join(f"{t} largest {out['bound_' + t].max():.3g}, median {np.median(out['bound_' + t]):.3g}, rows with an "
                     f"open choice {p.open}, share of second order {p.curved:.2g}" for t, p in parts.items())
    return out, f"logits' standard deviation {parts['f32'].logits.std():.3g}; bounds: {text}"


def write_vectors(path, tensors, metadata):
    from safetensors.numpy import save_file
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, path, metadata)


def up(x):
    """To f32, never below x."""
    y = x.astype(np.float32)
    return np.where(y < x, np.nextafter(y, np.float32(np.inf)), y)


def write(name):
    import torch
    import transformers
    versions = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    if name == "model":
        vectors = mf.read_safetensors(f"{CARRIED}/vectors.safetensors")
        bounds, text = bounds_of(mf.Model(CARRIED), vectors["tokens"].astype(int))
        bounds.pop("bound_f32")
        write_vectors(f"{CARRIED}/bounds.safetensors", {k: up(v) for k, v in bounds.items()}, {"written_by": "oracle_transformers.py"})
        print(f"wrote model: {text}", flush=True)
        return
    folder = os.path.join(FOLDER, name)
    write_checkpoint(name, SPECS[name])
    model = mf.Model(folder)
    tokens = choose_tokens(model, LENGTH, SPECS[name]["seed"])
    logits = transformers_logits(folder, tokens)
    bounds, text = bounds_of(model, tokens)
    write_vectors(f"{folder}/vectors.safetensors", {"tokens": tokens.astype(np.int32), "logits": logits,
                                                   **{k: up(v) for k, v in bounds.items()}}, versions)
    print(f"wrote {name}: {text}", flush=True)


# ---- Checks ----

def read(name):
    folder = CARRIED if name == "model" else os.path.join(FOLDER, name)
    vectors = mf.read_safetensors(f"{folder}/vectors.safetensors")
    if name == "model":
        vectors.update(mf.read_safetensors(f"{folder}/bounds.safetensors"))
    return folder, vectors, vectors["tokens"].astype(int)


def check_transformers(name):
    """The same software gives the same bits on one kind of CPU; on another, the bound holds for both."""
    folder, vectors, tokens = read(name)

    def ratio(folder):
        return mf.worst_ratio(transformers_logits(folder, tokens) - vectors["logits"], 2 * vectors["bound_f32"])
    right = ratio(folder)
    check(f"{name}: transformers' logits", right <= 1, f"ratio {right:.3g}")
    with tempfile.TemporaryDirectory() as wrong:
        shutil.copytree(folder, wrong, dirs_exist_ok=True)
        with open(f"{folder}/config.json") as f:
            config = json.load(f)
        with open(f"{wrong}/config.json", "w") as f:
            json.dump({**config, "rms_norm_eps": 1e-6}, f)
        planted = ratio(wrong)
        check(f"{name}: planted and rejected: transformers with eps 1e-6", planted > 1, f"ratio {planted:.3g}")
    bounds, text = bounds_of(mf.Model(folder), tokens)
    check(f"{name}: the frozen bounds follow", all(np.allclose(vectors[k], up(v), 1e-6, 0) for k, v in bounds.items()), text)


def check_numpy(name):
    folder, vectors, tokens = read(name)
    model = mf.Model(folder)
    logits = model.run(tokens)[0]
    if "bound_f32" in vectors:
        ratio = mf.worst_ratio(logits - vectors["logits"], vectors["bound_f32"])
        check(f"{name}: transformers' logits are within float32 of exact ones", ratio <= 1, f"ratio {ratio:.3g}")
    for t in mf.KVGOLD:
        check(f"{name}: bounds of {t} are numbers above 0",
              np.all(np.isfinite(vectors["bound_" + t]) & (vectors["bound_" + t] > 0)))
    for title, y in deviating_logits(name, folder, model, tokens):
        ratios = [mf.worst_ratio(y - vectors["logits"], vectors["bound_" + t]) for t in mf.KVGOLD]
        blind = title in BLIND.get(name, ())
        check(f"{name}: planted and {'not seen here' if blind else 'rejected'}: {title}", (ratios[0] > 1) != blind,
              f"ratio in f16 {ratios[0]:.3g}, in bf16 {ratios[1]:.3g}")
    broken = vectors["logits"].copy()
    broken[len(broken) // 2, 7] = np.nan
    check(f"{name}: planted NaN rejected", not mf.worst_ratio(broken - vectors["logits"], vectors["bound_bf16"]) <= 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    for flag in ("--write", "--check", "--numpy"):
        mode.add_argument(flag, action="store_true")
    parser.add_argument("names", nargs="*", choices=[[], *SPECS, "model"], default=[])
    given = parser.parse_args()
    names = given.names or [*SPECS, "model"]
    os.environ["HF_HUB_OFFLINE"] = "1"
    missing = [m for m in ("torch", "transformers") if not given.numpy and not importlib.util.find_spec(m)]
    if missing:
        print(f"skipped: {' and '.join(missing)} not installed: pip install torch==2.11.0 transformers==5.17.0")
        return 77
    if given.write:
        for name in names:
            write(name)
        return 0
    for name in names:
        if given.numpy:
            check_numpy(name)
        elif name != "model":
            check_transformers(name)
    print(f"{Count.passed} passed, {Count.failed} failed")
    return 1 if Count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
