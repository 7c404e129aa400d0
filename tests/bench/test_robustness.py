"""The benchmarks of robustness and accuracy can fail: they see what is lost, damaged, wrong, or not the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from miton_engine.memory.chunk_kv import ChunkKV
from miton_engine.memory.store import ChunkStore
from miton_engine.models.sources import default_cache_dir
from miton_service.bench import accuracy, kills, repositories, two_clients
from miton_service.bench.benchmark import Run
from miton_service.bench.kills import Found
from miton_service.bench.running_service import Completion
from miton_service.bench.two_clients import Part

STORE = {"hits in memory": 3.0, "misses": 0.0, "evictions": 0.0}


def _store(directory: Path, *letters: str) -> ChunkStore:
    store = ChunkStore(directory, memory_bytes=0, disk_bytes=1 << 30)
    for letter in letters:
        kv = torch.full((2, 1, 4, 8), float(ord(letter)), dtype=torch.bfloat16)
        store.put(ChunkKV(letter * 64, torch.arange(4, dtype=torch.int32), kv, kv.clone()))
    assert store.flush()
    return store


def test_a_chunk_that_is_gone_counts_as_lost_once(tmp_path: Path) -> None:
    _store(tmp_path, "a", "b").close()
    found = Found()
    kills.look(tmp_path, found)
    assert (found.kept, found.lost, found.damaged) == ({"a" * 64, "b" * 64}, 0, 0)
    with _store(tmp_path) as store:
        store.remove("a" * 64)
    kills.look(tmp_path, found)
    kills.look(tmp_path, found)
    assert (found.kept, found.lost) == ({"b" * 64}, 1)


def test_a_changed_byte_counts_as_damaged_and_lost(tmp_path: Path) -> None:
    _store(tmp_path, "a").close()
    found = Found()
    kills.look(tmp_path, found)
    (payload,) = tmp_path.glob("v1/payloads/*/*.safetensors")
    data = bytearray(payload.read_bytes())
    data[-1] ^= 1
    payload.write_bytes(data)
    kills.look(tmp_path, found)
    assert (found.damaged, found.lost) == (1, 1)


@pytest.fixture
def small_repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    body = "    total = first_number * second_number\n    return total + first_number\n"
    for name in ("one.py", "two.py"):
        functions = (f"def compute_{part}(first_number, second_number):\n{body}\n\n" for part in range(4))
        (root / name).write_text("".join(functions))
    return root


def test_a_killed_service_keeps_its_chunks_and_a_wrong_one_is_seen(
    tiny_model: Path, small_repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MITON_CACHE", str(tmp_path / "user"))
    cache = tmp_path / "cache"
    cache.mkdir()
    originals = {path.name: path.read_text() for path in small_repository.iterdir()}
    places = repositories.places(small_repository, ["one.py"], 3)
    how = Run(True, Console(quiet=True), str(tiny_model), threads=1)
    found, _ = kills.kill_repeatedly(how, small_repository, originals, places, cache, 3)
    assert (found.lost, found.damaged, found.rebuilt, found.temporaries) == (0, 0, 0, 0)
    assert found.kept
    differences = kills.recompute(str(tiny_model), 1, cache, 5)
    assert len(differences) == min(5, len(found.kept))
    assert max(differences) <= kills.TOLERANCE

    with ChunkStore(cache / "chunks", memory_bytes=0, disk_bytes=1 << 30) as store:
        keys = sorted(store.keys())
        first, second = store.get(keys[0]), store.get(keys[1])
        assert first is not None
        assert second is not None
        store.remove(keys[0])
        store.put(replace(first, k=first.k.roll(1, dims=2)))  # right key and hash, wrong KV
        store.remove(keys[1])
        store.put(replace(second, tokens=second.tokens + 1))  # not the content of its key
    wrong = sorted(kills.recompute(str(tiny_model), 1, cache, len(keys)))[-2:]
    assert kills.TOLERANCE < wrong[0] < wrong[1] == float("inf")


def _answer(text: str, ttft_ms: float = 100.0, prefill: float = 20.0, path: str = "a.py") -> Completion:
    context = ({"path": path, "start_line": 1, "end_line": 2, "tokens": 10},)
    return Completion(text, ttft_ms, 2 * ttft_ms, context, {"prefill_tokens": prefill})


ALONE = [_answer("x"), _answer("y")]


@pytest.mark.parametrize(
    ("at_once", "store", "missed"),
    [
        (ALONE, STORE, []),
        ([_answer("x"), _answer("z")], STORE, ["share of same answers, one"]),
        ([_answer("x"), _answer("y", path="b.py")], STORE, ["share of same attached chunks, one"]),
        ([_answer("x"), _answer("y", prefill=30)], STORE, ["prefill tokens, one, at once over alone"]),
        ([_answer("x", 251), _answer("y", 251)], STORE, ["TTFT p50, one, at once over alone"]),
        (ALONE, {**STORE, "misses": 1.0}, ["chunks computed again, at once"]),
        (ALONE, {**STORE, "evictions": 1.0}, ["chunks evicted from memory, at once"]),
    ],
)
def test_each_interference_of_two_clients_misses_its_bar(
    at_once: list[Completion], store: dict[str, float], missed: list[str]
) -> None:
    alone = {"one": Part({"one": ALONE}, STORE)}
    result = two_clients.result({}, alone, Part({"one": at_once}, store))
    assert [bar.name for bar in result.bars if not bar.ok] == missed


def test_a_clients_answer_that_is_missing_is_no_pass() -> None:
    with pytest.raises(ValueError, match="shorter"):
        two_clients.result({}, {"one": Part({"one": ALONE}, STORE)}, Part({"one": ALONE[:1]}, STORE))


def test_each_token_is_scored_against_the_one_that_follows_it() -> None:
    scores = accuracy.Scores([], [])
    accuracy.add(scores, torch.tensor([[0.0, 0.0], [9.0, 0.0]]), [1, 1])
    assert scores.nll == pytest.approx([0.6931, 9.0001], abs=1e-4)
    assert scores.best[1] == 0


@pytest.mark.parametrize("path", [name for name in accuracy.BARS if name != "int4 decode"])
def test_our_paths_score_a_tiny_model_as_transformers_does(tiny_model: Path, path: str) -> None:
    if "decode" in path:
        from miton_engine.kernels.native import native_decoder_available

        if not native_decoder_available(default_cache_dir() / "kernels"):
            pytest.skip("the native kernels cannot be built here")
    import transformers

    ids = list(range(32, 32 + 90))  # more than two steps of 16
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval()
    with torch.inference_mode():
        expected = accuracy.Scores([], [])
        accuracy.add(expected, model(torch.tensor([ids[:-1]])).logits[0], ids[1:])
    ours = accuracy.score_ours(str(tiny_model), 1, [ids], path)
    tolerance = 1e-4 if path == accuracy.FP32 else 0.05
    assert ours.nll == pytest.approx(expected.nll, abs=tolerance)
