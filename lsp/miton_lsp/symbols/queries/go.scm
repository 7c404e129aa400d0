(function_declaration name: (identifier) @name) @definition.function
(method_declaration receiver: (parameter_list (parameter_declaration type: [
    (type_identifier) @owner
    (pointer_type (type_identifier) @owner)
    (generic_type type: (type_identifier) @owner)
    (pointer_type (generic_type type: (type_identifier) @owner))]))
  name: (field_identifier) @name) @definition.function
(type_declaration (type_spec name: (type_identifier) @name)) @definition.class
(type_declaration (type_alias name: (type_identifier) @name)) @definition.class
(method_elem name: (field_identifier) @name) @definition.function
(source_file (const_declaration (const_spec name: (identifier) @name) @definition.variable))
(source_file (var_declaration (var_spec name: (identifier) @name) @definition.variable))
(field_declaration !name type: (type_identifier) @reference.base)
(field_declaration !name type: (pointer_type (type_identifier) @reference.base))

(call_expression function: (identifier) @reference.call)
(call_expression function: (selector_expression field: (field_identifier) @reference.call))
(selector_expression field: (field_identifier) @reference.attribute)
(type_identifier) @reference.type
(identifier) @reference.name
(package_identifier) @reference.name

(import_spec !name path: (interpreted_string_literal) @import.module) @import
(import_spec name: (_) @import.alias path: (interpreted_string_literal) @import.module) @import
