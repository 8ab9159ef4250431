"""A Cache of transformers whose K and V are stored in a format of kvgold, and kvgold's decode as a model's attention.

    import kvgold.transformers
    model.generate(**inputs, cache=kvgold.transformers.KvgoldCache("nvfp4", model.config))
    model.set_attn_implementation("kvgold")

Each layer keeps the codes and scales of every token, as kvgold.torch.quantise gives them, and hands the numbers that they
stand for to the model's own attention. So what a model makes of a format is seen with any model, and nothing else of it
changes. A row is quantised by itself when it comes: neither chunks of the prompt nor the batch change a stored byte.
Tested with transformers 5.24, where the argument `cache` has the older name `past_key_values`, too."""

import functools
from typing import Any, Mapping

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import AttentionInterface

from .library import LibraryError
from .problem import FORMATS
from .torch import TYPES, config, decode, dequantise, quantise

NAMES = {dtype: name for name, dtype in TYPES.items()}


class KvgoldLayer(DynamicLayer):
    """keys and values hold bytes, [sequences, KV heads, tokens, codes and scales], so that all that a DynamicLayer does
    with them (cropping, beams) it does with the stored bytes. `keys` as numbers are what `update` returns."""

    def __init__(self, axes: Mapping[str, Any], tensor_scales: tuple[float, float] = (1.0, 1.0)):
        super().__init__()
        self.axes, self.tensor_scales = axes, tensor_scales

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        heads, dim, *_ = self.row = self._row(key_states)
        self.config = config(**self.axes, kv_heads=heads, head_dim=dim, dtype=NAMES.get(key_states.dtype, "?"))
        formats = self.axes["format"]
        sides = (formats["k"], formats["v"]) if isinstance(formats, Mapping) else (formats, formats)
        self.scales = tuple(torch.full((1,), scale, device=key_states.device) if FORMATS[fmt][4] else None
                            for fmt, scale in zip(sides, self.tensor_scales))
        self.device = key_states.device
        self.keys, self.values = self._stored(key_states[:, :, :0], value_states[:, :, :0])
        self.is_initialized = True

    @staticmethod
    def _row(states: Tensor) -> tuple[Any, ...]:
        return states.shape[1], states.shape[3], states.dtype, states.device

    def _stored(self, keys: Tensor, values: Tensor) -> list[Tensor]:
        """Rows to bytes. The operators have rows as [tokens, heads, dims]: here a token of each sequence is one."""
        rows = [x.transpose(1, 2).flatten(0, 1) for x in (keys, values)]
        k, v, k_scales, v_scales = quantise(*rows, self.config, *self.scales)
        self.codes = [k.shape[2], v.shape[2]]
        shape = (keys.shape[0], keys.shape[2], keys.shape[1], -1)
        return [torch.cat(parts, -1).unflatten(0, shape[:2]).transpose(1, 2) for parts in ((k, k_scales), (v, v_scales))]

    def _numbers(self) -> list[Tensor]:
        shape = self.keys.shape[0], self.keys.shape[2]
        rows = [x.transpose(1, 2).flatten(0, 1) for x in (self.keys, self.values)]
        (k, k_scales), (v, v_scales) = (x.tensor_split([codes], -1) for x, codes in zip(rows, self.codes))
        return [x.unflatten(0, shape).transpose(1, 2)
                for x in dequantise(k, v, k_scales, v_scales, self.config, *self.scales)]

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        own = self.keys.shape[0], *self.row
        for name, states in (("K", key_states), ("V", value_states)):
            if (given := (states.shape[0], *self._row(states))) != own:
                raise LibraryError("{} has {} sequences, {} heads of {} numbers in {} on {}; ".format(name, *given)
                                   + "this cache has {} sequences, {} heads of {} numbers in {} on {}".format(*own))
        new = self._stored(key_states, value_states)
        self.keys, self.values = (torch.cat(pair, -2) for pair in zip((self.keys, self.values), new))
        keys, values = self._numbers()
        return keys, values


class KvgoldCache(Cache):
    """`format` and `dialect` are those of a config: a name, or {"k": ..., "v": ...}. `tensor_scales` of K and V, for
    formats that have them, hold for every layer. With a model's `config`, a model is refused that has other layers than
    attention to everything or to a window. A layer with a window keeps every token, and the mask hides the old ones."""

    def __init__(self, format: str | Mapping[str, str], config: Any = None,
                 dialect: str | Mapping[str, str] = "canonical", tensor_scales: tuple[float, float] = (1.0, 1.0)):
        kinds = getattr(config and config.get_text_config(decoder=True), "layer_types", None) or []
        if others := {*kinds} - {"full_attention", "sliding_attention"}:
            raise LibraryError(f"a model with layers of {', '.join(sorted(others))}: KvgoldCache has full_attention "
                               "and sliding_attention alone")
        axes = {"format": format, "dialect": dialect}
        super().__init__(layer_class_to_replicate=functools.partial(KvgoldLayer, axes, tensor_scales))


def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scaling: float | None = None,
           sliding_window: int | None = None, softcap: float | None = None, s_aux: Tensor | None = None,
           **_: Any) -> tuple[Tensor, None]:
    """The attention implementation "kvgold": op decode over K and V in their own type, each row by its own keys. On the CPU
    it gives the exact answer rounded once, on CUDA the bits of the chip's profile. Either way a row has the same bits in a
    prefill, in chunks, step by step, and in any batch. Rows of padding are 0."""
    sequences, heads, rows, dim = query.shape
    kv_heads, tokens = key.shape[1:3]
    name = NAMES.get(query.dtype)
    if name not in ("f16", "bf16") or value.shape != key.shape:
        raise LibraryError(f"attention kvgold takes float16 and bfloat16, and K and V of one shape, not {query.dtype}, "
                           f"{[*key.shape]} and {[*value.shape]}")
    sees = attention_mask[:, 0, :, :tokens]
    keys = torch.arange(tokens, device=query.device)
    ends = tokens - sees[:, -1].flip(-1).int().argmax(-1)  # a static cache has room behind them
    at = ends[:, None] - rows + torch.arange(rows, device=query.device)
    real = sees.gather(2, at[..., None]).squeeze(-1)
    begins = torch.where(real[..., None] & sees, keys, tokens).flatten(1).amin(1)
    behind = at[..., None] - keys
    right = (behind >= 0) & (keys >= begins[:, None, None]) & (behind < (sliding_window or tokens + 1))
    if not torch.equal(right[real], sees[real]):
        raise LibraryError("attention kvgold knows causal masks, with a window and padding on the left, and this one is another")
    moved = (begins[:, None] + keys).clamp(max=tokens - 1)[:, None, :, None].expand(-1, kv_heads, -1, dim)
    k, v = (x.gather(2, moved).view(torch.uint8).flatten() for x in (key, value))
    cache = config(format=name, dtype=name, layout="contiguous", kv_heads=kv_heads, head_dim=dim, block_tokens=tokens,
                   blocks=sequences, window=sliding_window or 0, softcap=softcap or 0.0, score_scale=scaling or 0.0)
    table = torch.arange(sequences, dtype=torch.int32, device=query.device)[:, None]
    out = query.new_zeros(sequences, rows, heads, dim)
    out[real], _lse = decode(query.transpose(1, 2)[real], k, v, None, None, table, (ends - begins).int(), real.sum(1).int(),
                             cache, sinks=None if s_aux is None else s_aux.float())
    return out, None


AttentionInterface.register("kvgold", attend)
AttentionMaskInterface.register("kvgold", lambda *given, **named: sdpa_mask(*given, **{**named, "allow_is_causal_skip": False}))
