[
  (block)
  (field_list)
  (struct_expression)
  (import_list)
  (parameters)
  (generics)
  (arguments)
  (array_expression)
  (tuple_expression)
  (parenthesized_expression)
  (array_type)
  (tuple_type)
] @indent.begin

["}" ")" "]"] @indent.branch
[(block "}" @indent.end) (field_list "}" @indent.end)]

[(line_comment) (doc_comment) (block_comment)] @indent.ignore
