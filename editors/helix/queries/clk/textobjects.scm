(function_item body: (block) @function.inside) @function.around
(kernel_item body: (block) @function.inside) @function.around
(struct_item body: (field_list) @class.inside) @class.around
(test_item body: (block) @test.inside) @test.around
(bench_item body: (block) @test.inside) @test.around

(parameters (parameter) @parameter.inside @parameter.around)
(arguments (_) @parameter.inside @parameter.around)
(array_expression (_) @entry.around)

[(line_comment) (doc_comment) (block_comment)] @comment.inside
(line_comment)+ @comment.around
(doc_comment)+ @comment.around
