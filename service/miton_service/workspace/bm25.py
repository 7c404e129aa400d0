"""BM25 over the identifiers of chunks (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from miton_lsp.chunking import Chunk
from miton_service.workspace.identifiers import identifiers, terms

K1, B = 1.2, 0.75
COMMON_SHARE = 0.15  # a term in more of the chunks than this says nothing, and its postings are long
COMMON_FLOOR = 50  # chunks: below this every term counts

Postings = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Numbers of the chunks that hold a term, and how often each does."""


class BM25Index:
    """Chunks by the terms of their path, symbol and identifiers; files are replaced one at a time. Not locked."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[int, int]] = {}  # term -> chunk number -> occurrences
        self._arrays: dict[str, Postings] = {}  # the same as arrays, made when a query first needs them
        self._chunks: list[Chunk | None] = []
        self._terms: list[tuple[str, ...]] = []
        self._lengths = np.zeros(1024, np.float32)  # [capacity] terms of each chunk
        self._free: list[int] = []
        self._by_path: dict[str, dict[str, list[int]]] = {}  # path -> content hash -> chunk numbers
        self._total = 0.0

    def __len__(self) -> int:
        return len(self._chunks) - len(self._free)

    def replace(self, path: str, chunks: Sequence[Chunk]) -> None:
        """The chunks of `path` are now these; only those whose content is new are looked into."""
        before = self._by_path.pop(path, {})
        now: dict[str, list[int]] = {}
        new: list[Chunk] = []
        for chunk in chunks:
            if kept := before.get(chunk.content_hash):
                number = kept.pop()
                self._chunks[number] = chunk  # its lines may have moved
                now.setdefault(chunk.content_hash, []).append(number)
            else:
                new.append(chunk)
        gone = [number for numbers in before.values() for number in numbers]
        for chunk in new:
            number = gone.pop() if gone else self._new_number()
            self._set(number, chunk)
            now.setdefault(chunk.content_hash, []).append(number)
        for number in gone:
            self._set(number, None)
            self._free.append(number)
        if now:
            self._by_path[path] = now

    def rank(self, query: Mapping[str, float], top: int) -> list[tuple[Chunk, float, str]]:
        """The `top` chunks for weighted query terms: (chunk, score, the term that spoke most for it)."""
        count = len(self)
        if count == 0:
            return []
        average = self._total / count or 1.0
        scores = np.zeros(len(self._chunks), np.float32)
        weights: dict[str, float] = {}
        for term, weight in query.items():
            counts = self._counts.get(term)
            if counts is None or weight <= 0 or len(counts) > max(COMMON_FLOOR, COMMON_SHARE * count):
                continue
            weights[term] = weight * math.log(1 + (count - len(counts) + 0.5) / (len(counts) + 0.5))
            numbers, frequencies = self._postings(term, counts)
            norm = K1 * (1 - B + B * self._lengths[numbers] / average)
            scores[numbers] += weights[term] * (K1 + 1) * frequencies / (frequencies + norm)
        found = min(top, int(np.count_nonzero(scores)))
        if found == 0:
            return []
        best = np.argpartition(-scores, found - 1)[:found]
        best = best[np.lexsort((best, -scores[best]))]
        return [self._result(int(number), float(scores[number]), weights) for number in best]

    def _result(self, number: int, score: float, weights: Mapping[str, float]) -> tuple[Chunk, float, str]:
        chunk = self._chunks[number]
        assert chunk is not None
        strongest = max(
            (term for term in self._terms[number] if term in weights),
            key=lambda term: weights[term] * self._counts[term][number] / (self._counts[term][number] + K1),
        )
        return chunk, score, strongest

    def _postings(self, term: str, counts: Mapping[int, int]) -> Postings:
        arrays = self._arrays.get(term)
        if arrays is None:
            size = len(counts)
            arrays = (
                np.fromiter(counts.keys(), np.int32, size),
                np.fromiter(counts.values(), np.float32, size),
            )
            self._arrays[term] = arrays
        return arrays

    def _new_number(self) -> int:
        if self._free:
            return self._free.pop()
        self._chunks.append(None)
        self._terms.append(())
        if len(self._chunks) > len(self._lengths):
            self._lengths = np.concatenate([self._lengths, np.zeros_like(self._lengths)])
        return len(self._chunks) - 1

    def _set(self, number: int, chunk: Chunk | None) -> None:
        """Put a chunk (or nothing) in a place. An edit changes few counts: arrays of the others stay valid."""
        counts = Counter[str]()
        if chunk is not None:
            words = identifiers(f"{chunk.path} {chunk.symbol} {chunk.header} {chunk.text}")
            counts = Counter(term for name in words for term in terms(name))
        for term in self._terms[number]:
            if term not in counts:
                holders = self._counts[term]
                del holders[number]
                if not holders:
                    del self._counts[term]
                self._arrays.pop(term, None)
        for term, occurrences in counts.items():
            holders = self._counts.setdefault(term, {})
            if holders.get(number) != occurrences:
                holders[number] = occurrences
                self._arrays.pop(term, None)
        self._total += counts.total() - float(self._lengths[number])
        self._lengths[number] = counts.total()
        self._chunks[number], self._terms[number] = chunk, tuple(counts)
