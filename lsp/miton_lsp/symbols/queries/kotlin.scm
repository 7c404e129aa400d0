(class_declaration (type_identifier) @name) @definition.class
(object_declaration (type_identifier) @name) @definition.class
(function_declaration (simple_identifier) @name) @definition.function
(delegation_specifier (user_type (type_identifier) @reference.base))
(delegation_specifier (constructor_invocation (user_type (type_identifier) @reference.base)))
(call_expression . (simple_identifier) @reference.call)
(call_expression . (navigation_expression (navigation_suffix (simple_identifier) @reference.call)))
(type_identifier) @reference.type
(import_header (identifier) @import.dotted) @import
