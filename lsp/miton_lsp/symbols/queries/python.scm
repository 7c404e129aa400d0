(function_definition name: (identifier) @name) @definition.function
(class_definition name: (identifier) @name) @definition.class
(class_definition superclasses: (argument_list [
  (identifier) @reference.base
  (attribute attribute: (identifier) @reference.base)
  (subscript value: (identifier) @reference.base)
  (subscript value: (attribute attribute: (identifier) @reference.base))]))
(module (assignment left: (identifier) @name) @definition.variable)
(class_definition body: (block (assignment left: (identifier) @name) @definition.variable))
(type_alias_statement left: (type (identifier) @name)) @definition.class
(call function: (identifier) @reference.call)
(call function: (attribute attribute: (identifier) @reference.call))
(decorator (identifier) @reference.call)
(decorator (attribute attribute: (identifier) @reference.call))
(attribute attribute: (identifier) @reference.attribute)
(type (identifier) @reference.type)
(type (attribute attribute: (identifier) @reference.type))
(identifier) @reference.name
(import_statement name: (dotted_name) @import.module) @import
(import_statement name: (aliased_import name: (dotted_name) @import.module alias: (identifier) @import.alias)) @import
(import_from_statement module_name: (_) @import.module name: (dotted_name) @import.name) @import
(import_from_statement module_name: (_) @import.module
  name: (aliased_import name: (dotted_name) @import.name alias: (identifier) @import.alias)) @import
(import_from_statement module_name: (_) @import.module (wildcard_import) @import.name) @import
