"""Workspaces, buffers, context and completions at a cursor over HTTP, on a small repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from miton_service.api import recall
from miton_service.api.completions import LineEnds
from miton_service.api.running import Unfiltered
from miton_service.settings import ServiceSettings

from .conftest import RunningService, events_of, running

CART = {"path": "shop/cart.py", "cursor": {"line": 9, "character": 30}}


@pytest.fixture
def at_cart(running_service: RunningService, repository: Path) -> dict[str, Any]:
    settle(running_service)
    return {"workspace": str(repository), **CART}


def settle(running_service: RunningService) -> None:
    def ready() -> bool:
        listed = running_service.client.get("/v1/workspaces").json()["data"]
        return all(item["state"] == "ready" for item in listed)

    assert running_service.settled(ready)


def test_a_workspace_tells_its_progress_and_what_it_left_out(
    running_service: RunningService, repository: Path
) -> None:
    settle(running_service)
    (item,) = running_service.client.get("/v1/workspaces").json()["data"]
    assert item["root"] == str(repository)
    assert item["files"] >= 4
    assert item["indexed_tokens"] == item["tokens"] > 0
    assert all(set(skipped) == {"path", "reason"} for skipped in item["skipped"])


def test_context_names_the_chunk_of_the_other_file_and_why(
    running_service: RunningService, at_cart: dict[str, Any]
) -> None:
    answer = running_service.client.post("/v1/context", json=at_cart).json()
    (found,) = [item for item in answer["context"] if item["symbol"] == "price_with_tax"]
    assert found["path"] == "shop/prices.py"
    assert (found["start_line"], found["end_line"]) == (0, 3)
    assert found["reasons"]
    assert found["tokens"] > 0
    assert answer["tokens"] == sum(item["tokens"] for item in answer["context"])
    none = running_service.client.post("/v1/context", json={**at_cart, "context_tokens": 0}).json()
    assert none["context"] == []


def test_a_completion_at_a_cursor_attaches_it_and_is_recorded(
    running_service: RunningService, at_cart: dict[str, Any]
) -> None:
    body = {**at_cart, "max_tokens": 8}
    answer = running_service.client.post("/v1/completions", json=body).json()
    assert "shop/prices.py" in {item["path"] for item in answer["miton"]["context"]}
    timings = answer["miton"]["timings"]
    assert timings["cached_tokens"] > 0
    assert {"recall_ms", "attach_ms", "prefill_ms", "prefill_tokens", "cached_tokens", "ttft_ms", "decode_ms",
            "decode_tokens"} <= set(timings)  # fmt: skip
    record = running_service.client.get("/v1/requests?limit=1").json()["data"][0]
    assert record["id"] == answer["id"]
    assert record["path"] == "shop/cart.py"
    assert record["context"] == answer["miton"]["context"]


def test_a_buffer_wins_over_the_disk(running_service: RunningService, at_cart: dict[str, Any]) -> None:
    buffer = "from shop.prices import price_with_tax\n\nx = 1\n"
    body = {**at_cart, "buffer": buffer, "cursor": {"line": 2, "character": 5}}
    assert running_service.client.post("/v1/context", json=body).status_code == 200
    outside = {**body, "cursor": {"line": 9, "character": 0}}
    answer = running_service.client.post("/v1/context", json=outside)
    assert answer.status_code == 400
    assert "line" in answer.json()["error"]["message"]


def test_a_pushed_document_is_what_others_see_until_it_is_dropped(
    running_service: RunningService, at_cart: dict[str, Any]
) -> None:
    client, workspace = running_service.client, at_cart["workspace"]
    text = "def price_with_tax(pushed_name, tax_rate, currency):\n    return pushed_name\n"
    push = {"workspace": workspace, "path": "shop/prices.py", "text": text, "version": 3}

    def end_line() -> int:
        context = client.post("/v1/context", json=at_cart).json()["context"]
        return next((int(i["end_line"]) for i in context if i["symbol"] == "price_with_tax"), -1)

    assert client.put("/v1/documents", json=push).json() == {
        "workspace": workspace, "path": "shop/prices.py", "version": 3,
    }  # fmt: skip
    assert running_service.settled(lambda: end_line() == 1)
    dropped = {"workspace": workspace, "path": "shop/prices.py"}
    assert client.request("DELETE", "/v1/documents", json=dropped).status_code == 200
    assert running_service.settled(lambda: end_line() == 3)


@pytest.mark.parametrize("path", ["../outside.py", "link.py", ".env", "ignored.py", "/etc/passwd", "a\0b"])
def test_files_outside_ignored_or_secret_are_never_read(
    running_service: RunningService, at_cart: dict[str, Any], path: str
) -> None:
    body = {**at_cart, "path": path, "cursor": {"line": 0, "character": 0}, "max_tokens": 4}
    for route in ("/v1/context", "/v1/completions"):
        answer = running_service.client.post(route, json=body)
        assert answer.status_code in (400, 403, 404), (path, answer.text)
        assert "very-secret" not in answer.text
    put = {"workspace": at_cart["workspace"], "path": path, "text": "x = 1\n"}
    if path not in (".env", "ignored.py"):
        assert running_service.client.put("/v1/documents", json=put).status_code in (400, 403)


def test_no_context_ever_comes_from_an_ignored_or_secret_file(
    running_service: RunningService, at_cart: dict[str, Any]
) -> None:
    for question in ("SECRET_CONSTANT", "API_KEY very-secret-value", "OUTSIDE never to be read"):
        body = {"workspace": at_cart["workspace"], "question": question}
        context = running_service.client.post("/v1/context", json=body).json()["context"]
        assert not {"ignored.py", ".env", "link.py"} & {item["path"] for item in context}


def test_a_crlf_file_gets_crlf_back() -> None:
    text_filter = LineEnds(Unfiltered(), crlf=True)
    assert text_filter.push("a\n") + text_filter.push("\nb") == "a\r\n\r\nb"


def test_a_cursor_counts_utf_16_units(running_service: RunningService, at_cart: dict[str, Any]) -> None:
    inside = {**at_cart, "path": "emoji.py", "cursor": {"line": 0, "character": 13}}
    assert running_service.client.post("/v1/context", json=inside).status_code == 200
    for character, where in ((14, "beyond the line"), (9, "inside a pair")):
        wrong = {**inside, "cursor": {"line": 0, "character": character}}
        assert running_service.client.post("/v1/context", json=wrong).status_code == 400, where


@pytest.mark.parametrize(
    ("line", "character"), [(0, 8), (0, 10), (0, 12), (1, 8), (1, 9), (1, 10)],
    ids=["before emoji", "between emoji", "after emoji", "before CJK", "between CJK", "after CJK"],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_beside_emoji_and_cjk_characters_is_whole_text(
    running_service: RunningService, at_cart: dict[str, Any], line: int, character: int, stream: bool
) -> None:
    body = {**at_cart, "path": "emoji.py", "cursor": {"line": line, "character": character}, "max_tokens": 12}
    answer = running_service.client.post("/v1/completions", json={**body, "stream": stream})
    assert answer.status_code == 200, answer.text
    if stream:
        events = events_of(answer.content.split(b"\n"))
        text = "".join(choice["text"] for event in events for choice in event["choices"])
    else:
        text = answer.json()["choices"][0]["text"]
    assert text.encode("utf-16", "strict")  # no half of a surrogate pair


def test_two_services_on_one_cache_directory_share_chunks(
    tiny_model: Path, repository: Path, tmp_path: Path
) -> None:
    """Both work at once; what one stored is found by the other, and all of it is whole afterwards."""
    settings = ServiceSettings(model=str(tiny_model), cache_dir=tmp_path, workspaces=(repository,), port=0)
    body = {"workspace": str(repository), **CART, "max_tokens": 8}
    with running(settings) as first, running(settings) as second:
        for service in (first, second):
            settle(service)
        answers = [service.client.post("/v1/completions", json=body).json() for service in (first, second)]
        assert answers[0]["choices"][0]["text"] == answers[1]["choices"][0]["text"]
        assert all(answer["miton"]["context"] for answer in answers)
        assert first.service.engine.store.flush()
        assert second.service.engine.store.flush()
        stats = [service.service.engine.store.stats()["disk"] for service in (first, second)]
        assert first.service.engine.store.keys() == second.service.engine.store.keys()
        assert first.service.engine.store.verify().ok
    assert all(disk["damaged"] == disk["index_rebuilds"] == 0 for disk in stats)
    assert all(disk["problem"] is None for disk in stats)


def test_a_chunk_is_pinned_excluded_and_taken_back(
    running_service: RunningService, at_cart: dict[str, Any]
) -> None:
    client, root = running_service.client, at_cart["workspace"]
    (first, *_) = client.post("/v1/context", json=at_cart).json()["context"]
    one = {"workspace": root, "path": first["path"], "symbol": first["symbol"]}
    told = client.put("/v1/choices", json={**one, "kind": "exclude"})
    assert told.json() == {
        "workspace": root,
        "choices": [{"path": first["path"], "symbol": first["symbol"], "kind": "exclude"}],
    }
    assert client.get("/v1/choices", params={"workspace": root}).json() == told.json()
    named = [
        (item["path"], item["symbol"]) for item in client.post("/v1/context", json=at_cart).json()["context"]
    ]
    assert (first["path"], first["symbol"]) not in named
    client.put("/v1/choices", json={**one, "kind": "pin"})
    (pinned, *_) = client.post("/v1/context", json=at_cart).json()["context"]
    assert (pinned["symbol"], pinned["reasons"]) == (first["symbol"], ["pinned"])
    assert client.request("DELETE", "/v1/choices", json=one).json()["choices"] == []
    assert client.post("/v1/context", json=at_cart).json()["context"][0]["reasons"] == first["reasons"]
    for wrong in ({"path": "none.py"}, {"symbol": "nothing"}, {"kind": "love"}):
        assert client.put("/v1/choices", json={**one, "kind": "pin", **wrong}).status_code == 400, wrong


def test_a_name_is_told_with_its_definition_and_its_users(
    running_service: RunningService, at_cart: dict[str, Any]
) -> None:
    body = {"workspace": at_cart["workspace"], "path": "shop/cart.py", "name": "price_with_tax"}
    told = running_service.client.post("/v1/symbols", json=body).json()
    assert (told["definitions"][0]["path"], told["definitions"][0]["kind"]) == ("shop/prices.py", "function")
    assert told["definitions"][0]["signature"].startswith("def price_with_tax(")
    assert told["used_in"] == ["shop/cart.py"]
    nothing = running_service.client.post("/v1/symbols", json={**body, "name": "unknown_name"}).json()
    assert (nothing["definitions"], nothing["used_in"], nothing["users"]) == ([], [], 0)


def test_a_workspace_that_is_not_open_says_how_to_open_it(
    running_service: RunningService, tmp_path: Path
) -> None:
    body = {"workspace": str(tmp_path), **CART}
    for route in ("/v1/completions", "/v1/context"):
        answer = running_service.client.post(route, json=body)
        assert answer.status_code == 404
        assert "POST /v1/workspaces" in answer.json()["error"]["message"]


def test_a_workspace_is_opened_and_closed(running_service: RunningService, tmp_path: Path) -> None:
    client, root = running_service.client, tmp_path / "other"
    root.mkdir()
    (root / "a.py").write_text("def only_here():\n    return 1\n")
    assert client.post("/v1/workspaces", json={"root": str(root)}).json()["root"] == str(root)
    assert client.post("/v1/workspaces", json={"root": str(root)}).status_code == 200
    assert len(client.get("/v1/workspaces").json()["data"]) == 2
    assert client.request("DELETE", "/v1/workspaces", json={"root": str(root)}).json()["closed"] is True
    assert client.request("DELETE", "/v1/workspaces", params={"root": str(root)}).status_code == 404
    for wrong in ("relative/path", str(root / "nothing"), str(root / "a.py")):
        answer = client.post("/v1/workspaces", json={"root": wrong})
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "root"


def test_chat_with_a_workspace_cites_its_chunks(
    running_service: RunningService, at_cart: dict[str, Any]
) -> None:
    body = {
        "messages": [{"role": "user", "content": "What does price_with_tax return?"}],
        "workspace": at_cart["workspace"], "max_tokens": 6, "temperature": 0,
    }  # fmt: skip
    answer = running_service.client.post("/v1/chat/completions", json=body).json()
    assert "shop/prices.py" in {item["path"] for item in answer["miton"]["context"]}


def test_a_chunk_that_is_not_in_memory_yet_is_left_out_and_computed_for_the_next_key(
    running_service: RunningService, at_cart: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "COMPUTED_WHILE_ONE_WAITS", 0)
    client, document = running_service.client, {"workspace": at_cart["workspace"], "path": "shop/prices.py"}

    def attached() -> set[str]:
        return {item["path"] for item in client.post("/v1/context", json=at_cart).json()["context"]}

    for version in (
        1,
        2,
    ):  # the second is an edit: the background leaves what is being typed alone for a while
        text = f"def price_with_tax(net: float, rate: float) -> float:\n    return net * rate + {version}\n"
        put = client.put("/v1/documents", json={**document, "text": text, "version": version})
        assert put.status_code == 200
    assert "shop/prices.py" not in attached()
    assert running_service.settled(lambda: "shop/prices.py" in attached())
    assert client.request("DELETE", "/v1/documents", json=document).status_code == 200
