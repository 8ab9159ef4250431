"""Attention of PyTorch and of transformers, as callables of kvgold.invariance.

    python -m kvgold.adapters.invariance kvgold.adapters.attention:sdpa --dtype torch.bfloat16

sdpa       scaled_dot_product_attention, as PyTorch chooses its backend; sdpa_math, sdpa_flash, sdpa_efficient and sdpa_cudnn
           force one
flex       flex_attention, not compiled; flex_compiled
eager      transformers' eager_attention_forward of Llama, with its mask

A batch is padded on the left, as generation does it; a mask is given where sequences have several lengths, or where
query tokens are neither one nor the whole sequence."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..company import Batch

Padded = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def padded(batch: Batch) -> Padded:
    """q [sequences, heads, rows, dim], k and v [sequences, kv_heads, tokens, dim], and which keys a row sees
    [sequences, 1, rows, tokens]. A row of padding sees all keys."""
    rows, tokens = max(batch.query_lengths), max(batch.lengths)

    def left(parts: Any, length: int) -> torch.Tensor:
        return torch.stack([torch.nn.functional.pad(x, (0, 0, 0, 0, length - len(x), 0)) for x in parts]).transpose(1, 2)

    lengths, counts = (torch.tensor(x, device=batch.q.device).view(-1, 1, 1) for x in (batch.lengths, batch.query_lengths))
    row = torch.arange(tokens - rows, tokens, device=batch.q.device).view(1, -1, 1)
    key = torch.arange(tokens, device=batch.q.device).view(1, 1, -1)
    sees = (key <= row) & (key >= tokens - lengths)
    if batch.window:
        sees &= key > row - batch.window
    sees |= row < tokens - counts
    q = left(batch.q.split(batch.query_lengths), rows)
    return q, left(batch.k, tokens), left(batch.v, tokens), sees.unsqueeze(1)


def unpadded(out: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Rows [rows, heads, dim] of out [sequences, heads, rows, dim]."""
    return torch.cat([x[:, -count:].transpose(0, 1) for x, count in zip(out, batch.query_lengths) if count])


def is_simple(batch: Batch) -> bool:
    """No mask is needed but the causal one, or none at all."""
    rows, tokens = batch.query_lengths[0], batch.lengths[0]
    same = {*batch.lengths} == {tokens} and {*batch.query_lengths} == {rows}
    return same and rows in (1, tokens) and not batch.window


def sdpa(batch: Batch, grouped: bool = True) -> torch.Tensor:
    """`grouped`: query heads share K and V as they are; else each has a copy, for a backend that knows no groups."""
    q, k, v, sees = padded(batch)
    if not grouped:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    causal = is_simple(batch) and q.shape[2] > 1
    mask = None if is_simple(batch) else sees
    with torch.no_grad():
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal,
                                                               enable_gqa=q.shape[1] != k.shape[1])
    return unpadded(out, batch)


def _forced(backend: SDPBackend, grouped: bool = True) -> Callable[[Batch], torch.Tensor]:
    def forced(batch: Batch) -> torch.Tensor:
        with sdpa_kernel(backend):
            return sdpa(batch, grouped)
    return forced


sdpa_math = _forced(SDPBackend.MATH)
sdpa_flash = _forced(SDPBackend.FLASH_ATTENTION)
sdpa_efficient = _forced(SDPBackend.EFFICIENT_ATTENTION, grouped=False)
sdpa_cudnn = _forced(SDPBackend.CUDNN_ATTENTION)


def _flex(batch: Batch, kernel: Callable[..., Any]) -> tuple[torch.Tensor, torch.Tensor]:
    from torch.nn.attention.flex_attention import AuxRequest, create_block_mask
    q, k, v, sees = padded(batch)
    seen = sees.squeeze(1)
    mask = create_block_mask(lambda b, h, row, key: seen[b, row, key], len(q), None, q.shape[2], k.shape[2], device=q.device)
    with torch.no_grad():
        out, aux = kernel(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1], return_aux=AuxRequest(lse=True))
    return unpadded(out, batch), unpadded(aux.lse.unsqueeze(-1), batch).squeeze(-1)


def flex(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    from torch.nn.attention.flex_attention import flex_attention
    return _flex(batch, flex_attention)


@functools.cache
def _compiled() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention
    return torch.compile(flex_attention)


def flex_compiled(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    return _flex(batch, _compiled())


def eager(batch: Batch) -> torch.Tensor:
    from transformers.models.llama.modeling_llama import eager_attention_forward
    q, k, v, sees = padded(batch)
    module = torch.nn.Module().eval()
    module.num_key_value_groups = q.shape[1] // k.shape[1]
    mask = torch.zeros(sees.shape, dtype=q.dtype, device=q.device).masked_fill_(~sees, torch.finfo(q.dtype).min)
    with torch.no_grad():
        out, _ = eager_attention_forward(module, q, k, v, mask, q.shape[-1] ** -0.5)
    return unpadded(out.transpose(1, 2), batch)
