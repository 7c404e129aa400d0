(function_declaration name: (identifier) @name) @definition.function
(generator_function_declaration name: (identifier) @name) @definition.function
(class_declaration name: (_) @name) @definition.class
(method_definition name: (_) @name) @definition.function
(field_definition property: (_) @name value: [(arrow_function) (function_expression)]) @definition.function
(variable_declarator name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @definition.function
(variable_declarator name: (identifier) @name value: (class)) @definition.class
(program (lexical_declaration (variable_declarator name: (identifier) @name) @definition.variable))
(program (variable_declaration (variable_declarator name: (identifier) @name) @definition.variable))
(program (export_statement
  (lexical_declaration (variable_declarator name: (identifier) @name) @definition.variable)))
(assignment_expression left: (member_expression property: (property_identifier) @name)
  right: [(arrow_function) (function_expression)]) @definition.function
(class_heritage (identifier) @reference.base)
(class_heritage (member_expression property: (property_identifier) @reference.base))
(jsx_opening_element name: (identifier) @reference.call)
(jsx_self_closing_element name: (identifier) @reference.call)

(call_expression function: (identifier) @reference.call)
(call_expression function: (member_expression property: (property_identifier) @reference.call))
(new_expression constructor: (identifier) @reference.call)
(new_expression constructor: (member_expression property: (property_identifier) @reference.call))
(member_expression property: (property_identifier) @reference.attribute)
(identifier) @reference.name
(shorthand_property_identifier) @reference.name

(import_statement (import_clause (identifier) @import.alias) source: (string) @import.module) @import.default
(import_statement (import_clause (namespace_import (identifier) @import.alias))
  source: (string) @import.module) @import
(import_statement (import_clause (named_imports (import_specifier name: (_) @import.name !alias)))
  source: (string) @import.module) @import
(import_statement (import_clause (named_imports
  (import_specifier name: (_) @import.name alias: (_) @import.alias))) source: (string) @import.module) @import
(import_statement . (string) @import.module) @import
(export_statement (export_clause (export_specifier name: (_) @import.name !alias))
  source: (string) @import.module) @import
(export_statement (export_clause (export_specifier name: (_) @import.name alias: (_) @import.alias))
  source: (string) @import.module) @import
(export_statement "*" @import.name . "from" source: (string) @import.module) @import
(variable_declarator name: (identifier) @import.alias
  value: (call_expression function: (identifier) @import.function
    arguments: (arguments . (string) @import.module))) @import
(variable_declarator name: (object_pattern (shorthand_property_identifier_pattern) @import.name)
  value: (call_expression function: (identifier) @import.function
    arguments: (arguments . (string) @import.module))) @import
