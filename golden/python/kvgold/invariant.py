"""Whose bits a row of attention has: the same rows are asked in other company, and must keep their bits.

docs/spec/invariance.md says what is asked, docs/guide/whose-bits.md how to read an answer. `python -m
kvgold.adapters.invariance` is the command."""

from __future__ import annotations

import functools
import html
import importlib
import multiprocessing
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from .ask import reason_of
from .bound_numpy import OPERANDS, out_bound
from .company import Arrays, Batch, Pages, Request, Rows, Story, floats, joined, units
from .program import Progress, nearest

Attention = Callable[..., Any]  # takes a Batch, and options by name; gives out, or (out, lse)

DENSE = 300                              # every length up to here, then powers of two and their neighbours
EDGES = (96, 97, 176, 177, 192, 193)      # of tiles that are no powers of two
BATCHES = (2, 3, 4, 8, 16, 33, 64)
QUERIES = (2, 3, 4, 8, 9, 16, 17, 64, 65, 128, 129)
CHUNKS = (2, 7, 16, 64, 100, 128, 200, 256)
HIDDEN = (1, 7, 16, 17, 64, 100, 128, 1000)  # tokens before a window
BLOCK_SIZES = (16, 64, 128)
STREAM_BATCH = 8
TILES = (2, 4, 8, 16, 32, 64, 128, 256)      # of query tokens
FEW = 3                                       # companies, or ranges of tokens, that a report lists of an axis


class NoAnswer(Exception):
    """Why the callable gave none."""


@dataclass(frozen=True)
class Question:
    """Rows asked twice. `ends`: the Request.end of each row. `queries`: how many query tokens a request has, where
    requests of so many make up the story, and all their rows are asked."""

    company: str
    ends: Sequence[int]
    home: Callable[[], Rows]
    other: Callable[[], Rows]
    queries: int = 1


class Difference(NamedTuple):
    """Of two numbers of out."""

    size: float
    end: int
    head: int
    element: int


@dataclass
class Finding:
    """What was seen along an axis: docs/spec/invariance.md section 3."""

    axis: str
    rows: int = 0                # rows that were asked in other company and at home
    differing: int = 0
    worst: float = 0.0           # largest difference of two numbers of out
    worst_units: float = 0.0     # the same in units in the last place of the largest number of the row's head
    worst_lse: float = 0.0
    worst_lse_units: float = 0.0
    nan: int = 0                 # numbers that are NaN or infinite, and not alike
    heads: set[int] = field(default_factory=set)
    tokens: set[int] = field(default_factory=set)        # differing query tokens of requests that have several
    asked_tokens: set[int] = field(default_factory=set)
    largest: dict[int, Difference] = field(default_factory=dict)  # of out, by the bits of the number of keys
    worst_bounds: float = 0.0    # the largest of these in units of its bound; 0 where none is known
    lse_alone: bool = True       # no number of out differs
    companies: dict[str, int] = field(default_factory=dict)   # in which rows differ -> the fewest keys of one
    agreeing: set[int] = field(default_factory=set)           # numbers of keys
    unanswered: dict[str, list[str]] = field(default_factory=dict)  # why there is no answer -> in which company
    reason: str = ""             # why nothing was asked

    @property
    def answered(self) -> bool:
        return self.rows > 0 and not self.unanswered

    @property
    def holds(self) -> bool:
        """Every question was answered, and no row differs."""
        return self.answered and self.differing == 0

    @property
    def first(self) -> int | None:
        """The fewest keys of a row that differs."""
        return min(self.companies.values(), default=None)

    @property
    def agrees(self) -> int | None:
        """The most keys, fewer than those of the first row that differs, of rows which agree in all company."""
        return max((keys for keys in self.agreeing if self.first and keys < self.first), default=None)

    @property
    def tile(self) -> int | None:
        """The key at which a tile or a split ends, if bits part there."""
        return self.agrees if self.agrees and self.first == self.agrees + 1 and self.agrees % 16 == 0 else None

    def add(self, question: Question, keys: np.ndarray, home: Rows, other: Rows) -> None:
        """`keys`: how many tokens each row sees."""
        differs = np.zeros(len(keys), bool)
        for part, ((a, name), (b, _)) in enumerate(zip(home.parts(), other.parts())):
            if np.array_equal(a, b):
                continue
            rows, heads = np.nonzero((a != b).any(-1))
            x, y = floats(a[rows, heads], name), floats(b[rows, heads], name)  # [pairs of a row and a head, dim]
            unlike = (a[rows, heads] != b[rows, heads]) & ~(np.isnan(x) & np.isnan(y))
            lost, counts = unlike & ~(np.isfinite(x) & np.isfinite(y)), unlike.any(-1)
            differs[rows[counts]] = True
            self.heads.update(heads[counts].tolist())
            self.lse_alone &= part == 1 or not counts.any()
            self.nan += int(lost.sum())
            x, y = (np.where(np.isfinite(x) & np.isfinite(y), z, 0) for z in (x, y))
            sizes = np.abs(x - y)
            size = sizes.max(-1)
            if not size.any():
                continue
            largest = np.maximum(np.abs(x), np.abs(y)).max(-1)[size > 0]
            worst, worst_units = float(size.max()), float((size[size > 0] / units(largest, name)).max())
            if part == 1:
                self.worst_lse, self.worst_lse_units = max(self.worst_lse, worst), max(self.worst_lse_units, worst_units)
                continue
            self.worst, self.worst_units = max(self.worst, worst), max(self.worst_units, worst_units)
            order = np.argsort(-size)
            octaves, first = np.unique(np.frexp(keys[rows[order]])[1], return_index=True)
            for octave, i in zip(octaves.tolist(), order[first]):
                seen = Difference(size[i], question.ends[rows[i]], heads[i], sizes[i].argmax())
                self.largest[octave] = max(seen, self.largest.get(octave, seen))
        self.rows += len(keys)
        self.differing += int(differs.sum())
        if question.queries > 1:
            places = (np.asarray(question.ends) - 1) % question.queries
            self.tokens.update(places[differs].tolist())
            self.asked_tokens.update(places.tolist())
        self.agreeing.update(keys[~differs].tolist())
        if differs.any():
            fewest = int(keys[differs].min())
            self.companies[question.company] = min(fewest, self.companies.get(question.company, fewest))
        self.agreeing -= set(keys[differs].tolist())

    def notes(self, heads: int) -> list[str]:
        notes = [self.reason] if self.reason else []
        if self.differing:
            if self.worst:
                notes.append(f"out differs by up to {self.worst:.2g} ({self.worst_units:.3g} units in the last place)")
            if self.worst_bounds:
                notes.append(f"up to {self.worst_bounds:.2g} of a number's bound")
            if self.worst_bounds > 2:
                notes.append("more than two bounds: one of the two answers lies outside of the bound")
            if self.worst_lse:
                notes.append(f"lse by up to {self.worst_lse:.2g} ({self.worst_lse_units:.3g} units)")
            if not (self.worst or self.worst_lse or self.nan):
                notes.append("only signs of zeros differ")
            notes += [f"a tile or a split ends at key {self.tile}"] if self.tile else []
            notes += [f"{self.nan} numbers are NaN or infinite, and not alike"] if self.nan else []
            notes += ["lse alone"] if self.lse_alone else []
            notes += [f"heads {_ranges(self.heads)} alone"] if len(self.heads) < heads else []
            tokens = _tokens(self.tokens, self.asked_tokens)
            notes += [f"query tokens {tokens} alone"] if tokens else []
            fewest = sorted(self.companies, key=lambda company: self.companies[company])
            more = f" and {len(fewest) - FEW} more" if len(fewest) > FEW else ""
            notes.append(f"company: {', '.join(fewest[:FEW])}{more}")
        for why, questions in self.unanswered.items():
            more = f" and {len(questions) - 1} questions more" if len(questions) > 1 else ""
            notes.append(f"not answered: {questions[0]}{more}: {why}")
        return notes


def _ranges(numbers: set[int]) -> str:
    """"0 to 3, 7" of {0, 1, 2, 3, 7}."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)


def _tokens(differing: set[int], asked: set[int]) -> str:
    """Which query tokens differ: a few ranges, or the narrowest part of a tile in which all lie, at most its half. ""
    if all differ from some token on, or neither can be said."""
    if len(differing) == sum(token >= min(differing, default=0) for token in asked):
        return ""
    if (ranges := _ranges(differing)).count(",") < FEW:
        return ranges
    parts = []
    for tile in (t for t in TILES if 2 * t <= max(asked) + 1):  # a part of a tile is one if the next tile shows it, too
        places = [token % tile for token in differing]
        part = range(min(places), max(places) + 1)
        parts.append((len(part) / tile, tile, f"{_ranges(set(part))} of each {tile}"))
    share, _, text = min(parts, default=(1, 0, ""))
    return text if share <= 0.5 else ""


@dataclass(frozen=True, repr=False)
class Invariance:
    """A finding for each axis. It is true if each axis holds that could be asked, and at least one could."""

    subject: str
    heads: int
    findings: Mapping[str, Finding]
    seconds: float
    callable_seconds: float

    def __getitem__(self, axis: str) -> Finding:
        return self.findings[axis]

    def __bool__(self) -> bool:
        asked = [f for f in self.findings.values() if not f.reason]
        return bool(asked) and all(f.holds for f in asked)

    def __str__(self) -> str:
        lines = [self.subject, f"{'axis':10}  {'rows':>6}  {'differ':>6}  {'from keys':>9}"]
        for f in self.findings.values():
            state = "not asked" if f.reason else str(f.differing) if f.rows else "no answer"
            first = "" if f.first is None else str(f.first)
            notes = "; ".join(f.notes(self.heads))
            lines.append(f"{f.axis:10}  {f.rows or '':>6}  {state:>6}  {first:>9}  {notes}".rstrip())
        lines.append(f"{self.seconds:.1f} s, {self.callable_seconds:.1f} s of it in the callable")
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        bad = [f.axis for f in self.findings.values() if not f.reason and not f.holds]
        return f"<kvgold.Invariance: {'rows change along ' + ', '.join(bad) if bad else 'all that was asked holds'}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def json(self) -> dict[str, Any]:
        """For machines."""
        return {"subject": self.subject, "seconds": self.seconds, "callable_seconds": self.callable_seconds, "axes": {
            f.axis: {"rows": f.rows, "differing": f.differing, "first": f.first, "agrees": f.agrees, "tile": f.tile,
                     "worst": f.worst, "worst_units": f.worst_units, "worst_bounds": f.worst_bounds,
                     "worst_lse": f.worst_lse, "worst_lse_units": f.worst_lse_units, "nan": f.nan,
                     "lse_alone": f.lse_alone, "heads": sorted(f.heads), "tokens": sorted(f.tokens),
                     "companies": f.companies, "unanswered": f.unanswered, "reason": f.reason}
            for f in self.findings.values()}}


@dataclass(frozen=True)
class Setting:
    """What is asked of: all that a new process must know."""

    attention: Attention | str
    heads: int
    kv_heads: int
    head_dim: int
    v_dim: int
    dtype: Any
    device: str
    longest: int
    window: int
    page_sizes: Sequence[int]
    options: Mapping[str, Sequence[Any]]
    times: int
    seed: int


class Caller:
    """The callable, with the stories that it is asked about."""

    def __init__(self, of: Setting):
        self.of, self.seconds, self.reads_pages = of, 0.0, False
        self.attention = imported(of.attention) if isinstance(of.attention, str) else of.attention
        self.arrays = Arrays(of.dtype, of.device)
        random = np.random.default_rng(of.seed)
        self.stories = {name: self._story(random, size)
                        for name, size in (("own", 1), ("another", 1), ("large", 100), ("NaN", np.nan))}
        self.before = [self.arrays.bits(x)[0].copy() for x in self._tensors()]
        self.homes: dict[int, Rows] = {}
        self.options = {name: values[0] for name, values in of.options.items()}

    def _story(self, random: np.random.Generator, size: float) -> Story:
        of = self.of
        shapes = (of.heads, of.head_dim), (of.kv_heads, of.head_dim), (of.kv_heads, of.v_dim)
        q, k, v = (random.standard_normal((of.longest, *shape), np.float32) for shape in shapes)
        return Story(*map(self.arrays.numbers, (q, k * np.float32(size), v * np.float32(size))))

    def replaced(self, begin: int, end: int, other: str) -> str:
        """The row's own story with K and V of another one at tokens [begin, end)."""
        name, own, from_other = f"{other} {begin} {end}", self.stories["own"], self.stories[other]
        if name not in self.stories:
            k, v = (self.arrays.cat([x[:begin], y[begin:end], x[end:]])
                    for x, y in ((own.k, from_other.k), (own.v, from_other.v)))
            self.stories[name] = Story(own.q, k, v)
        return name

    def _tensors(self) -> list[Any]:
        return [x for name in ("own", "another", "large") for x in vars(self.stories[name]).values()]

    def changed(self) -> bool:
        """Whether the callable has written into what it was given."""
        return any(not np.array_equal(self.arrays.bits(x)[0], y) for x, y in zip(self._tensors(), self.before))

    def _batch(self, requests: Sequence[Request], pages: Pages | None = None) -> Batch:
        return Batch(self.arrays, self.stories, requests, pages or Pages(self.of.page_sizes[0]), self.of.window)

    def __call__(self, *requests: Request, pages: Pages | None = None, meanwhile: Sequence[Request] = (),
                 **options: Any) -> Rows:
        """`meanwhile`: what another stream of the device is asked."""
        rows, of, batch = sum(r.rows for r in requests), self.of, self._batch(requests, pages)
        begin = time.monotonic()
        try:
            call = functools.partial(self.attention, batch, **{**self.options, **options})
            if meanwhile:
                other = functools.partial(self.attention, self._batch(meanwhile), **self.options)
                given = self.arrays.beside(call, other)
            else:
                given = call()
            self.arrays.wait()
            self.seconds += time.monotonic() - begin
            self.reads_pages |= batch.reads_pages
            out, lse = given if isinstance(given, tuple) else (given, None)
            (out, name), (lse, of_lse) = self.arrays.bits(out), (None, "") if lse is None else self.arrays.bits(lse)
        except NoAnswer:
            raise
        except Exception as error:  # noqa: BLE001: whatever a callable throws, or gives
            self.seconds += time.monotonic() - begin
            raise NoAnswer(reason_of(error)) from error
        for what, array, shape in (("out", out, (rows, of.heads, of.v_dim)), ("lse", lse, (rows, of.heads))):
            if array is not None and array.shape != shape:
                raise NoAnswer(f"{what} has shape {list(array.shape)}, not {list(shape)}")
        if name != self.arrays.name:
            raise NoAnswer(f"out is {name}, not {self.arrays.name}")
        return Rows(out, lse, (name, of_lse))

    def home(self, length: int) -> Rows:
        """The last row of the first `length` tokens, alone in its call, its only query token."""
        if length not in self.homes:
            self.homes[length] = self(Request(length))
        return self.homes[length]

    def in_pages(self, lengths: Sequence[int]) -> bool:
        """Whether the callable reads pages, as far as it answers."""
        for n in lengths:
            try:
                self.home(n)
                break
            except NoAnswer:
                continue
        return self.reads_pages

    def seen(self, ends: Sequence[int]) -> np.ndarray:
        """How many tokens the rows see that end there."""
        return np.minimum(ends, self.of.window or self.of.longest)

    def bound(self, end: int, head: int) -> np.ndarray:
        """How far a head of a right row may be from the exact one, element by element."""
        own, kv_head = self.stories["own"], head // (self.of.heads // self.of.kv_heads)
        keys = slice(end - int(self.seen([end])[0]), end)
        q, k, v = (floats(*self.arrays.bits(x))
                   for x in (own.q[end - 1, head], own.k[keys, kv_head], own.v[keys, kv_head]))
        return out_bound(q, k, v, self.arrays.name)


def imported(name: str) -> Attention:
    module, _, function = name.partition(":")
    if not module or not function:
        raise ValueError(f"{name!r} is not MODULE:FUNCTION")
    found: Attention = getattr(importlib.import_module(module), function)
    return found


def neighbours(longest: int, lengths: Sequence[int], story: str = "another") -> list[Request]:
    """Requests of other data, each from another place on."""
    begins = [37 * i % (longest // 2 + 1) for i in range(len(lengths))]
    return [Request(min(begin + length, longest), 1, begin, story) for begin, length in zip(begins, lengths)]


# ---- The axes. Each yields its questions, about rows that see so many tokens ----

Questions = Iterator[Question]


def repeat(ask: Caller, lengths: Sequence[int]) -> Questions:
    some = {lengths[len(lengths) // 2], lengths[-1]}
    prefill = min(128, ask.of.longest)
    for call in range(ask.of.times):
        for n in some:
            yield Question("the same call again", [n], lambda: ask.home(n), lambda: ask(Request(n)))
        if call == 0:
            whole = functools.cache(lambda: ask(Request(prefill, prefill)))
        yield Question("the same prefill again", range(1, prefill + 1), whole,
                       lambda: ask(Request(prefill, prefill)), prefill)


def at_the_end(ask: Caller, lengths: Sequence[int]) -> Questions:
    for n in sorted(ask.homes):
        yield Question("the same call after all others", [n], lambda: ask.home(n), lambda: ask(Request(n)))


def batch(ask: Caller, lengths: Sequence[int]) -> Questions:
    for n in lengths:
        for count in BATCHES:
            if count * n <= 8 * max(ask.of.longest, DENSE):
                yield Question(f"a batch of {count}", [n], lambda: ask.home(n), lambda: ask(*[Request(n)] * count)[:1])


def place(ask: Caller, lengths: Sequence[int]) -> Questions:
    others = neighbours(ask.of.longest, (5, 64, 100, 300, 17, 200, 128))

    def at(n: int, where: int) -> Rows:
        return ask(*others[:where], Request(n), *others[where:])[where:where + 1]

    for n in lengths:
        home = functools.cache(lambda: at(n, 0))
        for where in (1, 3, len(others)):
            yield Question(f"place {where + 1} of {len(others) + 1}", [n], home, lambda: at(n, where))


def beside(ask: Caller, lengths: Sequence[int]) -> Questions:
    longest = ask.of.longest
    company = {"others of 1 token": neighbours(longest, (1,) * 3),
               "others of mixed lengths": neighbours(longest, (3, 300, 129)),
               f"others of {longest - longest // 2} tokens or more": neighbours(longest, (longest,) * 3),
               "others with large numbers": neighbours(longest, (64,) * 3, "large"),
               "others with NaN": neighbours(longest, (64,) * 3, "NaN")}
    for n in lengths:
        home = functools.cache(lambda: ask(Request(n), *neighbours(longest, (64,) * 3))[:1])
        for text, others in company.items():
            yield Question(text, [n], home, lambda: ask(Request(n), *others)[:1])


def queries(ask: Caller, lengths: Sequence[int]) -> Questions:
    for n in lengths:
        for count in QUERIES:
            if count <= n:
                yield Question(f"{count} query tokens", [n], lambda: ask.home(n), lambda: ask(Request(n, count))[-1:])


def prefill(ask: Caller, lengths: Sequence[int]) -> Questions:
    asked = all_lengths(ask.of.longest)
    yield Question(f"a prefill of {ask.of.longest} tokens", asked, lambda: joined([ask.home(n) for n in asked]),
                   lambda: ask(Request(ask.of.longest, ask.of.longest))[np.array(asked) - 1], ask.of.longest)


def chunks(ask: Caller, lengths: Sequence[int]) -> Questions:
    total = min(ask.of.longest, 512)
    whole = functools.cache(lambda: ask(Request(total, total)))

    def cut(size: int) -> Rows:
        return joined([ask(Request(min(i + size, total), min(size, total - i))) for i in range(0, total, size)])

    for size in CHUNKS:
        if size < total:
            yield Question(f"chunks of {size} tokens", range(1, total + 1), whole, lambda: cut(size), size)


def hidden(ask: Caller, lengths: Sequence[int]) -> Questions:
    total, end, window = min(ask.of.longest, 512), ask.of.longest, ask.of.window
    seen = total // 2
    whole = functools.cache(lambda: ask(Request(total, total))[:seen])
    for other, text in (("another", "other tokens"), ("NaN", "tokens of NaN")):
        if seen:
            yield Question(f"{text} after the row", range(1, seen + 1), whole,
                           lambda: ask(Request(total, total, story=ask.replaced(seen, total, other)))[:seen], total)
        if 0 < window < end:
            yield Question(f"{text} before the window", [end], lambda: ask.home(end),
                           lambda: ask(Request(end, story=ask.replaced(0, end - window, other))))


def _laid(ask: Caller, lengths: Sequence[int], pages: Mapping[str, Pages], twice: bool = False) -> Questions:
    """The first of `pages` is the home of the others."""
    def asked(n: int, of: Pages) -> Rows:
        return ask(*[Request(n)] * (1 + twice), pages=of)[:1]

    first, *others = pages.items()
    for n in lengths if ask.in_pages(lengths) else ():
        home = functools.cache(lambda: asked(n, first[1]))
        for text, of in others:
            yield Question(text, [n], home, lambda: asked(n, of))


def pages(ask: Caller, lengths: Sequence[int]) -> Questions:
    orders = "ascending", "descending", "shuffled", "spread"
    return _laid(ask, lengths, {f"{order} pages": Pages(ask.of.page_sizes[0], order) for order in orders})


def page_size(ask: Caller, lengths: Sequence[int]) -> Questions:
    return _laid(ask, lengths, {f"pages of {size} tokens": Pages(size) for size in ask.of.page_sizes})


def prefix(ask: Caller, lengths: Sequence[int]) -> Questions:
    size = ask.of.page_sizes[0]
    return _laid(ask, lengths, {"pages of its own": Pages(size), "shared pages": Pages(size, shared=True)}, twice=True)


def unowned(ask: Caller, lengths: Sequence[int]) -> Questions:
    size = ask.of.page_sizes[0]
    return _laid(ask, lengths, {f"{value:g} where no token is": Pages(size, unowned=value) for value in (0.0, 448.0, np.nan)})


def before(ask: Caller, lengths: Sequence[int]) -> Questions:
    end, window = ask.of.longest, ask.of.window
    home = functools.cache(lambda: ask(Request(end, 1, end - window)))
    for count in (*HIDDEN, end - window):
        if window and count <= end - window:
            yield Question(f"{count} tokens before the window", [end], home,
                           lambda: ask(Request(end, 1, end - window - count)))


def options(ask: Caller, lengths: Sequence[int]) -> Questions:
    for n in lengths:
        for name, values in ask.of.options.items():
            for value in values[1:]:
                yield Question(f"{name} {value}", [n], lambda: ask.home(n), lambda: ask(Request(n), **{name: value}))


def streams(ask: Caller, lengths: Sequence[int]) -> Questions:
    if not ask.arrays.streams:
        return
    longest, count = ask.of.longest, min(ask.of.longest, 512)
    company = {"a prefill": [Request(longest, count, story="another")],
               f"a batch of {STREAM_BATCH}": [Request(longest, story="another")] * STREAM_BATCH}
    whole = functools.cache(lambda: ask(Request(count, count)))
    for _ in range(ask.of.times):
        for text, others in company.items():
            for n in (lengths[len(lengths) // 2], lengths[-1]):
                yield Question(f"{text} in another stream", [n], lambda: ask.home(n),
                               lambda: ask(Request(n), meanwhile=others))
            yield Question(f"{text} in another stream", range(1, count + 1), whole,
                           lambda: ask(Request(count, count), meanwhile=others), count)


def _answers(of: Setting, lengths: Sequence[int]) -> list[Rows] | str:
    try:
        ask = Caller(of)
        return [ask.home(n) for n in lengths]
    except Exception as error:  # noqa: BLE001: to the other process as text
        return str(error)


def process(ask: Caller, lengths: Sequence[int]) -> Questions:
    def anew() -> Rows:
        begin = time.monotonic()
        try:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                given = pool.apply(_answers, (ask.of, lengths))
        except Exception as error:  # noqa: BLE001: a callable that cannot be given to another process
            raise NoAnswer(reason_of(error)) from error
        ask.seconds += time.monotonic() - begin  # its imports, above all
        if isinstance(given, str):
            raise NoAnswer(given)
        return joined(given)

    if isinstance(ask.of.attention, (str, functools.partial)):
        yield Question("a new process", lengths, lambda: joined([ask.home(n) for n in lengths]), anew)


ASKED: tuple[tuple[str, Callable[[Caller, Sequence[int]], Questions]], ...] = (
    ("repeat", repeat), ("batch", batch), ("place", place), ("neighbours", beside), ("queries", queries), ("queries", prefill),
    ("chunks", chunks), ("pages", pages), ("page_size", page_size), ("prefix", prefix), ("unowned", unowned),
    ("hidden", hidden), ("before", before), ("options", options), ("process", process), ("streams", streams),
    ("repeat", at_the_end))
AXES = tuple(dict.fromkeys(name for name, _ in ASKED))
BY_LENGTH = {batch, place, beside, queries, pages, page_size, prefix, unowned, options}  # one length, one question

NO_PAGES = "the callable reads no pages"
WHY_NOT = {"pages": NO_PAGES, "page_size": NO_PAGES, "prefix": NO_PAGES, "unowned": NO_PAGES,
           "before": "no window below `longest` is given", "options": "no option is given",
           "process": "give the callable as \"module:function\"", "streams": "the device has no streams",
           "chunks": "`longest` is too short", "hidden": "`longest` is too short"}


def all_lengths(longest: int) -> list[int]:
    powers = [2 ** i + d for i in range(1, longest.bit_length() + 1) for d in (-1, 0, 1)]
    return sorted({n for n in [*range(1, min(DENSE, longest) + 1), *powers, longest] if 1 <= n <= longest})


def some_lengths(longest: int) -> list[int]:
    powers = [2 ** i + d for i in range(4, longest.bit_length() + 1) for d in (0, 1)]
    return sorted({n for n in [1, 2, *EDGES, *powers, longest] if n <= longest})


def _judge(ask: Caller, question: Question, finding: Finding) -> None:
    keys = ask.seen(question.ends)
    try:
        finding.add(question, keys, question.home(), question.other())
    except NoAnswer as error:
        which = f"{question.company}, {'' if len(keys) == 1 else 'up to '}{max(keys)} keys"
        finding.unanswered.setdefault(str(error), []).append(which)


def _bisect(ask: Caller, axis: Callable[[Caller, Sequence[int]], Questions], finding: Finding) -> None:
    """The length at which bits begin to part, where a tile may end: between one that agrees and one that does not. It ends
    early where the company cannot be had at a length, such as 129 query tokens of 112."""
    while finding.first and finding.agrees and finding.first - finding.agrees > 1 and not finding.unanswered:
        company = min(finding.companies, key=lambda c: finding.companies[c])
        before = finding.rows
        for question in axis(ask, [(finding.first + finding.agrees) // 2]):
            if question.company == company:  # asked while the generator stands at it, whose names it has
                _judge(ask, question, finding)
        if finding.rows == before:
            return


def invariance(attention: Attention | str, *, heads: int = 32, kv_heads: int = 8, head_dim: int = 128, v_dim: int | None = None,
               dtype: Any = np.float32, device: str = "cpu", longest: int = 2048, window: int = 0,
               page_sizes: Sequence[int] = BLOCK_SIZES, options: Mapping[str, Sequence[Any]] | None = None,
               axes: Sequence[str] | None = None, times: int = 100, seed: int = 0, bounded: bool = True) -> Invariance:
    """Asks the same rows of attention again in other company, and compares the callable with itself, bit for bit.

        def attention(batch):
            return torch.cat([my_kernel(q, k, v) for q, k, v in ...])    # out, or (out, lse)

        report = kvgold.invariance(attention, dtype=torch.bfloat16)      # Llama-3-8B's sizes, up to 2,048 tokens
        print(report); assert report["batch"].holds

    A callable takes a Batch (help(kvgold.Batch) has its arrays: of `dtype`, a torch dtype or a numpy one, on `device`). It
    gives `out` [rows, heads, v_dim] of that type, or out and `lse` [rows, heads]. As text, "module:function", or as a
    functools.partial of a module's function it is asked in a new process, too.

        window    tokens that a row sees, its own included; the callable heeds it
        options   what the callable takes besides, by name: {"num_splits": [1, 2, 4]}. The first values are its home
        axes      some of AXES, and `repeat`; all that make sense if None
        times     how often the same call is made
        bounded   False: the callable computes with other K and V than the batch's, such as quantised ones, so that no share
                  of a bound is told

    An exception of the callable costs its question alone, and the axis is not answered."""
    __tracebackhide__ = True
    for axis in axes or ():
        if axis not in AXES:
            raise ValueError(f"no axis {axis!r}{nearest(axis, AXES)}; axes: {', '.join(AXES)}")
    if heads % kv_heads or min(heads, kv_heads, head_dim, longest, times, *page_sizes) < 1 or window < 0:
        raise ValueError("heads must be a multiple of kv_heads, and all sizes positive")
    of = Setting(attention, heads, kv_heads, head_dim, v_dim or head_dim, dtype, device, longest, window, tuple(page_sizes),
                 dict(options or {}), times, seed)
    begin, ask = time.monotonic(), Caller(of)
    name = attention if isinstance(attention, str) else getattr(attention, "__qualname__", type(attention).__name__)
    findings = {axis: Finding(axis) for axis in (AXES if axes is None else dict.fromkeys(["repeat", *axes]))}
    sparse, unsteady = some_lengths(longest), False
    with Progress(f"kvgold.invariance: asking {name}") as progress:
        for axis, questions in ASKED:
            finding = findings.get(axis)
            if finding is None or unsteady:
                continue
            for number, question in enumerate(questions(ask, sparse)):
                progress.what = f"kvgold.invariance: axis {axis}, question {number + 1}: {question.company}"
                _judge(ask, question, finding)
            if questions in BY_LENGTH:
                _bisect(ask, questions, finding)
            if ask.changed():
                raise ValueError(f"the callable has written into its arguments (axis {axis}): give it copies")
            unsteady = axis == "repeat" and finding.differing > 0
    for finding in findings.values():
        if finding.largest and bounded and ask.arrays.name in OPERANDS:
            finding.worst_bounds = max(float(d.size / ask.bound(d.end, d.head)[d.element])
                                       for d in finding.largest.values())
        if not finding.rows and not finding.unanswered:
            finding.reason = ("the same call gives other bits" if unsteady else
                              "one page size is given" if finding.axis == "page_size" and ask.reads_pages else
                              WHY_NOT.get(finding.axis, "nothing to ask"))
    subject = (f"{name}: {ask.arrays.name} on {device}, {heads} query heads, {kv_heads} KV heads, head_dim {head_dim}, up to "
               f"{longest} tokens" + (f", window {window}" if window else "") + f", seed {seed}")
    return Invariance(subject, heads, findings, time.monotonic() - begin, ask.seconds)
