//! Generator of random kernels: all kinds of structured control flow around reads and writes of locals and arrays. Each
//! thread stores only to its own elements.

use super::differential::PseudoRandom;

struct KernelGenerator {
    numbers: PseudoRandom,
    out: String,
    next: usize,
    labels: u32,
    depth: usize,
    locals: Vec<String>,
    /// Labels of the loops whose body has its own local array.
    arrays: Vec<u32>,
    /// Values that are in scope; the flag is set if the value is probably uniform.
    ints: Vec<(String, bool)>,
    floats: Vec<(String, bool)>,
    bools: Vec<(String, bool)>,
    /// Labels of enclosing blocks and loops; the flag is set for loops.
    open: Vec<(u32, bool)>,
    /// Number of statements that remain to be written.
    budget: usize,
}

/// Returns the kernel for this seed.
pub(crate) fn kernel(seed: u64) -> String {
    let mut g = KernelGenerator {
        numbers: PseudoRandom(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        out: String::new(),
        next: 0,
        labels: 0,
        depth: 1,
        locals: vec![],
        arrays: vec![],
        ints: ["arg0", "0i32", "1i32", "3i32", "-2i32"].map(|s| (s.to_string(), true)).to_vec(),
        floats: ["0.5f32", "-1.0f32"].map(|s| (s.to_string(), true)).to_vec(),
        bools: vec![("true".to_string(), true)],
        open: vec![],
        budget: 30,
    };
    g.numbers.next_below(2);
    g.ints.extend(["thread.x", "thread.y"].map(|s| (s.to_string(), false)));
    for (name, start) in
        [("a", "thread.x"), ("b", "1i32"), ("u", "2i32"), ("f", "1.5f32"), ("g", "2.5f32"), ("p", "false")]
    {
        g.line(&format!("${name} = {start}"));
    }
    g.line("declare @h");
    g.line("declare @r");
    g.block(6);
    for (local, ty, array) in [("a", "i32", "y"), ("b", "i32", "w"), ("f", "f32", "z")] {
        let value = g.define(ty, &format!("read ${local}"));
        g.line(&format!("store @{array}[thread.y, thread.x] = {value}"));
    }
    let (u, p) = (g.define("i32", "read $u"), g.define("bool", "read $p"));
    let both = g.define("i32", &format!("select {p}, {u}, -7i32"));
    let one = g.define("i32", "thread.x + 0i32");
    g.line(&format!("store @v[thread.y, {one}] = {both}"));
    let gg = g.define("f32", "read $g");
    g.line(&format!("store @t[thread.y, thread.x] = {gg}"));
    let own = g.define("i32", "thread.x & 7i32");
    let own = g.define("i32", &format!("load @h[{own}]"));
    g.line(&format!("store @y[thread.y, thread.x] = {own}"));
    let arrays: String = g.arrays.iter().map(|l| format!("    local @q{l}: i64[4]\n")).collect();
    let locals: String = g.locals.iter().map(|l| format!("    var ${l}: i32\n")).collect();
    format!(
        "kernel k(n: i32, x: in @x, m: in @m, y: inout @y, w: inout @w, v: inout @v, z: inout @z, t: inout @t) grid
fn k() {{
    global 1 in @x: i32[_]
    global 2 in @m: f32[_, _]
    global 3 inout @y: i32[_, _]
    global 4 inout @w: i32[_, _]
    global 5 inout @v: i32[_, _]
    global 6 inout @z: f32[_, _]
    global 7 inout @t: f32[_, _]
    local @h: i32[8]
    local @r: f32[3, 5]
{arrays}    var $a: i32
    var $b: i32
    var $u: i32
    var $f: f32
    var $g: f32
    var $p: bool
{locals}{}}}
",
        g.out
    )
}

impl KernelGenerator {
    fn line(&mut self, text: &str) {
        self.out.push_str(&"    ".repeat(self.depth));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn define(&mut self, ty: &str, text: &str) -> String {
        let name = format!("%{}", self.next);
        self.next += 1;
        self.line(&format!("{name}: {ty} = {text}"));
        name
    }

    fn next_below(&mut self, limit: usize) -> usize {
        self.numbers.next_below(limit as u64) as usize
    }

    fn pick(&mut self, list: &[(String, bool)], uniform: bool) -> (String, bool) {
        // Choose recent values more often.
        let list: Vec<&(String, bool)> = list.iter().filter(|v| v.1 || !uniform).collect();
        let back = self.next_below(list.len()).min(self.next_below(list.len()));
        let back = back.min(self.next_below(list.len()));
        list[list.len() - 1 - back].clone()
    }

    fn int(&mut self, uniform: bool) -> (String, bool) {
        self.pick(&self.ints.clone(), uniform)
    }

    fn float(&mut self, uniform: bool) -> (String, bool) {
        self.pick(&self.floats.clone(), uniform)
    }

    fn boolean(&mut self, uniform: bool) -> (String, bool) {
        self.pick(&self.bools.clone(), uniform)
    }

    /// Writes the statements of a block. Values that are defined in the block are out of scope after it.
    fn block(&mut self, count: usize) {
        let marks = (self.ints.len(), self.floats.len(), self.bools.len());
        for _ in 0..count {
            self.statement();
        }
        self.ints.truncate(marks.0);
        self.floats.truncate(marks.1);
        self.bools.truncate(marks.2);
    }

    fn inner(&mut self, count: usize) {
        self.depth += 1;
        self.block(count);
        self.depth -= 1;
    }

    fn statement(&mut self) {
        for _ in 0..1 + self.next_below(2) {
            self.value();
        }
        let uniform = self.next_below(2) == 0;
        match self.next_below(15) {
            13 => {
                let (index, (value, _)) = (self.own_index(uniform, 7), self.int(false));
                self.line(&format!("store @h[{index}] = {value}"));
            }
            14 => {
                let (row, index, (value, _)) =
                    (self.own_index(uniform, 1), self.own_index(false, 3), self.float(false));
                self.line(&format!("store @r[{row}, {index}] = {value}"));
            }
            0..4 => self.write(uniform),
            4..7 if self.budget > 0 && self.depth < 6 => self.condition(uniform),
            7..10 if self.budget > 0 && self.depth < 5 => self.repeat(uniform),
            10 if self.budget > 0 && self.depth < 5 => {
                self.budget -= 1;
                let label = self.label();
                self.line(&format!("block '{label} {{"));
                self.open.push((label, false));
                self.inner(3);
                self.open.pop();
                self.line("}");
            }
            11 => {
                let (value, _) = self.int(false);
                self.line(&format!("store @y[thread.y, thread.x] = {value}"));
            }
            _ => self.write(uniform),
        }
    }

    fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels - 1
    }

    fn write(&mut self, uniform: bool) {
        match self.next_below(4) {
            0 if uniform => {
                let value = self.int(true).0;
                self.line(&format!("$u = {value}"));
            }
            0 | 1 => {
                let (local, value) = (["a", "b"][self.next_below(2)], self.int(false).0);
                self.line(&format!("${local} = {value}"));
            }
            2 => {
                let (local, value) = if uniform { ("g", self.float(true).0) } else { ("f", self.float(false).0) };
                self.line(&format!("${local} = {value}"));
            }
            _ => {
                let value = self.boolean(uniform).0;
                self.line(&format!("$p = {value}"));
            }
        }
    }

    /// Writes a conditional statement whose body may leave a block or loop.
    fn condition(&mut self, uniform: bool) {
        self.budget -= 1;
        let cond = self.compare(uniform);
        self.line(&format!("if {cond} {{"));
        let count = 1 + self.next_below(2);
        self.inner(count);
        self.leave();
        if self.next_below(2) == 0 {
            self.line("} else {");
            self.inner(2);
            self.leave();
        }
        self.line("}");
    }

    fn leave(&mut self) {
        if self.open.is_empty() || self.next_below(2) == 0 {
            return;
        }
        let at = self.next_below(self.open.len());
        let (label, is_loop) = self.open[at];
        let word = if is_loop && self.next_below(2) == 0 { "continue" } else { "break" };
        self.depth += 1;
        self.line(&format!("{word} '{label}"));
        self.depth -= 1;
    }

    fn compare(&mut self, uniform: bool) -> String {
        let op = ["<", "<=", ">", ">=", "==", "!="][self.next_below(6)];
        if self.next_below(3) == 0 {
            let (a, b) = (self.float(uniform).0, self.float(uniform).0);
            return self.define("bool", &format!("{a} {op} {b}"));
        }
        if self.next_below(4) == 0 {
            return self.boolean(uniform).0;
        }
        let (a, b) = (self.int(uniform).0, self.int(uniform).0);
        self.define("bool", &format!("{a} {op} {b}"))
    }

    fn repeat(&mut self, uniform: bool) {
        self.budget -= 1;
        let label = self.label();
        let local = format!("i{label}");
        self.locals.push(local.clone());
        let marks = self.ints.len();
        if self.next_below(3) == 0 {
            // A `loop` statement whose body counts its iterations and leaves the loop.
            self.line(&format!("${local} = 0i32"));
            self.line(&format!("loop '{label} {{"));
            self.depth += 1;
            let old = self.define("i32", &format!("read ${local}"));
            let new = self.define("i32", &format!("{old} + 1i32"));
            self.line(&format!("${local} = {new}"));
            let most = if uniform { "4i32" } else { "thread.x" };
            let done = self.define("bool", &format!("{new} > {most}"));
            self.line(&format!("if {done} {{"));
            self.line(&format!("    break '{label}"));
            self.line("}");
            self.ints.push((old, uniform));
        } else {
            let seven = |g: &mut Self| {
                let value = g.int(uniform).0;
                g.define("i32", &format!("{value} & 7i32"))
            };
            let start = if self.next_below(2) == 0 { "0i32".to_string() } else { seven(self) };
            let end = if self.next_below(2) == 0 { "arg0".to_string() } else { seven(self) };
            let step = ["1i32", "2i32", "-1i32", "3i32"][self.next_below(4)];
            let range = if self.next_below(3) == 0 { "..=" } else { ".." };
            let (start, end) = if step == "-1i32" { (end, start) } else { (start, end) };
            self.line(&format!("for '{label} ${local} = {start} {range} {end} step {step} {{"));
            self.depth += 1;
            let counter = self.define("i32", &format!("read ${local}"));
            self.ints.push((counter, uniform));
        }
        self.open.push((label, true));
        if self.next_below(3) == 0 {
            self.own_array(label);
        }
        let count = 2 + self.next_below(3);
        self.block(count);
        self.open.pop();
        self.depth -= 1;
        self.ints.truncate(marks);
        self.line("}");
    }

    /// Writes a local array that is new in each iteration, written once and read twice.
    fn own_array(&mut self, label: u32) {
        self.arrays.push(label);
        self.line(&format!("declare @q{label}"));
        let (value, _) = self.int(false);
        let wide = self.define("i64", &format!("convert {value}"));
        let uniform = self.next_below(2) == 0;
        let (to, from) = (self.own_index(uniform, 3), self.own_index(!uniform, 3));
        self.line(&format!("store @q{label}[{to}] = {wide}"));
        let (x, y) = (
            self.define("i64", &format!("load @q{label}[{from}]")),
            self.define("i64", &format!("load @q{label}[2i32]")),
        );
        let sum = self.define("i64", &format!("{x} + {y}"));
        let sum = self.define("i32", &format!("convert {sum}"));
        self.ints.push((sum, false));
    }

    /// Writes the definition of a random value.
    fn value(&mut self) {
        let uniform = self.next_below(2) == 0;
        match self.next_below(17) {
            15 => {
                let index = self.own_index(uniform, 7);
                let name = self.define("i32", &format!("load @h[{index}]"));
                self.ints.push((name, false));
            }
            16 => {
                let (row, index) = (self.own_index(uniform, 1), self.own_index(!uniform, 3));
                let name = self.define("f32", &format!("load @r[{row}, {index}]"));
                self.floats.push((name, false));
            }
            12.. => self.special(uniform),
            0..4 => {
                let op = ["+", "-", "*", "&", "|", "^", "+", "-"][self.next_below(8)];
                let ((a, x), (b, y)) = (self.int(uniform), self.int(uniform));
                let name = self.define("i32", &format!("{a} {op} {b}"));
                self.ints.push((name, x && y));
            }
            4 | 5 => {
                let local = if uniform { "u" } else { ["a", "b"][self.next_below(2)] };
                let name = self.define("i32", &format!("read ${local}"));
                self.ints.push((name, uniform));
            }
            6 => {
                let index = self.index(uniform, 31);
                let name = self.define("i32", &format!("load @x[{index}]"));
                self.ints.push((name, uniform));
            }
            7 => {
                let (row, index) = (self.index(uniform, 7), self.index(uniform, 15));
                let name = self.define("f32", &format!("load @m[{row}, {index}]"));
                self.floats.push((name, uniform));
            }
            8 => {
                let op = ["+", "-", "*"][self.next_below(3)];
                let ((a, x), (b, y)) = (self.float(uniform), self.float(uniform));
                let name = self.define("f32", &format!("{a} {op} {b}"));
                self.floats.push((name, x && y));
            }
            9 => {
                let local = if uniform { "g" } else { "f" };
                let name = self.define("f32", &format!("read ${local}"));
                self.floats.push((name, uniform));
            }
            10 => {
                let name = match self.next_below(3) {
                    0 => self.define("bool", "read $p"),
                    1 => {
                        let (a, b) = (self.boolean(uniform).0, self.boolean(uniform).0);
                        let op = ["&", "|", "^", "==", "!="][self.next_below(5)];
                        self.define("bool", &format!("{a} {op} {b}"))
                    }
                    _ => self.compare(uniform),
                };
                self.bools.push((name, uniform));
            }
            _ => self.converted(uniform),
        }
    }

    /// Writes the definition of a value by a rarer operation, which may have a different type.
    fn special(&mut self, uniform: bool) {
        let ((a, x), (b, y)) = (self.int(uniform), self.int(uniform));
        let ((f, z), (g, w)) = (self.float(uniform), self.float(uniform));
        let choice = self.next_below(16);
        let constant = ["3", "8", "1", "5", "16", "100"][self.next_below(6)];
        let through = |s: &mut Self, ty: &str, op: &str| {
            let value = s.define(ty, &format!("convert {a}"));
            let value = s.define(ty, &format!("{value} {op} {constant}{ty}"));
            s.define("i32", &format!("convert {value}"))
        };
        let int = match choice {
            0 => self.define("i32", &format!("{a} / {constant}i32")),
            1 => self.define("i32", &format!("{a} % -{constant}i32")),
            2 => self.define("i32", &format!("{a} << {b}")),
            3 => self.define("i32", &format!("{a} >> {constant}i32")),
            4 => self.define("i32", &format!("min({a}, {b})")),
            5 => self.define("i32", &format!("clamp({a}, -{constant}i32, {b})")),
            6 => {
                let op = ["/", "%", ">>", "*", "+"][self.next_below(5)];
                through(self, "u32", op)
            }
            7 => {
                let op = ["*", "+", "^", "-"][self.next_below(4)];
                through(self, "i64", op)
            }
            8 => {
                let small = ["u8", "i8", "i16", "u16"][self.next_below(4)];
                let value = self.define(small, &format!("convert {a}"));
                self.define("i32", &format!("convert {value}"))
            }
            9 => {
                let divisor = self.define("i32", &format!("{b} | 1i32"));
                self.define("i32", &format!("{a} / {divisor}"))
            }
            _ => {
                let value = match choice {
                    10 => self.define("f32", &format!("fma({f}, {g}, 0.25f32)")),
                    11 => self.define("f32", &format!("floor({f})")),
                    12 => {
                        let wide = self.define("f64", &format!("convert {f}"));
                        let wide = self.define("f64", &format!("{wide} * 1.25f64"));
                        self.define("f32", &format!("convert {wide}"))
                    }
                    13 => self.define("f32", &format!("neg {f}")),
                    14 => self.define("f32", &format!("max({f}, {g})")),
                    _ => {
                        let cond = self.boolean(uniform).0;
                        self.define("f32", &format!("select {cond}, {f}, {g}"))
                    }
                };
                // Mark the result as uniform only if the condition and both operands probably are.
                self.floats.push((value, z && w && uniform));
                return;
            }
        };
        self.ints.push((int, x && y));
    }

    fn converted(&mut self, uniform: bool) {
        if self.next_below(2) == 0 {
            let (value, is) = self.float(uniform);
            let name = self.define("i32", &format!("convert {value}"));
            self.ints.push((name, is));
            return;
        }
        let (cond, a, b) = (self.boolean(uniform), self.int(uniform), self.int(uniform));
        let name = self.define("i32", &format!("select {}, {}, {}", cond.0, a.0, b.0));
        self.ints.push((name, cond.1 && a.1 && b.1));
    }

    /// Returns an index for a local array, nearly always below the limit.
    fn own_index(&mut self, uniform: bool, limit: usize) -> String {
        match self.next_below(40) {
            0 => self.index(uniform, limit),
            1..16 => format!("{}i32", self.next_below(limit + 1)),
            16..20 => {
                let value = self.int(uniform).0;
                let natural = self.define("i32", &format!("max({value}, 0i32)"));
                self.define("i32", &format!("{natural} % {}i32", limit + 1))
            }
            _ => {
                let value = self.int(uniform).0;
                self.define("i32", &format!("{value} & {limit}i32"))
            }
        }
    }

    /// Returns an index that is usually below the limit.
    fn index(&mut self, uniform: bool, limit: usize) -> String {
        let value = self.int(uniform).0;
        match self.next_below(6) {
            0 if !uniform && limit > 7 => self.define("i32", &format!("thread.x + {}i32", self.next % 3)),
            // Use counters and coordinates unmodified.
            1 if !value.starts_with('-') => value,
            _ => self.define("i32", &format!("{value} & {limit}i32")),
        }
    }
}
