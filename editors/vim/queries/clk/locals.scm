[(source_file) (function_item) (kernel_item) (block) (for_statement)] @local.scope

(const_item name: (identifier) @local.definition)
(function_item name: (identifier) @local.definition)
(kernel_item name: (identifier) @local.definition)
(parameter name: (identifier) @local.definition)
(const_parameter name: (identifier) @local.definition)
(function_parameter name: (identifier) @local.definition)
(thread_index name: (identifier) @local.definition)
(let_statement pattern: (identifier) @local.definition)
(var_statement pattern: (identifier) @local.definition)
(tuple_pattern (identifier) @local.definition)
(shared_statement name: (identifier) @local.definition)
(for_statement variable: (identifier) @local.definition)
(imported alias: (identifier) @local.definition)
(import_item alias: (identifier) @local.definition)

(identifier) @local.reference
