"""`miton doctor`: the engine's checks of machine and model, and whether a service answers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from miton_engine.models.doctor import Check, checks
from miton_service.commands.client import ServiceClient
from miton_service.commands.output import print_json
from miton_service.errors import ServiceError
from miton_service.settings import ServiceSettings

MARKS = {True: "[green]ok[/green]  ", False: "[red]FAIL[/red]", None: "[dim]--[/dim]  "}


def doctor(settings: ServiceSettings, service: ServiceClient, *, as_json: bool, console: Console) -> int:
    """Print every check with its fix; returns 1 if one failed."""
    cache = settings.cache_dir if settings.cache_dir != Path() else None
    found = [*checks(settings.model, cache=cache), _service_check(service)]
    if as_json:
        print_json([asdict(check) for check in found])
    else:
        width = max(len(check.name) for check in found)
        for check in found:
            console.print(
                f"{MARKS[check.ok]} {check.name:<{width}}  {check.detail}", highlight=False, soft_wrap=True
            )
            if check.fix:
                console.print(
                    f"       {'':<{width}}[yellow]{check.fix}[/yellow]", highlight=False, soft_wrap=True
                )
    return int(any(check.ok is False for check in found))


def _service_check(service: ServiceClient) -> Check:
    try:
        health = service.health()
    except ServiceError:
        return Check(
            "service",
            None,
            f"none answers at {service.url}",
            "Start it with `miton serve --workspace DIR`.",
        )
    return Check(
        "service",
        health["status"] != "error",
        f"{health['status']} at {service.url}",
        health.get("message", ""),
    )
