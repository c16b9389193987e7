(function_item name: (identifier) @name) @definition.function
(kernel_item name: (identifier) @name) @definition.function
(struct_item name: (type_identifier) @name) @definition.class
(const_item name: (identifier) @name) @definition.constant

(call_expression function: (identifier) @name) @reference.call
(call_expression function: (field_expression field: (field_identifier) @name)) @reference.call
(launch_expression kernel: (identifier) @name) @reference.call
(named_type (type_identifier) @name) @reference.type
(struct_expression type: (type_identifier) @name) @reference.class
