" Syntax of Clk. `cargo test --test repository editors::` generates the lists of words from the compiler's tables.

if exists('b:current_syntax')
  finish
endif
let s:saved = &cpoptions
set cpoptions&vim

syn iskeyword @,48-57,_

" Names
syn match clkFunctionCall "\<\h\w*\ze\s*\%((\|<<<\)"
syn match clkConstant "\<\u[A-Z0-9_]*\>"
syn match clkFunctionName "\h\w*" contained
syn match clkTypeName "\h\w*" contained
syn match clkField "\%([^.]\.\)\@2<=\h\w*"

" Marks
syn match clkOperator "[-+*/%@&|^!<>=]"
syn match clkOperator "\.\.=\="
syn match clkOperator "<<<\|>>>"
syn match clkArrow "->"

" generated: control
syn keyword clkStatement if else for in while loop break continue return import
" generated end

" generated: declarations
syn keyword clkKeyword kernel fn struct const let var shared test bench out inout
" generated end

syn keyword clkDefine kernel fn nextgroup=clkFunctionName skipwhite
syn keyword clkDefine struct nextgroup=clkTypeName skipwhite

" generated: constants
syn keyword clkBoolean true false
" generated end

" generated: types
syn keyword clkType bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 i8x2 i8x3 i8x4 i16x2 i16x3 i16x4 i32x2 i32x3
syn keyword clkType i32x4 i64x2 i64x3 i64x4 u8x2 u8x3 u8x4 u16x2 u16x3 u16x4 u32x2 u32x3 u32x4 u64x2 u64x3 u64x4 f16x2
syn keyword clkType f16x3 f16x4 bf16x2 bf16x3 bf16x4 f32x2 f32x3 f32x4 f64x2 f64x3 f64x4 str
" generated end

" generated: functions
syn keyword clkFunction min max abs clamp sign sqrt fma floor ceil round trunc fract copysign isnan isinf isfinite rsqrt
syn keyword clkFunction cbrt exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh
syn keyword clkFunction asinh acosh atanh hypot erf erfc lgamma tgamma pow tf32 popcount clz ctz reverse_bits mul_hi
syn keyword clkFunction wrapping_add wrapping_sub wrapping_mul wrapping_neg saturating_add saturating_sub select
syn keyword clkFunction ceil_div bitcast len shape assert print dot cross length normalize barrier barrier_any
syn keyword clkFunction barrier_all barrier_count warp_barrier grid_barrier fence fence_block atomic_add atomic_sub
syn keyword clkFunction atomic_min atomic_max atomic_and atomic_or atomic_xor atomic_exchange atomic_compare_exchange
syn keyword clkFunction atomic_load atomic_store shuffle shuffle_up shuffle_down shuffle_xor ballot warp_any warp_all
syn keyword clkFunction warp_reduce_add warp_reduce_min warp_reduce_max warp_reduce_and warp_reduce_or warp_reduce_xor
syn keyword clkFunction match_any mma cached streaming linspace arange zeros ones full eye random random_normal
syn keyword clkFunction random_int sum prod mean argmin argmax all any close cumsum reshape transpose concat stack sort
syn keyword clkFunction argsort einsum flip split lines join trim find starts_with ends_with replace upper lower parse
syn keyword clkFunction load save keys read_text write_text image heat plot scatter bar hist seed_random exit gpus shard
syn keyword clkFunction gather rank ranks all_reduce all_gather reduce_scatter broadcast send receive grad
syn keyword clkFunction value_and_grad vjp jvp jacobian hessian gradcheck no_grad with_grad
syn match clkFunction "\<\%(contains\)\>"
" generated end

" generated: variables
syn keyword clkVariable thread_idx block_idx block_dim grid_dim global_idx lane_idx warp_idx warp_size args
" generated end

" Contextual keywords
syn match clkKeyword "\%(\.\)\@1<!\<\%(threads\|grid\|block\)\>\ze\s*("
syn match clkKeyword "\%(\.\)\@1<!\<\%(assume\|expect\|tune\)\>\ze\s\+[[:alnum:]_(!]"
syn match clkStatement "\%(\.\)\@1<!\<\%(batch\|time\)\>\ze\s*{"
syn match clkStatement "\%(^\s*\)\@<=on\>\ze\s\+[A-Za-z_\"]"
syn match clkStatement "\%([[:alnum:]_)\]]\s\+\)\@<=step\>\ze\s*[[:alnum:]_(-]"
syn match clkStatement "\<as\>\ze\s\+\h"
syn match clkDirective "#\%(unroll\|nounroll\)\>"

" Numbers
syn match clkInteger "\<\d[0-9_]*\%([iu]\%(8\|16\|32\|64\)\)\=\>"
syn match clkInteger "\<0x[0-9A-Fa-f_]\+\%([iu]\%(8\|16\|32\|64\)\)\=\>"
syn match clkInteger "\<0b[01_]\+\%([iu]\%(8\|16\|32\|64\)\)\=\>"
syn match clkFloat "\<\d[0-9_]*\%(f16\|bf16\|f32\|f64\)\>"
syn match clkFloat "\<\d[0-9_]*[eE][+-]\=\d[0-9_]*\%(f16\|bf16\|f32\|f64\)\=\>"
syn match clkFloat "\<\d[0-9_]*\.\d[0-9_]*\%([eE][+-]\=\d[0-9_]*\)\=\%(f16\|bf16\|f32\|f64\)\=\>"

" Strings
syn region clkString matchgroup=clkQuote start=+"+ end=+"+ end=+$+ keepend extend contains=clkEscape,clkInterpolation,@Spell
syn match clkEscape "{{\|}}\|\\u{\x*}\|\\[ntr0\\\"'{}]" contained
syn region clkInterpolation matchgroup=clkBrace start="{{\@!" end="\%(:[^}\"]*\)\=}" end="$" contained extend contains=@clkCode
syn region clkBlockInside start="{" end="}" contained contains=@clkCode transparent
syn cluster clkCode contains=clkFunctionCall,clkConstant,clkField,clkOperator,clkArrow,clkStatement,clkKeyword,clkBoolean,clkType,clkFunction,clkVariable,clkInteger,clkFloat,clkString,clkBlockInside

" Comments
syn keyword clkTodo TODO FIXME NOTE contained
syn match clkComment "//.*$" contains=clkTodo,@Spell
syn match clkDocComment "///\%(/\)\@!.*$" contains=clkTodo,@Spell
syn region clkBlockComment start="/\*" end="\*/" contains=clkBlockComment,clkTodo,@Spell fold
syn match clkShebang "\%^#!.*$"

syn sync minlines=200

hi def link clkFunctionCall Function
hi def link clkFunctionName Function
hi def link clkTypeName Structure
hi def link clkConstant Constant
hi def link clkField Identifier
hi def link clkOperator Operator
hi def link clkArrow Operator
hi def link clkStatement Statement
hi def link clkKeyword Keyword
hi def link clkDefine Keyword
hi def link clkDirective PreProc
hi def link clkBoolean Boolean
hi def link clkType Type
hi def link clkFunction Special
hi def link clkVariable Special
hi def link clkInteger Number
hi def link clkFloat Float
hi def link clkString String
hi def link clkQuote String
hi def link clkEscape SpecialChar
hi def link clkBrace Delimiter
hi def link clkTodo Todo
hi def link clkComment Comment
hi def link clkDocComment SpecialComment
hi def link clkBlockComment Comment
hi def link clkShebang PreProc

let b:current_syntax = 'clk'
let &cpoptions = s:saved
unlet s:saved
