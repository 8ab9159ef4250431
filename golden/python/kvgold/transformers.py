"""A Cache of transformers whose K and V are stored in a format of kvgold.

    from kvgold.transformers import KvgoldCache
    model.generate(**inputs, cache=KvgoldCache("nvfp4", model.config))

Each layer keeps the codes and scales of every token, as kvgold.torch.quantise gives them, and hands the numbers that they
stand for to the model's own attention. So what a model makes of a format is seen with any model, and nothing else of it
changes. A row is quantised by itself when it comes: neither chunks of the prompt nor the batch change a stored byte.
Tested with transformers 5.24, where the argument `cache` has the older name `past_key_values`, too."""

from typing import Any, Mapping

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from .library import LibraryError
from .problem import FORMATS
from .torch import TYPES, config, dequantise, quantise

NAMES = {dtype: name for name, dtype in TYPES.items()}


class KvgoldLayer(DynamicLayer):
    """keys and values hold bytes, [sequences, KV heads, tokens, codes and scales], so that all that a DynamicLayer does
    with them (cropping, beams) it does with the stored bytes. `keys` as numbers are what `update` returns."""

    def __init__(self, axes: Mapping[str, Any], tensor_scales: tuple[float, float] = (1.0, 1.0)):
        super().__init__()
        self.axes, self.tensor_scales = axes, tensor_scales

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        heads, dim = key_states.shape[1], key_states.shape[3]
        if value_states.shape != key_states.shape:
            raise LibraryError(f"keys and values have other shapes: {[*key_states.shape]}, {[*value_states.shape]}")
        self.config = config(**self.axes, kv_heads=heads, head_dim=dim, dtype=NAMES.get(key_states.dtype, "?"))
        formats = self.axes["format"]
        sides = (formats["k"], formats["v"]) if isinstance(formats, Mapping) else (formats, formats)
        self.scales = tuple(torch.full((1,), scale, device=key_states.device) if FORMATS[fmt][4] else None
                            for fmt, scale in zip(sides, self.tensor_scales))
        self.device = key_states.device
        self.keys, self.values = self._stored(key_states[:, :, :0], value_states[:, :, :0])
        self.is_initialized = True

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
        new = self._stored(key_states, value_states)
        self.keys, self.values = (torch.cat(pair, -2) for pair in zip((self.keys, self.values), new))
        keys, values = self._numbers()
        return keys, values


class KvgoldCache(Cache):
    """`format` and `dialect` are those of a config: a name, or {"k": ..., "v": ...}. `tensor_scales` of K and V, for
    formats that have them, hold for every layer."""

    def __init__(self, format: str | Mapping[str, str], config: Any, dialect: str | Mapping[str, str] = "canonical",
                 tensor_scales: tuple[float, float] = (1.0, 1.0)):
        text = config.get_text_config(decoder=True)
        kinds = {*(getattr(text, "layer_types", None) or ["full_attention"])}
        if kinds != {"full_attention"}:
            raise LibraryError(f"a model with layers {', '.join(sorted(kinds))}: KvgoldCache has full_attention alone")
        axes = {"format": format, "dialect": dialect}
        super().__init__(layers=[KvgoldLayer(axes, tensor_scales) for _ in range(text.num_hidden_layers)])
