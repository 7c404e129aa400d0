"""How the commands talk to a running service: one small HTTP client whose failures say what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from miton_service.errors import ServiceError
from miton_service.settings import ServiceSettings


class ServiceClient:
    """Calls to one service. Every failure is a `ServiceError` with the service's own sentence."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url.rstrip("/")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        timeout = httpx.Timeout(10, read=600)
        # trust_env off: a proxy for the outside world must not get what is meant for this machine.
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout, trust_env=False)

    def get(self, path: str) -> Any:
        return self._json("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._json("POST", path, body)

    def delete(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._json("DELETE", path, body)

    def health(self) -> dict[str, Any]:
        """GET /health, also while the service is still loading."""
        try:
            answer = self._http.get("/health")
            body = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise self._unreachable(error) from None
        if not isinstance(body, dict) or body.get("service") != "miton":
            raise ServiceError(f"What answers at {self.url} is not Miton; set --url or MITON_URL.")
        return body

    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The events of a streamed answer."""
        try:
            with self._http.stream("POST", path, json={**body, "stream": True}) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    raise _failure(answer)
                for line in _lines(answer):
                    if not line.startswith(b"data: ") or line == b"data: [DONE]":
                        continue
                    event = json.loads(line[6:])
                    if "error" in event:
                        raise ServiceError(event["error"]["message"])
                    yield event
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        try:
            answer = self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None
        if answer.status_code >= 400:
            raise _failure(answer)
        return answer.json()

    def _unreachable(self, error: Exception) -> ServiceError:
        if isinstance(error, httpx.ConnectError):
            return ServiceError(
                f"No service answers at {self.url}. Start it with `miton serve --workspace DIR`, "
                "or name another with --url or MITON_URL."
            )
        return ServiceError(
            f"The service at {self.url} stopped answering ({type(error).__name__}); its log tells why."
        )


def _lines(answer: httpx.Response) -> Iterator[bytes]:
    """Lines of a body, split at \\n only: httpx's own splits at every Unicode line end."""
    rest = b""
    for data in answer.iter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _failure(answer: httpx.Response) -> ServiceError:
    try:
        return ServiceError(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return ServiceError(f"The service answered {answer.status_code}: {answer.text[:200]}")


def connect(settings: ServiceSettings, url: str | None, token: str | None) -> ServiceClient:
    """A client for the service the settings describe; the token is the one given or the stored one."""
    token = token or settings.token
    if not token:
        try:
            token = settings.token_file.read_text().strip()
        except OSError:
            token = ""
    return ServiceClient(url or settings.url(), token or None)
