(class name: (constant) @name) @definition.class
(module name: (constant) @name) @definition.module
(method name: (_) @name) @definition.function
(singleton_method name: (_) @name) @definition.function
(superclass (constant) @reference.base)
(superclass (scope_resolution name: (constant) @reference.base))
(call method: (identifier) @reference.call)
(constant) @reference.type
(identifier) @reference.name
(call !receiver method: (identifier) @import.function arguments: (argument_list (string) @import.module)) @import
