//! Tests of the preprocessor: the text of the tokens after it, separated by spaces.

use super::*;

/// Preprocesses a text with headers `a.h`, … and returns the tokens and the messages.
fn run_with(text: &str, headers: &[(&str, &str)], options: &ImportOptions) -> (String, Vec<String>) {
    let mut sources = SourceMap::default();
    let file = sources.add("dir/file.cu", text);
    let read = |path: &str| headers.iter().find(|(name, _)| *name == path).map(|(_, text)| text.to_string());
    let result = preprocess(&mut sources, file, options, &read);
    for token in &result.tokens {
        assert!(token.span.span.end as usize <= sources.text(token.span.span.file).len());
    }
    let words: Vec<&str> = result.tokens.iter().map(|token| token.text.as_str()).collect();
    let messages = result.diagnostics.iter().map(|diagnostic| diagnostic.title.clone()).collect();
    (words.join(" ").trim_end().to_string(), messages)
}

fn run(text: &str) -> String {
    let (tokens, messages) = run_with(text, &[], &ImportOptions::default());
    assert_eq!(messages, Vec::<String>::new(), "{text}");
    tokens
}

fn messages(text: &str) -> Vec<String> {
    run_with(text, &[], &ImportOptions::default()).1
}

#[test]
fn object_macros_expand_once() {
    assert_eq!(run("#define N 4\n#define M (N + 1)\nint a[M];"), "int a [ ( 4 + 1 ) ] ;");
    assert_eq!(run("#define x x + 1\nx"), "x + 1");
    assert_eq!(run("#define a b\n#define b a\na b"), "a b");
    assert_eq!(run("#define N 1\n#undef N\nN"), "N");
    assert_eq!(run("#define N 1 /* one\n more */ + 2\nN"), "1 + 2");
    assert_eq!(run("#define LONG 1 + \\\n  2\nLONG LO\\\nNG"), "1 + 2 1 + 2");
}

#[test]
fn function_macros_take_arguments() {
    assert_eq!(
        run("#define MAX(a, b) ((a) > (b) ? (a) : (b))\nMAX(x, f(y, z))"),
        "( ( x ) > ( f ( y , z ) ) ? ( x ) : ( f ( y , z ) ) )"
    );
    assert_eq!(run("#define F() 1\nF() F (\n) F"), "1 1 F");
    assert_eq!(run("#define F(x) x\nF() F((a, b))"), "( a , b )");
    // The example of the C standard (C17, 6.10.3.5).
    let text = "#define x 3\n#define f(a) f(x * (a))\n#undef x\n#define x 2\n#define g f\n#define z z[0]\n#define h g(~\n\
        #define m(a) a(w)\n#define w 0,1\n#define t(a) a\n#define p() int\n#define q(x) x\n#define r(x,y) x ## y\n#define str(x) # x\n";
    assert_eq!(
        run(&format!("{text}f(y+1) + f(f(z)) % t(t(g)(0) + t)(1);")),
        "f ( 2 * ( y + 1 ) ) + f ( 2 * ( f ( 2 * ( z [ 0 ] ) ) ) ) % f ( 2 * ( 0 ) ) + t ( 1 ) ;"
    );
    assert_eq!(
        run(&format!("{text}g(x+(3,4)-w) | h 5) & m\n(f)^m(m);")),
        "f ( 2 * ( 2 + ( 3 , 4 ) - 0 , 1 ) ) | f ( 2 * ( ~ 5 ) ) & f ( 2 * ( 0 , 1 ) ) ^ m ( 0 , 1 ) ;"
    );
    assert_eq!(
        run(&format!("{text}p() i[q()] = {{ q(1), r(2,3), r(4,), r(,5), r(,) }};")),
        "int i [ ] = { 1 , 23 , 4 , 5 , } ;"
    );
    assert_eq!(
        run(&format!("{text}char c[2][6] = {{ str(hello), str() }};")),
        "char c [ 2 ] [ 6 ] = { \"hello\" , \"\" } ;"
    );
}

#[test]
fn operators_paste_and_stringify() {
    assert_eq!(run("#define NAME(x) kernel_##x\nNAME(add)"), "kernel_add");
    assert_eq!(run("#define CAT(a, b) a##b\n#define X 1\nCAT(X, 2) CAT(<, <)"), "X2 <<");
    assert_eq!(run("#define S(x) #x\nS( a  +  \"b\\n\" )"), "\"a + \\\"b\\\\n\\\"\"");
    assert_eq!(run("#define S(x) #x\n#define T(x) S(x)\n#define N 3\nS(N) T(N)"), "\"N\" \"3\"");
    assert_eq!(messages("#define CAT(a, b) a##b\nCAT(+, x)"), ["`+x` in the macro `CAT` is not one token"]);
}

#[test]
fn variadic_macros() {
    assert_eq!(
        run("#define P(f, ...) printf(f, ##__VA_ARGS__)\nP(\"a\") P(\"a\", 1, 2)"),
        "printf ( \"a\" ) printf ( \"a\" , 1 , 2 )"
    );
    assert_eq!(run("#define P(...) f(__VA_ARGS__)\nP() P(1) P(1, (2, 3))"), "f ( ) f ( 1 ) f ( 1 , ( 2 , 3 ) )");
    assert_eq!(run("#define P(a...) f(a)\nP(1, 2)"), "f ( 1 , 2 )");
    assert_eq!(run("#define P(x, ...) f(x __VA_OPT__(,) __VA_ARGS__)\nP(1) P(1, 2)"), "f ( 1 ) f ( 1 , 2 )");
}

#[test]
fn conditions() {
    let of = |condition: &str| run(&format!("#if {condition}\nyes\n#else\nno\n#endif"));
    for condition in [
        "1",
        "2 > 1 && !0",
        "defined(N) || defined __CUDACC__",
        "__CUDA_ARCH__ >= 700",
        "(1 ? 2 : 3) == 2",
        "-1 < 0u == 0",
        "1 << 4 == 16",
        "0x10 == 16",
        "'a' == 97",
        "UNKNOWN == 0",
        "5 / 2 == 2 && -5 / 2 == -2",
        "0 && (1 / 0) || 1",
        "16 >> 2 == 4",
        "~0 == -1",
        "true",
        "1 + 2 * 3 == 7",
        "__has_include(<vector>)",
        "18446744073709551615u > 0",
        "10 - 3 - 2 == 5",
    ] {
        assert_eq!(of(condition), "yes", "{condition}");
    }
    for condition in
        ["0", "defined N", "__cplusplus < 201103L", "-1 > 0u == 0", "__has_include(\"none.h\")", "__has_builtin(x)"]
    {
        assert_eq!(of(condition), "no", "{condition}");
    }
    assert_eq!(run("#ifdef A\n1\n#elif defined(__CUDACC__)\n2\n#elif 1/0\n3\n#else\n4\n#endif\n5"), "2 5");
    assert_eq!(run("#ifndef A\n#if 0\n#if 1\na\n#else\nb\n#endif\n#else\nc\n#endif\n#endif"), "c");
    assert_eq!(run("#if 0\n' isn't lexed \"\n#bad\n#endif\nx"), "x");
    assert_eq!(messages("#if 1 / 0\n#endif"), ["division by zero"]);
    assert_eq!(messages("#if F(1)\n#endif"), ["the macro `F` is not defined"]);
    assert_eq!(messages("#if 1\n"), ["this conditional has no `#endif`"]);
    assert_eq!(messages("#else\n#endif"), ["`#else` without `#if`", "`#endif` without `#if`"]);
}

#[test]
fn includes() {
    let headers = [
        ("dir/a.h", "#pragma once\n#include \"sub/b.h\"\nint a;"),
        ("dir/sub/b.h", "#ifndef B\n#define B\n#include \"../c.h\"\nint b;\n#endif"),
        ("dir/c.h", "#define C 3"),
        ("inc/d.h", "int d;"),
    ];
    let options = ImportOptions { include_dirs: vec!["inc".into()], ..ImportOptions::default() };
    let text = "#include <cuda_runtime.h>\n#include \"a.h\"\n#include \"a.h\"\n#include \"sub/b.h\"\n#include <d.h>\n#define D \"d.h\"\n#include D\nC";
    let (tokens, messages) = run_with(text, &headers, &options);
    assert_eq!((tokens.as_str(), messages), ("int b ; int a ; int d ; int d ; 3", vec![]));
    let (tokens, messages) = run_with("#include \"x.h\"\nint a;", &headers, &options);
    assert_eq!(tokens, "int a ;");
    assert_eq!(messages, ["the header `x.h` is not found; its declarations are unknown"]);
    let (_, messages) = run_with("#include \"r.h\"", &[("dir/r.h", "#include \"r.h\"")], &options);
    assert_eq!(messages, ["includes are nested too deeply"]);
}

#[test]
fn options_and_predefined_macros() {
    let options =
        ImportOptions { defines: vec![("N".into(), "4".into())], cuda_arch: Some(900), ..ImportOptions::default() };
    assert_eq!(run_with("N __CUDA_ARCH__ UINT32_C(1) FLT_RADIX", &[], &options).0, "4 900 1U 2");
    assert_eq!(run("\n__LINE__ __COUNTER__ __COUNTER__"), "2 0 1");
    assert_eq!(run("#define NDEBUG\n#include <cassert>\nassert(x);"), "( ( void ) 0 ) ;");
    assert_eq!(run("#include <cassert>\nassert(x);"), "assert ( x ) ;");
}

#[test]
fn pragmas() {
    assert_eq!(run("#define N 4\n#pragma unroll N\nfor"), "#pragma unroll 4 #pragma unroll for");
    assert_eq!(run("#define U _Pragma(\"unroll\") for\nU"), "#pragma unroll #pragma unroll for");
    assert_eq!(run("#pragma omp parallel for\nfor"), "for");
    assert_eq!(
        run("#define N 1\n#pragma push_macro(\"N\")\n#undef N\n#define N 2\nN\n#pragma pop_macro(\"N\")\nN"),
        "2 1"
    );
}

#[test]
fn macro_bombs_are_stopped() {
    let mut bomb = String::from("#define A0 x x\n");
    for i in 1..64 {
        bomb += &format!("#define A{i} A{} A{}\n", i - 1, i - 1);
    }
    assert_eq!(messages(&format!("{bomb}A63")), ["macros expand to too many tokens"]);
    let mut bomb = String::from("#define F0(x) x x\n");
    for i in 1..64 {
        bomb += &format!("#define F{i}(x) F{}(x x)\n", i - 1);
    }
    assert_eq!(messages(&format!("{bomb}F63(a)")), ["macros expand to too many tokens"]);
    let nested = format!("#define F(x) x\n{}{}", "F(".repeat(2000), ")".repeat(2000));
    assert_eq!(messages(&nested), ["macro arguments are nested too deeply"]);
    let includes = "#include \"i.h\"\n".repeat(8);
    let (_, found) = run_with(&includes, &[("dir/i.h", &includes)], &ImportOptions::default());
    assert_eq!(found, ["includes are nested too deeply"]);
}

#[test]
fn places_of_macros() {
    let text = "#define TWICE(x) (x + OTHER)\n#define OTHER y\nf(TWICE(arg));";
    let mut sources = SourceMap::default();
    let file = sources.add("file.cu", text);
    let result = preprocess(&mut sources, file, &ImportOptions::default(), &|_| None);
    let place = |word: &str| result.tokens.iter().find(|token| token.text == word).map(|token| token.span);
    let (plain, arg, body, inner) = (place("f"), place("arg"), place("+"), place("y"));
    assert_eq!(plain.map(|p| (sources.slice(p.span), p.expansion)), Some(("f", None)));
    assert_eq!(arg.map(|p| (sources.slice(p.span), p.expansion)), Some(("arg", None)));
    assert_eq!(body.map(|p| sources.slice(p.span)), Some("TWICE(arg)"));
    assert_eq!(inner.map(|p| sources.slice(p.span)), Some("TWICE(arg)"));
    let names = |p: Option<SourceSpan>| -> Vec<SmolStr> {
        result.provenance.expansions(p.unwrap_or_default()).map(|e| e.name.clone()).collect()
    };
    assert_eq!(names(body), ["TWICE"]);
    assert_eq!(names(inner), ["OTHER", "TWICE"]);
}
