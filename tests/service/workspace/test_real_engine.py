"""A workspace memorised by the real engine on the small model: what is marked as stored is stored."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from miton_engine.models.sources import locate
from miton_engine.runtime.engine import Engine, EngineSettings, default_cache_dir
from miton_engine.runtime.requests import FimPrompt, GenerationRequest, Sampling
from miton_service.context import Cursor, select
from miton_service.workspace import Workspaces, chunk_source, chunk_sources


@pytest.mark.real_model
def test_what_is_ready_is_stored_and_an_edit_computes_one_chunk(tmp_path: Path) -> None:
    model = locate("smollm2-135m", cache=default_cache_dir() / "models").path
    engine = Engine.open(
        str(model), settings=EngineSettings(cache_dir=tmp_path / "cache", disk_bytes=1 << 30)
    )
    root = tmp_path / "repository"
    root.mkdir()
    names = ("alpha", "beta", "gamma")
    for name in names:
        body = "".join(f"    value = {name}_{i}(value)\n" for i in range(12))
        (root / f"{name}.py").write_text(f"def {name}(value, scale):\n{body}    return value * scale\n")
    (root / "main.py").write_text("from alpha import alpha\n\nresult = alpha(\n")
    workspaces = Workspaces(engine)
    try:
        workspace = workspaces.open(root)

        def wait_ready() -> None:
            end = time.monotonic() + 120
            while workspace.snapshot()["state"] != "ready" and time.monotonic() < end:
                time.sleep(0.05)
            assert workspace.snapshot()["state"] == "ready"

        wait_ready()
        chunks = [chunk for state in workspace.files.values() for chunk in state.chunks]
        assert all(engine.is_memorised(chunk_source(chunk)) for chunk in chunks)
        computed = engine.status()["memorised_tokens"]
        assert computed == sum(engine.chunk_token_count(chunk_source(chunk)) for chunk in chunks)

        text = (root / "beta.py").read_text().replace("beta_5", "edited")
        workspaces.put_document(root, "beta.py", text, 1)
        time.sleep(0.2)
        wait_ready()
        (edited,) = workspace.files["beta.py"].chunks
        assert engine.is_memorised(chunk_source(edited))
        grown = engine.status()["memorised_tokens"]
        assert grown == computed + engine.chunk_token_count(chunk_source(edited))  # type: ignore[operator]

        selection = select(workspace, "main.py", Cursor(2, 15), None, 2048)
        assert selection.ranked[0].chunk.symbol == "alpha"
        attached = chunk_sources(item.chunk for item in reversed(selection.ranked))
        prompt = FimPrompt("main.py", selection.window.prefix, selection.window.suffix)
        result = engine.generate(GenerationRequest(prompt, attached, Sampling(max_tokens=8))).result()
        assert result.timings.cached_tokens >= engine.chunk_token_count(attached[-1])
    finally:
        workspaces.shutdown()
        engine.close()
