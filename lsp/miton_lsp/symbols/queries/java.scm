(class_declaration name: (identifier) @name) @definition.class
(interface_declaration name: (identifier) @name) @definition.class
(enum_declaration name: (identifier) @name) @definition.class
(record_declaration name: (identifier) @name) @definition.class
(annotation_type_declaration name: (identifier) @name) @definition.class
(method_declaration name: (identifier) @name) @definition.function
(constructor_declaration name: (identifier) @name) @definition.function
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @definition.variable
(superclass (type_identifier) @reference.base)
(superclass (generic_type (type_identifier) @reference.base))
(super_interfaces (type_list (type_identifier) @reference.base))
(super_interfaces (type_list (generic_type (type_identifier) @reference.base)))
(extends_interfaces (type_list (type_identifier) @reference.base))
(extends_interfaces (type_list (generic_type (type_identifier) @reference.base)))

(method_invocation name: (identifier) @reference.call)
(object_creation_expression type: (type_identifier) @reference.call)
(object_creation_expression type: (generic_type (type_identifier) @reference.call))
(field_access field: (identifier) @reference.attribute)
(type_identifier) @reference.type
(identifier) @reference.name

(import_declaration (scoped_identifier) @import.dotted . (asterisk) @import.star) @import
(import_declaration (scoped_identifier) @import.dotted .) @import
