"""kill -9 at random moments of indexing and serving: what was stored stays, and nothing wrong is stored.

Before each start every file changes a little, so that there is always something to memorise. After each kill the
chunk memory on disk is opened as the next service would and every payload's hash is checked. At the end a sample is
computed again.
"""

from __future__ import annotations

import itertools
import random
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from miton_engine.memory.store import ChunkStore
from miton_service.bench import packages, repositories
from miton_service.bench.benchmark import Run
from miton_service.bench.fresh_process import in_fresh_process
from miton_service.bench.prompts import PromptWriter, open_model
from miton_service.bench.repositories import Place
from miton_service.bench.result import Bar, Result
from miton_service.bench.running_service import RunningService

KILLS, QUICK_KILLS = 200, 8
TOKENS, QUICK_TOKENS = 8_192, 5_120
SPAN_S = 2.0  # a kill comes between 0 and this after the workspace was opened
ASKED = ("httpx/_auth.py", "httpx/_status_codes.py")
RECOMPUTED, QUICK_RECOMPUTED = 100, 20
MAX_TOKENS = 16
TOLERANCE = (
    0.02  # of a chunk's norm: a batch of another size rounds bf16 products differently; wrong KV is far off
)
DISK_BYTES = 64 << 30  # nothing is evicted, so nothing may be missing


@dataclass
class Found:
    """What all looks so far found; `kept` is what the last one saw."""

    kept: set[str] = field(default_factory=set)
    bytes_checked: int = 0
    lost: int = 0
    damaged: int = 0
    rebuilt: int = 0
    temporaries: int = 0


def run(how: Run) -> Result:
    """Kill in turns: a service that only indexes, a service that is asked meanwhile."""
    number, tokens = how.pick(KILLS, QUICK_KILLS), how.pick(TOKENS, QUICK_TOKENS)
    with tempfile.TemporaryDirectory(prefix="miton-kills-") as scratch:
        root, cache = Path(scratch) / "repository", Path(scratch) / "cache"
        cache.mkdir()
        count = PromptWriter(open_model(how.model)).count
        files = repositories.build(root, (packages.HTTPX,), tokens, count, ASKED)
        originals = {name: (root / name).read_text(encoding="utf-8") for name in files}
        places = repositories.places(root, ASKED, 20)
        found, answered = kill_repeatedly(how, root, originals, places, cache, number)
        sample = how.pick(RECOMPUTED, QUICK_RECOMPUTED)
        with how.steps.stage("kills: computing a sample again", 1):
            differences = in_fresh_process(recompute, how.model, how.threads, cache, sample)
        with RunningService.start(how.model, how.threads, cache) as service:
            service.open(root)
            last = service.complete_at(
                root, places[0].path, places[0].buffer, places[0].cursor, max_tokens=MAX_TOKENS
            )
    figures: dict[str, float | str] = {
        "kills": number,
        "completions answered between them": answered,
        "chunks on disk at the end": len(found.kept),
        "MB checked by hash": round(found.bytes_checked / 1e6),
        "chunks computed again": len(differences),
        "largest relative difference": max(differences, default=0.0),
    }
    bars = (
        Bar("kills that were done", number, number, "at least"),
        Bar("chunks lost", found.lost, 0, "at most"),
        Bar("damaged payloads", found.damaged, 0, "at most"),
        Bar("indexes made again", found.rebuilt, 0, "at most"),
        Bar("temporary files left after opening", found.temporaries, 0, "at most"),
        Bar("chunks computed again", len(differences), min(sample, len(found.kept)), "at least"),
        Bar("of those, wrong", sum(not d <= TOLERANCE for d in differences), 0, "at most"),
        Bar("chunks attached to a completion at the end", len(last.context), 1, "at least"),
    )
    return Result("kills", how.machine, figures, {}, bars, {"relative difference": {"Miton": differences}})


def kill_repeatedly(
    how: Run, root: Path, originals: dict[str, str], places: Sequence[Place], cache: Path, number: int
) -> tuple[Found, int]:
    """`number` times: change the files, start the service, kill it, look. Also how many completions it answered."""
    draw, found, answered = random.Random(number), Found(), 0
    for index in how.steps.over(range(number), "kills: killing"):
        change(root, originals, index)
        with RunningService.start(how.model, how.threads, cache) as service:
            service.begin(root)
            with ThreadPoolExecutor(1) as threads:
                asking = threads.submit(_ask_until_killed, service.url, root, places) if index % 2 else None
                time.sleep(draw.uniform(0, SPAN_S))
                service.kill()
                answered += asking.result() if asking is not None else 0
        look(cache / "chunks", found)
    return found, answered


def change(root: Path, originals: dict[str, str], index: int) -> None:
    """Give each file another last function."""
    for name, text in originals.items():
        added = "".join(
            f"\n\ndef added_{index}_{part}(first: int, second: int) -> int:\n"
            f'    """Sum of both, of {name} in round {index}."""\n    return first + second * {index + part}\n'
            for part in range(2)
        )
        (root / name).write_text(text + added, encoding="utf-8")


def look(directory: Path, found: Found) -> None:
    """Open the chunk memory as the next service would, check every payload, and add to `found`."""
    with ChunkStore(directory, memory_bytes=0, disk_bytes=DISK_BYTES) as store:
        report = store.verify()
        disk, keys = store.stats()["disk"], store.keys()
        found.bytes_checked += report.bytes
        found.damaged += disk["damaged"] + disk["unreadable"]
        found.rebuilt += disk["index_rebuilds"]
        found.temporaries += len(list(directory.glob("v1/temporary/*")))
        found.lost += len(found.kept - keys)
        found.kept = keys


def recompute(model: str, threads: int, cache: Path, sample: int) -> list[float]:
    """Compute `sample` stored chunks again, in the process that calls this: the relative difference of each.

    It is the norm of the difference over the norm, the larger of K's and V's; infinite where the key is not the
    content's or nothing can be read.
    """
    from miton_engine.memory.chunk_kv import chunk_key
    from miton_engine.runtime.engine import Engine, EngineSettings
    from miton_engine.runtime.memoriser import NUMERICS_VERSION

    settings = EngineSettings(cache_dir=cache, threads=threads, disk_bytes=DISK_BYTES)
    engine = Engine.open(model, settings=settings)
    numerics = f"{NUMERICS_VERSION}/{engine.chunk_prefill.sink_k.dtype}"
    keys = sorted(engine.store.keys())
    differences = []
    for key in random.Random(sample).sample(keys, min(sample, len(keys))):
        chunk = engine.store.get(key)
        ids = [] if chunk is None else chunk.tokens.tolist()
        if (
            chunk is None
            or chunk_key(engine.fingerprint, numerics, engine.chunk_prefill.sink_ids, ids) != key
        ):
            differences.append(float("inf"))
            continue
        ((k, v),) = engine.chunk_prefill([ids])
        pairs = ((chunk.k, k), (chunk.v, v))
        differences.append(max(float((a.float() - b.float()).norm() / b.float().norm()) for a, b in pairs))
    engine.close()
    return differences


def _ask_until_killed(url: str, root: Path, places: Sequence[Place]) -> int:
    """Ask without a pause; the number of completions that arrived whole."""
    client = RunningService(url)
    with client.client:
        for done, place in enumerate(itertools.cycle(places)):
            try:
                client.complete_at(root, place.path, place.buffer, place.cursor, max_tokens=MAX_TOKENS)
            except httpx.HTTPError:
                return done
    raise AssertionError("places never end")
