"""How far the log-probabilities of a rollout are from those of one forward pass, of a whole model.

    report = kvgold.rollout(model, tokens)                 # a model of transformers
    report = kvgold.rollout(model, tokens, caches={"int4": lambda: QuantizedCache("quanto", model.config)})
    print(report); open("rollout.svg", "w").write(report.svg())

The same tokens are read in several ways, and each way is compared with one forward pass over all of them: docs/guide/
whose-bits.md section 4."""

from __future__ import annotations

import html
import inspect
import math
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping

import numpy as np

from .ask import reason_of

Pieces = Iterator["tuple[int, Any]"]  # (position of the first row, logits [rows, vocabulary])

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")


@dataclass
class Way:
    """One way to read the tokens, beside the forward pass."""

    name: str
    positions: int = 0                  # that were compared
    differing: int = 0                  # where a logit has other bits
    first: int | None = None            # the first of these
    worst: float = 0.0                  # largest difference of the log-probability of the next token
    worst_at: int | None = None
    worst_logit: float = 0.0            # largest difference of any logit
    part: str = ""                      # the module in which the first position parts first
    reason: str = ""                    # why there is no answer
    curve: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)  # by position, of the next token

    @property
    def holds(self) -> bool:
        return self.positions > 0 and not self.reason and self.differing == 0


@dataclass(frozen=True, repr=False)
class Rollout:
    """It is true if every way has the bits of the forward pass."""

    subject: str
    ways: Mapping[str, Way]

    def __getitem__(self, name: str) -> Way:
        return self.ways[name]

    def __bool__(self) -> bool:
        return all(way.holds for way in self.ways.values())

    def __str__(self) -> str:
        lines = [self.subject, f"{'way':24} {'positions':>9} {'differ':>6} {'first':>5} {'log-probability':>15} {'logit':>9}  parts in"]
        for w in self.ways.values():
            first = "" if w.first is None else str(w.first)
            row = f"{w.name:24} {w.positions:9} {w.differing:6} {first:>5} {w.worst:15.3g} {w.worst_logit:9.3g}  {w.part}"
            lines.append(f"{w.name:24} not answered: {w.reason}" if w.reason else row.rstrip())
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        bad = [way.name for way in self.ways.values() if not way.holds]
        return f"<kvgold.Rollout: {'other bits in ' + ', '.join(bad) if bad else 'equal bits in all ways'}>"

    def svg(self, width: int = 720, height: int = 360) -> str:
        """A plot: position against the difference of the next token's log-probability, on a logarithmic scale."""
        drawn = [w for w in self.ways.values() if len(w.curve)]
        sizes = [x for w in drawn for x in w.curve if x > 0]
        low = math.floor(math.log10(min(sizes, default=1e-8)))
        high = max(low + 1, math.ceil(math.log10(max(sizes, default=1))))
        last = max((len(w.curve) for w in drawn), default=2) - 1 or 1
        left, top, right, bottom = 60, 20, width - 170, height - 40

        def point(position: int, size: float) -> str:
            level = (math.log10(size) - low) / (high - low) if size > 0 else -0.03
            return f"{left + (right - left) * position / last:.1f},{bottom - (bottom - top) * level:.1f}"

        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
                 f'<title>{html.escape(self.subject)}</title><rect width="{width}" height="{height}" fill="white"/>']
        for power in range(low, high + 1):
            y = bottom - (bottom - top) * (power - low) / (high - low)
            parts.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#ddd"/><text x="{left - 6}" y="{y + 4:.1f}" '
                         f'text-anchor="end">1e{power}</text>')
        for i, w in enumerate(drawn):
            colour = COLOURS[i % len(COLOURS)]
            points = " ".join(point(position, float(size)) for position, size in enumerate(w.curve))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/><text x="{right + 10}" '
                         f'y="{top + 12 + 16 * i}" fill="{colour}">{html.escape(w.name)}</text>')
        parts.append(f'<text x="{left}" y="{height - 12}">position, 0 to {last}; a line below the grid: no difference</text></svg>')
        return "\n".join(parts) + "\n"


def _differs(a: Any, b: Any) -> Any:
    """By number: their bits differ, and they are not both NaN."""
    import torch
    codes = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.itemsize]
    return (a.contiguous().view(codes) != b.contiguous().view(codes)) & ~(a.isnan() & b.isnan())


class Parts:
    """The outputs of a model's layers, by hooks: in which module a position parts first."""

    def __init__(self, model: Any):
        self.home: dict[str, Any] = {}
        self.recording, self.row, self.start, self.rows = True, 0, 0, 0
        self.first: dict[int, str] = {}
        self.handles = [module.register_forward_hook(self.hook(name)) for name, module in self.modules(model)]

    @staticmethod
    def modules(model: Any) -> list[tuple[str, Any]]:
        """The layers, which stand in a list as long as the model has layers, and the attention in each."""
        count = getattr(getattr(model, "config", None), "num_hidden_layers", 0)
        for name, module in model.named_modules() if hasattr(model, "named_modules") else ():
            if count and type(module).__name__ == "ModuleList" and len(module) == count:
                inner = [(f"{name}.{i}.{part}", child) for i, layer in enumerate(module)
                         for part, child in layer.named_children() if "att" in part and "norm" not in part]
                return inner + [(f"{name}.{i}", layer) for i, layer in enumerate(module)]
        return []

    def hook(self, name: str) -> Callable[..., None]:
        def seen(module: Any, arguments: Any, output: Any) -> None:
            import torch
            x = (output[0] if isinstance(output, tuple) else output)[self.row, -self.rows:].detach()
            if self.recording:
                self.home[name] = x
                return
            differs = _differs(x, self.home[name][self.start:self.start + self.rows])
            for at in torch.nonzero(differs.flatten(1).any(1)).flatten().tolist():
                self.first.setdefault(self.start + at, name)
        return seen

    def read(self, start: int, rows: int, row: int = 0) -> None:
        """What comes next: positions [start, start + rows) in a row of the batch, the last ones there."""
        self.start, self.rows, self.row = start, rows, row

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def rollout(model: Any, tokens: Any, *, prompt: int = 1, chunk: int = 64, batch: int = 4, seed: int = 0,
            cache: Callable[[], Any] | None = None, caches: Mapping[str, Callable[[], Any]] | None = None) -> Rollout:
    """Reads `tokens` (one sequence) in several ways, and compares logits with those of one forward pass bit for bit.

    `model` is one of transformers, in eval mode, or a callable: token ids [sequences, tokens] to logits [sequences, tokens,
    vocabulary]. A callable has no cache: its rollout reads each prefix anew.

        rollout   `prompt` tokens, then one token after the other, over the model's own cache
        chunks    `chunk` tokens at a time
        batch     the sequence as the first of `batch` sequences of other tokens
        place     the same as the last one
        padded    beside a longer sequence: padding on the left, with a mask
        <name>    as rollout, over a cache that caches[name]() makes

    With `cache` every way goes through a cache that it makes, the forward pass too: so a quantised cache is compared with
    itself.

    A way that raises has no answer; ValueError if the same forward pass gives other bits twice."""
    __tracebackhide__ = True
    import torch
    is_model = hasattr(model, "config") and hasattr(model, "parameters")
    if is_model and model.training:
        raise ValueError("the model is in training mode: call model.eval() first")
    if prompt < 1 or chunk < 1 or batch < 2:
        raise ValueError("prompt and chunk are at least 1, batch at least 2")
    cache_name = "cache" if is_model and "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    device = next(model.parameters()).device if is_model else "cpu"
    ids = torch.as_tensor(tokens, device=device).long().flatten()
    if len(ids) <= prompt:
        raise ValueError(f"{len(ids)} tokens are too few for a prompt of {prompt}")
    random = np.random.default_rng(seed)
    most = int(ids.max()) + 1
    parts = Parts(model)

    def others(rows: int, length: int) -> Any:
        return torch.from_numpy(random.integers(0, most, (rows, length))).to(device)

    def ask(given: Any, **options: Any) -> Any:
        answer = model(given, **options)
        return answer.logits if hasattr(answer, "logits") else answer

    def forward(given: Any, row: int = 0, **options: Any) -> Pieces:
        parts.read(0, len(ids), row)
        if cache is not None:
            options |= {"use_cache": True, cache_name: cache()}
        yield 0, ask(given, **options)[row, -len(ids):]

    def steps(held: Any, size: int, first: int) -> Pieces:
        at = 0
        while at < len(ids):
            rows = min(first if at == 0 else size, len(ids) - at)
            parts.read(at, rows)
            if is_model:
                logits = ask(ids[None, at:at + rows], use_cache=True, **{cache_name: held})[0]
            else:
                logits = ask(ids[None, :at + rows])[0, -rows:]
            yield at, logits
            at += rows

    def own_cache() -> Any:
        if cache is not None or not is_model:
            return cache() if cache is not None else None
        from transformers import DynamicCache
        return DynamicCache(config=model.config)

    def padded() -> Pieces:
        more = max(1, len(ids) // 3)
        given = torch.cat([torch.cat([torch.zeros(more, dtype=ids.dtype, device=device), ids])[None], others(1, len(ids) + more)])
        mask = torch.ones_like(given)
        mask[0, :more] = 0
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        return forward(given, attention_mask=mask, position_ids=positions)

    ways: dict[str, Callable[[], Pieces]] = {
        "rollout": lambda: steps(own_cache(), 1, prompt),
        "chunks": lambda: steps(own_cache(), chunk, chunk),
        "batch": lambda: forward(torch.cat([ids[None], others(batch - 1, len(ids))])),
        "place": lambda: forward(torch.cat([others(batch - 1, len(ids)), ids[None]]), batch - 1)}
    if is_model:
        ways["padded"] = padded
    for name, make in (caches or {}).items():
        ways[name] = lambda make=make: steps(make(), 1, prompt)  # type: ignore[misc]
    try:
        with torch.no_grad():
            home = next(forward(ids[None]))[1].clone()
            if _differs(home, next(forward(ids[None]))[1]).any():
                raise ValueError("the same forward pass gives other bits: nothing can be compared with it")
            parts.recording = False
            answers = {name: _compare(name, way, home, ids, parts) for name, way in ways.items()}
    finally:
        parts.remove()
    kind = type(model).__name__ if is_model else getattr(model, "__qualname__", type(model).__name__)
    dtype = str(home.dtype).removeprefix("torch.")
    return Rollout(f"{kind}: {len(ids)} tokens beside one forward pass, logits in {dtype} on {device}, seed {seed}", answers)


def _compare(name: str, way: Callable[[], Pieces], home: Any, ids: Any, parts: Parts) -> Way:
    import torch
    w = Way(name, curve=np.zeros(len(ids) - 1))
    parts.first.clear()
    try:
        for start, logits in way():
            right = home[start:start + len(logits)]
            differs = _differs(logits, right).any(-1)
            w.positions += len(logits)
            w.differing += int(differs.sum())
            if w.first is None and differs.any():
                w.first = start + int(torch.nonzero(differs)[0])
            w.worst_logit = max(w.worst_logit, float((logits.double() - right.double()).abs().max()))
            rows = min(len(logits), len(ids) - 1 - start)
            following = ids[start + 1:start + 1 + rows, None]
            own, at_home = (torch.log_softmax(x[:rows].double(), -1).gather(-1, following) for x in (logits, right))
            w.curve[start:start + rows] = (own - at_home).abs().flatten().cpu().numpy()
    except Exception as error:  # noqa: BLE001: whatever a model throws
        w.reason = reason_of(error)
    w.worst = float(w.curve.max())
    w.worst_at = int(w.curve.argmax()) if w.worst else None
    w.part = parts.first.get(w.first, "") if w.first is not None else ""
    return w
