//! Tests of the pass `inline`.

use super::check;

const HEAD: &str = "kernel k(n: i32, x: in @x) grid\n";

#[test]
fn straight_line_bodies_are_spliced() {
    let before = format!(
        "{HEAD}fn double(f32) -> f32 {{\n%0: f32 = arg0 + arg0\nreturn %0\n}}\nfn k() {{\nglobal 1 in @x: f32[_]\n\
         %0: f32 = call double(2.0f32)\nprint %0\n}}"
    );
    let after = format!(
        "{HEAD}fn k() {{\nglobal 1 in @x: f32[_]\nvar $double: f32\n%0: f32 = 2.0f32 + 2.0f32\n$double = %0\n\
         %1: f32 = read $double\nprint %1\n}}"
    );
    check(&["inline"], &before, &after);
}

#[test]
fn an_early_return_breaks_a_block_and_memories_are_substituted() {
    let before = format!(
        "{HEAD}fn first(i32) -> f32 {{\nparam 0 in @p: f32[_]\n%0: bool = arg0 < extent(@p, 0)\nif %0 {{\n%1: f32 = load @p[arg0]\n\
         return %1\n}}\nreturn 0.0f32\n}}\n\
         fn k() {{\nglobal 1 in @x: f32[_]\nloop '0 {{\n%0: f32 = call first(arg0; @x)\nprint %0\nbreak '0\n}}\n}}"
    );
    let after = format!(
        "{HEAD}fn k() {{\nglobal 1 in @x: f32[_]\nvar $first: f32\nloop '0 {{\nblock '1 {{\n%0: bool = arg0 < extent(@x, 0)\n\
         if %0 {{\n%1: f32 = load @x[arg0]\n$first = %1\nbreak '1\n}}\n$first = 0.0f32\nbreak '1\n}}\n\
         %2: f32 = read $first\nprint %2\nbreak '0\n}}\n}}"
    );
    check(&["inline"], &before, &after);
}

#[test]
fn calls_in_callees_and_their_own_arrays() {
    let before = format!(
        "{HEAD}fn a(i32) -> i32 {{\nlocal @buffer: i32[4]\nvar $i: i32\nfor '0 $i = 0i32 .. 4i32 step 1i32 {{\n\
         %0: i32 = read $i\nstore @buffer[%0] = arg0\n}}\n%1: i32 = load @buffer[0i32]\nreturn %1\n}}\n\
         fn b() -> i32 {{\n%0: i32 = call a(1i32)\n%1: i32 = call a(%0)\nreturn %1\n}}\n\
         fn k() {{\nglobal 1 in @x: f32[_]\n%0: i32 = call b()\nprint %0\n}}"
    );
    let mut module = super::read(&before);
    super::super::inline::run(&mut module);
    assert_eq!(clk_ir::verify::violations(&module), Vec::<String>::new());
    let text = clk_ir::text::print(&module);
    assert!(!text.contains("call"), "{text}");
    assert_eq!(text.matches("local @buffer").count(), 2, "{text}");
    assert_eq!(module.functions.len(), 1);
}
