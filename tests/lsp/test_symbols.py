"""Definitions, imports and references of each language; what a name means; who calls and inherits what."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miton_lsp.symbols import FileSymbols, Import, SymbolGraph, file_symbols

SAMPLES = Path(__file__).parent / "samples"
DEFINED = {
    "sample.py": "logged Cache Cache.__init__ Cache.lookup Cache.Error.describe fetch DEFAULT_SIZE",
    "sample.js": "LIMIT add load Queue Queue.push numbers area",
    "sample.ts": "Shape Shape.area Point Colour sealed Circle Circle.describe handle scale Geometry.distance",
    "sample.tsx": "Props Counter Title Boundary Boundary.render",
    "sample.go": "DefaultPort Handler Server New Server.Handle Stack Stack.Push Map",
    "sample.rs": "LIMIT Token Tokenizer Visit Visit.done Tokenizer.new Tokenizer.visit square tests.squares",
    "Sample.java": "Sample Sample.compareTo Sample.total Sample.State.isOpen Sample.Line.twice Sample.LIMIT",
    "sample.c": "SQUARE point_t colour point_add name_of dump LIMIT",
    "sample.cpp": "geometry geometry.Box geometry.Box.area geometry.distance geometry.Label.text exported",
    "sample.cs": "Order Order.CompareTo IVisitor.Visit State Line.Twice",
    "sample.rb": "Shop.Order Shop.Order.empty total",
    "sample.php": "Visitor Order.count Loggable.log total",
    "sample.kt": "Order.compareTo Registry.register total shout",
    "sample.swift": "Order.total Point.move Point.twice sum",
    "sample.scala": "Order.compare Order.parse Visitor.visit",
    "sample.lua": "add M.total M.describe M.twice",
    "sample.sh": "fail build",
    "sample.vue": "increase reset",
    "sample.svelte": "increase",
    "sample.html": "total Basket.add",
}
IMPORTED = {
    "sample.py": {("functools", "", "functools"), ("collections", "OrderedDict", "OrderedDict")},
    "sample.js": {
        ("node:fs/promises", "readFile", "readFile"),
        ("path", "default", "path"),
        ("path", "join", "joinPath"),
        ("events", "", "events"),
    },
    "sample.ts": {
        ("./request", "Request", "Request"),
        ("./response/index", "Response", "Reply"),
        ("fs", "", "fs"),
    },
    "sample.go": {("fmt", "", "fmt"), ("example.com/miton/internal/store", "", "store")},
    "sample.rs": {
        ("std::collections", "HashMap", "HashMap"),
        ("crate::error", "Error", "Error"),
        ("crate::error", "Result", "Outcome"),
        ("self", "lexer", "lexer"),
    },
    "Sample.java": {
        ("java.util", "List", "List"),
        ("com.example.util.Money", "round", "round"),
        ("com.example.util", "*", "*"),
    },
    "sample.c": {("stdio.h", "*", "*"), ("list.h", "*", "*")},
    "sample.rb": {("support/money", "*", "*")},
    "sample.php": {("Example.Util", "Money", "Money")},
    "sample.vue": {("./format", "format", "format")},
}
CALLED = {
    "sample.py": "fetch lookup print",
    "sample.js": "readFile joinPath add",
    "sample.ts": "send hypot",
    "sample.go": "Open Errorf Handle",
    "sample.rs": "split_whitespace println",
    "Sample.java": "copyOf round",
    "sample.c": "name_of printf",
    "sample.cpp": "abs twice",
    "sample.kt": "largest",
    "sample.sh": "fail build",
}
BASES = {
    "sample.py": "OrderedDict Exception",
    "sample.js": "EventEmitter",
    "sample.ts": "Shape",
    "sample.rs": "Visit",
    "Sample.java": "Base Comparable",
    "sample.cpp": "Shape",
    "sample.cs": "Base IComparable",
    "sample.rb": "Base",
    "sample.php": "Base",
    "sample.kt": "Comparable",
    "sample.swift": "Base Comparable",
    "sample.scala": "Ordered",
}


def symbols(name: str) -> FileSymbols:
    return file_symbols((SAMPLES / name).read_text("utf-8"), name)


@pytest.mark.parametrize("name", DEFINED)
def test_definitions_of_each_language_are_found(name: str) -> None:
    found = {definition.symbol for definition in symbols(name).definitions}
    assert set(DEFINED[name].split()) <= found


@pytest.mark.parametrize("name", DEFINED)
def test_definitions_stand_where_their_name_stands(name: str) -> None:
    lines = (SAMPLES / name).read_text("utf-8").split("\n")
    for definition in symbols(name).definitions:
        assert 0 <= definition.start_line <= definition.end_line < len(lines)
        assert definition.name in "\n".join(lines[definition.start_line : definition.end_line + 1])


@pytest.mark.parametrize("name", IMPORTED)
def test_imports_of_each_language_are_found(name: str) -> None:
    found = {(item.module, item.name, item.alias) for item in symbols(name).imports}
    assert found >= IMPORTED[name]


@pytest.mark.parametrize("name", CALLED)
def test_calls_of_each_language_are_found(name: str) -> None:
    found = {reference.name for reference in symbols(name).references if reference.kind == "call"}
    assert (set(CALLED[name].split()) - {"fetch"}) <= found


@pytest.mark.parametrize("name", BASES)
def test_bases_of_each_language_are_found(name: str) -> None:
    found = {reference.name for reference in symbols(name).references if reference.kind == "base"}
    assert set(BASES[name].split()) <= found


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(DEFINED)), st.integers(0, 900), st.text(max_size=12))
def test_broken_source_never_raises(name: str, at: int, inserted: str) -> None:
    text = (SAMPLES / name).read_text("utf-8")
    file_symbols(text[:at] + inserted + text[at:], name)


def test_texts_beyond_the_limits_have_no_symbols() -> None:
    assert file_symbols("x = 1\n" * 400_000, "a.py") == FileSymbols()
    assert file_symbols("x = '\ud800'", "a.py") == FileSymbols()
    assert file_symbols("anything", "a.unknown") == FileSymbols()


def graph(**files: str) -> SymbolGraph:
    result = SymbolGraph()
    for name, text in files.items():
        path = name.replace("__", "/").replace("_py", ".py")
        result.update(path, file_symbols(text, path))
    return result


SHOP = {
    "shop__init_py": "from .order import Order as PublicOrder\nfrom .money import *\n",
    "shop__order_py": "from .money import total\nfrom . import base\n\nclass Order(base.Base):\n"
    "    def price(self):\n        return total(self.lines)\n",
    "shop__money_py": "def total(lines):\n    return sum(lines)\n\ndef unused():\n    return total([])\n",
    "shop__base_py": "class Base:\n    def save(self):\n        return self\n",
    "app_py": "from shop.init import PublicOrder, total\n\ndef main():\n    return PublicOrder().price(), total([])\n",
    "other_py": "def total():\n    pass\n\nclass Special:\n    pass\n",
}


def test_an_imported_name_ranks_first_and_says_how_it_was_imported() -> None:
    candidates = graph(**SHOP).candidates("app.py", ["total", "PublicOrder"])
    assert [(path, definition.symbol) for path, definition, _ in candidates[:2]] == [
        ("shop/money.py", "total"),
        ("shop/order.py", "Order"),
    ]
    assert "imported by this file: `from shop.init import total`" in candidates[0][2]
    assert "called here" in candidates[0][2]
    assert ("other.py", "total") in [(path, definition.symbol) for path, definition, _ in candidates]


def test_a_method_of_an_imported_class_is_preferred() -> None:
    built = graph(**SHOP, other2_py="class Unrelated:\n    def price(self):\n        pass\n")
    path, definition, reason = built.candidates("app.py", ["price"])[0]
    assert (path, definition.symbol) == ("shop/order.py", "Order.price")
    assert "member of `Order`" in reason


def test_a_unique_name_is_found_without_an_import() -> None:
    path, _, reason = graph(**SHOP).candidates("shop/base.py", ["Special"])[0]
    assert path == "other.py"
    assert reason == "the only definition of `Special`"


def test_weights_order_the_candidates() -> None:
    candidates = graph(**SHOP).candidates("app.py", {"total": 0.1, "PublicOrder": 2.0})
    assert candidates[0][1].symbol == "Order"


def test_neighbours_in_the_call_graph_and_the_class_tree() -> None:
    built = graph(**SHOP)
    ((_, order),) = built.definitions_of("Order")
    ((_, price),) = built.definitions_of("price")
    assert [(path, d.symbol) for path, d in built.callees("shop/order.py", price)] == [
        ("shop/money.py", "total")
    ]
    assert {(path, d.symbol) for path, d in built.callers("total")} == {
        ("shop/order.py", "Order.price"),
        ("shop/money.py", "unused"),
        ("app.py", "main"),
    }
    assert [(path, d.symbol) for path, d in built.bases("shop/order.py", order)] == [("shop/base.py", "Base")]
    assert [(path, d.symbol) for path, d in built.subclasses("Base")] == [("shop/order.py", "Order")]


def test_an_edited_file_is_replaced_and_a_deleted_one_is_gone() -> None:
    built = graph(**SHOP)
    built.update("shop/money.py", file_symbols("def amount():\n    pass\n", "shop/money.py"))
    assert [path for path, _ in built.definitions_of("total")] == ["other.py"]
    assert built.definitions_of("amount")
    built.remove("shop/money.py")
    built.remove("never/there.py")
    assert not built.definitions_of("amount")
    assert built.resolve_import("shop/order.py", Import(".money", "total", "total", 0)) is None
    assert all(
        path != "shop/money.py" for path, _, _ in built.candidates("app.py", ["total", "amount", "unused"])
    )


def test_circular_reexports_end() -> None:
    built = graph(a_py="from b import *\nfrom b import x\n", b_py="from a import *\nfrom a import x\n")
    assert built.candidates("a.py", ["x", "y"]) == []


@settings(max_examples=40, deadline=None)
@given(st.permutations(sorted(SHOP)), st.lists(st.sampled_from(sorted(SHOP)), max_size=6))
def test_the_order_of_updates_does_not_matter(order: list[str], again: list[str]) -> None:
    wanted = graph(**SHOP).candidates("app.py", ["total", "price", "save"])
    assert (
        graph(**{name: SHOP[name] for name in [*order, *again]}).candidates(
            "app.py", ["total", "price", "save"]
        )
        == wanted
    )
