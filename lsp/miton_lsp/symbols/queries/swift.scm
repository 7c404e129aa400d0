(class_declaration name: [(type_identifier) @name (user_type (type_identifier) @name)]) @definition.class
(protocol_declaration name: (type_identifier) @name) @definition.class
(function_declaration name: (simple_identifier) @name) @definition.function
(protocol_function_declaration name: (simple_identifier) @name) @definition.function
(inheritance_specifier inherits_from: (user_type (type_identifier) @reference.base))
(call_expression . (simple_identifier) @reference.call)
(call_expression . (navigation_expression suffix: (navigation_suffix suffix: (simple_identifier) @reference.call)))
(type_identifier) @reference.type
