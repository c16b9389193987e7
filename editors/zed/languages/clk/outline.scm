(function_item "fn" @context name: (identifier) @name) @item
(kernel_item "kernel" @context name: (identifier) @name) @item
(struct_item "struct" @context name: (type_identifier) @name) @item
(field name: (field_identifier) @name) @item
(const_item "const" @context name: (identifier) @name) @item
(test_item "test" @context title: (string) @name) @item
(bench_item "bench" @context title: (string) @name) @item
