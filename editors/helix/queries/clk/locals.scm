[(function_item) (kernel_item) (block) (for_statement)] @local.scope

(parameter name: (identifier) @local.definition.variable.parameter)
(thread_index name: (identifier) @local.definition.variable.parameter)
(const_parameter name: (identifier) @local.definition.constant)
(function_parameter name: (identifier) @local.definition.function)

(identifier) @local.reference
