"""Wires routes, error answers and security into one ASGI application."""

from __future__ import annotations

from fastapi import FastAPI

from miton_service.api import chat, choices, completions, context, infill, status, symbols, workspaces
from miton_service.api.error_handling import install_error_handlers
from miton_service.security import SecurityMiddleware
from miton_service.service import Service, version


def create_app(service: Service) -> FastAPI:
    """The application over a service; it may still be loading."""
    app = FastAPI(title="Miton", version=version(), docs_url=None, redoc_url=None)
    install_error_handlers(app)
    for part in (status, completions, chat, infill, context, choices, symbols, workspaces):
        app.include_router(part.router(service))
    app.add_middleware(SecurityMiddleware, settings=service.settings, token=service.token)
    return app
