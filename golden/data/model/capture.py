#!/usr/bin/env python3
"""Write vectors.safetensors and ../captures/heldout.safetensors with transformers, on CPU.

  vectors.safetensors             token ids and the float32 logits of the bfloat16 weights
                                  upcast to float32 (eager attention, eager experts)
  ../captures/heldout.safetensors K before RoPE, K after RoPE and V of every layer, of the
                                  model run in bfloat16, each [T, Hkv, D]

Command:  python3 capture.py       (PyTorch, transformers 5.17, safetensors)
No randomness: one software version gives the same tensors on one kind of CPU (safetensors
does not fix the order of the metadata, so the files may differ there).
"""
import hashlib
import os

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = "heldout.txt"
VECTOR_RANGE = (30000, 30192)       # bytes of heldout.txt
CAPTURE_RANGE = (40000, 40512)


def load(dtype):
    model, info = transformers.GptOssForCausalLM.from_pretrained(
        HERE, dtype=dtype, attn_implementation="eager", experts_implementation="eager",
        output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    return model.eval()


def main():
    with open(os.path.join(HERE, TEXT), "rb") as f:
        text = f.read()
    with open(os.path.join(HERE, "model.safetensors"), "rb") as f:
        model_hash = hashlib.sha256(f.read()).hexdigest()

    def metadata(span):
        return {"model_sha256": model_hash, "text_file": TEXT,
                "text_sha256": hashlib.sha256(text).hexdigest(),
                "byte_range": f"{span[0]}:{span[1]}", "transformers": transformers.__version__,
                "torch": torch.__version__.split("+")[0]}

    def ids(span):
        return torch.tensor(list(text[span[0]:span[1]]))

    model = load(torch.float32)
    with torch.no_grad():
        logits = model(ids(VECTOR_RANGE)[None]).logits[0]
    assert torch.isfinite(logits).all()
    save_file({"tokens": ids(VECTOR_RANGE).int(), "logits": logits.contiguous()},
              os.path.join(HERE, "vectors.safetensors"),
              {**metadata(VECTOR_RANGE), "precision": "float32"})

    # apply_rotary_pos_emb(q, k, cos, sin) sees K before RoPE and returns K after it; V is
    # what v_proj returns. (The cache would do for full layers only: sliding layers drop keys.)
    model = load(torch.bfloat16)
    inner, rows, values = gpt_oss.apply_rotary_pos_emb, [], []

    def recording(q, k, cos, sin, *rest, **more):
        out = inner(q, k, cos, sin, *rest, **more)
        rows.append((k, out[1]))
        return out
    gpt_oss.apply_rotary_pos_emb = recording
    for layer in model.model.layers:
        layer.self_attn.v_proj.register_forward_hook(lambda m, i, out: values.append(out))
    with torch.no_grad():
        model(ids(CAPTURE_RANGE)[None], use_cache=False)
    c = model.config
    assert len(rows) == len(values) == c.num_hidden_layers
    out = {}
    for i, ((pre, post), v) in enumerate(zip(rows, values)):
        out[f"layers.{i}.k_pre"] = pre[0].transpose(0, 1).contiguous()
        out[f"layers.{i}.k_post"] = post[0].transpose(0, 1).contiguous()
        out[f"layers.{i}.v"] = v[0].reshape(-1, c.num_key_value_heads, c.head_dim).contiguous()
    t = CAPTURE_RANGE[1] - CAPTURE_RANGE[0]
    for x in out.values():
        assert x.dtype == torch.bfloat16 and torch.isfinite(x).all()
        assert tuple(x.shape) == (t, c.num_key_value_heads, c.head_dim)
    save_file(out, os.path.join(HERE, "..", "captures", "heldout.safetensors"),
              {**metadata(CAPTURE_RANGE), "precision": "bfloat16", "layout": "[T, Hkv, D]"})


if __name__ == "__main__":
    main()
