"""BM25 over the identifiers of chunks (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009)."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from miton_lsp.chunking import Chunk
from miton_service.workspace.identifiers import identifiers, terms

K1, B = 1.2, 0.75
COMMON_SHARE = 0.15  # a term in more of the chunks than this says nothing, and its postings are long
COMMON_FLOOR = 50  # chunks: below this every term counts


class BM25Index:
    """Chunks by the terms of their path, symbol and identifiers; files are replaced one at a time. Not locked."""

    def __init__(self) -> None:
        self._postings: dict[str, dict[int, int]] = {}
        self._chunks: dict[int, Chunk] = {}
        self._terms: dict[int, Counter[str]] = {}
        self._lengths: dict[int, int] = {}
        self._by_path: dict[str, list[int]] = {}
        self._next = 0
        self._total = 0

    def __len__(self) -> int:
        return len(self._chunks)

    def replace(self, path: str, chunks: Sequence[Chunk]) -> None:
        """The chunks of `path` are now these."""
        for number in self._by_path.pop(path, ()):
            for term in self._terms.pop(number):
                postings = self._postings[term]
                del postings[number]
                if not postings:
                    del self._postings[term]
            self._total -= self._lengths.pop(number)
            del self._chunks[number]
        for chunk in chunks:
            number, self._next = self._next, self._next + 1
            counts = Counter(
                term for name in identifiers(f"{chunk.path} {chunk.symbol} {chunk.header} {chunk.text}")
                for term in terms(name)
            )  # fmt: skip
            for term, count in counts.items():
                self._postings.setdefault(term, {})[number] = count
            length = sum(counts.values())
            self._chunks[number], self._terms[number], self._lengths[number] = chunk, counts, length
            self._total += length
            self._by_path.setdefault(path, []).append(number)

    def rank(self, query: Mapping[str, float], top: int) -> list[tuple[Chunk, float, str]]:
        """The `top` chunks for weighted query terms: (chunk, score, the term that spoke most for it)."""
        if not self._chunks:
            return []
        count, average = len(self._chunks), self._total / len(self._chunks)
        scores: dict[int, float] = {}
        strongest: dict[int, tuple[float, str]] = {}
        for term, weight in query.items():
            postings = self._postings.get(term)
            if postings is None or len(postings) > max(COMMON_FLOOR, COMMON_SHARE * count):
                continue
            idf = math.log(1 + (count - len(postings) + 0.5) / (len(postings) + 0.5)) * weight
            for number, frequency in postings.items():
                norm = K1 * (1 - B + B * self._lengths[number] / average)
                part = idf * frequency * (K1 + 1) / (frequency + norm)
                scores[number] = scores.get(number, 0.0) + part
                if part > strongest.get(number, (0.0, ""))[0]:
                    strongest[number] = (part, term)
        best = heapq.nlargest(top, scores.items(), key=lambda item: (item[1], -item[0]))
        return [(self._chunks[number], score, strongest[number][1]) for number, score in best]
