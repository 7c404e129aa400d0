"""Numbers about samples: percentiles, and 95% intervals of paired differences."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

BOOTSTRAP_ROUNDS = 2000
SEED = 0


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its 95% interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of `values` lie, interpolated linearly (numpy's default)."""
    if not values:
        raise ValueError("A percentile of no values is not defined.")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return percentile(values, 0.5)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    if not values:
        raise ValueError("A mean of no values is not defined.")
    return math.fsum(values) / len(values)


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Mean of ours - theirs over the same tasks, with its bootstrap percentile interval (Efron, 1979)."""
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    generator = random.Random(SEED)
    means = sorted(mean(generator.choices(differences, k=len(differences))) for _ in range(BOOTSTRAP_ROUNDS))
    return Interval(mean(differences), percentile(means, 0.025), percentile(means, 0.975))


def proportion(passed: int, count: int) -> Interval:
    """Share of passes with its Wilson interval (Wilson, 1927), which holds near 0 and 1, too."""
    if count == 0:
        raise ValueError("A proportion of no trials is not defined.")
    z = 1.959964
    share = passed / count
    scale = 1 + z * z / count
    centre = (share + z * z / (2 * count)) / scale
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / scale
    return Interval(share, centre - spread, centre + spread)


def edit_similarity(first: str, second: str) -> float:
    """1 - Levenshtein distance / longer length; 1 for two empty strings (as CrossCodeEval, 2023)."""
    if not first and not second:
        return 1.0
    row = list(range(len(second) + 1))
    for index, letter in enumerate(first, 1):
        diagonal, row[0] = row[0], index
        for place, other in enumerate(second, 1):
            diagonal, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, diagonal + (letter != other)),
            )
    return 1.0 - row[-1] / max(len(first), len(second))
