"""Who may talk to the service: Host against DNS rebinding, Origin against web pages, a token beyond loopback.

A plain ASGI middleware, so that streams and disconnects pass through it untouched.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from miton_service.errors import ApiError, SettingsError
from miton_service.settings import LOOPBACK, ServiceSettings

PUBLIC_PATHS = ("/", "/health", "/dashboard/")
"""Answered without a token: the status page's own files hold no data, /health says only whether it is up."""

METHODS = "GET, POST, PUT, DELETE, OPTIONS"
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def load_or_create_token(settings: ServiceSettings) -> str:
    """The token given, or the stored one, or a new one stored where only this user can read it."""
    if settings.token:
        return settings.token
    path = settings.token_file
    try:
        if path.exists():
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
            if token := path.read_text().strip():
                return token
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        token = secrets.token_urlsafe(32)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(token + "\n")
    except OSError as error:
        raise SettingsError(
            f"The token file {path} cannot be used ({error.strerror}); pass --token, or set MITON_STATE."
        ) from None
    return token


def host_name(header: str) -> str:
    """The name in a Host header, without port and brackets, lower case."""
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if ":" in header else header


def is_allowed_origin(origin: str) -> bool:
    """Pages of this machine and VS Code's webviews; nothing else, and not "null"."""
    try:
        parts = urlsplit(origin)
        host = parts.hostname
    except ValueError:
        return False
    if parts.scheme == "vscode-webview":
        return True
    return parts.scheme in ("http", "https") and host in LOOPBACK


class SecurityMiddleware:
    """Checks a request before the application sees it, and bounds its body."""

    def __init__(self, app: ASGIApp, *, settings: ServiceSettings, token: str | None) -> None:
        self._app, self._settings, self._token = app, settings, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get("origin")
        extra = [*SECURITY_HEADERS]
        if origin is not None and is_allowed_origin(origin):
            extra += [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]
        try:
            self._check_host([value for name, value in scope["headers"] if name == b"host"])
            self._check_origin(origin, headers, scope)
            if scope["method"] == "OPTIONS" and origin is not None:
                await _preflight(send, extra)
                return
            self._check_token(headers, scope["path"])
            self._check_length(headers)
        except ApiError as error:
            # The connection is closed: a body that nobody reads must not be taken for the next request.
            extra.append((b"connection", b"close"))
            if error.status == 401:
                extra.append((b"www-authenticate", b"Bearer"))
            await _answer(send, error.status, json.dumps(error.body()).encode(), extra)
            return
        _assume_json(scope, headers)
        await self._app(scope, self._bounded(receive), _with_headers(send, extra))

    def _check_host(self, given: list[bytes]) -> None:
        host = b", ".join(given).decode("latin-1")
        if self._settings.is_loopback and (len(given) != 1 or host_name(host) not in LOOPBACK):
            raise ApiError(
                403,
                f"The Host header is {host!r}; this service only answers to 127.0.0.1, localhost and [::1]. "
                "To serve other machines start it with --host (a token is then required).",
                code="host_not_allowed",
            )

    def _check_origin(self, origin: str | None, headers: dict[str, str], scope: Scope) -> None:
        own = host_name(headers.get("host", "")) == (urlsplit(origin).hostname if _parses(origin) else None)
        if origin is not None and not own and not is_allowed_origin(origin):
            raise ApiError(
                403,
                f"Requests from web pages of {origin!r} are refused; only pages of this machine may ask.",
                code="origin_not_allowed",
            )
        opens_page = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if origin is None and headers.get("sec-fetch-site") == "cross-site" and not opens_page:
            raise ApiError(
                403, "Requests that another site's page makes are refused.", code="origin_not_allowed"
            )

    def _check_token(self, headers: dict[str, str], path: str) -> None:
        if self._token is None or path in PUBLIC_PATHS or path.startswith("/dashboard/"):
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        given = given.strip()
        if scheme.lower() != "bearer" or not given:
            raise ApiError(
                401,
                "This service needs a token: send `Authorization: Bearer TOKEN`. "
                f"It is in {self._settings.token_file} on the service's machine, or what --token gave.",
                type="authentication_error",
                code="token_required",
            )
        if not hmac.compare_digest(given.encode("latin-1", "replace"), self._token.encode()):
            raise ApiError(
                401,
                f"The token is wrong; compare it with {self._settings.token_file} on the service's machine.",
                type="authentication_error",
                code="token_wrong",
            )

    def _check_length(self, headers: dict[str, str]) -> None:
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._settings.max_body_bytes:
            raise self._too_large()

    def _too_large(self) -> ApiError:
        limit = self._settings.max_body_bytes / (1 << 20)
        return ApiError(
            413,
            f"The request is larger than {limit:.0f} MB; send less text, or raise MITON_MAX_BODY.",
            code="request_too_large",
        )

    def _bounded(self, receive: Receive) -> Receive:
        """A body without a declared length is counted as it comes."""
        seen = 0

        async def bounded() -> Message:
            nonlocal seen
            message = await receive()
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                if seen > self._settings.max_body_bytes:
                    # FastAPI takes any other exception while it reads a body for a malformed body.
                    raise HTTPException(413, self._too_large().message)
            return message

        return bounded


def _parses(origin: str | None) -> bool:
    try:
        return origin is not None and bool(urlsplit(origin).hostname)
    except ValueError:
        return False


def _assume_json(scope: Scope, headers: dict[str, str]) -> None:
    """`curl -d` sends a form's content type; every body here is JSON, so that is what it is read as."""
    if scope["method"] in ("POST", "PUT", "DELETE", "PATCH"):
        kept = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
        scope["headers"] = [*kept, (b"content-type", b"application/json")]


def _with_headers(send: Send, extra: Iterable[tuple[bytes, bytes]]) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name for name, _ in message["headers"]}
            added = [(name, value) for name, value in extra if name not in present]
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return with_headers


async def _answer(send: Send, status: int, body: bytes, extra: Iterable[tuple[bytes, bytes]]) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _preflight(send: Send, extra: Iterable[tuple[bytes, bytes]]) -> None:
    headers = [
        *extra,
        (b"access-control-allow-methods", METHODS.encode()),
        (b"access-control-allow-headers", b"authorization, content-type"),
        (b"access-control-max-age", b"600"),
        (b"content-length", b"0"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def confine(root: Path, path: str) -> Path:
    """The real file `path` means inside `root`. Raises `ApiError` when it leads out, by .. or by a link."""
    if not path or "\0" in path or Path(path).is_absolute():
        raise ApiError(
            400, f"path is {path!r}; give it relative to the workspace root.", param="path", code="bad_path"
        )
    real_root = root.resolve()
    try:
        real = (real_root / path).resolve()
    except (OSError, RuntimeError):
        raise ApiError(
            400, f"{path} cannot be resolved; it may be a loop of links.", param="path", code="bad_path"
        ) from None
    if not real.is_relative_to(real_root) or real == real_root:
        raise ApiError(
            403, f"{path} is outside the workspace {root}; only its own files are served.", param="path",
            code="outside_workspace",
        )  # fmt: skip
    return real
