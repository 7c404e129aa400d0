"""Settings: command line, then MITON_* variables, then defaults, each fault with its fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from miton_service.errors import SettingsError
from miton_service.settings import DEFAULT_PORT, VARIABLES, ServiceSettings, load_settings, parse_size


def test_defaults_are_sane() -> None:
    settings = load_settings({}, {})
    assert (settings.host, settings.port) == ("127.0.0.1", DEFAULT_PORT)
    assert settings.url() == "http://127.0.0.1:8377"
    assert not settings.needs_token


def test_the_default_model_and_cache_are_the_engines() -> None:
    from miton_engine.runtime.engine import DEFAULT_MODEL

    assert ServiceSettings().model == DEFAULT_MODEL


def test_variables_are_read_and_options_win() -> None:
    environ = {
        "MITON_PORT": "9000", "MITON_MEMORY": "1.5GB", "MITON_REQUIRE_TOKEN": "yes",
        "MITON_WORKSPACES": "/a:/b",
        "MITON_CACHE": "/c", "MITON_HOST": "",
    }  # fmt: skip
    settings = load_settings({"port": 9001, "host": None}, environ)
    assert settings.port == 9001
    assert settings.host == "127.0.0.1"
    assert settings.memory_bytes == 1536 << 20
    assert settings.require_token
    assert settings.workspaces == (Path("/a"), Path("/b"))
    assert settings.cache_dir == Path("/c")


@pytest.mark.parametrize(
    ("variable", "value"),
    [("MITON_PORT", "http"), ("MITON_PORT", "70000"), ("MITON_MEMORY", "much"),
     ("MITON_REQUIRE_TOKEN", "maybe"),
     ("MITON_THREADS", "-1"), ("MITON_LOG_LEVEL", "loud"), ("MITON_MAX_BODY", "1KB")],
)  # fmt: skip
def test_a_wrong_value_is_named(variable: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {variable: value})
    assert value.split("KB")[0].lower() in str(caught.value)


def test_every_setting_has_a_variable() -> None:
    from dataclasses import fields

    assert {field.name for field in fields(ServiceSettings)} == set(VARIABLES)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("64", 64), ("2k", 2048), ("2 GiB", 2 << 30), ("1.5MB", 1536 << 10), ("1TB", 1 << 40)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_the_token_is_never_shown() -> None:
    assert "hidden-value" not in str(ServiceSettings(token="hidden-value").shown())


def test_addresses_a_client_can_use() -> None:
    assert ServiceSettings(host="0.0.0.0").url(1) == "http://127.0.0.1:1"
    assert ServiceSettings(host="::1").url() == "http://[::1]:8377"
    assert ServiceSettings(host="0.0.0.0").needs_token
