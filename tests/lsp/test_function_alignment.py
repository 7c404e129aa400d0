"""A chunk is a function: with its decorators, comments and docstring, cut only where it exceeds the bound."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from miton_lsp.chunking import Chunk, ChunkOptions, chunk_text, estimate_tokens

SAMPLES = Path(__file__).parent / "samples"
EXPECTED = {
    "sample.py": "logged Cache Cache.__init__ Cache.lookup Cache.full Cache.Error Cache.Error.describe fetch",
    "sample.js": "add load Queue Queue.constructor Queue.length Queue.push numbers module.exports.area",
    "sample.ts": "Shape Point Colour sealed Circle Circle.constructor Circle.area handle scale Geometry.distance",
    "sample.tsx": "Props Counter Title Boundary Boundary.componentDidCatch Boundary.render",
    "sample.go": "Handler Server New Server.Handle Stack Stack.Push Map",
    "sample.rs": "Token Tokenizer Visit Visit.done Tokenizer.new Tokenizer.next Tokenizer.visit square tests.squares",
    "Sample.java": "Sample Sample.Sample Sample.compareTo Sample.total Sample.State.isOpen Sample.Visitor.visit"
    " Sample.Line.twice",
    "sample.kt": "Order Order.compareTo Order.empty Visitor.visit Registry Registry.register total shout",
    "sample.c": "SQUARE point_t colour point_add name_of dump",
    "sample.cpp": "geometry.Box geometry.Box.Box geometry.Box.area geometry.Point geometry.distance"
    " geometry.Label.text geometry.twice exported",
    "sample.cs": "Example.Shop.Order Example.Shop.Order.Order Example.Shop.Order.CompareTo Example.Shop.State"
    " Example.Shop.Line.Twice",
    "sample.rb": "Shop Shop.Order Shop.Order.initialize Shop.Order.<=> Shop.Order.empty Shop.Order.secret? total",
    "sample.php": "Visitor.visit Order Order.__construct Order.count Order.empty Loggable.log total",
    "sample.swift": "Visitor Order Order.init Order.total Point.move State Point.twice sum",
    "sample.scala": "Order Order.compare Order.total Order.empty Order.parse Visitor",
    "sample.lua": "add M.total M.describe M.twice",
    "sample.sh": "fail build",
    "sample.sql": "orders open_orders total",
    "sample.html": "total Basket Basket.add",
    "sample.vue": "template increase reset button",
    "sample.svelte": "increase button",
    "sample.css": ":root .button",
    "sample.scss": "rounded .card",
    "sample.md": "Guide Guide.Installing Guide.Using Guide.Using.Details",
    "sample.yaml": "name on jobs",
    "sample.toml": "project tool.build tool.plugins",
    "sample.json": "",
}
PACKAGES = ("httpx", "rich", "click", "flask", "jedi")


def by_symbol(name: str) -> dict[str, Chunk]:
    """First chunk of each symbol, nothing joined."""
    chunks = chunk_text((SAMPLES / name).read_text("utf-8"), name, options=ChunkOptions(min_tokens=0))
    return {chunk.symbol: chunk for chunk in reversed(chunks)}


def test_every_sample_has_its_expectation() -> None:
    assert {path.name for path in SAMPLES.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_functions_and_classes_of_each_language_are_chunks(name: str) -> None:
    assert set(EXPECTED[name].split()) <= set(by_symbol(name))


@pytest.mark.parametrize(
    ("name", "symbol", "starts", "header"),
    [
        ("sample.py", "fetch", "@functools.cache\nasync def fetch", ""),
        ("sample.py", "Cache.full", "    @property\n    def full", "class Cache(OrderedDict):\n"),
        ("sample.py", "Cache.lookup", "    # Looked up by every request", "class Cache(OrderedDict):\n"),
        (
            "sample.py",
            "Cache.Error.describe",
            "        def describe",
            "class Cache(OrderedDict):\n    class Error(Exception):\n",
        ),
        ("sample.js", "add", "/**\n * Adds two numbers.", ""),
        ("sample.js", "load", "// Reads a file in one go.\nexport const load", ""),
        ("sample.ts", "Circle", "@sealed\nexport abstract class Circle", ""),
        ("sample.go", "Server.Handle", "// Handle finds", ""),
        ("sample.rs", "Tokenizer.next", "    #[inline]\n", "impl<'a> Tokenizer<'a> {\n"),
        ("sample.rs", "Token", "/// One token.\n#[derive(Debug, Clone)]", ""),
        ("sample.c", "point_add", "/* Adds two points. */", ""),
        ("sample.cpp", "geometry.twice", "template <class T>", "namespace geometry {\n"),
        ("sample.kt", "total", "// Totals in cents.", ""),
        ("sample.php", "Order", "/**\n * An order.\n */\n#[Entity]", ""),
        ("sample.toml", "tool.build", "# How it is built.\n[tool.build]", ""),
        ("sample.md", "Guide.Using", "## Using", "# Guide\n"),
        ("sample.css", ".button", "/* Buttons. */", ""),
    ],
)
def test_what_leads_a_definition_is_in_its_chunk(name: str, symbol: str, starts: str, header: str) -> None:
    chunk = by_symbol(name)[symbol]
    assert chunk.text.startswith(starts)
    assert chunk.header == header


def test_class_line_and_attributes_are_one_chunk_without_the_methods() -> None:
    chunk = by_symbol("sample.py")["Cache"]
    assert chunk.kind == "class"
    assert "hits = 0" in chunk.text
    assert "def " not in chunk.text


def test_a_large_function_is_cut_at_statements_and_its_pieces_show_the_signature() -> None:
    body = "".join(
        f"    value_{i} = compute(value_{i}, {i})\n    if value_{i}:\n        log(value_{i})\n"
        for i in range(120)
    )
    chunks = chunk_text(f"class A:\n    pass\n\n\ndef long(a,\n         b):\n{body}", "a.py")
    pieces = [chunk for chunk in chunks if chunk.symbol == "long"]
    assert len(pieces) > 3
    assert pieces[0].header == ""
    assert all(piece.header == "def long(a,\n         b):\n" for piece in pieces[1:])
    assert all(piece.text.startswith("    value_") or piece.text.startswith("    if") for piece in pieces[1:])
    assert all(estimate_tokens(piece.text) <= 400 for piece in pieces)


def test_tiny_neighbours_join_and_class_members_never_join_what_follows_the_class() -> None:
    tiny = "".join(f"def f{i}():\n    return {i}\n\n\n" for i in range(40))
    chunks = chunk_text(tiny + "class A:\n    def g(self):\n        pass\n\n\nx = 1\n", "a.py")
    assert len(chunks) < 25
    assert all(estimate_tokens(chunk.text) >= 24 for chunk in chunks[:-2])
    for chunk in chunks:
        assert chunk.header == "" or "x = 1" not in chunk.text


def python_files(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    files = sorted(Path(spec.origin).parent.rglob("*.py"))
    return [path for path in files if "third_party" not in path.parts]


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_of_real_packages_are_whole_against_python_s_own_parser(package: str) -> None:
    """At least 98% of the functions that fit begin no chunk in their middle; decorators never part from them."""
    whole = total = 0
    for path in python_files(package):
        text = path.read_text("utf-8")
        chunks = chunk_text(text, path.name)
        assert "".join(chunk.text for chunk in chunks) == text
        starts = {chunk.start_line for chunk in chunks}
        lines = text.split("\n")
        nested = {
            child
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for child in ast.walk(node)
            if child is not node
        }
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node in nested:
                continue
            assert node.end_lineno is not None
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
            if estimate_tokens("\n".join(lines[first : node.end_lineno])) > 380:
                continue
            total += 1
            whole += not starts & set(range(first + 1, node.end_lineno))
    assert total > 50
    assert whole / total >= 0.98, f"{whole} of {total}"


@pytest.mark.parametrize("package", PACKAGES)
def test_python_functions_begin_their_own_chunk_unless_tiny(package: str) -> None:
    named = total = 0
    for path in python_files(package):
        text = path.read_text("utf-8")
        chunks = chunk_text(text, path.name, options=ChunkOptions(min_tokens=0))
        symbols = {chunk.symbol.rpartition(".")[2] for chunk in chunks}
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                total += 1
                named += node.name in symbols
    assert total > 10
    assert named / total >= 0.99, f"{named} of {total}"


@pytest.mark.parametrize("name", ["a.js", "a.ts", "a.go", "a.rs", "A.java", "a.c", "a.cpp"])
def test_a_long_comment_above_does_not_cut_the_function_below(name: str) -> None:
    comment = "".join(
        f"// {i} words that explain what the function below is good for, at length\n" for i in range(40)
    )
    function = {
        "a.js": "function f(x) {\n" + "  x = g(x);\n" * 30 + "}\n",
        "a.ts": "export function f(x: number) {\n" + "  x = g(x);\n" * 30 + "}\n",
        "a.go": "func f(x int) {\n" + "\tx = g(x)\n" * 30 + "}\n",
        "a.rs": "fn f(mut x: u8) {\n" + "    x = g(x);\n" * 30 + "}\n",
        "A.java": "class A {\nvoid f(int x) {\n" + "    x = g(x);\n" * 30 + "}\n}\n",
        "a.c": "void f(int x) {\n" + "    x = g(x);\n" * 30 + "}\n",
        "a.cpp": "void f(int x) {\n" + "    x = g(x);\n" * 30 + "}\n",
    }[name]
    head, _, rest = function.rpartition("class A {\n")
    chunks = chunk_text(head + ("class A {\n" if name == "A.java" else "") + comment + rest, name)
    assert any(chunk.text.count("g(x)") == 30 for chunk in chunks)
