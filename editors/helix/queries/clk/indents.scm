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
  (geometry)
] @indent

["}" ")" "]"] @outdent
(generics ">" @outdent)
