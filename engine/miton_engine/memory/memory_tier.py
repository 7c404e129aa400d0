"""The memory tier: payloads by key, least recently used out first, pinned ones never. Not thread-safe."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator

from miton_engine.errors import StoreError
from miton_engine.memory.payload import Payload


class MemoryTier:
    """Holds at most `limit` bytes of tensors, more only while pinned payloads alone exceed it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self.evictions = 0
        self._payloads: OrderedDict[str, Payload] = OrderedDict()
        self._pins: Counter[str] = Counter()

    def get(self, key: str) -> Payload | None:
        payload = self._payloads.get(key)
        if payload is not None:
            self._payloads.move_to_end(key)
        return payload

    def put(self, payload: Payload) -> None:
        self.remove(payload.key)
        self._payloads[payload.key] = payload
        self.bytes += payload.nbytes
        self._evict()

    def remove(self, key: str) -> bool:
        payload = self._payloads.pop(key, None)
        self.bytes -= payload.nbytes if payload else 0
        return payload is not None

    def pin(self, keys: Iterable[str]) -> None:
        """Count one more pin for each key, stored or not."""
        self._pins.update(keys)

    def unpin(self, keys: Iterable[str]) -> None:
        """Take one pin back from each key. Raises StoreError, and changes nothing, if one has none."""
        taken = Counter(keys)
        if missing := [key for key in taken if self._pins[key] < taken[key]]:
            raise StoreError(f"unpin() without pin() for {missing[0]}. Use `with store.pinned(keys):`.")
        self._pins = +(self._pins - taken)
        self._evict()

    @property
    def pinned(self) -> frozenset[str]:
        return frozenset(self._pins)

    def _evict(self) -> None:
        if self.bytes <= self.limit:
            return
        for key in [key for key in self._payloads if key not in self._pins]:
            if self.bytes <= self.limit:
                return
            self.remove(key)
            self.evictions += 1

    def __contains__(self, key: str) -> bool:
        return key in self._payloads

    def __iter__(self) -> Iterator[str]:
        return iter(self._payloads)

    def __len__(self) -> int:
        return len(self._payloads)
