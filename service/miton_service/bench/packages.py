"""Real repositories as inputs: wheels of well-known packages, pinned by version and SHA-256, used as data only.

pip fetches them (so indexes, proxies and certificates are as the user has them) and they are unpacked, never
installed or imported. Once fetched they are kept, and benchmarks run offline.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from miton_engine.models.sources import default_cache_dir
from miton_service.bench.errors import PackageError


@dataclass(frozen=True)
class Package:
    """A release of a pure Python package, by the hash of its wheel."""

    name: str
    version: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


CLICK = Package("click", "8.3.0", "9b9f285302c6e3064f4330c05f05b81945b2a39544279343e6e7c5f27a9baddc")
FLASK = Package("flask", "3.1.2", "ca1d8112ec8a6158cc29ea4858963350011b5c846a414cdb7a954aa9e967d03c")
HTTPX = Package("httpx", "0.28.1", "d909fcccc110f8c7faf814ca82a9a4d816bc5a6dbfea25d6591d6985b8ba59ad")
PYGLS = Package("pygls", "2.0.0", "b4e54bba806f76781017ded8fd07463b98670f959042c44170cd362088b200cc")
REQUESTS = Package("requests", "2.32.5", "2462f94637a34fd532264295e186976db0f5d453d1cdd31473c85a6a161affb6")
RICH = Package("rich", "14.1.0", "536f5f1785986d6dbdea3c75205c473f970777b4a0d6c6dd1b696aa05a3fa04f")
DEVELOPMENT = (HTTPX, RICH, FLASK, CLICK, REQUESTS, PYGLS)
"""Packages that recall and attention may be tuned on."""

JINJA2 = Package("jinja2", "3.1.6", "85ece4451f492d0c13c5dd7c13a64681a86afae63a5f347908daf103ce6d2f67")
WERKZEUG = Package("werkzeug", "3.1.3", "54b78bf3716d19a65be4fceccc0d1d7b89e608834989dfae50ea87564639213e")
STARLETTE = Package("starlette", "0.48.0", "0764ca97b097582558ecb498132ed0c7d942f233f365b86ba37770e026510659")
HTTPCORE = Package("httpcore", "1.0.9", "2d400746a40668fc9dec9810239072b40b4484b640a8c38fd654a024c7a1bf55")
PYTEST = Package("pytest", "8.4.2", "872f880de3fc3a5bdc88a11b39c9710c3497a547cfa9320bc3c5e62fbf272e79")
HELD_OUT = (JINJA2, WERKZEUG, STARLETTE, HTTPCORE, PYTEST)
"""Packages that nothing is tuned on."""

SESSION_BEFORE = Package("flask", "3.0.3", "34e815dfaa43340d1d15a5c3a02b8476004037eb4840b34910c6e21679d288f3")
SESSION_AFTER = Package("flask", "3.1.0", "d667207822eb83f1c4b50949b1623c8fc8d51f2341d65f72e1a1815397551136")
"""Consecutive releases: the developer's session is what lies between them."""


def fetch(package: Package, cache: Path | None = None) -> Path:
    """Directory of the unpacked wheel; treat it as read-only. Raises `PackageError`."""
    directory = (cache or default_cache_dir() / "bench" / "packages") / f"{package.name}-{package.version}"
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        wheel = _download(package, Path(scratch))
        unpacked = Path(scratch) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)  # zipfile drops absolute paths and ".."
        if not directory.exists():
            unpacked.rename(directory)
    return directory


def copy(package: Package, destination: Path, cache: Path | None = None) -> Path:
    """A copy that may be edited, without the wheel's own metadata."""
    source = fetch(package, cache)
    shutil.copytree(source, destination, ignore=shutil.ignore_patterns("*.dist-info"), dirs_exist_ok=True)
    return destination


def _download(package: Package, directory: Path) -> Path:
    requirements = directory / "requirements.txt"
    requirements.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n")
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--only-binary", ":all:", "--require-hashes", "--dest", str(directory), "-r", str(requirements),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(directory.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        reason = next((line for line in done.stderr.splitlines() if line.startswith("ERROR")), done.stderr)
        raise PackageError(
            f"{package} could not be fetched: {reason.strip()[:400]} "
            "Connect to a package index (pip's own settings are used) and try again."
        )
    digest = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    if digest != package.sha256:
        raise PackageError(f"{package} has SHA-256 {digest}, expected {package.sha256}; it was not used.")
    return wheels[0]
