"""HTTP to the Miton service. A request that is cancelled closes its connection, which stops the model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

CONNECT_S, READ_S = 5.0, 600.0


class ServiceError(Exception):
    """Base: the message says what to do."""


class Unreachable(ServiceError):
    """Nothing answers at the service's address."""


class Refused(ServiceError):
    """The service answered with an error; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ServiceClient:
    """Calls to one service. Raises `Unreachable` and `Refused`."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url, self._token = url.rstrip("/"), token
        self._http: httpx.AsyncClient | None = None

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def health(self) -> dict[str, Any]:
        """Also while the service is loading (HTTP 503). Raises Unreachable if what answers is not Miton."""
        _, body = await self._exchange("GET", "/health", read_s=CONNECT_S)
        if body.get("service") != "miton":
            raise self._not_miton()
        return body

    async def open(self, root: Path) -> dict[str, Any]:
        return await self._call("POST", "/v1/workspaces", {"root": str(root)})

    async def workspaces(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self._call("GET", "/v1/workspaces"))["data"]
        return found

    async def put_document(self, root: Path, path: str, text: str, version: int) -> None:
        body = {"workspace": str(root), "path": path, "text": text, "version": version}
        await self._call("PUT", "/v1/documents", body)

    async def drop_document(self, root: Path, path: str) -> None:
        await self._call("DELETE", "/v1/documents", {"workspace": str(root), "path": path})

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._call("POST", "/v1/completions", body)

    async def context(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._call("POST", "/v1/context", body)

    async def symbols(self, root: Path, path: str, name: str) -> dict[str, Any]:
        return await self._call("POST", "/v1/symbols", {"workspace": str(root), "path": path, "name": name})

    async def chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._call("POST", "/v1/chat/completions", body)

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        status, answer = await self._exchange(method, path, body)
        if status >= 400:
            told = answer.get("error")
            message = told.get("message") if isinstance(told, dict) else None
            raise Refused(status, message or f"The service answered {status}.")
        return answer

    async def _exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, read_s: float = READ_S
    ) -> tuple[int, dict[str, Any]]:
        """HTTP status and the object that was answered."""
        import httpx  # here: an editor waits for the server's start

        if self._http is None:
            # trust_env off: a proxy for the outside world must not get what is meant for this machine.
            self._http = httpx.AsyncClient(
                base_url=self.url, trust_env=False,
                headers={"authorization": f"Bearer {self._token}"} if self._token else {},
            )  # fmt: skip
        try:
            answer = await self._http.request(
                method, path, json=body, timeout=httpx.Timeout(CONNECT_S, read=read_s)
            )
        except httpx.HTTPError as error:
            raise Unreachable(
                f"No Miton service answers at {self.url} ({type(error).__name__}). "
                "Start it with `miton serve`, or set `url` in the server's initializationOptions."
            ) from error
        try:
            decoded = json.loads(answer.content or b"{}")
        except ValueError:
            decoded = None
        if not isinstance(decoded, dict):
            raise self._not_miton()
        return answer.status_code, decoded

    def _not_miton(self) -> Unreachable:
        return Unreachable(
            f"What answers at {self.url} is not Miton; set `url` in the server's initializationOptions."
        )
