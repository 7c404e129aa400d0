"""Percentiles, intervals and edit similarity, against numpy and against what is known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miton_service.bench.statistics import (
    edit_similarity,
    mean,
    paired_difference,
    percentile,
    proportion,
)

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


@given(numbers, st.floats(0, 1))
def test_percentiles_are_numpys(values: list[float], share: float) -> None:
    assert percentile(values, share) == pytest.approx(float(np.quantile(values, share)), rel=1e-9, abs=1e-6)


def test_statistics_of_nothing_are_refused() -> None:
    for function in (lambda: percentile([], 0.5), lambda: mean([]), lambda: proportion(0, 0)):
        with pytest.raises(ValueError, match="not defined"):
            function()


def test_a_paired_interval_covers_the_true_difference_about_95_times_in_100() -> None:
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(100):
        theirs = generator.normal(2.0, 1.0, 60)
        ours = theirs + generator.normal(0.3, 0.5, 60)
        interval = paired_difference(list(ours), list(theirs))
        covered += interval.low <= 0.3 <= interval.high
    assert 88 <= covered <= 100


def test_pairing_removes_what_both_systems_share() -> None:
    theirs = [float(value) for value in range(100)]
    interval = paired_difference([value + 0.5 for value in theirs], theirs)
    assert interval.low == pytest.approx(0.5)
    assert interval.high == pytest.approx(0.5)


def test_unpaired_samples_are_refused() -> None:
    with pytest.raises(ValueError):
        paired_difference([1.0, 2.0], [1.0])


def test_the_wilson_interval_is_the_published_one() -> None:
    interval = proportion(8, 10)  # Wilson without continuity correction: 0.4902 to 0.9433
    assert interval.low == pytest.approx(0.4902, abs=1e-4)
    assert interval.high == pytest.approx(0.9433, abs=1e-4)


def _levenshtein(first: str, second: str) -> int:
    """The definition, by recursion."""
    if not first or not second:
        return len(first) + len(second)
    return min(
        _levenshtein(first[1:], second) + 1,
        _levenshtein(first, second[1:]) + 1,
        _levenshtein(first[1:], second[1:]) + (first[0] != second[0]),
    )


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_edit_similarity_is_one_minus_the_edit_distance(first: str, second: str) -> None:
    longer = max(len(first), len(second))
    expected = 1.0 if longer == 0 else 1 - _levenshtein(first, second) / longer
    assert edit_similarity(first, second) == pytest.approx(expected)
