"""docs/api.md tells the truth: its examples run, and every route is in it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from miton_service.app import create_app
from miton_service.service import Service
from miton_service.settings import VARIABLES, ServiceSettings

from .conftest import RunningService

DOCS = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
EXAMPLES = re.findall(r"```sh\n(.*?)```", DOCS, re.S)


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.split("\n")[0][:60] for example in EXAMPLES])
def test_the_examples_run(example: str, running_service: RunningService, repository: Path) -> None:
    script = 'curl() { command curl -sS --noproxy "*" --fail-with-body "$@"; }\nset -e\n' + example
    environment = {**os.environ, "URL": running_service.url, "ROOT": str(repository)}
    ran = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    if "# 400" in example:
        assert ran.returncode == 22
        assert "`temperature` must be a number." in ran.stdout
        return
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout


def test_there_are_examples_and_every_route_and_variable_is_documented() -> None:
    assert len(EXAMPLES) >= 12
    for path, methods in create_app(Service(ServiceSettings())).openapi()["paths"].items():
        assert path.partition("/{")[0] in DOCS
        assert methods
    for variable in VARIABLES.values():
        assert variable in DOCS
