"""Nobody but this machine's user may ask: Host, Origin, token, size, paths."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from miton_service.errors import ApiError, SettingsError
from miton_service.security import confine, host_name, is_allowed_origin, load_or_create_token
from miton_service.settings import ServiceSettings

from .conftest import RunningService, running


@pytest.fixture(scope="module")
def open_service() -> Iterator[RunningService]:
    with running(ServiceSettings(port=0, max_body_bytes=64 * 1024), load=False) as started:
        yield started


@pytest.fixture(scope="module")
def locked_service() -> Iterator[RunningService]:
    with running(ServiceSettings(port=0, require_token=True), token="right-token", load=False) as started:
        yield started


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil:8377", "[::2]:80", ""]
)
def test_a_foreign_host_header_is_refused(open_service: RunningService, host: str) -> None:
    answer = open_service.client.get("/v1/requests", headers={"host": host})
    assert answer.status_code == 403 or (host == "" and answer.status_code == 400)
    if answer.status_code == 403:
        assert answer.json()["error"]["code"] == "host_not_allowed"
        assert "127.0.0.1" in answer.json()["error"]["message"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9999", "[::1]:8377", "LOCALHOST"])
def test_loopback_names_are_answered_on_any_port(open_service: RunningService, host: str) -> None:
    assert open_service.client.get("/v1/requests", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost.evil.example", "file://", "http://["]
)
def test_a_foreign_page_is_refused(open_service: RunningService, origin: str) -> None:
    answer = open_service.client.get("/v1/requests", headers={"origin": origin})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "http://127.0.0.1:8377", "vscode-webview://1a2b"]
)
def test_pages_of_this_machine_may_ask_and_get_minimal_cors(
    open_service: RunningService, origin: str
) -> None:
    answer = open_service.client.get("/v1/requests", headers={"origin": origin})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    assert "access-control-allow-credentials" not in answer.headers
    preflight = open_service.client.options(
        "/v1/completions", headers={"origin": origin, "access-control-request-method": "POST"}
    )
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-headers"] == "authorization, content-type"


def test_another_sites_page_cannot_embed_an_answer(open_service: RunningService) -> None:
    cross_site = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert open_service.client.get("/v1/requests", headers=cross_site).status_code == 403
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert open_service.client.get("/", headers=link).status_code == 200


def test_a_token_is_asked_for_everywhere_but_where_no_data_is(locked_service: RunningService) -> None:
    with httpx.Client(base_url=locked_service.url, trust_env=False) as stranger:
        for path in ("/", "/dashboard/status.js", "/health"):
            assert stranger.get(path).status_code in (200, 503)
        for path in (
            "/v1/requests",
            "/v1/workspaces",
            "/metrics",
            "/v1/models",
            "/openapi.json",
            "/v1/status",
        ):
            answer = stranger.get(path)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "Authorization: Bearer" in answer.json()["error"]["message"]
        for wrong in ("Bearer wrong", "Bearer right-token2", "Basic right-token", "Bearer", "Bearer é"):
            assert (
                stranger.get("/v1/requests", headers={"authorization": wrong.encode("latin-1")}).status_code
                == 401
            )
    assert locked_service.client.get("/v1/requests").status_code == 200


def test_beyond_loopback_a_token_is_made_stored_privately_and_kept(tmp_path: Path) -> None:
    settings = ServiceSettings(host="0.0.0.0", state_dir=tmp_path / "state")
    assert settings.needs_token
    token = load_or_create_token(settings)
    assert len(token) >= 32
    assert stat.S_IMODE(settings.token_file.stat().st_mode) == 0o600
    settings.token_file.chmod(0o644)
    assert load_or_create_token(settings) == token
    assert stat.S_IMODE(settings.token_file.stat().st_mode) == 0o600
    assert load_or_create_token(ServiceSettings(token="given")) == "given"


def test_a_large_body_is_refused_declared_or_not(open_service: RunningService) -> None:
    body = b'{"prompt": "' + b"a" * 70_000 + b'"}'
    declared = open_service.client.post("/v1/completions", content=body)
    undeclared = open_service.client.post("/v1/completions", content=iter([body[:40_000], body[40_000:]]))
    for answer in (declared, undeclared):
        assert answer.status_code == 413
        assert "MITON_MAX_BODY" in answer.json()["error"]["message"]


def test_the_page_has_a_strict_policy_and_nothing_inline(open_service: RunningService) -> None:
    answer = open_service.client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    page = answer.text
    assert "style=" not in page
    assert "http://" not in page
    assert "https://" not in page
    for name in ("style.css", "status.js", "icon.svg"):
        assert open_service.client.get(f"/dashboard/{name}").status_code == 200
    for name in ("..%2fapp.py", "%2e%2e/app.py", "nothing.js", "__init__.py"):
        assert open_service.client.get(f"/dashboard/{name}").status_code == 404


def test_the_service_listens_on_loopback_only_by_default() -> None:
    assert ServiceSettings().host == "127.0.0.1"
    assert not ServiceSettings().needs_token


def test_paths_stay_inside_the_workspace(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.py"
    (root / "package").mkdir(parents=True)
    (root / "package" / "a.py").write_text("")
    outside.write_text("")
    (root / "link.py").symlink_to(outside)
    (root / "linked").symlink_to(tmp_path)
    (root / "loop").symlink_to(root / "loop")
    (root / "inner.py").symlink_to(root / "package" / "a.py")
    assert confine(root, "package/a.py") == root / "package" / "a.py"
    assert confine(root, "new/file.py") == root / "new" / "file.py"
    assert confine(root, "inner.py") == root / "package" / "a.py"
    for path in (
        "../outside.py",
        "link.py",
        "linked/outside.py",
        str(outside),
        "",
        ".",
        "a\0b",
        "package/../../x",
    ):
        with pytest.raises(ApiError) as caught:
            confine(root, path)
        assert caught.value.status in (400, 403)


def test_host_and_origin_are_parsed_like_a_browser_sends_them() -> None:
    assert host_name("[::1]:8377") == "::1"
    assert host_name("localhost") == "localhost"
    assert not is_allowed_origin("http://user@evil.example#@localhost")


def test_two_host_headers_are_refused(open_service: RunningService) -> None:
    port = int(open_service.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"GET /v1/requests HTTP/1.1\r\nHost: evil\r\nHost: 127.0.0.1\r\n\r\n")
        head = connection.recv(100)
    assert b" 400 " in head or b" 403 " in head


def test_a_token_file_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="--token"):
        load_or_create_token(ServiceSettings(host="0.0.0.0", state_dir=tmp_path / "file" / "state"))
