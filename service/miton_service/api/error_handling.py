"""Every failure as OpenAI's error object, in a sentence that says what to do."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from miton_engine.errors import EngineClosed, EngineError, InvalidRequest, PromptTooLong
from miton_service.api.streaming import ClientGone, error_response
from miton_service.errors import ApiError, ServiceError

log = logging.getLogger(__name__)

EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "an object",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "string_unicode": "valid Unicode text",
}


def install_error_handlers(app: FastAPI) -> None:
    """Give the application its handlers, for expected and unexpected failures."""

    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        return error_response(error)

    @app.exception_handler(ClientGone)
    async def client_gone(request: Request, error: ClientGone) -> Response:
        return Response(status_code=499)

    @app.exception_handler(EngineError)
    async def engine_error(request: Request, error: EngineError) -> Response:
        return error_response(as_api_error(error))

    @app.exception_handler(ServiceError)
    async def service_error(request: Request, error: ServiceError) -> Response:
        return error_response(ApiError(400, str(error)))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        message, param = describe(error.errors())
        return error_response(ApiError(400, message, param=param, code="invalid_value"))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        return error_response(_http_error(app, request, error))

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return error_response(internal_error(error))


def as_api_error(error: EngineError) -> ApiError:
    """The engine's own errors keep their sentence."""
    if isinstance(error, PromptTooLong):
        return ApiError(400, str(error), code="context_length_exceeded", param="prompt")
    if isinstance(error, InvalidRequest):
        return ApiError(400, str(error), code="invalid_value")
    if isinstance(error, EngineClosed):
        return ApiError(503, str(error), type="server_error", code="stopping")
    return ApiError(500, str(error), type="server_error", code="engine_error")


def internal_error(error: Exception) -> ApiError:
    """A failure nobody foresaw: its kind is told, its text stays in the log."""
    return ApiError(
        500,
        f"The service failed on this request ({type(error).__name__}); its log has the details. "
        "`miton doctor` checks the machine and the model.",
        type="server_error",
        code="internal_error",
    )


def describe(errors: Sequence[Any]) -> tuple[str, str | None]:
    """One sentence per wrong field, at most three, and the first field's name."""
    sentences: dict[str, str] = {}
    for error in errors:
        if error["type"] == "json_invalid":
            reason = error.get("ctx", {}).get("error", "not JSON")
            where = error["loc"][-1] if isinstance(error["loc"][-1], int) else 0
            return f"The body is not valid JSON: {reason} at character {where}.", None
        name = _name(error["loc"])
        if not name:
            return "The body is missing or not an object; send a JSON object.", None
        sentences.setdefault(name, _sentence(name, error))
    return " ".join(list(sentences.values())[:3]), next(iter(sentences), None)


def _name(location: Sequence[str | int]) -> str:
    # ("body", "prompt", "list[str]", 3): members of a union add their type's name, of no use to a client.
    parts = [
        part for part in location[1:] if isinstance(part, int) or (part.isidentifier() and part not in TYPES)
    ]
    name = ""
    for part in parts:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name


TYPES = frozenset({"str", "int", "float", "bool"})


def _sentence(name: str, error: Any) -> str:
    kind, limits = error["type"], error.get("ctx", {})
    if kind == "missing":
        return f"`{name}` is missing."
    if kind in EXPECTED:
        return f"`{name}` must be {EXPECTED[kind]}."
    for key, words in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than")):
        if key in limits:
            return f"`{name}` must be {words} {limits[key]}."
    if kind == "literal_error":
        return f"`{name}` must be one of {limits['expected']}."
    if kind == "too_short":
        return f"`{name}` must have at least {limits['min_length']} item."
    return f"`{name}`: {error['msg']}."


def _http_error(app: FastAPI, request: Request, error: HTTPException) -> ApiError:
    path, status = request.url.path, error.status_code
    routes: dict[str, list[str]] = {
        route: sorted(method.upper() for method in methods)
        for route, methods in app.openapi()["paths"].items()
    }
    if status == 405:
        allowed = ", ".join(routes.get(path, ["GET"]))
        return ApiError(405, f"{path} does not take {request.method}; it takes {allowed}.",
                        code="method_not_allowed")  # fmt: skip
    if status == 404:
        near = difflib.get_close_matches(path, routes, n=3, cutoff=0.5)
        listed = ", ".join(f"{method} {route}" for route in near for method in routes[route])
        hint = f"Near it: {listed}." if listed else f"There are: {', '.join(routes)}."
        return ApiError(404, f"There is no {path}. {hint}", code="not_found")
    if status == 400:
        return ApiError(400, "The body cannot be read as JSON: it is not UTF-8, or nested too deeply.")
    return ApiError(status, str(error.detail), code="request_too_large" if status == 413 else None)
