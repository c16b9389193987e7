; If two patterns match a node, the later one wins.

; Names

(identifier) @variable
(field_identifier) @variable.member
(type_identifier) @type

((identifier) @constant
  (#match? @constant "^[A-Z][A-Z0-9_]*$"))

(path (identifier) @module)
(named_type (type_identifier) @type)
(type_parameter bound: (type_identifier) @type)

(parameter name: (identifier) @variable.parameter)
(const_parameter name: (identifier) @constant)
(function_parameter name: (identifier) @function)
(thread_index name: (identifier) @variable.parameter)
(named_argument name: (identifier) @variable.parameter)
(rate name: (identifier) @variable.parameter)
(const_item name: (identifier) @constant)

; Calls and definitions

(call_expression function: (identifier) @function)
(call_expression function: (field_expression field: (field_identifier) @function))
(launch_expression kernel: (identifier) @function)
(launch_expression kernel: (field_expression field: (field_identifier) @function))

(function_item name: (identifier) @function)
(kernel_item name: (identifier) @function)

; Builtins

; generated: types
((type_identifier) @type.builtin
  (#any-of? @type.builtin
    "bool" "i8" "i16" "i32" "i64" "u8" "u16" "u32" "u64" "f16" "bf16" "f32" "f64" "i8x2" "i8x3" "i8x4" "i16x2" "i16x3"
    "i16x4" "i32x2" "i32x3" "i32x4" "i64x2" "i64x3" "i64x4" "u8x2" "u8x3" "u8x4" "u16x2" "u16x3" "u16x4" "u32x2" "u32x3"
    "u32x4" "u64x2" "u64x3" "u64x4" "f16x2" "f16x3" "f16x4" "bf16x2" "bf16x3" "bf16x4" "f32x2" "f32x3" "f32x4" "f64x2"
    "f64x3" "f64x4" "str"))
((identifier) @type.builtin
  (#any-of? @type.builtin
    "bool" "i8" "i16" "i32" "i64" "u8" "u16" "u32" "u64" "f16" "bf16" "f32" "f64" "i8x2" "i8x3" "i8x4" "i16x2" "i16x3"
    "i16x4" "i32x2" "i32x3" "i32x4" "i64x2" "i64x3" "i64x4" "u8x2" "u8x3" "u8x4" "u16x2" "u16x3" "u16x4" "u32x2" "u32x3"
    "u32x4" "u64x2" "u64x3" "u64x4" "f16x2" "f16x3" "f16x4" "bf16x2" "bf16x3" "bf16x4" "f32x2" "f32x3" "f32x4" "f64x2"
    "f64x3" "f64x4" "str"))
; generated end

; generated: functions
(call_expression function: (identifier) @function.builtin
  (#any-of? @function.builtin
    "min" "max" "abs" "clamp" "sign" "sqrt" "fma" "floor" "ceil" "round" "trunc" "fract" "copysign" "isnan" "isinf"
    "isfinite" "rsqrt" "cbrt" "exp" "exp2" "exp10" "expm1" "log" "log2" "log10" "log1p" "sin" "cos" "tan" "asin" "acos"
    "atan" "atan2" "sinh" "cosh" "tanh" "asinh" "acosh" "atanh" "hypot" "erf" "erfc" "lgamma" "tgamma" "pow" "tf32"
    "popcount" "clz" "ctz" "reverse_bits" "mul_hi" "wrapping_add" "wrapping_sub" "wrapping_mul" "wrapping_neg"
    "saturating_add" "saturating_sub" "select" "ceil_div" "bitcast" "len" "shape" "assert" "print" "dot" "cross"
    "length" "normalize" "barrier" "barrier_any" "barrier_all" "barrier_count" "warp_barrier" "grid_barrier" "fence"
    "fence_block" "atomic_add" "atomic_sub" "atomic_min" "atomic_max" "atomic_and" "atomic_or" "atomic_xor"
    "atomic_exchange" "atomic_compare_exchange" "atomic_load" "atomic_store" "shuffle" "shuffle_up" "shuffle_down"
    "shuffle_xor" "ballot" "warp_any" "warp_all" "warp_reduce_add" "warp_reduce_min" "warp_reduce_max" "warp_reduce_and"
    "warp_reduce_or" "warp_reduce_xor" "match_any" "mma" "cached" "streaming" "linspace" "arange" "zeros" "ones" "full"
    "eye" "random" "random_normal" "random_int" "sum" "prod" "mean" "argmin" "argmax" "all" "any" "close" "cumsum"
    "reshape" "transpose" "concat" "stack" "sort" "argsort" "einsum" "flip" "split" "lines" "join" "trim" "find"
    "contains" "starts_with" "ends_with" "replace" "upper" "lower" "parse" "load" "save" "keys" "read_text" "write_text"
    "image" "heat" "plot" "scatter" "bar" "hist" "seed_random" "exit" "gpus" "shard" "gather" "rank" "ranks"
    "all_reduce" "all_gather" "reduce_scatter" "broadcast" "send" "receive" "grad" "value_and_grad" "vjp" "jvp"
    "jacobian" "hessian" "gradcheck" "no_grad" "with_grad"))
; generated end

; generated: variables
((identifier) @variable.builtin
  (#any-of? @variable.builtin
    "thread_idx" "block_idx" "block_dim" "grid_dim" "global_idx" "lane_idx" "warp_idx" "warp_size" "args"))
; generated end

; Marks

["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ":" ";" "."] @punctuation.delimiter

; Literals

(integer) @number
(float) @number.float
(boolean) @boolean
(string) @string
(string_content) @string
(escape_sequence) @string.escape
(format) @string.special
(interpolation ["{" "}" ":"] @punctuation.special)

; Comments

[(line_comment) (block_comment) (shebang)] @comment
(doc_comment) @comment.documentation

; Keywords

["let" "var" "test" "bench" "threads" "grid" "block" "on" "batch" "time" "as" "assume" "expect" "tune"] @keyword
["kernel" "fn"] @keyword.function
"struct" @keyword.type
["const" "shared" "out" "inout"] @keyword.modifier
["if" "else"] @keyword.conditional
["for" "in" "while" "loop" "step"] @keyword.repeat
[(break_statement) (continue_statement)] @keyword.repeat
"return" @keyword.return
"import" @keyword.import
["#unroll" "#nounroll"] @keyword.directive

; Operators

[
  "+" "-" "*" "/" "%" "**" "@" "&" "|" "^" "<<" ">>"
  "==" "!=" "<" "<=" ">" ">=" "&&" "||" "!"
  "=" "+=" "-=" "*=" "/=" "%=" "**=" "@=" "&=" "|=" "^=" "<<=" ">>="
  ".." "..=" "->" "<<<" ">>>"
] @operator

(generics ["<" ">"] @punctuation.bracket)
