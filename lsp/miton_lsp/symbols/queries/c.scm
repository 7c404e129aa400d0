(function_declarator declarator: (identifier) @name) @definition.function
(struct_specifier name: (type_identifier) @name body: (_)) @definition.class
(union_specifier name: (type_identifier) @name body: (_)) @definition.class
(enum_specifier name: (type_identifier) @name body: (_)) @definition.class
(type_definition declarator: (type_identifier) @name) @definition.class
(preproc_function_def name: (identifier) @name) @definition.function
(preproc_def name: (identifier) @name) @definition.variable
(translation_unit (declaration declarator: (init_declarator declarator: (identifier) @name)) @definition.variable)

(call_expression function: (identifier) @reference.call)
(call_expression function: (field_expression field: (field_identifier) @reference.call))
(field_expression field: (field_identifier) @reference.attribute)
(type_identifier) @reference.type
(identifier) @reference.name

(preproc_include path: (_) @import.module) @import
