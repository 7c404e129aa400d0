"""Speculation by n-gram lookup: what followed the last tokens before is the draft (prompt lookup decoding).

The draft comes from the attached chunks and the document itself; the model verifies all of it in one step, so
under greedy decoding the output is the one without speculation (speculative decoding, arXiv 2211.17192).
"""

from __future__ import annotations

from collections.abc import Sequence


class NgramIndex:
    """Positions of n-grams in a growing token sequence; the latest occurrence wins."""

    def __init__(self, token_ids: Sequence[int] = (), orders: tuple[int, ...] = (4, 3, 2)) -> None:
        self.orders = orders
        self.token_ids: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}
        self.extend(token_ids)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append tokens. An n-gram is indexed once something follows it."""
        start = len(self.token_ids)
        self.token_ids.extend(token_ids)
        for end in range(max(start, 1), len(self.token_ids)):
            for order in self.orders:
                if end >= order:
                    self._after[tuple(self.token_ids[end - order : end])] = end

    def draft(self, length: int) -> list[int]:
        """Up to `length` tokens that followed the longest matching n-gram at the end of the sequence."""
        for order in self.orders:
            follow = self._after.get(tuple(self.token_ids[-order:])) if len(self.token_ids) >= order else None
            if follow is not None:
                return self.token_ids[follow : follow + length]
        return []
