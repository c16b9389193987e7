(_ "[" "]" @end) @indent
(_ "{" "}" @end) @indent
(_ "(" ")" @end) @indent
(generics "<" ">" @end) @indent
(geometry) @indent
