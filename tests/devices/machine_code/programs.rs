//! Generates random programs with the operations that machine code supports: all kinds of loops, nested conditions with
//! `break` and `continue`, linear and other indices, arrays changed in place, atomics, warp operations, values of 4 and
//! 8 bytes, shared memory, and sometimes a fault.

use clk_testing::random::Random;

/// Writes one program.
pub struct Writer {
    random: Random,
    text: String,
    /// Number of loops around the current statement.
    loops: usize,
    statements: usize,
    /// Number of threads in a block; `None` for kernels without shared memory.
    block: Option<usize>,
}

/// Extents of blocks, z first. Some blocks are one batch of lanes (the lanes that machine code runs together), some are
/// several whole batches, and some cannot be divided into batches.
const SHAPES: [[usize; 3]; 21] = [
    [1, 1, 32],
    [1, 16, 16],
    [1, 8, 8],
    [1, 3, 5],
    [1, 2, 40],
    [1, 5, 16],
    [1, 7, 8],
    [1, 1, 64],
    [1, 1, 16],
    [1, 2, 8],
    [1, 2, 16],
    [1, 1, 128],
    [1, 1, 256],
    [1, 1, 112],
    [1, 1, 200],
    [1, 4, 32],
    [1, 3, 48],
    [2, 2, 16],
    [3, 4, 8],
    [2, 3, 32],
    [1, 16, 32],
];

/// Returns the program of a seed.
pub fn program(seed: u64) -> String {
    let mut random = Random::from_seed(seed);
    for _ in 0..4 {
        random.word();
    }
    let mut writer = Writer { random, text: String::new(), loops: 0, statements: 0, block: None };
    writer.program();
    writer.text
}

impl Writer {
    fn one_in(&mut self, n: usize) -> bool {
        self.random.next_below(n) == 0
    }

    fn line(&mut self, line: &str) {
        self.text += line;
        self.text += "\n";
    }

    fn program(&mut self) {
        let n;
        self.text =
            "kernel k(x: [f32; N], c: [i32; N], d: [f64; N], n: i32, p: i32, inout a: [f32; N], inout b: [i32; N], \
                     inout l: [i64; N], inout e: [f64; N], inout w: [u8; N], inout q: [u32; N], \
                     inout cs: [u32; 16], inout cm: [i32; 8], inout cx: [u64; 5]) "
                .into();
        match self.random.next_below(4) {
            0 => {
                n = 40 + self.random.next_below(200);
                self.line("threads(i: N) {");
            }
            1 => {
                let wide = self.random.pick(&["16", "8", "5", "1", "33"]).parse().unwrap_or(1);
                n = wide * (40usize.div_ceil(wide) + self.random.next_below(6));
                self.line(&format!("threads(r: N / {wide}, s: {wide}) {{\nlet i = r * {wide} + s"));
            }
            _ => {
                let [z, y, x] = SHAPES[self.random.next_below(SHAPES.len())];
                let size = x * y * z;
                let blocks = 40usize.div_ceil(size) + self.random.next_below(2);
                n = blocks * size;
                self.block = Some(size);
                self.line(&format!("grid({blocks}) block({x}, {y}, {z}) {{\nshared h: [i32; {size}]"));
                let t = format!("(thread_idx.z * {y} + thread_idx.y) * {x} + thread_idx.x");
                self.line(&format!("let t = {t}\nlet i = block_idx.x * {size} + t"));
            }
        }
        for (name, of) in [("f", 3), ("i", 3), ("u", 2), ("m", 2), ("g", 2), ("v", 2), ("hf", 2), ("bf", 2)] {
            for k in 0..of {
                let value = self.expr(name, 1, true);
                self.line(&format!("var {name}{k}: {} = {value}", ty(name)));
            }
        }
        let (first, second) = (self.expr("i", 1, true), self.expr("m", 1, true));
        self.line(&format!("var ra: [i32; 8] = {first}\nvar rb: [u8; 3, 5] = 7u8\nvar rc: [f32; 6] = 0.5"));
        self.line(&format!("var rd: [i64; 40] = {second}\nvar re: [i16; 4] = -3i16"));
        self.statements = 6 + self.random.next_below(16);
        while self.statements > 0 {
            self.statement(0);
        }
        for store in [
            "a[i] = f0 + f1 - f2",
            "b[i] = i0 ^ i1 ^ i2",
            "l[i] = m0 ^ m1",
            "e[i] = g0 + g1",
            "q[i] = u0 ^ u1 ^ u32(i32(v0))",
            "for j in 0..8 { b[i] = b[i] * 3 + ra[j] }",
            "for j in 0..15 { w[i] = w[i] ^ rb[j / 5, j % 5] }",
            "a[i] = a[i] + rc[0] - rc[5] * rc[3] + f32(hf0 - f16(bf1)) * 0.25 + f32(bf0 * bf16(hf1))",
            "l[i] = l[i] ^ rd[i % 40] ^ i64(re[n & 3])",
        ] {
            self.line(store);
        }
        self.line("}");
        let (count, p) = (self.random.next_below(7), self.random.next_below(9) as i32 - 3);
        self.line(&format!(
            "let x = random({n}, seed = {}) * 8.0 - 3.0\nlet c = arange({n}) * 37 % 101 - 20",
            n + count
        ));
        self.line("var a = x * 0.5 + 1.0\nvar b = c * 3 % 17\nvar l = i64(c) * 7i64\nvar e = f64(x)\nvar w = u8(arange(N0) % 200)\nvar q = u32(arange(N0) * 3)".replace("N0", &n.to_string()).as_str());
        self.line("var cs = zeros(16, type = u32)\nvar cm = zeros(8, type = i32)\nvar cx = zeros(5, type = u64)");
        self.line(&format!(
            "k(x, c, f64(x) * 2.0f64, {count}, {p}, a, b, l, e, w, q, cs, cm, cx)\nprint(a, b, l, e, w, q, cs, cm, cx)"
        ));
    }

    fn statement(&mut self, depth: usize) {
        self.statements = self.statements.saturating_sub(1);
        let name = self.random.pick(&["f", "f", "i", "i", "u", "m", "g", "v", "hf", "bf"]);
        match self.random.next_below(24) {
            20..=22 => self.store_own(),
            0..=7 => self.assign(name),
            8..=10 if depth < 4 => self.condition(depth),
            11..=13 if depth < 4 => self.for_loop(depth),
            14 if self.loops > 0 => {
                let cond = self.expr("v", 2, false);
                let jump = self.random.pick(&["break", "continue"]);
                self.line(&format!("if {cond} {{ {jump} }}"));
            }
            15 if depth == 0 && self.block.is_some() => {
                let (value, size) = (self.expr("i", 2, false), self.block.unwrap_or(1));
                let at = self.random.next_below(size);
                let exchange = format!("h[t] = {value}\nbarrier()\ni1 = h[(t + {at}) % {size}] + h[{at}]\nbarrier()");
                match self.random.next_below(4) {
                    0 => self.line(&format!("for _ in 0..n {{\n{exchange}\n}}")),
                    1 => self.line(&format!("if n > p {{\n{exchange}\n}}")),
                    2 => self.phases(&exchange),
                    _ => self.line(&exchange),
                }
            }
            14 if depth == 0 && self.block.is_some() => self.warp(),
            16 | 17 => {
                let (array, name) =
                    [("a", "f"), ("b", "i"), ("l", "m"), ("e", "g"), ("q", "u")][self.random.next_below(5)];
                let (op, value) = (self.random.pick(&["=", "="]), self.expr(name, 2, false));
                self.line(&format!("{array}[i] {op} {value}"));
            }
            18 => {
                let value = self.expr("i", 1, false);
                self.line(&format!("w[i] = u8({value} & 255)"));
            }
            19 => self.atomic(),
            _ => self.assign(name),
        }
    }

    /// Writes code with several barriers in uniform control flow, and with other statements between the barriers.
    fn phases(&mut self, exchange: &str) {
        let size = self.block.unwrap_or(1);
        let head = match self.random.next_below(5) {
            0 => "for _ in 0..n {".to_string(),
            1 => format!("var left = {}\nwhile left > 0 {{\nleft -= 1", 1 + self.random.next_below(4)),
            2 => "for round in 0..4 {\nif round > n { break }\nif round == p { continue }".into(),
            3 => format!("var d = {}\nwhile d > 0 {{\nif t < d {{ h[t] += h[t + d] }}\nbarrier()\nd /= 2", size / 2),
            _ => "if c[0] > p || x[1] > 0.5 {".into(),
        };
        self.line("h[t] = i0");
        self.line("barrier()");
        self.line(&head);
        self.some(2);
        self.line(exchange);
        self.some(2);
        if self.one_in(2) {
            self.line("for _ in 1..3 {");
            self.line(exchange);
            self.some(2);
            self.line("}");
        }
        self.line("}");
        self.line("barrier()");
    }

    /// Writes a warp operation in which all lanes participate.
    fn warp(&mut self) {
        let (name, k) = (self.random.pick(&["f", "i", "u", "m", "g"]), self.random.next_below(2));
        let (value, cond) = (self.expr(name, 1, false), self.expr("v", 1, false));
        let bits = name != "f" && name != "g";
        let value = match self.random.next_below(6) {
            0 => format!("shuffle_xor({value}, {})", self.random.pick(&["1", "2", "4", "16"])),
            1 => format!("shuffle_{}({value}, i32(u0 & 15u32))", self.random.pick(&["up", "down"])),
            2 => format!("shuffle({value}, {k})"),
            3 if bits => format!("warp_reduce_{}({value})", self.random.pick(&["and", "or", "xor"])),
            _ => format!("warp_reduce_{}({value})", self.random.pick(&["add", "min", "max"])),
        };
        match self.random.next_below(4) {
            0 => self.line(&format!("u{k} = ballot({cond}) ^ match_any({value})")),
            1 => {
                let vote = self.random.pick(&["any", "all"]);
                self.line(&format!("v{k} = warp_{vote}({cond})"));
            }
            _ => self.line(&format!("{name}{k} = {value}")),
        }
    }

    /// Writes an atomic operation on one of the thread's own elements, or one on a shared element whose order does not
    /// matter.
    fn atomic(&mut self) {
        let (array, name) = [("a", "f"), ("b", "i"), ("l", "m"), ("e", "g"), ("q", "u")][self.random.next_below(5)];
        let (value, bits) = (self.expr(name, 2, false), matches!(name, "i" | "m" | "u"));
        match self.random.next_below(9) {
            0 => {
                let (at, value) = (self.own_index(16), self.expr("u", 1, false));
                let op = self.random.pick(&["add", "sub"]);
                self.line(&format!("atomic_{op}(cs[{at}], {value})"));
            }
            1 => {
                let (at, value) = (self.own_index(8), self.expr("i", 2, false));
                self.line(&format!("atomic_max(cm[{at}], {value})"));
            }
            2 => {
                let (at, value) = (self.own_index(5), self.expr("i", 1, false));
                self.line(&format!("atomic_xor(cx[{at}], u64(i64({value})))"));
            }
            3 => {
                let compare = self.expr(name, 1, false);
                self.line(&format!("{name}1 = atomic_compare_exchange({array}[i], {compare}, {value})"));
            }
            4 => self.line(&format!("{name}0 = atomic_exchange({array}[i], {value})")),
            5 => self.line(&format!("{name}1 = atomic_load({array}[i])\natomic_store({array}[i], {value})")),
            6 => {
                // No other thread changes the element, so the first compare-exchange succeeds.
                let cond = self.expr("v", 1, false);
                self.line(&format!("loop {{\nlet before = atomic_load({array}[i])\nif {cond} {{ break }}"));
                self.line(&format!("if atomic_compare_exchange({array}[i], before, {value}) == before {{ break }}\nif n < 9 {{ break }}\n}}"));
            }
            _ => {
                let op = self.random.pick(&["add", "sub", "min", "max"]);
                let op = if bits && self.one_in(2) { self.random.pick(&["and", "or", "xor"]) } else { op };
                match self.one_in(2) {
                    true => self.line(&format!("{name}0 = atomic_{op}({array}[i], {value})")),
                    false => self.line(&format!("atomic_{op}({array}[i], {value})")),
                }
            }
        }
    }

    /// Writes a change of an element of one of the thread's local arrays, or declares and uses another local array in a
    /// nested scope.
    fn store_own(&mut self) {
        let (value, small) = (self.expr("i", 2, false), self.random.next_below(6));
        let (at, of) = (self.own_index(8), self.own_index(5));
        match self.random.next_below(6) {
            0 => self.line(&format!("ra[{at}] = {value}")),
            1 => self.line(&format!("rb[{}, {of}] = u8(({value}) & 255)", small % 3)),
            2 => {
                let value = self.expr("f", 2, false);
                self.line(&format!("rc[{of}] = {value}"));
            }
            3 => {
                let (value, at) = (self.expr("m", 2, false), self.own_index(40));
                self.line(&format!("rd[{at}] = {value}"));
            }
            4 => self.line(&format!("re[{}] += i16(({value}) % 16)", small % 4)),
            _ => self.line(&format!(
                "if true {{\nvar rf: [f64; 3] = 0.25f64\nrf[{}] = f64({value})\ng0 = rf[0] - rf[{}] * rf[2]\n}}",
                small % 3,
                (small + 1) % 3
            )),
        }
    }

    /// Returns an index expression that is almost always from 0 to `limit` - 1.
    fn own_index(&mut self, limit: usize) -> String {
        let k = self.random.next_below(limit);
        let counter = if self.loops > 0 { ["j", "o", "z", "y"][self.random.next_below(self.loops)] } else { "i" };
        match self.random.next_below(12) {
            0..=2 => format!("{k}"),
            3 | 4 => format!("({counter} & 1023) % {limit}"),
            5 => format!("(n + {k}) % {limit}"),
            6 => format!("i32(u0 % {limit}u32)"),
            7 => format!("max(0, min(i0, {}))", limit - 1),
            8 => format!("(c[i] & 63) % {limit}"),
            9 => format!("u0 & {}u32", limit.next_power_of_two() / 2 - 1),
            10 if self.one_in(3) => format!("{counter} % {limit}"),
            _ => format!("i % {limit}"),
        }
    }

    fn assign(&mut self, name: &str) {
        let (value, k) =
            (self.expr(name, 3, false), self.random.next_below(if matches!(name, "f" | "i") { 3 } else { 2 }));
        self.line(&format!("{name}{k} = {value}"));
    }

    fn some(&mut self, depth: usize) {
        for _ in 0..1 + self.random.next_below(4) {
            self.statement(depth + 1);
        }
    }

    fn condition(&mut self, depth: usize) {
        let cond =
            if self.one_in(3) { format!("n + p > {}", self.random.next_below(6)) } else { self.expr("v", 2, false) };
        self.line(&format!("if {cond} {{"));
        self.some(depth);
        if self.one_in(2) {
            self.line("} else {");
            self.some(depth);
        }
        self.line("}");
    }

    fn for_loop(&mut self, depth: usize) {
        let name = ["j", "o", "z", "y"][self.loops];
        let k = self.random.next_below(4);
        let range = match self.random.next_below(9) {
            0 | 1 => "0..n".into(),
            2 => format!("n..=0 step -{}", k + 1),
            3 => format!("{k}..n + 2 step {}", 1 + self.random.next_below(3)),
            4 => "i1 & 3..i2 & 7".into(),
            5 => format!("i0 & 7..{k} step -1"),
            6 => format!("i..i + {k}"),
            7 => format!("{k}..=p"),
            _ => format!("{k}..{}", k + self.random.next_below(5)),
        };
        self.line(&format!("for {name} in {range} {{"));
        self.loops += 1;
        self.some(depth);
        self.loops -= 1;
        self.line("}");
    }

    /// Returns an index expression that is rarely out of bounds.
    fn index(&mut self) -> String {
        let k = self.random.next_below(4);
        let counter = if self.loops > 0 { ["j", "o", "z", "y"][self.random.next_below(self.loops)] } else { "n" };
        let other = if self.loops > 0 { ["j", "o", "z", "y"][self.random.next_below(self.loops)] } else { "2" };
        match self.random.next_below(28) {
            0..=5 => "i".into(),
            6..=9 => format!("(i + {k}) % N"),
            10..=12 => format!("(i * {k} + {counter} + 4 * N) % N"),
            13 | 14 => format!("({counter} & 7) * {k} + ({other} & 3) * 2"),
            15 => format!("max(0, min({counter} * 2 + {other} * {k} + i, N - 1))"),
            16 => format!("wrapping_add(wrapping_sub(u32(i), {k}u32), {k}u32)"),
            17 => format!("N - 1 - i / {}", k + 1),
            18 => format!("{k}{}", self.random.pick(&["", "i8", "u8", "u16", "i64"])),
            19 | 20 => format!("i0 & {}", 7 + k),
            21 => format!("u0 & {k}u32"),
            22 if self.one_in(4) => format!("i + {counter}"),
            23 if self.one_in(4) => format!("{counter} * {k} + {other}"),
            24 if self.one_in(4) => format!("i - {k}"),
            25 if self.one_in(4) => format!("wrapping_sub(u32(i), {k}u32)"),
            _ => "i % 16 + n".into(),
        }
    }

    /// Returns an expression with the type of the variables `{name}0` and `{name}1`. If `early`, the variables do not
    /// exist yet.
    fn expr(&mut self, name: &str, depth: usize, early: bool) -> String {
        let k = self.random.next_below(2);
        if depth == 0 || self.one_in(5) {
            return match (name, self.random.next_below(3)) {
                ("f", 0) => format!("x[{}]", if early { "i".into() } else { self.index() }),
                ("f", 1) if !early && self.one_in(3) => format!("rc[{}]", self.own_index(6)),
                ("i", 1) if !early && self.one_in(2) => {
                    let (a, b) = (self.own_index(8), self.own_index(5));
                    format!("(ra[{a}] - i32(rb[{k}, {b}]))")
                }
                ("m", 0) if !early && self.one_in(2) => format!("rd[{}]", self.own_index(40)),
                ("f", 1) => format!("a[i] * {k}.5"),
                ("i", 0) => format!("c[{}]", if early { "i".into() } else { self.index() }),
                ("i", 1) => self.random.pick(&["n", "p", "i", "b[i]", "i32(w[i])", "-7", "1000003", "N"]).into(),
                ("u", 0 | 1) => self.random.pick(&["u32(i)", "q[i]", "4000000000u32", "3u32"]).into(),
                ("m", 0 | 1) => self.random.pick(&["i64(i)", "l[i]", "-5i64", "i64(n)"]).into(),
                ("g", 0) => format!("d[{}]", if early { "i".into() } else { self.index() }),
                ("g", 1) => self.random.pick(&["f64(i)", "e[i]", "0.75f64", "f64(n)"]).into(),
                ("v", 0 | 1) => self.random.pick(&["i % 3 == 0", "n > 2", "x[i] > 0.0", "i < 20"]).into(),
                (_, _) if early => match name {
                    "f" => "0.5",
                    "i" => "2",
                    "u" => "9u32",
                    "m" => "1i64",
                    "g" => "0.25f64",
                    "hf" => "f16(n)",
                    "bf" => "bf16(i)",
                    _ => "true",
                }
                .into(),
                _ => format!("{name}{k}"),
            };
        }
        let (a, b) = (self.expr(name, depth - 1, early), self.expr(name, depth - 1, early));
        let op = self.random.pick(&["+", "-", "*"]);
        match (name, self.random.next_below(8)) {
            ("f", 0) => format!("min({a}, {b})"),
            ("f", 1) => format!("sqrt(abs({a})) + {b}"),
            ("f", 2) => format!("f32({}) * 0.125", self.expr("i", depth - 1, early)),
            ("f", 3) => format!("(if {} {{ {a} }} else {{ {b} }})", self.expr("v", depth - 1, early)),
            ("f", 4) => format!("{a} / ({b} + 0.3)"),
            ("f", 5) => format!("exp(min({a}, 3.0)) * 0.1"),
            ("hf", 0) => format!("f16({})", self.expr("f", depth - 1, early)),
            ("hf", 1) => format!("f16({})", self.expr("i", depth - 1, early)),
            ("bf", 0) => format!("bf16({})", self.expr("i", depth - 1, early)),
            ("bf", 1) => format!("bf16({})", self.expr("u", depth - 1, early)),
            ("bf", 2) => format!("bf16({})", self.expr("f", depth - 1, early)),
            ("hf" | "bf", 3) => format!("max({a}, abs({b}))"),
            ("hf" | "bf", 4) => format!("({a} / {b})"),
            ("f", 6) if self.one_in(3) => {
                let half = self.random.pick(&["hf", "bf"]);
                format!("f32({})", self.expr(half, depth - 1, early))
            }
            ("g", 0) => format!("max({a}, {b})"),
            ("g", 1) => format!("f64({})", self.expr("f", depth - 1, early)),
            ("i", 0) => format!("(({a}) / (({b}) | 1))"),
            ("i", 1) => format!("(({a}) % {})", [3, 4, 7, 16][self.random.next_below(4)]),
            ("i", 2) if self.one_in(6) => format!("({a}) / ({b})"),
            ("i", 3) => format!("(({a}) >> {k})"),
            ("i", 4) => format!("i32({})", self.expr("v", depth - 1, early)),
            ("i", 5) => format!("i32(clamp({}, -99.0, 99.0))", self.expr("f", depth - 1, early)),
            ("i", 6) => format!("max({a}, {b})"),
            ("u", 0) => format!("(({a}) / (({b}) | 1u32))"),
            ("u", 1) => format!("(({a}) >> 3u32)"),
            ("u", 2) => format!("min({a}, {b})"),
            ("u", _) => format!("wrapping_add({a}, {b})"),
            ("m", 0) => format!("i64({})", self.expr("i", depth - 1, early)),
            ("m", 1) => format!("(({a}) ^ ({b}))"),
            ("v", 0) => format!("({a} && {b})"),
            ("v", 1) => format!("({a} || !({b}))"),
            ("v", _) => {
                let of = self.random.pick(&["f", "i", "i", "u", "m", "g", "hf", "bf"]);
                let (a, b) = (self.expr(of, depth - 1, early), self.expr(of, depth - 1, early));
                format!("({a}) {} ({b})", self.random.pick(&["<", ">=", "==", "!="]))
            }
            ("m" | "i", _) => format!("(({a}) {op} ({b}))"),
            _ => format!("(({a}) {op} ({b}))"),
        }
    }
}

fn ty(name: &str) -> &'static str {
    match name {
        "f" => "f32",
        "i" => "i32",
        "u" => "u32",
        "m" => "i64",
        "g" => "f64",
        "hf" => "f16",
        "bf" => "bf16",
        _ => "bool",
    }
}
