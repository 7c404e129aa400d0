"""Imports lead to the workspace file that a compiler or runtime of the language would read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miton_lsp.symbols import FileSymbols, Import, SymbolGraph

TREES = {
    "python": "pkg/__init__.py pkg/a.py pkg/sub/__init__.py pkg/sub/b.py pkg/stub.pyi src/lib/__init__.py"
    " src/lib/core.py tests/test_a.py script.py tools/helper.py tools/run.py",
    "javascript": "src/app.ts src/util.ts src/util/index.ts src/view.tsx src/models/index.ts src/models/user.d.ts"
    " src/legacy.js src/esm.ts src/Widget.vue src/components/button.tsx packages/core/package.json"
    " packages/core/src/index.ts packages/core/src/deep.ts web/tsconfig.json web/lib/x.ts web/pages/p.ts",
    "go": "go.mod main.go internal/store/db.go internal/store/db_test.go internal/store/open.go context/own.go",
    "rust": "src/main.rs src/error.rs src/lexer/mod.rs src/lexer/token.rs src/parser.rs src/parser/expr.rs"
    " crates/my-util/src/lib.rs crates/my-util/src/text.rs",
    "java": "core/src/main/java/com/acme/Money.java core/src/main/java/com/acme/Tax.java"
    " app/src/main/java/com/acme/app/Main.java",
    "c": "src/main.c src/list.h include/shape/shape.h include/list.h lib/util.h",
    "ruby": "lib/shop.rb lib/shop/order.rb bin/run.rb",
    "lua": "init.lua game/player.lua game/world/init.lua",
    "php": "src/Util/Money.php src/App.php",
    "kotlin": "app/src/com/acme/Order.kt app/src/com/acme/Main.kt",
}

CASES = [
    ("python", "pkg/a.py", ".sub.b", "thing", "pkg/sub/b.py"),
    ("python", "pkg/a.py", ".sub", "b", "pkg/sub/b.py"),
    ("python", "pkg/a.py", ".", "stub", "pkg/stub.pyi"),
    ("python", "pkg/sub/b.py", "..a", "f", "pkg/a.py"),
    ("python", "pkg/sub/b.py", "..", "a", "pkg/a.py"),
    ("python", "tests/test_a.py", "pkg.sub", "", "pkg/sub/__init__.py"),
    ("python", "tests/test_a.py", "lib.core", "run", "src/lib/core.py"),
    ("python", "src/lib/core.py", "lib", "x", "src/lib/__init__.py"),
    ("python", "tools/run.py", "helper", "", "tools/helper.py"),
    ("python", "pkg/a.py", "os.path", "join", None),
    ("python", "pkg/a.py", "....far", "x", None),
    ("javascript", "src/app.ts", "./util", "x", "src/util.ts"),
    ("javascript", "src/app.ts", "./models", "x", "src/models/index.ts"),
    ("javascript", "src/models/index.ts", "./user", "x", "src/models/user.d.ts"),
    ("javascript", "src/models/index.ts", "..", "x", None),
    ("javascript", "src/models/index.ts", "../legacy", "x", "src/legacy.js"),
    ("javascript", "src/app.ts", "./esm.js", "x", "src/esm.ts"),
    ("javascript", "src/app.ts", "./Widget.vue", "default", "src/Widget.vue"),
    ("javascript", "src/Widget.vue", "@/components/button", "Button", "src/components/button.tsx"),
    ("javascript", "src/app.ts", "@acme/core", "x", "packages/core/src/index.ts"),
    ("javascript", "src/app.ts", "@acme/core/deep", "x", "packages/core/src/deep.ts"),
    ("javascript", "web/pages/p.ts", "#lib/x", "x", "web/lib/x.ts"),
    ("javascript", "src/app.ts", "#lib/x", "x", None),
    ("javascript", "src/app.ts", "react", "x", None),
    ("javascript", "src/app.ts", "node:fs", "x", None),
    ("go", "main.go", "example.com/acme/internal/store", "", "internal/store/db.go"),
    ("go", "main.go", "context", "", None),
    ("go", "main.go", "github.com/other/store", "", None),
    ("rust", "src/main.rs", "crate::error", "Error", "src/error.rs"),
    ("rust", "src/main.rs", "crate::error::Error", "Kind", "src/error.rs"),
    ("rust", "src/main.rs", "self", "lexer", "src/lexer/mod.rs"),
    ("rust", "src/lexer/mod.rs", "self", "token", "src/lexer/token.rs"),
    ("rust", "src/lexer/token.rs", "super", "Lexer", "src/lexer/mod.rs"),
    ("rust", "src/parser.rs", "self::expr", "parse", "src/parser/expr.rs"),
    ("rust", "src/parser/expr.rs", "crate::lexer::token", "Token", "src/lexer/token.rs"),
    ("rust", "src/main.rs", "my_util::text", "wrap", "crates/my-util/src/text.rs"),
    ("rust", "src/main.rs", "my_util", "wrap", "crates/my-util/src/lib.rs"),
    ("rust", "src/main.rs", "std::collections", "HashMap", None),
    (
        "java",
        "app/src/main/java/com/acme/app/Main.java",
        "com.acme",
        "Money",
        "core/src/main/java/com/acme/Money.java",
    ),
    (
        "java",
        "app/src/main/java/com/acme/app/Main.java",
        "com.acme.Money",
        "of",
        "core/src/main/java/com/acme/Money.java",
    ),
    (
        "java",
        "app/src/main/java/com/acme/app/Main.java",
        "com.acme",
        "*",
        "core/src/main/java/com/acme/Money.java",
    ),
    ("java", "app/src/main/java/com/acme/app/Main.java", "java.util", "List", None),
    ("c", "src/main.c", "list.h", "*", "src/list.h"),
    ("c", "src/main.c", "shape/shape.h", "*", "include/shape/shape.h"),
    ("c", "src/main.c", "stdio.h", "*", None),
    ("ruby", "lib/shop.rb", "shop/order", "*", "lib/shop/order.rb"),
    ("ruby", "bin/run.rb", "../lib/shop", "*", "lib/shop.rb"),
    ("ruby", "bin/run.rb", "json", "*", None),
    ("lua", "init.lua", "game.player", "*", "game/player.lua"),
    ("lua", "init.lua", "game.world", "*", "game/world/init.lua"),
    ("php", "src/App.php", "Acme.Util", "Money", "src/Util/Money.php"),
    ("kotlin", "app/src/com/acme/Main.kt", "com.acme", "Order", "app/src/com/acme/Order.kt"),
]


def tree(language: str) -> SymbolGraph:
    graph = SymbolGraph()
    for path in TREES[language].split():
        graph.update(path, FileSymbols())
    graph.configure("go.mod", "module example.com/acme\n\ngo 1.24\n")
    graph.configure(
        "web/tsconfig.json",
        '{\n  // aliases\n  "compilerOptions": {"baseUrl": ".", "paths": {"#lib/*": ["lib/*"], }},\n}\n',
    )
    return graph


@pytest.mark.parametrize(("language", "path", "module", "name", "expected"), CASES)
def test_an_import_leads_to_its_file(
    language: str, path: str, module: str, name: str, expected: str | None
) -> None:
    assert tree(language).resolve_import(path, Import(module, name, name or module, 0)) == expected


def test_a_go_package_is_all_its_files_but_the_tests() -> None:
    graph = tree("go")
    item = Import("example.com/acme/internal/store", "", "store", 0)
    assert graph.import_targets("main.go", item) == ["internal/store/db.go", "internal/store/open.go"]


def test_configuration_files_are_known_by_name_and_broken_ones_do_no_harm() -> None:
    graph = tree("javascript")
    assert not graph.configure("package.json", "{}")
    for text in ("", "[]", "{", '{"compilerOptions": 3}', '{"compilerOptions": {"paths": []}}', '"x"'):
        assert graph.configure("web/tsconfig.json", text)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(TREES)),
    st.text(alphabet="./:@abcsrc_*\\", max_size=20),
    st.sampled_from(["", "*", "a", "default", "b.c"]),
    st.data(),
)
def test_no_import_raises_or_leads_outside(
    language: str, module: str, name: str, data: st.DataObject
) -> None:
    graph = tree(language)
    path = data.draw(st.sampled_from(TREES[language].split()))
    found = graph.resolve_import(path, Import(module, name, name, 0))
    assert found is None or (found in graph and found != path)
