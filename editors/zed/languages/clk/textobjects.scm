(function_item body: (block "{" (_)* @function.inside "}")) @function.around
(kernel_item body: (block "{" (_)* @function.inside "}")) @function.around
(struct_item body: (field_list "{" (_)* @class.inside "}")) @class.around
[(line_comment) (doc_comment)]+ @comment.around
(block_comment) @comment.around
