(function_item name: (identifier) @name) @definition.function
(function_signature_item name: (identifier) @name) @definition.function
(struct_item name: (type_identifier) @name) @definition.class
(enum_item name: (type_identifier) @name) @definition.class
(union_item name: (type_identifier) @name) @definition.class
(trait_item name: (type_identifier) @name) @definition.class
(type_item name: (type_identifier) @name) @definition.class
(mod_item name: (identifier) @name body: (_)) @definition.module
(macro_definition name: (identifier) @name) @definition.function
(const_item name: (identifier) @name) @definition.variable
(static_item name: (identifier) @name) @definition.variable
(impl_item type: [(type_identifier) @scope (generic_type type: (type_identifier) @scope)
  (scoped_type_identifier name: (type_identifier) @scope)]) @definition.scope
(impl_item trait: [(type_identifier) @reference.base (generic_type type: (type_identifier) @reference.base)
  (scoped_type_identifier name: (type_identifier) @reference.base)])

(call_expression function: (identifier) @reference.call)
(call_expression function: (scoped_identifier name: (identifier) @reference.call))
(call_expression function: (field_expression field: (field_identifier) @reference.call))
(call_expression function: (generic_function function: (identifier) @reference.call))
(macro_invocation macro: (identifier) @reference.call)
(field_expression field: (field_identifier) @reference.attribute)
(type_identifier) @reference.type
(identifier) @reference.name

(use_declaration argument: (_) @import.tree) @import
(mod_item name: (identifier) @import.submodule !body) @import
