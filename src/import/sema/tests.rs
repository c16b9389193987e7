//! Translates the files in `tests/cuda_files`, and compares the results with the `.clk` files there. `CLK_BLESS=1`
//! rewrites them.

use crate::{ImportOptions, parse, translate};
use clk_base::source::{SourceMap, TextOrigin};
use std::path::PathBuf;

pub(super) fn translated(text: &str) -> crate::CudaTranslation {
    translated_with(text, &ImportOptions::default())
}

fn translated_with(text: &str, options: &ImportOptions) -> crate::CudaTranslation {
    let mut sources = SourceMap::default();
    let file = sources.add("kernels.cu", text);
    let parsed = parse(&mut sources, file, options, &|_| None);
    translate(&parsed.unit, &parsed.provenance, options)
}

/// The choices of nvcc 12.9 for `sm_90`.
#[test]
fn products_in_sums_are_contracted_on_demand() {
    let contracted = |value: &str| {
        let source = format!(
            "__global__ void k(float *y, const float *x, float a, float b, float c, float d, double e, int n) {{
                y[0] = {value};
            }}"
        );
        let translation = translated_with(&source, &ImportOptions { contract: true, ..ImportOptions::default() });
        let start = translation.text.find("y[0] = ").expect("the text has the store") + 7;
        let plain = translated(&source).text;
        assert!(!plain.contains("fma("), "{plain}");
        translation.text[start..].split('\n').next().unwrap_or_default().to_string()
    };
    assert_eq!(contracted("a * b + c"), "fma(a, b, c)");
    assert_eq!(contracted("c + a * b"), "fma(a, b, c)");
    assert_eq!(contracted("a * b - c"), "fma(a, b, -c)");
    assert_eq!(contracted("c - a * b"), "fma(-a, b, c)");
    assert_eq!(contracted("-(a * b) + c"), "fma(-a, b, c)");
    assert_eq!(contracted("c - -(a * b)"), "fma(a, b, c)");
    assert_eq!(contracted("-a * b - 2.0f"), "fma(-a, b, -2.0)");
    assert_eq!(contracted("a * b + c * d"), "fma(a, b, c * d)");
    assert_eq!(contracted("a * b - c * d"), "fma(a, b, -(c * d))");
    assert_eq!(contracted("a * b + c * d + a * d"), "fma(a, d, fma(a, b, c * d))");
    assert_eq!(contracted("a * b * c + d"), "fma(a * b, c, d)");
    // Rounded by a conversion, a function or a call.
    assert_eq!(contracted("a * b + e"), "f32(f64(a * b) + e)");
    assert_eq!(contracted("__fmul_rn(a, b) + c"), "a * b + c");
    assert_eq!(contracted("__fadd_rn(a * b, c)"), "a * b + c");
    assert_eq!(contracted("a * b * c"), "a * b * c");
    assert_eq!(contracted("n * n + n"), "f32(n * n + n)");
    // The factors are stored before the index changes.
    assert_eq!(contracted("x[1] * a + x[n++]"), "fma(t_2, t_3, x[t])");
}

#[test]
fn files_have_the_expected_translation() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cuda_files"));
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder exists") {
        let path = entry.expect("the folder is readable").path();
        if path.extension().is_none_or(|extension| extension != "cu") {
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("the file is readable");
        let translation = translated(&source);
        let refused: Vec<_> = translation.refused.iter().map(|kernel| &kernel.diagnostic.title).collect();
        assert!(refused.is_empty(), "{}: {refused:?}", path.display());
        let expected = path.with_extension("clk");
        if std::env::var_os("CLK_BLESS").is_some() {
            std::fs::write(&expected, &translation.text).expect("the file is writable");
        }
        let known = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(translation.text, known, "{}", path.display());
        count += 1;
    }
    assert!(count >= 4, "only {count} files were compared");
}

#[test]
fn a_piece_of_the_text_leads_to_its_place() {
    let source = "__global__ void k(float* y, int n) { int i = threadIdx.x; if (i < n) y[i] = 2.0f; }";
    let translation = translated(source);
    let at = translation.text.find("y[i] = 2.0").expect("the text has the store");
    let span = translation.map.source_of(at..at + 4).expect("the store has a place");
    assert_eq!(&source[span.range()], "y[i]");
}

#[test]
fn a_refusal_names_the_construct_and_keeps_other_kernels() {
    let source = "__global__ void a(float** y) { y[0][0] = 1; }\n__global__ void b(float* y) { y[0] = 1; }";
    let translation = translated(source);
    assert_eq!(translation.kernels.len(), 1);
    assert_eq!(translation.kernels[0].name, "b");
    assert_eq!(translation.refused.len(), 1);
    assert_eq!(translation.refused[0].construct, "a pointer to pointers");
    assert!(translation.refused[0].diagnostic.primary().is_some());
}

#[test]
fn a_store_to_constant_memory_is_refused() {
    let translation = translated("__constant__ int a[4]; __global__ void k(int* x) { a[threadIdx.x] = x[0]; }");
    assert!(translation.kernels.is_empty());
    assert!(translation.refused[0].construct.contains("a store to `a`"), "{}", translation.refused[0].construct);
}

/// Clk copies objects field by field and calls no destructors.
#[test]
fn classes_with_other_copies_are_refused() {
    let construct = |members: &str, body: &str| {
        let source = format!(
            "struct S {{ int v; {members} }};\nstruct T {{ S s; int w; }};\n__global__ void k(int *y) {{ {body} }}"
        );
        let translation = translated(&source);
        translation.refused.first().map(|refused| refused.construct.clone()).unwrap_or_default()
    };
    let body = "S a; S b = a; y[0] = b.v;";
    assert_eq!(construct("__device__ ~S() { v = 0; }", body), "a destructor");
    assert_eq!(construct("__device__ ~S() {}", body), "");
    let copy = "a constructor for copies that does not copy each field";
    assert_eq!(construct("__device__ S() {} __device__ S(const S &o) : v(o.v + 1) {}", body), copy);
    assert_eq!(construct("__device__ S() {} __device__ S(const S &o) {}", body), copy);
    assert_eq!(construct("__device__ S() {} __device__ S(const S &o) { v = o.v; }", body), "");
    let assign = "__device__ S &operator=(const S &o) { v = o.v + 1; return *this; }";
    assert_eq!(construct(assign, "S a, b; a.v = 1; b = a; y[0] = b.v;"), "");
    assert_eq!(construct(assign, "T a; y[0] = a.w;"), "a member whose `operator=` does not copy each field");
    assert_eq!(
        construct("__device__ S &operator=(const S &o) { asm(\"\"); return *this; }", "S a, b; b = a;"),
        "inline assembly"
    );
    let and = "__device__ bool operator&&(const S &o) const { return false; }";
    assert_eq!(construct(and, "S a = {1}; y[0] = a && a;"), "`operator&&` of the file");
}

/// An overload of another file may be the one that C++ calls.
#[test]
fn overloads_without_a_body_compete() {
    let refused = |call: &str| {
        let source = format!(
            "__device__ int f(int x);\n__device__ int f(double x) {{ return 1; }}\n\
             __device__ int g(int x);\n__device__ int g(int x) {{ return 1; }}\n\
             __global__ void k(int *y) {{ y[0] = {call}; }}"
        );
        translated(&source).refused.first().map(|refused| refused.construct.clone()).unwrap_or_default()
    };
    assert_eq!(refused("f(1)"), "a call of `f`, whose body is not in this file");
    assert_eq!(refused("f(1.0)"), "");
    assert_eq!(refused("g(1)"), "");
}

/// A function of the headers may fit better than an overload of the file.
#[test]
fn overloads_of_header_functions_take_their_own_types() {
    let refused = |call: &str| {
        let source = format!(
            "__device__ float max(float a, int b) {{ return a; }}\n__device__ float mix(float a, int b) {{ return a; }}\n\
             __global__ void k(float *y) {{ y[0] = {call}; }}"
        );
        translated(&source).refused.first().map(|refused| refused.construct.clone()).unwrap_or_default()
    };
    assert_eq!(refused("max(1, 2)"), "a call of `max`, which may be that of the CUDA headers");
    assert_eq!(refused("max(1.0f, 2)"), "");
    assert_eq!(refused("mix(1, 2)"), "");
}

/// A refused struct stays refused in the next kernel.
#[test]
fn structs_that_are_refused_stay_refused() {
    let source = "struct B { int a : 3; int b; };\n\
                  __global__ void f(int *y) { B x; y[0] = sizeof(x); }\n\
                  __global__ void g(int *y) { y[0] = sizeof(B); }";
    let refused: Vec<_> = translated(source).refused.into_iter().map(|kernel| kernel.construct).collect();
    assert_eq!(refused, ["a bit field", "a bit field"]);
    let recursive = "struct B;\nstruct A { B b; };\nstruct B { A a; };\n\
                     __global__ void k(int *y) { y[0] = sizeof(A); }";
    assert_eq!(translated(recursive).refused[0].construct, "a struct that contains itself");
    let large = "template <typename T> struct P { T a, b; };\n\
                 template <typename T> __device__ int f(T x) { P<T> p; return f(p); }\n\
                 __global__ void k(int *y) { y[0] = f(1); }";
    assert!(translated(large).refused[0].construct.contains("fields"));
}

#[test]
fn an_undefined_order_is_refused() {
    let translation = translated("__global__ void k(int* y) { int i = 0; y[i] = i++ + i; }");
    assert!(translation.kernels.is_empty());
    assert!(translation.refused[0].construct.contains("a change of `i`"), "{}", translation.refused[0].construct);
}

#[test]
fn rows_of_arrays_with_two_axes_keep_their_index() {
    let source = "__global__ void k(float* y) { float a[2][3]; a[1][2] = 4; a[0][1] = a[1][2]; y[0] = a[0][1]; }";
    let text = translated(source).text;
    assert!(text.contains("a[1, 2] = 4.0"), "{text}");
    assert!(text.contains("a[0, 1] = a[1, 2]"), "{text}");
}

/// An enum whose values fit in `int` is promoted to `int`, so the difference is negative.
#[test]
fn enums_are_promoted_to_int() {
    let source = "enum { NONE, SOME }; __global__ void k(long long* y, int n) { y[0] = NONE - n; }";
    let text = translated(source).text;
    assert!(text.contains("y[0] = i64(0 - n)"), "{text}");
}

/// The operand that is not chosen still determines the type.
#[test]
fn a_known_condition_keeps_the_common_type() {
    let source = "__global__ void k(bool* y, int n, unsigned m) { y[0] = (true ? n : m) < 1; }";
    let text = translated(source).text;
    assert!(text.contains("u32(n) < 1u32"), "{text}");
}

fn refusal(source: &str) -> String {
    let translation = translated(source);
    assert!(translation.kernels.is_empty(), "{}", translation.text);
    translation.refused[0].construct.to_string()
}

/// The store would write the other bytes of the word, which another thread may store at the same time.
#[test]
fn a_store_to_a_part_of_an_element_is_refused() {
    let construct = refusal("__global__ void k(int* y) { ((char*)y)[threadIdx.x] = 1; }");
    assert!(construct.contains("an access to `int` through a pointer to `char`"), "{construct}");
}

#[test]
fn a_pointer_that_is_cast_to_bytes_and_back_keeps_its_scale() {
    let text = translated("__global__ void k(float* y) { *(float*)((char*)y + 4) = 1; }").text;
    assert!(text.contains("y[1] = 1.0"), "{text}");
    let text = translated("__global__ void k(float* y, int n) { *(float*)((char*)y + n) = 1; }").text;
    assert!(text.contains("% 4 == 0") && text.contains("y[i64(n) / 4i64] = 1.0"), "{text}");
}

/// A 64-bit value in an `i32` is not shifted there by 32 or more bits.
#[test]
fn a_shift_by_more_bits_than_the_representation_has_is_wide() {
    let text = translated("__global__ void k(int* y) { size_t i = threadIdx.x; y[i] = (int)(i >> 32); }").text;
    assert!(!text.contains("thread_idx.x >> 32\n"), "{text}");
    assert!(text.contains("u64(thread_idx.x) >> 32u64") || text.contains("u64(i) >> 32u64"), "{text}");
    let text = translated("__global__ void k(int* y, int n) { size_t i = threadIdx.x; y[i] = (int)(i >> n); }").text;
    assert!(text.contains(">> u64(n)"), "{text}");
}

#[test]
fn variables_of_the_file_are_parameters_of_functions() {
    let source = "__device__ int total[4];\n\
                  __device__ void add(int i) { total[i & 3] = i; }\n\
                  __global__ void k() { add(threadIdx.x); }";
    let text = translated(source).text;
    assert!(text.contains("fn add(i: i32, inout total: [i32; 4])"), "{text}");
    assert!(text.contains("add(thread_idx.x, total)"), "{text}");
    // The function would have two names for one array.
    let source = "__device__ int total[4];\n\
                  __device__ void add(int* p) { total[0] = p[1]; p[0] = 1; }\n\
                  __global__ void k() { add(total); }";
    assert!(refusal(source).contains("which the function also uses by its name"));
}

#[test]
fn local_names_avoid_arrays_of_the_file_that_a_called_function_uses() {
    let source = "__device__ int total[4];\n\
                  __device__ void add(int i) { total[i & 3] = i; }\n\
                  __global__ void k(int* y) { int total[4] = {1, 2, 3, 4}; add(0); y[0] = total[threadIdx.x]; }";
    let text = translated(source).text;
    assert!(text.contains("let total_2: [i32; 4]") && text.contains("add(0, total)"), "{text}");
}

#[test]
fn structs_with_pointers_are_not_copied() {
    let head = "struct P { float* x; int n; __device__ void next() { x++; } };\n";
    let kernel = "__global__ void k(P p) { P q = p; q.x[0] = q.n; }";
    assert!(refusal(&format!("{head}{kernel}")).contains("the pointer `x` in a struct"));
    let kernel = "__global__ void k(P p) { p.next(); p.x[0] = 1; }";
    assert!(
        refusal(&format!("{head}{kernel}")).contains("a function that assigns a pointer in a struct of its caller")
    );
    let kernel = "__global__ void k(P* p) { p->n = 1; p->x[0] = 1; }";
    assert!(refusal(&format!("{head}{kernel}")).contains("a store to a struct in memory that has pointers"));
    let kernel = "__global__ void k(P p) { p.x += 2; p.x[0] = 1; }";
    let text = translated(&format!("{head}{kernel}")).text;
    assert!(text.contains("x_at += 2i64") || text.contains("+ 2i64"), "{text}");
}

/// `const float` is another type than `float`, which deduced types do not show.
#[test]
fn types_that_may_be_const_are_not_compared() {
    let head = "template <typename T> __device__ bool same(T* p) { return std::is_same<T, float>::value; }\n";
    let construct = refusal(&format!("{head}__global__ void k(const float* x, bool* y) {{ y[0] = same(x); }}"));
    assert!(construct.contains("may be `const`"), "{construct}");
    let head = "template <typename T> __device__ bool same() { return std::is_same_v<T, float>; }\n";
    let text =
        translated(&format!("{head}__global__ void k(bool* y) {{ y[0] = same<float>(); y[1] = same<int>(); }}")).text;
    assert!(text.contains("y[0] = true") && text.contains("y[1] = false"), "{text}");
}

#[test]
fn statements_in_an_expression_take_part_in_its_order() {
    let construct = refusal("__global__ void k(int* y) { int i = 0; y[0] = ({ i = 2; i; }) + i; }");
    assert!(construct.contains("a change of `i`"), "{construct}");
    assert!(refusal("__global__ void k(int* y) { y[0] = ({ if (y[1]) y[2] = 1; 3; }); }").contains("control flow"));
}

#[test]
fn the_more_specialized_template_is_called() {
    let source = "template <typename T> __device__ int f(T) { return 1; }\n\
                  template <typename T> __device__ int f(T*) { return 2; }\n\
                  __global__ void k(int* y) { y[0] = f(y); y[1] = f(3); }";
    let text = translated(source).text;
    assert!(text.contains("y[0] = f_i32") && text.contains("return 2"), "{text}");
    let source = "template <typename T> __device__ int f(T, int) { return 1; }\n\
                  template <typename T> __device__ int f(int, T) { return 2; }\n\
                  __global__ void k(int* y) { y[0] = f(1, 2); }";
    assert!(refusal(source).contains("an ambiguous call"));
}

#[test]
fn shared_variables_of_one_macro_are_different() {
    let source = "#define PARTS __shared__ int a[4]; __shared__ int b[4];\n\
                  __device__ int f(int i) { PARTS a[i] = 1; b[i] = 2; return a[i] + b[i]; }\n\
                  __global__ void k(int* y) { y[threadIdx.x] = f(threadIdx.x & 3); }";
    let text = translated(source).text;
    assert!(text.contains("shared a: [i32; 4]") && text.contains("shared b: [i32; 4]"), "{text}");
    // All calls of an instance of a template use its variable.
    let source = "template <typename T> __device__ T f(T* p) { __shared__ T a[4]; a[0] = p[0]; return a[0]; }\n\
                  __global__ void k(int* y) { y[0] = f(y) + f<int>(y); }";
    assert_eq!(translated(source).text.matches("shared a").count(), 1);
}

/// The remainder of a negative number is negative, and a `bool` is not an address.
#[test]
fn only_integers_that_hold_an_address_have_its_remainder() {
    let kernel = |value: &str| format!("__global__ void k(int* y, float* x) {{ y[0] = {value}; }}");
    assert!(translated(&kernel("(size_t)(x + 1) % 16")).text.contains("y[0] = 4"));
    assert!(translated(&kernel("(int)(long)&x[1] & 7")).kernels.is_empty());
    assert!(refusal(&kernel("(bool)x % 2")).contains("pointer"));
    assert!(refusal(&kernel("(signed char)x % 16")).contains("pointer"));
}

#[test]
fn variable_templates_with_specializations_are_refused() {
    let construct = refusal(
        "template <int N> constexpr int V = N * 2;\n\
         template <> constexpr int V<3> = 100;\n\
         __global__ void k(int* y) { y[0] = V<3>; }",
    );
    assert!(construct.contains("a variable template with specializations"), "{construct}");
}

/// A struct parameter becomes several parameters of the text.
#[test]
fn comments_are_about_the_parameter_that_they_name() {
    let text = translated(
        "struct Q { float* a; int n; };\n\
         // clk: x[m], assume m > 100\n\
         __global__ void k(Q q, int n, int m, float* x) { q.a[0] = n + m + x[0]; }",
    )
    .text;
    assert!(text.contains("m > 100") && text.contains("X_LEN >= m"), "{text}");
}

#[test]
fn a_pointer_in_a_struct_parameter_moves() {
    let text = translated("struct P { int* a; int n; }; __global__ void k(P p) { p.a += p.n; p.a[0] = 1; }").text;
    assert!(text.contains("var a_at: i64") && text.contains("p_a[a_at] = 1"), "{text}");
}

#[test]
fn stores_to_variable_templates_are_accepted() {
    let text = translated("template <typename T> __device__ T acc; __global__ void k() { acc<int> = 5; }").text;
    assert!(text.contains("= 5"), "{text}");
}

#[test]
fn dynamic_shared_memory_is_as_long_as_the_block() {
    let source = "__global__ void k(float* y) { extern __shared__ float s[]; s[threadIdx.x] = y[0]; }";
    let text = translated(source).text;
    assert!(text.contains("s_len >= block_x"), "{text}");
}

/// Only runs check the alignment of an access, so a verdict depends on it.
#[test]
fn alignment_is_an_assumption() {
    let source = "__global__ void k(float* y, const float* x, int i) { y[0] = ((const float4*)(x + i))->x; }";
    let translation = translated(source);
    let notes: Vec<_> = translation.kernels[0].assumptions.iter().map(|assumption| &assumption.text).collect();
    assert!(notes.iter().any(|note| note.contains("only runs check")), "{notes:?}");
}

/// An annotation is one only in files that do not define its name.
#[test]
fn annotations_may_be_functions_of_the_file() {
    let head = "__device__ void __invariant(int* p) { *p = 1; }\n";
    let text = translated(&format!("{head}__global__ void k(int* p) {{ __invariant(p); }}")).text;
    assert!(text.contains("p[0] = 1"), "{text}");
    let text = translated("__global__ void k(int* p) { __invariant(p[0] == 1); }").text;
    assert!(!text.contains("p[0]"), "{text}");
}

#[test]
fn preconditions_are_about_the_launch() {
    let kernel = |body: &str| format!("__global__ void k(int* p, int n) {{ {body} }}");
    assert!(translated(&kernel("__requires(n > 3 && n < 9); p[n] = 1;")).text.contains("assume n > 3, n < 9"));
    for body in ["__requires(p[0] > 3);", "p[0] = 1; __requires(n > 3);", "n = 4; __requires(n > 3);"] {
        assert!(refusal(&kernel(body)).contains("a `__requires` that is not"), "{body}");
    }
    for body in ["__assert(__no_read(p));", "__assert(__other_int(n) == n);"] {
        assert!(refusal(&kernel(body)).contains("a predicate of GPUVerify"), "{body}");
    }
    let text = translated(&kernel("if (n > 5) return; __assume(n < 3); p[0] = n;")).text;
    assert!(text.contains("assert(n < 3)"), "{text}");
}

#[test]
fn pointers_to_functions_have_one_type() {
    let head = "typedef int (*F)(int); __device__ int f(int x) { return x; } __device__ long g(long x) { return x; }\n";
    let kernel = |body: &str| format!("{head}__global__ void k(int* p, F a, F b) {{ {body} }}");
    assert!(translated(&kernel("F c = f; p[0] = c(1);")).text.contains("p[0] = f(1i32)"));
    for (body, construct) in [
        ("F c = (F)5; p[0] = c(1);", "`int` as a pointer to a function"),
        ("F c = (F)g; p[0] = c(1);", "a pointer to a function as a pointer to a function"),
        ("F c = 0; p[0] = c(1);", "a call through a null pointer"),
        ("p[0] = a < b;", "`<` of pointers to functions"),
        ("p[0] = ((F*)p)[0](1);", "a cast of a pointer to pointers to functions"),
    ] {
        assert!(refusal(&kernel(body)).contains(construct), "{body}: {}", refusal(&kernel(body)));
    }
}

#[test]
fn null_pointers_are_not_followed() {
    let kernel = "__global__ void k(int* p, int c) { int x = 1; int* q = nullptr; if (c) q = &x; *q = 2; p[0] = x; }";
    let text = translated(kernel).text;
    assert!(text.contains("assert(q_in != 1, \"an access through a null pointer\")"), "{text}");
    let kernel = "__global__ void k(int* p, int c) { int x = 1; int* q = &x + 1; if (c) q = &x; *q = 2; }";
    assert_eq!(refusal(kernel), "an index of a pointer to one variable");
    let kernel = "__global__ void k(int** p, int* r) { r[0] = 2; }";
    assert!(translated(kernel).text.contains("kernel k(inout r"));
}

#[test]
fn functions_of_other_files_take_values() {
    let head = "__device__ void take(int* p); __device__ int* give(); __device__ char make(float);\n";
    assert!(
        refusal(&format!("{head}__global__ void k(int* p) {{ take(p); }}")).contains("whose body is not in this file")
    );
    assert!(
        refusal(&format!("{head}__global__ void k(int* p) {{ give(); }}")).contains("whose body is not in this file")
    );
    let translation = translated(&format!("{head}__global__ void k(int* p) {{ p[0] = make(p[1]); }}"));
    assert!(translation.text.contains("= i32(i8(atomic_load(make_result[0])))"), "{}", translation.text);
    let notes: Vec<_> = translation.kernels[0].assumptions.iter().map(|assumption| &*assumption.text).collect();
    assert!(notes.iter().any(|note| note.contains("returns any value")), "{notes:?}");
}

/// Returns the construct for which the only kernel of a file is refused.
fn refused_construct(text: &str) -> String {
    let translation = translated(text);
    assert!(translation.kernels.is_empty(), "{}", translation.text);
    translation.refused[0].construct.to_string()
}

#[test]
fn jumps_back_or_into_other_blocks_are_refused() {
    let kernel = |body: &str| format!("__global__ void k(int *y, int n) {{ {body} }}");
    let refused = |body: &str| refused_construct(&kernel(body));
    let other = "a `goto` to a label before it or in another block";
    assert_eq!(refused("again: n--; if (n > 0) goto again; y[0] = n;"), other);
    assert_eq!(refused("if (n > 3) goto on; on: n--; if (n > 0) goto on; y[0] = n;"), other);
    assert_eq!(refused("if (n) goto in; if (y[0]) { y[1] = 2; in: y[0] = 1; }"), other);
    assert_eq!(refused("for (;;) { if (n++ > 9) goto out; } { out: y[0] = 1; }"), other);
    assert_eq!(refused("if (n) out: y[0] = 1; goto out;"), "a label that is not directly in a block");
    assert_eq!(refused("goto out; if (n) out: y[0] = 1;"), other);
    let initialized = "a `goto` past the initialization of a variable";
    assert_eq!(refused("if (n) goto out; int m = 1; y[1] = m; out: y[0] = n;"), initialized);
    let hidden = "a `goto` past the declaration of `m`, which hides another name";
    assert_eq!(refused("int m = 1; { if (n) goto out; y[1] = m; int m; out: m = 2; y[0] = m; }"), hidden);
    // Without code after the label, the variable ends before it.
    assert!(translated(&kernel("{ if (n) goto out; int m = n; y[1] = m; } out: y[0] = n;")).refused.is_empty());
}

#[test]
fn pointers_to_variables_end_with_their_block() {
    let kernel = |body: &str| format!("__global__ void k(int *y, int n) {{ int a = 1, b = 2; int *p = &a; {body} }}");
    let text = translated(&kernel("if (n) p = &b; *p = n; y[0] = a + b;")).text;
    assert!(text.contains("var a: [i32; 1] = [1]") && text.contains("y[0] = a[0] + b[0]"), "{text}");
    // A variable with one pointer stays a variable.
    let text = translated(&kernel("*p = n; y[0] = a + b;")).text;
    assert!(text.contains("a = n"), "{text}");
    let text = translated(&kernel("{ int c = n; if (n) p = &c; *p = 1; } y[0] = *p;")).text;
    assert!(text.contains("assert(p_in != 1, \"an access to a variable outside of its block\")"), "{text}");
    assert!(text.contains("y[0] = a[p_at]"), "{text}");
    let construct = refused_construct(&kernel("int *q; { int c = n; q = &c; } y[0] = *q;"));
    assert_eq!(construct, "a pointer to a variable of another block");
    let inner = kernel("{ int c = n; p = n > 2 ? &c : &b; *p = 1; y[0] = c + b; }");
    assert!(translated(&inner).refused.is_empty());
    let text = translated(&kernel("float f = 1; void *q = &a; if (n) q = &f; y[0] = *(int *)q;")).text;
    assert!(text.contains("t = bitcast(i32, f["), "{text}");
}

#[test]
fn pointers_in_arrays_of_structs_are_parameters() {
    let kernel =
        |body: &str| format!("struct S {{ float *p[6]; float *q[2]; }}; __global__ void k(S s, int n) {{ {body} }}");
    let text = translated(&kernel("s.p[4][n] = 1; s.q[n][0] = 2;")).text;
    assert!(text.contains("inout s_p_4: [f32;") && !text.contains("s_p_3"), "{text}");
    assert!(text.contains("an index past the end of `q`"), "{text}");
    let refused = |body: &str| refused_construct(&kernel(body));
    assert_eq!(refused("s.p[n][0] = 1;"), "a computed index of `p`, an array of 6 pointers");
    assert_eq!(refused("s.p[6][0] = 1;"), "the pointer 6 of `p`, which is constant and past its end");
    assert_eq!(refused("**s.p = 1;"), "an array of pointers as a pointer");
    assert_eq!(refused("S t = s; t.p[1][0] = 1;"), "the pointer `p.0` in a struct");
}

#[test]
fn memory_functions_refuse_null_pointers() {
    let kernel = |body: &str| refused_construct(&format!("__global__ void k(int *y) {{ {body} }}"));
    assert_eq!(kernel("memset(0, 0, 8);"), "`memset` of a null pointer");
    assert_eq!(kernel("memcpy(y, nullptr, 8);"), "`memcpy` of a null pointer");
    assert_eq!(kernel("memcpy(0, y, 8);"), "`memcpy` of a null pointer");
}

#[test]
fn reads_of_variables_without_a_value_are_errors() {
    let errors = |body: &str| {
        let translation =
            translated(&format!("struct P {{ short a, b; }};\n__global__ void k(int *y, P *r, int n) {{ {body} }}"));
        assert_eq!(translation.kernels.len(), 1, "{:?}", translation.refused);
        let titles: Vec<String> = translation.errors.iter().map(|error| error.title.clone()).collect();
        (titles.join("; "), translation.text)
    };
    let (titles, text) = errors("int x; y[0] = x; x = 1; y[1] = x;");
    assert_eq!(titles, "`x` is read before it has a value");
    assert!(text.contains("var x: i32 = atomic_load(indeterminate_i32[0])"), "{text}");
    let (titles, text) = errors("P p; r[0] = p;");
    assert_eq!(titles, "`p` is read before it has a value");
    assert!(text.contains("P { a: t, b: t_2 }") && text.contains("indeterminate_i32[0]"), "{text}");
    let (titles, _) = errors("float f; for (int i = 0; i < n; i++) { float g; y[i] = f + g; }");
    assert_eq!(titles, "`f` is read before it has a value; `g` is read before it has a value");
    // Written on some path or in an earlier iteration.
    for body in [
        "int x; if (n) x = 1; if (n) y[0] = x;",
        "int x; for (int i = 0; i < n; i++) { if (i) y[i] = x; x = i; }",
        "int x; { x = 1; } y[0] = x;",
        "P p; p.a = 1; r[0] = p;",
        "int x[2]; x[0] = 1; y[0] = x[0];",
    ] {
        let (titles, text) = errors(body);
        assert!(titles.is_empty() && !text.contains("indeterminate"), "{body}: {titles}");
    }
}

#[test]
fn axioms_of_the_file_are_refused() {
    let kernel = "__global__ void k(int *y) { y[0] = 1; }";
    assert_eq!(refused_construct(&format!("__axiom(blockIdx.x == 3); {kernel}")), "an `__axiom` of the file");
    assert!(translated(&format!("#define __axiom(x)\n__axiom(blockIdx.x == 3); {kernel}")).refused.is_empty());
    assert!(translated(&format!("void __axiom(int); {kernel} void f() {{ __axiom(3); }}")).refused.is_empty());
}

#[test]
fn memcpy_copies_leading_fields() {
    let kernel = |size: &str| {
        format!(
            "struct S {{ int a; short b, c; double d; }};
            __global__ void k(S *x, const S *y, int n) {{ memcpy(&x[n], &y[n + 1], {size}); }}"
        )
    };
    let text = |size: &str| translated(&kernel(size)).text;
    let field = |name: &str| format!("x[n].{name} = y[n + 1].{name}");
    let six = text("6");
    assert!(six.contains(&field("a")) && six.contains(&field("b")) && !six.contains(".c ="), "{six}");
    let more = text("sizeof(S) + 4");
    assert!(more.contains("x[n] = y[n + 1]") && more.contains("x[i64(n) + 1i64].a = y[i64(n + 1) + 1i64].a"), "{more}");
    assert!(text("sizeof(S)").contains("x[n] = y[n + 1]"));
    let part = "`memcpy` of a size that may not be a multiple of the elements' size";
    for size in ["5", "12", "n", "sizeof(S) + 1"] {
        assert_eq!(refused_construct(&kernel(size)), part, "{size}");
    }
}

#[test]
fn the_active_mask_is_refused_with_a_way_around() {
    let source = "__global__ void k(float *y) { y[0] += __shfl_down_sync(__activemask(), y[0], 16); }";
    let translation = translated(source);
    assert_eq!(translation.refused[0].construct, "`__activemask`");
    assert!(translation.refused[0].diagnostic.help[0].contains("`__ballot_sync(0xffffffff, condition)`"));
}

#[test]
fn texts_of_printf_are_literals() {
    let of_body = |body: &str| translated(&format!("__global__ void k(float *x, int *y, int n) {{ {body} }}"));
    let construct = |body: &str| of_body(body).refused[0].construct.to_string();
    let print = |body: &str| {
        let text = of_body(body).text;
        let start = text.find("print(").expect("the text has the call");
        text[start..].lines().next().unwrap_or_default().to_string()
    };
    assert_eq!(print("printf(\"%s: %d%%\\n\", \"sum\", n);"), "print(\"sum:\", n, \"%\")");
    assert_eq!(
        print("const char *name = \"a {b}\"; printf(\"%-8s %.3s %5.2f\", name, \"abcdef\", 1.5f);"),
        "print(\"a {{b}} abc\", 1.5)"
    );
    assert_eq!(print("const char *const name = \"\\\"q\\\\\"; printf(\"%s\", name);"), "print(\"\\\"q\\\\\")");
    assert_eq!(construct("const char *s = \"a\"; if (n) s = \"b\"; printf(\"%s\", s);"), "an assignment to a value");
    assert_eq!(construct("printf(\"%s\", n ? \"a\" : \"b\");"), "`%s` of a computed string");
    assert_eq!(construct("printf(\"%d\", \"a\");"), "a string for a number of `printf`");
    assert_eq!(construct("printf(\"%*d\", 3, n);"), "`printf` with a width that is an argument");
    assert_eq!(construct("printf(\"%p\", x);"), "`%p` in `printf`");
}
