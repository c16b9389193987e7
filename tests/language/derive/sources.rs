//! Random kernels to differentiate, as source text. The floats that they compute depend smoothly on their float inputs,
//! through stencils, shared memory with barriers, warp operations and atomic sums. They have loops with computed
//! counts, in-place updates, local arrays and early returns. Index spaces have one or two axes; some kernels use
//! blocks.
//!
//! The kernels are deterministic: a thread stores to its own elements, and reads elements of other threads only after a
//! barrier. Conditions on floats may cause kinks and jumps.

mod thread_exchange;

use std::fmt::Write;

use clk_runtime::LaunchExtents;

use super::harness::Spec;
use clk_testing::random::Random;

/// The index space of a kernel, with the names of a thread's indices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `threads(i: N)`
    Line { n: usize },
    /// `threads(i: H, j: W)`
    Plane { h: usize, w: usize },
    /// `grid(G) block(B)`; `t` is the thread's index in its block, `b` the index of the block, and `g` the thread's
    /// global index.
    Blocks { grid: usize, block: usize },
    /// `grid(2, 1) block(W, H)`; `tx` and `ty` are the thread's indices in its block, `gx` and `ty` its global indices.
    Tiles { h: usize, w: usize },
}

pub struct SourceProgram {
    pub text: String,
    pub extents: LaunchExtents,
    pub arguments: Vec<Spec>,
}

struct ProgramWriter {
    random: Random,
    form: Form,
    text: String,
    params: Vec<String>,
    arguments: Vec<Spec>,
    /// Expressions that any statement of the kernel may read.
    reads: Vec<String>,
    /// Integer expressions that may differ between threads, and block-uniform ones.
    integers: Vec<String>,
    common: Vec<String>,
    /// Mutable floats and immutable floats, innermost last.
    variables: Vec<String>,
    values: Vec<String>,
    /// Elements that belong to the thread, so that it may read and write them.
    own: Vec<String>,
    /// Elements to which all threads may add.
    sums: Vec<String>,
    names: usize,
    statements: usize,
    helpers: bool,
    has_structs: bool,
    promise: &'static str,
}

/// Returns the program of a seed; its last kernel is `k`.
pub fn program(seed: u64) -> SourceProgram {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d | 1);
    (0..4).for_each(|_| _ = random.word());
    let form = match random.next_below(8) {
        0 | 1 => Form::Line { n: 1 + random.next_below(9) },
        2 | 3 => Form::Plane { h: 1 + random.next_below(5), w: 1 + random.next_below(5) },
        4 => Form::Tiles { h: 1 + random.next_below(4), w: 1 + random.next_below(4) },
        5 => Form::Blocks { grid: 1, block: [32, 32, 20, 40][random.next_below(4)] },
        _ => Form::Blocks { grid: 1 + random.next_below(3), block: 2 + random.next_below(8) },
    };
    let statements = 4 + random.next_below(12);
    let mut maker = ProgramWriter {
        random,
        form,
        text: String::new(),
        params: vec![],
        arguments: vec![],
        reads: vec![],
        integers: vec![],
        common: vec![],
        variables: vec![],
        values: vec![],
        own: vec![],
        sums: vec![],
        names: 0,
        statements,
        helpers: false,
        has_structs: false,
        promise: "",
    };
    maker.signature();
    maker.body();
    maker.finish()
}

/// Writes a line with this indentation.
fn line(text: &mut String, depth: usize, content: &str) {
    let _ = writeln!(text, "{:1$}{content}", "", depth * 4);
}

fn leaked<T: Clone>(items: &[T]) -> &'static [T] {
    Box::leak(items.to_vec().into_boxed_slice())
}

impl ProgramWriter {
    fn one_in(&mut self, n: usize) -> bool {
        self.random.next_below(n) == 0
    }

    fn pick(&mut self, all: &[String]) -> String {
        all[self.random.next_below(all.len())].clone()
    }

    fn name(&mut self, letter: &str) -> String {
        self.names += 1;
        format!("{letter}{}", self.names)
    }

    fn floats(&mut self, param: &str, extents: &[usize]) {
        self.params.push(param.into());
        let extents: Vec<u32> = extents.iter().map(|&n| n as u32).collect();
        self.arguments.push(Spec::Floats(leaked(&extents)));
    }

    fn ints(&mut self, param: &str, values: &[i32]) {
        self.params.push(param.into());
        self.arguments.push(Spec::Ints(leaked(values)));
    }

    fn reads(&mut self, all: &[&str]) {
        self.reads.extend(all.iter().map(|read| read.to_string()));
    }

    fn signature(&mut self) {
        match self.form {
            Form::Line { n } => self.line_signature(n),
            Form::Plane { h, w } => self.plane_signature(h, w),
            Form::Blocks { grid, block } => self.block_signature(grid, block),
            Form::Tiles { h, w } => self.tile_signature(h, w),
        }
        if self.one_in(2) {
            self.params.push("s: f64".into());
            let number = 0.3137 + 0.1 * self.random.next_below(5) as f64;
            self.arguments.push(Spec::Number(number));
            self.reads(&["s"]);
        }
        if self.one_in(3) {
            self.floats("w: [f64; 3]", &[3]);
            self.reads(&["w[0]", "w[2]", "w[1]"]);
        }
    }

    fn line_signature(&mut self, n: usize) {
        self.integers.push("i".into());
        self.floats("x: [f64; N]", &[n]);
        self.reads(&["x[i]", "x[i]"]);
        if self.one_in(2) {
            self.reads(&["x[N - 1 - i]", "x[(i + 1) % N]", "x[i / 2]", "x[0]"]);
        }
        if self.one_in(2) {
            self.floats("p: [f64; N + 2]", &[n + 2]);
            self.reads(&["p[i]", "p[i + 1]", "p[i + 2]"]);
        }
        if self.one_in(3) {
            let at: Vec<i32> = (0..n).map(|_| self.random.next_below(n) as i32).collect();
            self.ints("at: [i32; N]", &at);
            self.reads(&["x[at[i]]"]);
        }
        if self.one_in(3) {
            let counts: Vec<i32> = (0..n).map(|_| self.random.next_below(5) as i32 - 1).collect();
            self.ints("n: [i32; N]", &counts);
            self.integers.push("n[i]".into());
        }
        if self.one_in(3) {
            self.floats("m: [f64; N, 4]", &[n, 4]);
            self.reads(&["m[i, @ & 3]", "m[i, @ & 3]", "m[i, 1]"]);
        }
        if self.one_in(4) {
            self.floats("v: [f64x3; N]", &[n]);
            self.reads(&["v[i].x", "dot(v[i], v[i])", "length(v[i] + 2.0)", "v[N - 1 - i].z"]);
        }
        if self.one_in(4) {
            self.has_structs = true;
            self.floats("o: [P; N]", &[n]);
            self.floats("inout l: [P; N]", &[n]);
            self.reads(&[
                "o[i].a",
                "o[i].d.y",
                "dot(o[i].d, o[N - 1 - i].d)",
                "l[i].a",
                "l[i].d.x",
                "dot(l[i].d, l[i].d)",
            ]);
            self.own.extend(["l[i].a".into(), "l[i].d.x".into()]);
        }
        match self.random.next_below(9) {
            kind @ (6 | 7) => {
                let by = self.random.next_below(n);
                let at: Vec<i32> = (0..n).map(|i| ((i + by) % n) as i32).collect();
                self.ints("to: [i32; N]", &at);
                self.floats("inout y: [f64; N]", &[n]);
                self.reads(&["y[to[i]]"]);
                self.own.push("y[to[i]]".into());
                self.promise = if kind == 6 { " assume distinct(to)" } else { "" };
            }
            0 => {
                self.floats("out y: [f64; 2 * N]", &[2 * n]);
                self.own.extend(["y[2 * i]".into(), "y[2 * i + 1]".into()]);
            }
            1 => {
                self.floats("out y: [f64; N + 1]", &[n + 1]);
                self.own.push("y[i + 1]".into());
            }
            2 => {
                self.floats("out y: [f64; N]", &[n]);
                self.own.push("y[N - 1 - i]".into());
            }
            _ => {
                self.floats("out y: [f64; N]", &[n]);
                self.own.push("y[i]".into());
            }
        }
        if self.one_in(2) {
            self.floats("inout z: [f64; N]", &[n]);
            self.own.push("z[i]".into());
            self.reads(&["z[i]"]);
        }
        if self.one_in(4) {
            self.floats("inout f: [f64x2; N]", &[n]);
            self.own.extend(["f[i].x".into(), "f[i].y".into()]);
            self.reads(&["f[i].x", "f[i].y", "dot(f[i], f[i])"]);
        }
        if self.one_in(3) {
            self.floats("inout q: [f64; N, 3]", &[n, 3]);
            self.own.extend(["q[i, 0]".into(), "q[i, abs(@ % 3)]".into()]);
            self.reads(&["q[i, 0]", "q[i, abs(@ % 3)]"]);
        }
        if self.one_in(3) {
            self.floats("inout c: [f64; 3]", &[3]);
            self.sums.extend(["c[i % 3]".into(), "c[abs(@ % 3)]".into(), "c[1]".into()]);
        }
    }

    fn plane_signature(&mut self, h: usize, w: usize) {
        self.integers.extend(["i".into(), "j".into(), "i + j".into()]);
        self.floats("x: [f64; H, W]", &[h, w]);
        self.reads(&["x[i, j]", "x[i, j]"]);
        if self.one_in(2) {
            self.reads(&[
                "(if i > 0 { x[i - 1, j] } else { 0.25 })",
                "(if j < W - 1 { x[i, j + 1] } else { x[i, j] })",
            ]);
        }
        if self.one_in(3) {
            self.reads(&["x[i, (j + 1) % W]", "x[H - 1 - i, j]", "x[0, j]"]);
        }
        if self.one_in(2) {
            self.floats("p: [f64; H + 2, W + 2]", &[h + 2, w + 2]);
            self.reads(&["p[i, j]", "p[i + 1, j + 1]", "p[i + 2, j + 1]", "p[i + 1, j]"]);
        }
        if self.one_in(3) {
            self.floats("r: [f64; H]", &[h]);
            self.floats("u: [f64; W]", &[w]);
            self.reads(&["r[i]", "u[j]"]);
        }
        if self.one_in(4) {
            self.floats("v: [f64x2; H, W]", &[h, w]);
            self.reads(&["v[i, j].x", "dot(v[i, j], v[i, j])", "v[i, W - 1 - j].y"]);
        }
        if self.one_in(3) {
            self.floats("a: [f64; H, 3]", &[h, 3]);
            self.floats("b: [f64; 3, W]", &[3, w]);
            self.reads(&["a[i, abs(@ % 3)] * b[abs(@ % 3), j]", "a[i, 1]", "b[2, j]"]);
        }
        if self.one_in(4) {
            self.floats("out y: [f64; W, H]", &[w, h]);
            self.own.push("y[j, i]".into());
        } else {
            self.floats("out y: [f64; H, W]", &[h, w]);
            self.own.push("y[i, j]".into());
        }
        if self.one_in(2) {
            self.floats("inout z: [f64; H, W]", &[h, w]);
            self.own.push("z[i, j]".into());
            self.reads(&["z[i, j]"]);
        }
        if self.one_in(3) {
            self.floats("inout c: [f64; H]", &[h]);
            self.sums.push("c[i]".into());
        }
    }

    fn block_signature(&mut self, grid: usize, block: usize) {
        self.integers.extend(["t".into(), "g".into(), "t + b".into()]);
        self.common.push("b".into());
        let all = grid * block;
        // The arrays have at most one element per thread.
        let n = all - if self.one_in(3) { self.random.next_below(block) } else { 0 };
        self.floats("x: [f64; N]", &[n]);
        self.reads(&["e", "e"]);
        if self.one_in(3) {
            self.reads(&["x[(g + 1) % N]", "x[b]", "x[(N + b - t) & 1]"]);
        }
        if self.one_in(3) {
            self.floats("r: [f64; M]", &[grid]);
            self.reads(&["r[b]"]);
        } else {
            self.floats("r: [f64; M, 4]", &[grid, 4]);
            self.reads(&["r[b, @ & 3]"]);
        }
        let name = if self.one_in(3) { "inout y: [f64; M, 64]" } else { "out y: [f64; M, 64]" };
        self.floats(name, &[grid, 64]);
        if name.starts_with("inout") {
            self.reads(&["y[b, t]"]);
        }
        self.own.push("y[b, t]".into());
        if self.one_in(3) {
            self.floats("inout z: [f64; L]", &[all]);
            self.own.push("z[g]".into());
            self.reads(&["z[g]"]);
        }
        if self.one_in(3) {
            self.floats("inout c: [f64; 3]", &[3]);
            self.sums.extend(["c[t % 3]".into(), "c[abs(@ % 3)]".into(), "c[1]".into()]);
        }
        if self.one_in(3) {
            let counts: Vec<i32> = (0..all).map(|_| self.random.next_below(5) as i32 - 1).collect();
            self.ints("n: [i32; L]", &counts);
            self.integers.push("n[g]".into());
        }
    }

    fn tile_signature(&mut self, h: usize, w: usize) {
        self.integers.extend(["tx".into(), "ty".into(), "gx + ty".into()]);
        self.common.push("b".into());
        self.floats("x: [f64; H, W]", &[h, 2 * w]);
        self.reads(&["x[ty, gx]", "x[ty, gx]"]);
        if self.one_in(2) {
            self.reads(&["(if gx > 0 { x[ty, gx - 1] } else { 0.25 })", "x[(ty + 1) % H, gx]"]);
        }
        if self.one_in(3) {
            self.floats("u: [f64; W]", &[2 * w]);
            self.reads(&["u[gx]"]);
        }
        self.floats("out y: [f64; H, W]", &[h, 2 * w]);
        self.own.push("y[ty, gx]".into());
        if self.one_in(2) {
            self.floats("inout z: [f64; H, W]", &[h, 2 * w]);
            self.own.push("z[ty, gx]".into());
            self.reads(&["z[ty, gx]"]);
        }
        if self.one_in(3) {
            self.floats("inout c: [f64; 3]", &[3]);
            self.sums.extend(["c[ty % 3]".into(), "c[1]".into()]);
        }
    }

    // Expressions

    fn number(&mut self) -> String {
        format!("{}.{}f64", self.random.next_below(2), 1 + self.random.next_below(9))
    }

    /// Returns an `i32` expression, which is block-uniform if `common`.
    fn integer(&mut self, common: bool) -> String {
        let candidates = if common { self.common.clone() } else { self.integers.clone() };
        if candidates.is_empty() || self.one_in(4) {
            return self.random.next_below(4).to_string();
        }
        self.pick(&candidates)
    }

    /// Returns the expression of an element, with each `@` of the template replaced by a random index.
    fn place(&mut self, template: String) -> String {
        let mut text = template;
        while text.contains('@') {
            let integer = format!("({})", self.integer(false));
            text = text.replacen('@', &integer, 1);
        }
        text
    }

    fn leaf(&mut self) -> String {
        match self.random.next_below(8) {
            0 => self.number(),
            1..=3 if !self.variables.is_empty() => {
                let all = self.variables.clone();
                self.pick(&all)
            }
            4 | 5 if !self.values.is_empty() => {
                let all = self.values.clone();
                self.pick(&all)
            }
            _ => {
                let reads = self.reads.clone();
                let read = self.pick(&reads);
                self.place(read)
            }
        }
    }

    fn expr(&mut self, depth: usize) -> String {
        if depth == 0 || self.one_in(6) {
            return self.leaf();
        }
        let a = self.expr(depth - 1);
        match self.random.next_below(13) {
            0 => format!("({a} + {})", self.expr(depth - 1)),
            1 => format!("({a} - {})", self.expr(depth - 1)),
            2..=4 => format!("({a} * {})", self.expr(depth - 1)),
            5 => {
                let b = self.expr(depth - 1);
                format!("{a} / (1.5 + {b} * {b})")
            }
            6 => {
                let name = ["max", "min", "hypot", "atan2"][self.random.next_below(4)];
                let b = self.expr(depth - 1);
                let b = if name == "hypot" || name == "atan2" { format!("1.5 + {b} * {b}") } else { b };
                format!("{name}({a}, {b})")
            }
            7 => {
                let (cond, b) = (self.condition(false), self.expr(depth - 1));
                match self.one_in(2) {
                    true => format!("select({cond}, {a}, {b})"),
                    false => format!("(if {cond} {{ {a} }} else {{ {b} }})"),
                }
            }
            8 if self.one_in(2) => {
                self.helpers = true;
                let name = ["chain", "wave", "bent"][self.random.next_below(3)];
                format!("{name}({a}, {}, {} & 3)", self.expr(depth - 1), self.integer(false))
            }
            9 if self.one_in(3) => format!("f64({}) * {a}", self.integer(false)),
            _ => {
                let wrap = [
                    "sin(@)",
                    "cos(@)",
                    "tanh(@)",
                    "exp(tanh(@))",
                    "sqrt(1.5 + (@) * (@))",
                    "log(1.5 + (@) * (@))",
                    "abs(@)",
                    "(-(@))",
                    "clamp(@, -0.7, 0.6)",
                    "fma(@, 0.5, @)",
                    "atan(@)",
                    "(1.5 + tanh(@)) ** 1.5",
                    "floor(@) * 0.1 + (@)",
                ];
                wrap[self.random.next_below(wrap.len())].replace('@', &a)
            }
        }
    }

    /// Returns a float expression whose value stays moderate.
    fn bounded(&mut self, depth: usize) -> String {
        let wrap = ["tanh(@)", "sin(@)", "clamp(@, -1.5, 1.5)", "@ / (1.0 + abs(@))", "cos(@)"];
        let value = self.expr(depth);
        wrap[self.random.next_below(wrap.len())].replace('@', &format!("({value})"))
    }

    fn condition(&mut self, common: bool) -> String {
        if common || self.one_in(2) {
            let (a, b) = (self.integer(common), self.random.next_below(3));
            return ["@ % 2 == 0", "@ < #", "@ != #", "@ > #"][self.random.next_below(4)]
                .replace('@', &format!("({a})"))
                .replace('#', &b.to_string());
        }
        let (a, b) = (self.expr(1), self.number());
        match self.random.next_below(4) {
            0 => format!("{a} > -{b}"),
            1 => format!("{a} < {b} && ({}) != 1", self.integer(false)),
            _ => format!("{a} < {b}"),
        }
    }

    // Statements

    /// Writes statements in a nested scope, so that their variables go out of scope at its end.
    fn scope(&mut self, depth: usize, common: bool, in_loop: bool) {
        let outer = (self.variables.len(), self.values.len(), self.integers.len(), self.common.len());
        for _ in 0..1 + self.random.next_below(3) {
            self.statement(depth, common, in_loop);
        }
        self.variables.truncate(outer.0);
        self.values.truncate(outer.1);
        self.integers.truncate(outer.2);
        self.common.truncate(outer.3);
    }

    fn write_line(&mut self, depth: usize, content: &str) {
        line(&mut self.text, depth, content);
    }

    /// Writes a statement; `common` means that all threads of the block execute it together.
    fn statement(&mut self, depth: usize, common: bool, in_loop: bool) {
        if self.statements == 0 {
            return;
        }
        self.statements -= 1;
        let is_block = matches!(self.form, Form::Blocks { .. } | Form::Tiles { .. });
        if is_block && common && self.one_in(3) {
            return self.thread_exchange(depth);
        }
        match self.random.next_below(if depth > 3 { 8 } else { 16 }) {
            0 | 1 => self.declare(depth),
            2 | 3 => self.assign(depth),
            4..=6 => self.own(depth),
            7 if self.one_in(2) => self.vector(depth),
            7 => self.add(depth),
            8 | 9 => self.branch(depth, common, in_loop),
            10..=12 => self.count(depth, common),
            13 => self.while_loop(depth, common),
            14 => self.array(depth),
            _ => self.leave(depth, common, in_loop),
        }
    }

    fn declare(&mut self, depth: usize) {
        let (name, value) = (self.name("v"), self.bounded(2));
        if self.one_in(3) {
            self.write_line(depth, &format!("let {name} = {value}"));
            self.values.push(name);
        } else {
            self.write_line(depth, &format!("var {name} = {value}"));
            self.variables.push(name);
        }
    }

    fn assign(&mut self, depth: usize) {
        if self.variables.is_empty() {
            return self.declare(depth);
        }
        let all = self.variables.clone();
        let to = self.pick(&all);
        self.change(depth, &to);
    }

    fn change(&mut self, depth: usize, to: &str) {
        let value = self.bounded(3);
        let text = match self.random.next_below(5) {
            0 => format!("{to} = {to} * 0.5 + {value}"),
            1 => format!("{to} *= {value}"),
            2 => format!("{to} = sin({to} + {value})"),
            3 => format!("{to} /= 1.5 + {value}"),
            _ => format!("{to} = {value}"),
        };
        self.write_line(depth, &text.replace("/= 1.5 + ", "/= 3.0 + "));
    }

    /// Writes a store to an element that belongs to the thread, or a change of it. An output has no value that could be
    /// changed.
    fn own(&mut self, depth: usize) {
        let all = self.own.clone();
        let template = self.pick(&all);
        let changes = self.reads.contains(&template);
        let place = self.place(template);
        if changes && self.one_in(2) {
            return self.change(depth, &place);
        }
        let value = self.bounded(3);
        self.write_line(depth, &format!("{place} = {value}"));
        if self.one_in(3) {
            let name = self.name("v");
            self.write_line(depth, &format!("let {name} = {place}"));
            self.values.push(name);
        }
    }

    fn add(&mut self, depth: usize) {
        if self.sums.is_empty() {
            return self.assign(depth);
        }
        let all = self.sums.clone();
        let (template, value) = (self.pick(&all), self.expr(2));
        let place = self.place(template);
        let name = if self.one_in(3) { "atomic_sub" } else { "atomic_add" };
        self.write_line(depth, &format!("{name}({place}, {value})"));
    }

    fn branch(&mut self, depth: usize, common: bool, in_loop: bool) {
        let inner = common && self.one_in(2);
        let cond = self.condition(inner);
        self.write_line(depth, &format!("if {cond} {{"));
        self.scope(depth + 1, inner, in_loop && !common || inner);
        if self.one_in(2) {
            self.write_line(depth, "} else {");
            self.scope(depth + 1, inner, in_loop && !common || inner);
        }
        self.write_line(depth, "}");
    }

    fn count(&mut self, depth: usize, common: bool) {
        let inner = common && self.one_in(2);
        let (name, end) = (self.name("k"), self.integer(inner));
        let range = match self.random.next_below(6) {
            0 => format!("0..({end}) & 3"),
            1 => format!("({end}) & 3..4"),
            2 => format!("({end}) & 3..0 step -1"),
            3 => format!("0..=({end}) & 3 step 2"),
            4 => format!("0..{}", 1 + self.random.next_below(4)),
            _ => format!("0..min({end}, 3)"),
        };
        let range = range.replace("..=(", "..=((").replace(" & 3 step 2", " & 3) step 2");
        self.write_line(depth, &format!("for {name} in {range} {{"));
        self.integers.push(name.clone());
        if inner {
            self.common.push(name);
        }
        self.scope(depth + 1, inner, true);
        self.integers.pop();
        if inner {
            self.common.pop();
        }
        self.write_line(depth, "}");
    }

    fn while_loop(&mut self, depth: usize, common: bool) {
        let inner = common && self.one_in(2);
        let (name, end) = (self.name("k"), self.integer(inner));
        self.write_line(depth, &format!("var {name} = 0"));
        let also = if inner || self.one_in(2) { String::new() } else { format!(" && {}", self.condition(false)) };
        self.write_line(depth, &format!("while {name} < (({end}) & 3){also} {{"));
        self.write_line(depth + 1, &format!("{name} += 1"));
        self.integers.push(name);
        self.scope(depth + 1, inner, true);
        self.integers.pop();
        self.write_line(depth, "}");
    }

    fn array(&mut self, depth: usize) {
        let (name, value) = (self.name("a"), self.bounded(1));
        self.write_line(depth, &format!("var {name}: [f64; 3] = {value}"));
        for _ in 0..1 + self.random.next_below(2) {
            let (at, value) = (self.integer(false), self.bounded(2));
            self.write_line(depth, &format!("{name}[abs(({at}) % 3)] = {value} + {name}[1] * 0.5"));
        }
        let read = self.name("v");
        let at = self.integer(false);
        self.write_line(depth, &format!("let {read} = {name}[abs(({at}) % 3)] * {name}[0]"));
        self.values.push(read);
    }

    fn vector(&mut self, depth: usize) {
        let (name, a, b) = (self.name("u"), self.bounded(1), self.bounded(2));
        self.write_line(depth, &format!("var {name} = f64x2({a}, {b})"));
        let (value, cond) = (self.bounded(1), self.condition(false));
        let change = match self.random.next_below(4) {
            0 => format!("{name} *= {value}"),
            1 => format!("{name}.y = {name}.x * {value}"),
            2 => format!("{name} = {name}.yx * 0.5 + {name} / (2.0 + {value})"),
            _ => format!("{name} = normalize({name} + 2.0) * {value}"),
        };
        self.write_line(depth, &format!("if {cond} {{ {change} }}"));
        self.values.push(["@.x", "dot(@, @)", "length(@ + 1.5)"][self.random.next_below(3)].replace('@', &name));
    }

    /// Writes a jump that leaves a loop, an iteration, or the kernel.
    fn leave(&mut self, depth: usize, common: bool, in_loop: bool) {
        let is_block = matches!(self.form, Form::Blocks { .. } | Form::Tiles { .. });
        if in_loop && depth > 1 && !common {
            let (cond, jump) = (self.condition(false), ["break", "continue"][self.random.next_below(2)]);
            return self.write_line(depth, &format!("if {cond} {{ {jump} }}"));
        }
        if is_block {
            return self.assign(depth);
        }
        let cond = self.condition(false);
        self.write_line(depth, &format!("if {cond} {{"));
        let outer_count = self.values.len();
        self.own(depth + 1);
        self.values.truncate(outer_count);
        self.write_line(depth + 1, "return");
        self.write_line(depth, "}");
    }

    fn body(&mut self) {
        self.declare(1);
        while self.statements > 0 {
            self.statement(1, true, false);
        }
        for template in self.own.clone().into_iter().take(2) {
            let (place, value) = (self.place(template), self.expr(2));
            self.write_line(1, &format!("{place} = {value}"));
        }
    }

    fn finish(self) -> SourceProgram {
        let mut head = String::new();
        let u = |n: usize| n as u32;
        let (geometry, indices, extents) = match self.form {
            Form::Line { n } => (format!("threads(i: N){}", self.promise), "", LaunchExtents::Threads([u(n), 1, 1])),
            Form::Plane { h, w } => ("threads(i: H, j: W)".to_string(), "", LaunchExtents::Threads([u(h), u(w), 1])),
            Form::Blocks { grid, block } => (
                format!("grid({grid}) block({block})"),
                "let (t, b, g) = (thread_idx.x, block_idx.x, global_idx.x)\n    let e = if g < N { x[g] } else { 0.5 }\n",
                LaunchExtents::Grid { grid: [u(grid), 1, 1], block: [u(block), 1, 1] },
            ),
            Form::Tiles { h, w } => (
                format!("grid(2) block({w}, {h})"),
                "let (tx, ty, gx, b) = (thread_idx.x, thread_idx.y, global_idx.x, block_idx.x)\n",
                LaunchExtents::Grid { grid: [2, 1, 1], block: [u(w), u(h), 1] },
            ),
        };
        if self.has_structs {
            head.push_str("struct P { a: f64, d: f64x2 }\n");
        }
        if self.helpers {
            head.push_str(
                "fn chain(a: f64, b: f64, n: i32) -> f64 {\n    var r = a\n    for k in 0..n { r = sin(r * b) + a }\n    return r\n}\n\
                 fn wave(a: f64, b: f64, n: i32) -> f64 {\n    if n == 1 { return a * b }\n    return sin(a) * b\n}\n\
                 fn bent(a: f64, b: f64, n: i32) -> f64 {\n    var r = b\n    for k in 0..4 {\n        if k > n { return r * a }\n        \
                 r = tanh(r + a * b)\n    }\n    return r\n}\n",
            );
        }
        let (shared, rest): (Vec<&str>, Vec<&str>) =
            self.text.lines().partition(|line| line.starts_with("    shared "));
        let shared: String = shared.iter().map(|line| format!("{line}\n")).collect();
        let rest: String = rest.iter().map(|line| format!("{line}\n")).collect();
        let indices = if indices.is_empty() { String::new() } else { format!("    {indices}") };
        let params = self.params.join(", ");
        let text = format!("{head}kernel k({params}) {geometry} {{\n{shared}{indices}{rest}}}\n");
        SourceProgram { text, extents, arguments: self.arguments }
    }
}
