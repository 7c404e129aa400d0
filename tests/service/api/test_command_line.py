"""`miton` as a person runs it: real processes, real signals, pasted commands, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .conftest import ENDLESS

Miton = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MITON_")}
    return {
        **kept, "MITON_CACHE": str(home / "cache"), "MITON_STATE": str(home / "state"), "NO_COLOR": "",
        "MITON_MODEL": str(tiny_model), "MITON_PORT": str(free_port()), "COLUMNS": "200",
    }  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "miton_service", "serve", *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def until_ready(process: subprocess.Popen[str]) -> list[str]:
    """Stdout up to and with the pasted example. A thread keeps stderr from filling its pipe."""
    assert process.stdout is not None
    assert process.stderr is not None
    errors: list[str] = []
    threading.Thread(target=lambda: errors.extend(process.stderr or ()), daemon=True).start()
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if line.startswith("curl "):
            return lines
    raise AssertionError("no ready line: " + "".join(errors))


@pytest.fixture(scope="module")
def served(environment: dict[str, str], repository: Path) -> Iterator[list[str]]:
    process = start(environment, "--workspace", str(repository))
    try:
        yield until_ready(process)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.fixture(scope="module")
def miton(environment: dict[str, str]) -> Miton:
    def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "miton_service", *arguments],
            capture_output=True, text=True, timeout=120, **{"env": environment, **more},
        )  # fmt: skip

    return run


def test_the_ready_line_is_exact_and_the_command_after_it_works(
    served: list[str], environment: dict[str, str]
) -> None:
    url = f"http://127.0.0.1:{environment['MITON_PORT']}"
    assert served[0] == f"ready {url}"
    ran = subprocess.run(["sh", "-c", served[-1]], capture_output=True, text=True, timeout=60)
    answer = json.loads(ran.stdout)
    assert "choices" in answer, answer
    assert answer["miton"]["context"]


def test_a_second_service_on_the_port_names_the_first_and_leaves(served: list[str], miton: Miton) -> None:
    ran = miton("serve")
    assert ran.returncode == 1
    assert "already runs at" in ran.stderr
    assert "miton status" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_status_tells_people_and_programs(served: list[str], miton: Miton, repository: Path) -> None:
    ran = miton("status")
    assert ran.returncode == 0
    assert str(repository) in ran.stdout
    assert "\x1b[" not in ran.stdout
    data = json.loads(miton("status", "--json").stdout)
    assert data["status"] == "ready"
    assert [workspace["root"] for workspace in data["workspaces"]] == [str(repository)]


def test_index_follows_a_workspace_to_its_end(served: list[str], miton: Miton, repository: Path) -> None:
    data = json.loads(miton("index", str(repository), "--json").stdout)
    assert data["state"] == "ready"
    assert data["indexed_tokens"] == data["tokens"] > 0
    assert "files" in miton("index", str(repository)).stdout


def test_complete_and_ask_answer_at_a_place_and_a_question(
    served: list[str], miton: Miton, repository: Path
) -> None:
    place = f"{repository}/shop/cart.py:10"
    ran = miton("complete", place, "--context", "--max-tokens", "8")
    assert ran.returncode == 0, ran.stderr
    assert "shop/prices.py:1 price_with_tax" in ran.stderr
    data = json.loads(miton("complete", place, "--json", "--max-tokens", "8").stdout)
    assert data["choices"][0]["text"] + "\n" == ran.stdout
    ran = miton("ask", "What does price_with_tax return?", "--max-tokens", "8", cwd=repository)
    assert ran.returncode == 0, ran.stderr
    assert "shop/prices.py:1" in ran.stderr


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("shop/cart.py", "FILE:LINE:COL"),
        ("nothing.py:1:1", "cannot be read"),
        ("shop/cart.py:99:1", "line 99"),
        ("shop/cart.py:1:99", "column 99"),
    ],
)
def test_a_place_that_is_not_there_is_said(miton: Miton, repository: Path, place: str, words: str) -> None:
    ran = miton("complete", place, cwd=repository)
    assert ran.returncode == 1
    assert words in ran.stderr


def test_without_a_service_each_command_says_how_to_start_it(miton: Miton, repository: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    for command in (["status"], ["index", "."], ["ask", "x"], ["complete", "shop/cart.py:1"]):
        ran = miton(*command, "--url", url, cwd=repository)
        assert ran.returncode == 1
        assert "miton serve --workspace" in ran.stderr


def test_a_port_of_another_program_and_a_wrong_workspace_are_said(miton: Miton, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        ran = miton("serve", "--port", str(other.getsockname()[1]))
    assert ran.returncode == 1
    assert "Another program has port" in ran.stderr
    ran = miton("serve", "--workspace", str(tmp_path / "nowhere"), "--port", "0")
    assert ran.returncode == 1
    assert "not a directory" in ran.stderr


def test_an_unknown_model_is_said_with_the_known_ones(miton: Miton) -> None:
    ran = miton("serve", "--model", "gpt-9", "--port", "0")
    assert ran.returncode == 1
    assert "qwen2.5-coder-0.5b" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "no-such.gguf"), (b"", "no-such.gguf"), (b"GGUF\3\0\0\0 cut here", "no-such.gguf")],
    ids=["missing", "empty", "truncated"],
)
def test_a_model_file_that_is_missing_or_damaged_is_named(
    miton: Miton, tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "no-such.gguf"
    if content is not None:
        path.write_bytes(content)
    ran = miton("serve", "--model", str(path), "--port", "0")
    assert ran.returncode == 1
    assert words in ran.stderr.replace("\n", "")
    assert "Traceback" not in ran.stderr


def test_wrong_usage_is_2_and_help_has_examples(miton: Miton) -> None:
    assert miton("bogus").returncode == 2
    assert miton("serve", "--port", "many").returncode == 2
    for command in ("serve", "index", "complete", "ask", "status", "doctor"):
        assert f"miton {command}" in miton(command, "--help").stdout
    assert re.fullmatch(r"\d+\.\d+\S*", miton("--version").stdout.strip())


def test_models_are_listed_for_programs(miton: Miton) -> None:
    rows = json.loads(miton("models", "list", "--json").stdout)
    assert {"qwen2.5-coder-0.5b", "smollm2-135m"} <= {row["name"] for row in rows}
    assert all(row["here"] is False for row in rows)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_mid_stream_ends_the_service_cleanly(
    environment: dict[str, str], number: signal.Signals
) -> None:
    port = free_port()
    process = start(environment, "--port", str(port), "--log-level", "warning")
    until_ready(process)
    body = {"prompt": "x", "max_tokens": 8000, **ENDLESS, "stream": True}
    with httpx.stream(
        "POST", f"http://127.0.0.1:{port}/v1/completions", json=body, timeout=60, trust_env=False
    ) as answer:
        lines = answer.iter_lines()
        next(lines)
        process.send_signal(number)
        rest = list(lines)
    assert "shutting down" in "".join(rest)
    assert process.wait(10) == 0


def test_a_second_ctrl_c_ends_it_at_once(environment: dict[str, str]) -> None:
    process = start(environment, "--port", str(free_port()))
    until_ready(process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) in (0, 130)


def test_ctrl_c_while_the_model_loads_ends_it(environment: dict[str, str]) -> None:
    port = free_port()
    process = start(environment, "--port", str(port))
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            health = httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False)
            break
        except httpx.HTTPError:
            time.sleep(0.02)
    assert health.json()["service"] == "miton"
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0


def test_beyond_loopback_the_token_file_is_needed(environment: dict[str, str], repository: Path) -> None:
    port = free_port()
    process = start(environment, "--host", "0.0.0.0", "--port", str(port), "--workspace", str(repository))
    try:
        lines = until_ready(process)
        assert httpx.get(f"http://127.0.0.1:{port}/v1/models", trust_env=False).status_code == 401
        ran = subprocess.run(["sh", "-c", lines[-1]], capture_output=True, text=True, timeout=60)
        assert "choices" in json.loads(ran.stdout)
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.parametrize("by", ["option", "variable"])
@pytest.mark.parametrize("command", ["status", "doctor"])
def test_a_service_on_another_port_is_found(
    served: list[str], miton: Miton, environment: dict[str, str], command: str, by: str
) -> None:
    url = f"http://127.0.0.1:{environment['MITON_PORT']}"
    elsewhere = {**environment, "MITON_PORT": str(free_port())}
    given = ("--url", url) if by == "option" else ()
    variables = elsewhere if by == "option" else {**elsewhere, "MITON_URL": url}
    answer = miton(command, *given, env=variables)
    assert url in answer.stdout
    assert "none answers" not in answer.stdout
