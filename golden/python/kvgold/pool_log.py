"""Writes the log of a block manager for `kvgold pool audit`: docs/guide/pool-audit.md. Each method writes one event."""

from __future__ import annotations

import json
from typing import Any, Iterable, Sequence

Name = str | int


class PoolLog:
    """A log file, which begins with its head. Each event is a line that is written at once, so that a crash tears one
    line at most. The lists of blocks stand in the order of the tokens. An argument that is None is not in the event."""

    def __init__(self, path: str, blocks: int, block_tokens: int, *, engine: str | None = None,
                 host_blocks: int | None = None, **promises: bool):
        """`promises`: the flags of the head (docs/spec/paging.md section 7), such as evicts_on_allocate=True."""
        self.events = 0
        self._file = open(path, "w", buffering=1, encoding="utf-8")
        head: dict[str, Any] = {"kvgold_pool_log": 1, "blocks": blocks, "block_tokens": block_tokens, **promises}
        others = {"engine": engine, "host_blocks": host_blocks}
        self._write({**head, **{key: value for key, value in others.items() if value is not None}})

    def __enter__(self) -> PoolLog:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _write(self, fields: dict[str, Any]) -> None:
        self._file.write(json.dumps(fields) + "\n")

    def _event(self, event: str, **fields: Any) -> None:
        self.events += 1
        self._write({"event": event, **{key: value for key, value in fields.items() if value is not None or key == "salt"}})

    def allocate(self, sequence: Name, blocks: Iterable[int]) -> None:
        self._event("allocate", sequence=sequence, blocks=list(blocks))

    def hit(self, sequence: Name, blocks: Iterable[int], *, hashes: Sequence[Name] | None = None,
            salt: Name | None = None, tokens: Sequence[int] | None = None) -> None:
        """`salt`: None is that of requests without a salt."""
        self._event("hit", sequence=sequence, blocks=list(blocks), hashes=hashes, salt=salt, tokens=tokens)

    def free(self, sequence: Name, blocks: Iterable[int] | None = None) -> None:
        self._event("free", sequence=sequence, blocks=None if blocks is None else list(blocks))

    def evict(self, blocks: Iterable[int]) -> None:
        self._event("evict", blocks=list(blocks))

    def forget(self, blocks: Iterable[int]) -> None:
        self._event("forget", blocks=list(blocks))

    def write(self, sequence: Name, block: int, first: int, count: int) -> None:
        self._event("write", sequence=sequence, block=block, first=first, count=count)

    def copy(self, sequence: Name, source: int, target: int) -> None:
        self._event("copy", sequence=sequence, **{"from": source, "to": target})

    def offload(self, source: int, target: int) -> None:
        """`target` is of the host: its ids follow those of the pool."""
        self._event("offload", **{"from": source, "to": target})

    def read(self, sequence: Name, blocks: Iterable[int]) -> None:
        self._event("read", sequence=sequence, blocks=list(blocks))

    def store(self, block: int, hash: Name, *, parent: Name | None = None, salt: Name | None = None,
              tokens: Sequence[int] | None = None) -> None:
        """`parent` is None if the log does not say it."""
        self._event("store", block=block, hash=hash, parent=parent, salt=salt, tokens=tokens)

    def clear(self) -> None:
        self._event("clear")

    def counts(self, *, free: int | None = None, cached: int | None = None, held: int | None = None,
               available: int | None = None) -> None:
        self._event("counts", free=free, cached=cached, held=held, available=available)

    def end(self) -> None:
        self._event("end")
