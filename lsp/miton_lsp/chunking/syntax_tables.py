"""The languages with function-aligned chunks, as data: name -> LanguageSyntax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from .syntax import LanguageSyntax, kinds, types

PYTHON: Final = LanguageSyntax(
    grammar="python",
    functions=types("function_definition"),
    classes=types("class_definition"),
    wrappers=types("decorated_definition"),
)

_JAVASCRIPT_TYPES: Final = "enum_declaration type_alias_declaration"

JAVASCRIPT: Final = LanguageSyntax(
    grammar="javascript",
    functions=types(
        "function_declaration generator_function_declaration method_definition function_signature"
        f" class_static_block {_JAVASCRIPT_TYPES}"
    ),
    classes=types(
        "class_declaration abstract_class_declaration class interface_declaration internal_module module"
    ),
    wrappers=types(
        "export_statement ambient_declaration lexical_declaration variable_declaration variable_declarator"
        " expression_statement assignment_expression field_definition public_field_definition"
    ),
    function_values=types("arrow_function function_expression generator_function"),
    comments=types("comment html_comment"),
    attributes=types("decorator"),
    names=("name", "left", "property", "key"),
    name_stops=types("member_expression subscript_expression nested_identifier"),
    kinds=kinds(**{"class": _JAVASCRIPT_TYPES, "module": "internal_module module"}),
)

_GO_TYPES: Final = "type_declaration"

GO: Final = LanguageSyntax(
    grammar="go",
    functions=types(f"function_declaration method_declaration {_GO_TYPES}"),
    name_types=types("type_spec type_alias"),
    owners=MappingProxyType({"method_declaration": "receiver"}),
    kinds=kinds(**{"class": _GO_TYPES, "method": "method_declaration"}),
)

_RUST_TYPES: Final = "enum_item struct_item union_item type_item"

RUST: Final = LanguageSyntax(
    grammar="rust",
    functions=types(f"function_item macro_definition {_RUST_TYPES}"),
    classes=types("impl_item trait_item mod_item foreign_mod_item"),
    comments=types("line_comment block_comment"),
    attributes=types("attribute_item"),
    names=("name", "type"),
    kinds=kinds(**{"class": _RUST_TYPES, "module": "mod_item"}),
)

JAVA: Final = LanguageSyntax(
    grammar="java",
    functions=types(
        "method_declaration constructor_declaration compact_constructor_declaration static_initializer"
    ),
    classes=types(
        "class_declaration interface_declaration enum_declaration record_declaration"
        " annotation_type_declaration"
    ),
    comments=types("line_comment block_comment"),
    transparent=types("enum_body_declarations"),
)

KOTLIN: Final = LanguageSyntax(
    grammar="kotlin",
    functions=types("function_declaration secondary_constructor anonymous_initializer type_alias"),
    classes=types("class_declaration object_declaration companion_object"),
    comments=types("line_comment multiline_comment"),
    body_types=types("class_body enum_class_body function_body"),
    names=(),
    name_types=types("simple_identifier type_identifier"),
    kinds=kinds(**{"class": "type_alias"}),
)

_C_TYPES: Final = "struct_specifier union_specifier enum_specifier type_definition"

C: Final = LanguageSyntax(
    grammar="c",
    functions=types(f"function_definition preproc_function_def {_C_TYPES}"),
    transparent=types(
        "preproc_if preproc_ifdef preproc_else preproc_elif preproc_elifdef"
        " linkage_specification declaration_list"
    ),
    names=("declarator", "name"),
    name_types=types("function_declarator"),
    kinds=kinds(**{"class": _C_TYPES}),
)

CPP: Final = replace(
    C,
    grammar="cpp",
    functions=types(
        "function_definition preproc_function_def enum_specifier type_definition alias_declaration"
        " concept_definition"
    ),
    classes=types("class_specifier struct_specifier union_specifier namespace_definition"),
    wrappers=types("template_declaration export_declaration"),
    attributes=types("access_specifier"),
    transparent=types(
        "preproc_if preproc_ifdef preproc_else preproc_elif preproc_elifdef linkage_specification"
        " declaration_list"
    ),
    name_types=types("function_declarator reference_declarator operator_cast"),
    name_stops=types(
        "qualified_identifier destructor_name operator_name operator_cast nested_namespace_specifier"
    ),
    kinds=kinds(
        **{"class": "enum_specifier type_definition alias_declaration concept_definition"},
        module="namespace_definition",
    ),
)

CSHARP: Final = LanguageSyntax(
    grammar="csharp",
    functions=types(
        "method_declaration constructor_declaration destructor_declaration operator_declaration"
        " conversion_operator_declaration indexer_declaration local_function_statement enum_declaration"
        " delegate_declaration"
    ),
    classes=types(
        "class_declaration struct_declaration interface_declaration record_declaration namespace_declaration"
    ),
    wrappers=types("global_statement"),
    transparent=types("file_scoped_namespace_declaration"),
    name_stops=types("qualified_name"),
    kinds=kinds(**{"class": "enum_declaration delegate_declaration", "module": "namespace_declaration"}),
)

RUBY: Final = LanguageSyntax(
    grammar="ruby",
    functions=types("method singleton_method"),
    classes=types("class module singleton_class"),
)

PHP: Final = LanguageSyntax(
    grammar="php",
    functions=types("function_definition method_declaration"),
    classes=types(
        "class_declaration interface_declaration trait_declaration enum_declaration namespace_definition"
    ),
    kinds=kinds(module="namespace_definition"),
)

SWIFT: Final = LanguageSyntax(
    grammar="swift",
    functions=types(
        "function_declaration init_declaration deinit_declaration subscript_declaration typealias_declaration"
    ),
    classes=types("class_declaration protocol_declaration"),
    comments=types("comment multiline_comment"),
    kinds=kinds(**{"class": "typealias_declaration"}),
)

SCALA: Final = LanguageSyntax(
    grammar="scala",
    functions=types("function_definition given_definition type_definition"),
    classes=types("class_definition object_definition trait_definition enum_definition"),
    comments=types("comment block_comment"),
    attributes=types("annotation"),
    kinds=kinds(**{"class": "type_definition"}),
)

LUA: Final = LanguageSyntax(
    grammar="lua",
    functions=types("function_declaration"),
    wrappers=types("assignment_statement variable_declaration expression_list"),
    function_values=types("function_definition"),
    name_types=types("variable_list"),
)

BASH: Final = LanguageSyntax(grammar="bash", functions=types("function_definition"))

SQL: Final = LanguageSyntax(
    grammar="sql",
    functions=types("statement"),
    comments=types("comment marginalia"),
    name_types=types(
        "create_table create_view create_materialized_view create_function create_index create_type"
        " create_trigger create_schema create_procedure create_query alter_table object_reference"
    ),
    kinds=kinds(block="statement"),
)

_MARKUP: Final = LanguageSyntax(
    grammar="html",
    containers=types("element script_element style_element template_element"),
    embedded=MappingProxyType({"script_element": "javascript", "style_element": "css"}),
    names=(),
    name_types=types("start_tag tag_name"),
    kinds=kinds(block="element script_element style_element template_element"),
    loose="block",
)

CSS: Final = LanguageSyntax(
    grammar="css",
    functions=types("rule_set keyframes_statement mixin_statement function_statement"),
    containers=types("media_statement supports_statement at_rule layer_statement"),
    body_types=types("block"),
    names=("name",),
    name_types=types("selectors keyframes_name feature_query"),
    comments=types("comment js_comment"),
    kinds=kinds(
        block="rule_set keyframes_statement media_statement supports_statement at_rule layer_statement"
    ),
    loose="block",
)

MARKDOWN: Final = LanguageSyntax(
    grammar="markdown",
    classes=types("section"),
    starters=types("setext_heading"),
    names=("heading_content",),
    name_types=types("atx_heading"),
    comments=frozenset(),
    kinds=kinds(section="section"),
    loose="section",
)

JSON: Final = LanguageSyntax(
    grammar="json",
    containers=types("pair object array"),
    bodies=("value",),
    names=("key",),
    kinds=kinds(block="pair object array"),
    loose="block",
)

YAML: Final = LanguageSyntax(
    grammar="yaml",
    containers=types("block_mapping_pair block_sequence_item"),
    transparent=types("document block_node block_mapping block_sequence"),
    bodies=("value",),
    names=("key",),
    kinds=kinds(block="block_mapping_pair block_sequence_item"),
    loose="block",
    comment_prefix=b"#",
)

TOML: Final = LanguageSyntax(
    grammar="toml",
    containers=types("table table_array_element"),
    names=(),
    name_types=types("bare_key dotted_key quoted_key"),
    name_stops=types("dotted_key"),
    kinds=kinds(block="table table_array_element"),
    loose="block",
    comment_prefix=b"#",
)

SYNTAX: Final[Mapping[str, LanguageSyntax]] = MappingProxyType(
    {
        "python": PYTHON,
        "javascript": JAVASCRIPT,
        "typescript": replace(JAVASCRIPT, grammar="typescript"),
        "tsx": replace(JAVASCRIPT, grammar="tsx"),
        "go": GO,
        "rust": RUST,
        "java": JAVA,
        "kotlin": KOTLIN,
        "c": C,
        "cpp": CPP,
        "csharp": CSHARP,
        "ruby": RUBY,
        "php": PHP,
        "swift": SWIFT,
        "scala": SCALA,
        "lua": LUA,
        "bash": BASH,
        "sql": SQL,
        "html": _MARKUP,
        "vue": replace(_MARKUP, grammar="vue"),
        "svelte": replace(_MARKUP, grammar="svelte"),
        "css": CSS,
        "scss": replace(CSS, grammar="scss"),
        "markdown": MARKDOWN,
        "json": JSON,
        "yaml": YAML,
        "toml": TOML,
    }
)
