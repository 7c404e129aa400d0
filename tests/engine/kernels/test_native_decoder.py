"""The fused decode step against the same step in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from miton_engine.errors import ModelError
from miton_engine.kernels.native import NativeDecoder
from miton_engine.kernels.reference import ReferenceDecoder

Make = Callable[..., NativeDecoder]
Checkpoints = Callable[..., Any]
Tables = Callable[..., tuple[torch.Tensor, torch.Tensor]]
SLOTS = 300


@pytest.fixture(scope="module")
def make(library_cache: Path, flags: tuple[str, ...], rotary_tables: Tables) -> Make:
    def build(checkpoint: Any, threads: int = 2, quantization: Any = "native") -> NativeDecoder:
        return NativeDecoder(
            checkpoint,
            *rotary_tables(checkpoint.config),
            cache=library_cache,
            threads=threads,
            quantization=quantization,
            extra_flags=flags,
        )

    return build


def random_cache(config: Any, seed: int, slots: int = SLOTS) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (config.num_layers, config.num_kv_heads, slots, config.head_dim)
    return tuple(torch.randn(shape, generator=generator).bfloat16() for _ in range(2))  # type: ignore[return-value]


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    return ((got - expected).norm() / expected.norm()).item()


@pytest.fixture(scope="module")
def compare(make: Make, rotary_tables: Tables) -> Callable[..., None]:
    def check(checkpoint: Any, threads: int, *step: Any, seed: int = 0) -> None:
        compare_step(make, rotary_tables, checkpoint, threads, *step, seed=seed)

    return check


def compare_step(
    make: Make, rotary_tables: Tables, checkpoint: Any, threads: int, *step: Any, seed: int
) -> None:
    reference = ReferenceDecoder(checkpoint, *rotary_tables(checkpoint.config), round_activations=True)
    keys, values = random_cache(checkpoint.config, seed)
    k, v = keys.clone(), values.clone()
    token_ids, positions, slot, ranges = step
    expected = reference.step(token_ids, positions, slot, k, v, ranges)
    decoder = make(checkpoint, threads)
    got = decoder.step(token_ids, positions, slot, keys, values, ranges)
    # What is left: bf16 queries and softmax weights, and activations half-way between two int8 values.
    assert relative_error(got, expected) < 0.03
    new = slice(slot, slot + len(token_ids))
    assert relative_error(keys[:, :, new].float(), k[:, :, new].float()) < 0.03
    assert relative_error(values[:, :, new].float(), v[:, :, new].float()) < 0.03
    old = [i for i in range(SLOTS) if not new.start <= i < new.stop]
    assert torch.equal(keys[:, :, old], k[:, :, old])
    assert torch.equal(values[:, :, old], v[:, :, old])
    decoder.release()


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]),
    head_dim=st.sampled_from([32, 64, 128]),
    kv_heads=st.integers(1, 3),
    group=st.sampled_from([1, 2, 7]),
    tied=st.booleans(),
    bias=st.booleans(),
    qk_norm=st.booleans(),
    tokens=st.integers(1, 16),
    past=st.integers(0, 280),
    threads=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_a_step_equals_the_reference(
    compare: Callable[..., None],
    random_checkpoint: Checkpoints,
    kind: str,
    head_dim: int,
    kv_heads: int,
    group: int,
    tied: bool,
    bias: bool,
    qk_norm: bool,
    tokens: int,
    past: int,
    threads: int,
    seed: int,
) -> None:
    if kind.endswith("K") and kv_heads * group * head_dim % 256:
        kind = "Q5_0"
    checkpoint = random_checkpoint(
        kind,
        None if tied else "Q8_0",
        head_dim=head_dim,
        kv_heads=kv_heads,
        group=group,
        bias=bias,
        qk_norm=qk_norm,
        seed=seed,
    )
    token_ids = [(7 * i + seed) % 333 for i in range(tokens)]
    positions = [past + 2 * i for i in range(tokens)]  # free of the slots
    compare(checkpoint, threads, token_ids, positions, past, [(0, past)], seed=seed)


def test_ranges_may_lie_on_both_sides_of_the_new_slots(
    compare: Callable[..., None], random_checkpoint: Checkpoints
) -> None:
    ranges = [(0, 3), (40, 110), (110, 110), (205, 300)]
    for threads in (1, 2, 3):
        compare(random_checkpoint(kv_heads=2), threads, [1, 2, 3], [9, 10, 11], 200, ranges)


def test_each_head_of_each_layer_may_see_its_own_ranges(
    compare: Callable[..., None], random_checkpoint: Checkpoints
) -> None:
    ranges = [[[(0, 5)], [(10, 90), (150, 200)]], [[], [(7, 8)]]]
    for threads in (1, 3):
        compare(random_checkpoint(kv_heads=2), threads, [5, 6], [3, 4], 210, ranges)


def test_what_is_not_visible_changes_nothing(make: Make, random_checkpoint: Checkpoints) -> None:
    checkpoint = random_checkpoint()
    decoder = make(checkpoint)
    keys, values = random_cache(checkpoint.config, 1)
    arguments = ([4, 5], [50, 51], 100)
    before = decoder.step(*arguments, keys, values, [(10, 90)])
    for outside in (slice(0, 10), slice(90, 100), slice(102, SLOTS)):
        keys[:, :, outside] = torch.nan
        values[:, :, outside] = torch.nan
    assert torch.equal(decoder.step(*arguments, keys, values, [(10, 90)]), before)
    values[:, :, 89] += 3
    assert not torch.equal(decoder.step(*arguments, keys, values, [(10, 90)]), before)


def test_tokens_together_equal_tokens_one_by_one(make: Make, random_checkpoint: Checkpoints) -> None:
    checkpoint = random_checkpoint()
    decoder = make(checkpoint)
    keys, values = random_cache(checkpoint.config, 2)
    k, v = keys.clone(), values.clone()
    ids = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
    together = decoder.step(ids, range(20, 31), 20, keys, values, [(0, 20)])
    single = [decoder.step([t], [20 + i], 20 + i, k, v, [(0, 20 + i)]) for i, t in enumerate(ids)]
    torch.testing.assert_close(
        together, torch.cat(single), rtol=0.02, atol=0.02 * together.abs().max().item()
    )
    last = decoder.step(ids, range(20, 31), 20, keys, values, [(0, 20)], logits="last")
    assert torch.equal(last, together[-1:])
    silent_k, silent_v = random_cache(checkpoint.config, 2)
    none = decoder.step(ids, range(20, 31), 20, silent_k, silent_v, [(0, 20)], logits="none")
    assert none.shape == (0, checkpoint.config.vocab_size)
    assert torch.equal(silent_k, keys)
    assert torch.equal(silent_v, values)


@pytest.mark.parametrize("head_kind", ["Q8_0", "Q6_K", None])
def test_greedy_is_the_argmax_of_the_logits(
    make: Make, random_checkpoint: Checkpoints, head_kind: str | None
) -> None:
    checkpoint = random_checkpoint("Q8_0" if head_kind is None else "Q5_0", head_kind, vocab=5000)
    decoder = make(checkpoint)
    keys, values = random_cache(checkpoint.config, 3)
    for seed in range(12):
        ids = [(31 * seed + 7 * i) % 5000 for i in range(1 + seed % 5)]
        arguments = (ids, range(len(ids)), 100, keys, values, [(0, seed)])
        expected = decoder.step(*arguments).argmax(-1).tolist()
        assert decoder.greedy(*arguments) == expected
        assert decoder.greedy(*arguments, rows="last") == expected[-1:]
        if head_kind != "Q6_K":
            assert decoder.exact_head_tiles >= 1
    assert (decoder.bytes_per_greedy_step < decoder.bytes_per_step) == (head_kind != "Q6_K")


def test_equal_rows_give_the_lowest_id(make: Make, random_checkpoint: Checkpoints) -> None:
    checkpoint = random_checkpoint(vocab=320)
    head = checkpoint.blocks["output.weight"].data
    head[:] = head[17]
    decoder = make(checkpoint)
    keys, values = random_cache(checkpoint.config, 3)
    assert decoder.greedy([1], [0], 0, keys, values, []) == [0]


@pytest.mark.parametrize(("quantization", "tolerance"), [("int8", 0.04), ("int4", 0.3)])
def test_weights_without_blocks_are_quantised(
    make: Make, random_checkpoint: Checkpoints, rotary_tables: Tables, quantization: str, tolerance: float
) -> None:
    checkpoint = random_checkpoint("Q8_0")
    checkpoint.floats |= {name: checkpoint.tensor(name) for name in checkpoint.blocks}
    checkpoint.blocks.clear()
    reference = ReferenceDecoder(checkpoint, *rotary_tables(checkpoint.config))
    keys, values = random_cache(checkpoint.config, 4)
    expected = reference.step([1, 2], [5, 6], 10, keys.clone(), values.clone(), [(0, 10)])
    got = make(checkpoint, 2, quantization).step([1, 2], [5, 6], 10, keys, values, [(0, 10)])
    assert relative_error(got, expected) < tolerance


def test_wrong_arguments_are_refused_before_anything_is_written(
    make: Make, random_checkpoint: Checkpoints
) -> None:
    checkpoint = random_checkpoint()
    decoder = make(checkpoint)
    keys, values = random_cache(checkpoint.config, 5)
    before = keys.clone()
    bad: list[tuple[Any, ...]] = [
        ([], [], 0, keys, values, []),
        (list(range(17)), list(range(17)), 0, keys, values, []),
        ([1], [1, 2], 0, keys, values, []),
        ([333], [0], 0, keys, values, []),
        ([-1], [0], 0, keys, values, []),
        ([1], [512], 0, keys, values, []),
        ([1], [0], SLOTS, keys, values, []),
        ([1], [0], -1, keys, values, []),
        ([1, 2], [0, 1], 10, keys, values, [(0, 11)]),
        ([1], [0], 10, keys, values, [(0, SLOTS + 1)]),
        ([1], [0], 10, keys, values, [(5, 4)]),
        ([1], [0], 10, keys, values, [[[(0, 1)]]]),
        ([1], [0], 10, keys.float(), values.float(), []),
        ([1], [0], 10, keys[..., :32], values[..., :32], []),
        ([1], [0], 10, keys[:, :, ::2], values[:, :, ::2], []),
        ([1], [0], 10, keys, values[:, :, :200], []),
    ]
    for arguments in bad:
        with pytest.raises(ValueError):
            decoder.step(*arguments)
    assert torch.equal(keys, before)
    decoder.release()
    decoder.release()
    with pytest.raises(ValueError, match="released"):
        decoder.step([1], [0], 0, keys, values, [])


def test_a_head_size_the_kernels_lack_is_a_model_error(make: Make, random_checkpoint: Checkpoints) -> None:
    with pytest.raises(ModelError, match="head sizes"):
        make(random_checkpoint(head_dim=24, kv_heads=4, group=1))
