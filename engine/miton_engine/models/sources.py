"""Find a model's file, or fetch it: from the cache, the model hub, the Python package index, or a path.

A file is written under a temporary name, its SHA-256 compared, then renamed: what has its name is whole.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from filelock import FileLock

from miton_engine.errors import ModelError
from miton_engine.models import hub, package_index
from miton_engine.models.hashes import HashMemory, read_sha256
from miton_engine.models.registry import MODELS, HubSource, RegisteredModel, Source
from miton_engine.models.transfer import (
    Progress,
    ProgressMeter,
    SourceFailed,
    disk_full,
    is_disk_full,
    require_space,
)

log = logging.getLogger(__name__)

SMALL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
)


@dataclass(frozen=True, slots=True)
class LocatedModel:
    """A model's file or directory on this machine; `fingerprint` is its SHA-256 (hex)."""

    path: Path
    name: str
    fingerprint: str


def default_cache_dir() -> Path:
    """Where everything fetched or computed is kept: $MITON_CACHE, else the user's cache directory."""
    if chosen := os.environ.get("MITON_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "miton"


def locate(
    model: str, *, cache: Path | None = None, progress: Progress | None = None, verify: bool = False
) -> LocatedModel:
    """Find `model` (short name, path, or "org/name"), fetching it into `cache` if need be.

    `verify` reads a file's hash anew even if it is remembered. Raises `ModelError` that says the fix.
    """
    cache = (cache or default_cache_dir() / "models").expanduser()
    hashes = HashMemory(cache / "hashes")
    if model in MODELS:
        return _registered(MODELS[model], cache, hashes, progress, verify)
    path = Path(model).expanduser()
    if path.is_file():
        return LocatedModel(path, path.stem, hashes.sha256(path, again=verify))
    if path.is_dir():
        return LocatedModel(path, path.resolve().name, hashes.combined(model_files(path), again=verify))
    if re.fullmatch(r"[\w.-]+/[\w.-]+", model) and path.suffix != ".gguf" and not model.startswith("."):
        return _from_hub(model, cache, hashes, progress, verify)
    raise ModelError(
        f"There is no model {model!r}. Known names: {', '.join(MODELS)}. Or give the path of a .gguf file or "
        "of a directory with config.json and safetensors files, or org/name of the model hub."
    )


def model_files(directory: Path) -> list[Path]:
    """The files of a directory that decide what the model computes."""
    names = ("config.json", "tokenizer.json")
    return [*(directory / n for n in names if (directory / n).is_file()), *directory.glob("*.safetensors")]


def _registered(
    model: RegisteredModel, cache: Path, hashes: HashMemory, progress: Progress | None, verify: bool
) -> LocatedModel:
    path = cache / model.file
    if not path.exists():
        _prepare(cache)
        with FileLock(cache / f"{model.file}.lock"):  # two services may start at once
            if not path.exists():
                _fetch(model.sources, path, model.size, model.sha256, hashes, progress)
    found = hashes.sha256(path, again=verify)
    if found != model.sha256:
        aside = path.with_name(path.name + ".rejected")
        os.replace(path, aside)
        raise ModelError(
            f"{path} is not {model.name}: its SHA-256 is {found}, expected {model.sha256}. It was moved to "
            f"{aside.name}; start again to fetch the right file."
        )
    return LocatedModel(path, model.name, found)


def _prepare(cache: Path) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(
            f"The folder {cache} cannot be made: {error}. Set MITON_CACHE to a folder you may write to."
        ) from error


def _fetch(
    sources: Sequence[Source],
    path: Path,
    size: int,
    sha256: str | None,
    hashes: HashMemory,
    progress: Progress | None,
) -> None:
    """Try `sources` in order until one gave the right bytes. Raises `ModelError` that tells of each."""
    reasons = []
    for source in sources:
        # Each way keeps its own partial file: they break off at different places.
        kind = "hub" if isinstance(source, HubSource) else "index"
        part = path.with_name(f"{path.name}.{kind}.part")
        try:
            done = part.stat().st_size if part.exists() else 0
            require_space(path.parent, size - min(done, size))
            meter = ProgressMeter(progress, size, done)
            if isinstance(source, HubSource):
                url = hub.resolve_url(source.repository, source.revision, source.file)
                hub.download(url, part, size, meter)
            else:
                package_index.fetch(source, part, size, meter)
            found = read_sha256(part)
            if sha256 is not None and found != sha256:
                part.unlink()
                raise SourceFailed(f"its SHA-256 is {found}, expected {sha256}; the file was removed")
            os.replace(part, path)
            hashes.remember(path, found)
        except SourceFailed as failure:
            log.warning("%s: %s", _describe(source), failure)
            reasons.append(f"{_describe(source)}: {failure}")
            continue
        except OSError as error:
            if is_disk_full(error):
                raise disk_full(path.parent, size) from error
            raise ModelError(f"{path} cannot be written: {error}.") from error
        for leftover in path.parent.glob(f"{path.name}.*.part*"):
            leftover.unlink(missing_ok=True)
        return
    raise ModelError(
        f"{path.name} could not be fetched.\n  " + "\n  ".join(reasons) + f"\nCheck the connection and start "
        f"again (what was fetched is kept), or put the file at {path} yourself."
    )


def _describe(source: Source) -> str:
    if isinstance(source, HubSource):
        return f"model hub, {source.repository}"
    first = source.packages[0]
    more = f" and {len(source.packages) - 1} more" if len(source.packages) > 1 else ""
    return f"Python package index, {first.name} {first.version}{more}"


def _from_hub(
    repository: str, cache: Path, hashes: HashMemory, progress: Progress | None, verify: bool
) -> LocatedModel:
    """The weights, configuration and tokenizer of a repository on the hub, in a directory of the cache."""
    directory = cache / repository.replace("/", "--")
    complete = directory / ".complete"  # written last: without it the directory may lack files
    if not complete.exists():
        _prepare(directory)
        with FileLock(cache / f"{directory.name}.lock"):
            if not complete.exists():
                _fetch_repository(repository, directory, hashes, progress)
                complete.touch()
    found = sorted(directory.glob("*.gguf"))
    if found:
        return LocatedModel(found[0], repository, hashes.sha256(found[0], again=verify))
    return LocatedModel(directory, repository, hashes.combined(model_files(directory), again=verify))


def _fetch_repository(
    repository: str, directory: Path, hashes: HashMemory, progress: Progress | None
) -> None:
    try:
        revision, listed = hub.list_files(repository)
    except SourceFailed as failure:
        raise ModelError(f"{repository} could not be fetched from the model hub: {failure}.") from failure
    wanted = _choose(repository, listed)
    total, done = sum(file.size for file in wanted), 0
    for file in wanted:

        def shifted(now: int, _: int, left: float | None, before: int = done) -> None:
            if progress is not None:
                progress(before + now, total, left)

        path = directory / file.name
        if not path.exists():
            sources = [HubSource(repository, revision, file.name)]
            _fetch(sources, path, file.size, file.sha256, hashes, shifted)
        done += file.size


def _choose(repository: str, listed: Sequence[hub.HubFile]) -> list[hub.HubFile]:
    """The safetensors files with what belongs to them, or one GGUF file."""
    weights = [file for file in listed if fnmatch(file.name, "*.safetensors") and "/" not in file.name]
    if weights:
        return [file for file in listed if file.name in SMALL_FILES] + weights
    ggufs = [file for file in listed if file.name.endswith(".gguf") and "/" not in file.name]
    preferred = [file for file in ggufs if re.search(r"q4_k_m\.gguf$", file.name, re.IGNORECASE)]
    if len(chosen := preferred or ggufs) == 1:
        return chosen
    raise ModelError(
        f"{repository} has no safetensors files and "
        + (
            f"several GGUF files ({', '.join(f.name for f in ggufs)}); fetch one and give its path."
            if ggufs
            else "no GGUF file; choose another model."
        )
    )
