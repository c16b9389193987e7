[
  (block)
  (field_list)
  (struct_expression)
  (import_list)
  (parameters)
  (array_expression)
  (block_comment)
] @fold
