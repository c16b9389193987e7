//! Random kernels for `--check`: threads share arrays, with some barriers, in loops, under conditions and across
//! blocks. Indices are linear or computed from data, and some accesses are atomic. Most kernels have a race, an
//! uninitialized read or an overflow; some are correct.

use clk_testing::random::Random;

struct Writer {
    random: Random,
    text: String,
    depth: usize,
    /// If set, most accesses are to the thread's own elements, and a barrier follows each statement.
    careful: bool,
    /// The only atomic operation that is used on elements that threads share.
    shared_op: &'static str,
}

/// Returns the program of a seed.
pub fn program(seed: u64) -> String {
    let mut random = Random::from_seed(seed);
    for _ in 0..4 {
        random.word();
    }
    let shared_op = ["max", "xor", "or", "min"][random.next_below(4)];
    let mut writer = Writer { random, text: String::new(), depth: 0, careful: seed % 2 == 1, shared_op };
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
        let block = ["8", "32", "40", "8, 4", "16, 2"][self.random.next_below(5)];
        let lanes = match block {
            "8" => "8",
            "40" => "40",
            _ => "32",
        };
        // Most kernels write all elements of `f`. An unwritten element would cause a warning, after which the
        // interpreter repeats the launch and finds faults that machine code has missed.
        let all = 2 * lanes.parse::<usize>().unwrap_or(32);
        self.text =
            format!("kernel k(x: [i32; 512], n: i32, inout g: [i32; 512], out f: [i32; {all}], inout o: [i32; 512])");
        self.line(&format!(" grid(2) block({block}) {{"));
        self.line("shared s: [i32; 256]\nshared p: [i32; 64, 8]\nlet u = thread_idx.x\nlet v = thread_idx.y");
        self.line(&format!("let t = u + v * block_dim.x\nlet i = block_idx.x * {lanes} + t\nvar a = x[i] % 100"));
        // `w` equals the thread's number `t`, and `j` its index `i`, but both are computed from elements of `x`.
        self.line("let w = x[i] / 7 - i + t\nlet j = x[i] / 7");
        let some = self.one_in(8);
        self.line(if some { "if u < 30 { f[i] = t }" } else { "f[i] = t" });
        if self.careful || !self.one_in(3) {
            self.line(&format!(
                "for k in 0..6 {{ s[t + k * {lanes}] = k }}\nfor k in 0..8 {{ p[t, k] = t }}\nbarrier()"
            ));
        }
        for _ in 0..3 + self.random.next_below(5) {
            self.statement();
            if self.careful || self.one_in(3) {
                self.line("barrier()");
            }
        }
        self.line("o[i] = a\n}\nvar g = arange(512)\nvar o = arange(512)");
        let n = self.random.next_below(4);
        self.line(&format!("let f = k(arange(512) * 7, {n}, g, o)\nprint(sum(f), sum(g), sum(o))"));
    }

    fn statement(&mut self) {
        if self.one_in(10) {
            return self.atomic();
        }
        match self.random.next_below(if self.depth < 2 { 12 } else { 8 }) {
            0..=2 => {
                let (place, value) = (self.place(), self.value());
                self.line(&format!("{place} = {value}"));
            }
            3..=6 => {
                let place = self.place();
                let op = ["+", "-", "+"][self.random.next_below(3)];
                self.line(&format!("a {op}= {place} % 1000"));
            }
            7 => {
                let place = self.place();
                self.line(&format!("{place} = {place} + 1"));
            }
            8..=10 => {
                let count = ["0", "1", "3", "n", "n + 1"][self.random.next_below(5)];
                let (name, inside) = (["k", "m"][self.depth.min(1)], self.inside());
                // The counter of a nested loop is `m`.
                let name = if inside { "m" } else { name };
                self.line(&format!("for {name} in 0..{count} {{"));
                if name == "m" && !inside {
                    self.line("let k = m");
                }
                self.block();
            }
            _ => {
                let condition = self.condition();
                self.line(&format!("if {condition} {{"));
                self.block();
                if self.one_in(3) {
                    self.text.truncate(self.text.len() - 2);
                    self.line("} else {");
                    self.block();
                }
            }
        }
    }

    /// Writes an atomic operation whose outcome does not depend on the order of threads: any operation on the thread's
    /// own element of `o`, or `shared_op` on a shared element, with its result unused.
    fn atomic(&mut self) {
        let value = ["1", "t", "a & 7"][self.random.next_below(3)];
        if self.one_in(2) {
            let (op, place) = (self.shared_op, self.place());
            let place = if place.starts_with('f') { "s[t]".into() } else { place };
            return self.line(&format!("atomic_{op}({place}, {value})"));
        }
        let op = ["max", "xor", "or", "exchange", "min"][self.random.next_below(5)];
        let place = ["o[i]", "o[j]", "o[w - t + i]"][self.random.next_below(3)];
        self.line(&format!("a += atomic_{op}({place}, {value}) & 3"));
    }

    fn block(&mut self) {
        self.depth += 1;
        for _ in 0..1 + self.random.next_below(2) {
            self.statement();
        }
        self.depth -= 1;
        self.line("}");
    }

    /// Returns a condition, mostly one that holds for a range of threads.
    fn condition(&mut self) -> String {
        let one = |writer: &mut Writer| {
            let operand = ["t", "u", "v", "t + n", "n - u", "u + v", "i", "t * 2", "q"][writer.random.next_below(9)];
            let rel = ["<", "<=", ">", ">=", "==", "!="][writer.random.next_below(6)];
            let limit = ["0", "1", "7", "n", "20", "n + 4", "31", "40 - t"][writer.random.next_below(8)];
            format!("{operand} {rel} {limit}").replace('q', if writer.inside() { "k" } else { "n" })
        };
        match self.random.next_below(10) {
            0 => "a > 40".into(),
            1 => "t >= 3 && t < 20".into(),
            2 => "n > 1".into(),
            3..=5 => format!("{} && {}", one(self), one(self)),
            _ => one(self),
        }
    }

    fn value(&mut self) -> String {
        match self.random.next_below(12) {
            0 => "a * 70000".into(),
            1 => "t * 100000000 + a".into(),
            2 => "a << (t % 33)".into(),
            3 => "x[i + n] + a".into(),
            4 => "i32(f32(a) * 30000000.0)".into(),
            5..=7 => "t".into(),
            _ => "a % 1000 + 1".into(),
        }
    }

    /// Returns an element of an array. Most indices are in bounds.
    fn place(&mut self) -> String {
        if self.careful && !self.one_in(12) {
            let q = if self.inside() { "k" } else { "n" };
            let own = [
                "s[t]",
                "p[t, q]",
                "p[t, 2]",
                "g[i]",
                "f[i]",
                "s[t * 2]",
                "p[t, 7 - q]",
                "o[i]",
                "s[w]",
                "p[w, q]",
                "g[j]",
                "s[w + 40 * q]",
                "p[t, (w + q) % 8]",
                "s[39 - w]",
            ];
            return own[self.random.next_below(14)].replace('q', q);
        }
        let step = ["", "", " + 1", " + 3", " + n", " + 40"][self.random.next_below(6)];
        let linear = ["t", "t", "t", "t * 2", "39 - t", "u", "n"];
        let computed = ["w", "t ^ 1", "(w & 31)", "(a & 31)", "x[i] % 32", "t * 3 % 40", "w / 2", "(j + 1) % 32"];
        let thread =
            if self.one_in(3) { computed[self.random.next_below(8)] } else { linear[self.random.next_below(7)] };
        let inner = ["", "", " + q", " + q * 40", " + q * 8"][self.random.next_below(5)];
        let q = if self.inside() { "k" } else { "n" };
        let index = format!("{thread}{inner}{step}").replace('q', q);
        match self.random.next_below(10) {
            0..=4 => format!("s[{index}]"),
            5 => {
                let (row, column) = (
                    ["t", "39 - t", "t / 2", "0"][self.random.next_below(4)],
                    ["0", "n", "u % 8"][self.random.next_below(3)],
                );
                format!("p[{row}, {column}]")
            }
            6 | 7 => format!("g[i + {index}]"),
            8 => format!("f[i{inner}]").replace('q', q),
            _ => format!("g[{index}]"),
        }
    }

    /// Returns whether the end of the text is inside a loop.
    fn inside(&self) -> bool {
        let mut open = vec![];
        for line in self.text.lines() {
            if line == "} else {" {
                continue;
            }
            if line.ends_with('{') {
                open.push(line.starts_with("for"));
            } else if line == "}" {
                open.pop();
            }
        }
        open.iter().any(|is_loop| *is_loop)
    }
}
