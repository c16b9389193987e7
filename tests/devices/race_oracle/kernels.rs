//! Generates random kernels whose threads share a few elements. They read them, write equal and different values, and
//! perform atomic operations: between barriers, in loops and in branches.
//!
//! The accessed elements and the stored values depend only on the thread's index, so every order of the threads has the
//! same accesses. Each access has its own line, by which reports are compared.

use clk_testing::random::Random;

/// A kernel, its launch, and the sizes of its array parameters, which contain zeros.
pub struct Program {
    pub text: String,
    pub form: Form,
    /// The length of each array parameter, and the size of its elements in bytes.
    pub arrays: Vec<(u32, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Grid { blocks: u32, threads: u32 },
    Threads(u32),
}

/// The threads that reach a statement together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Uniform {
    Thread,
    Warp,
    Block,
    Grid,
}

struct Writer {
    random: Random,
    text: String,
    form: Form,
    /// Names of loop variables in scope.
    loops: Vec<String>,
    depth: usize,
    /// Percentages of statements followed by a barrier, of stores of the value 1, and of accesses by several threads.
    barriers: usize,
    same: usize,
    shared_percent: usize,
    /// The launch is cooperative.
    grid_barriers: bool,
    /// Whether unrelated atomic operations and fences may order the threads, so that `--check` uses its exact algorithm
    /// from the start.
    fences: bool,
    scalar: &'static str,
}

/// The number of elements of each shared or global array.
const EXTENT: usize = 3;

/// Returns the program of a seed.
pub fn program(seed: u64) -> Program {
    let mut random = Random::from_seed(seed);
    for _ in 0..4 {
        random.word();
    }
    let form = match random.next_below(10) {
        0 => Form::Threads([40, 100][random.next_below(2)]),
        _ => Form::Grid {
            blocks: [1, 1, 2, 2, 3][random.next_below(5)],
            threads: [8, 32, 33, 40, 64, 96][random.next_below(6)],
        },
    };
    let scalar = random.pick(&["i32", "i32", "i32", "f32", "i64", "u8"]);
    let percent = |random: &mut Random, all: &[usize]| all[random.next_below(all.len())];
    let barriers = percent(&mut random, &[0, 20, 50, 90]);
    let same = percent(&mut random, &[100, 100, 90, 60]);
    let shared_percent = percent(&mut random, &[0, 20, 50]);
    let grid_barriers = form != Form::Threads(0) && random.next_below(6) == 0;
    let fences = random.next_below(6) == 0;
    let mut writer = Writer {
        random,
        text: String::new(),
        form,
        loops: vec![],
        depth: 0,
        barriers,
        same,
        shared_percent,
        grid_barriers,
        fences,
        scalar,
    };
    let arrays = writer.program();
    Program { text: writer.text, form, arrays }
}

impl Writer {
    fn next_below(&mut self, n: usize) -> usize {
        self.random.next_below(n)
    }

    fn percent(&mut self, n: usize) -> bool {
        self.next_below(100) < n
    }

    fn line(&mut self, line: &str) {
        self.text += &"    ".repeat(self.depth + 1);
        self.text += line;
        self.text.push('\n');
    }

    fn blocks(&self) -> usize {
        if let Form::Grid { blocks, .. } = self.form { blocks as usize } else { 1 }
    }

    fn threads(&self) -> usize {
        match self.form {
            Form::Grid { threads, .. } => threads as usize,
            Form::Threads(n) => n as usize,
        }
    }

    fn is_grid(&self) -> bool {
        matches!(self.form, Form::Grid { .. })
    }

    fn program(&mut self) -> Vec<(u32, usize)> {
        let own = (self.blocks() * self.threads()) as u32;
        let scalar = self.scalar;
        let size = match scalar {
            "u8" => 1,
            "i64" => 8,
            _ => 4,
        };
        let head = match self.form {
            Form::Grid { blocks, threads } => format!("grid({blocks}) block({threads})"),
            Form::Threads(n) => format!("threads(i: {n})"),
        };
        self.text = format!(
            "struct Cell {{ n: i32, f: f32 }}\nkernel k(inout g: [i32; {EXTENT}], inout h: [{scalar}; {EXTENT}], \
             inout v: [i32x2; {EXTENT}], inout p: [Cell; {EXTENT}], inout q: [i32; {own}], inout o: [i32; {own}], \
             inout y: [i32; {wide}]) {head} {{\n",
            wide = own + 4
        );
        if self.is_grid() {
            self.line(&format!("shared s: [i32; {EXTENT}]"));
            self.line(&format!("shared r: [{scalar}; {EXTENT}]"));
            self.line(&format!("shared z: [i32; {}]", self.threads() + 4));
            self.line("let t = thread_idx.x");
            self.line("let b = block_idx.x");
            self.line(&format!("let own = b * {} + t", self.threads()));
            self.line("var a = 0");
            self.line(&format!("if t < {EXTENT} {{"));
            self.line("    s[t] = 0");
            let zero = self.constant("0", scalar);
            self.line(&format!("    r[t] = {zero}"));
            self.line("}");
            self.line("z[t] = 0");
            self.line(&format!("if t < 4 {{ z[{} + t] = 0 }}", self.threads()));
            self.line("barrier()");
        } else {
            self.line("let t = i");
            self.line("let b = 0");
            self.line("let own = i");
            self.line("var a = 0");
        }
        let count = 2 + self.next_below(6);
        self.statements(count, Uniform::Grid);
        self.line("o[own] = a");
        self.text += "}\n";
        let sizes = [
            (EXTENT as u32, 4),
            (EXTENT as u32, size),
            (EXTENT as u32, 8),
            (EXTENT as u32, 8),
            (own, 4),
            (own, 4),
            (own + 4, 4),
        ];
        self.text += &format!("var g = zeros({EXTENT}, type = i32)\nvar h = zeros({EXTENT}, type = {scalar})\n");
        self.text +=
            &format!("var v = [i32x2(0), i32x2(0), i32x2(0)]\nvar p = [{0}, {0}, {0}]\n", "Cell { n: 0, f: 0.0 }");
        self.text += &format!("var q = zeros({own}, type = i32)\nvar o = zeros({own}, type = i32)\n");
        self.text += &format!("var y = zeros({}, type = i32)\nk(g, h, v, p, q, o, y)\n", own + 4);
        sizes.to_vec()
    }

    fn statements(&mut self, count: usize, uniform: Uniform) {
        for _ in 0..count {
            self.statement(uniform);
            if self.percent(self.barriers) {
                self.barrier(uniform);
            }
        }
    }

    fn barrier(&mut self, uniform: Uniform) {
        if !self.is_grid() || uniform == Uniform::Thread {
            return;
        }
        let line = match self.next_below(8) {
            0 | 1 if uniform >= Uniform::Warp => "warp_barrier()",
            2 if uniform >= Uniform::Warp => "a += warp_reduce_max(t) % 2",
            3 if uniform >= Uniform::Block => "if barrier_any(t == 3) { a += 1 }",
            4 | 5 if uniform == Uniform::Grid && self.grid_barriers => "grid_barrier()",
            _ if uniform >= Uniform::Block => "barrier()",
            _ => "warp_barrier()",
        };
        self.line(line);
    }

    fn statement(&mut self, uniform: Uniform) {
        let choice = self.next_below(if self.depth < 2 { 12 } else { 8 });
        match choice {
            8 | 9 => {
                let name = ["k", "m"][self.loops.len()].to_string();
                let count = 1 + self.next_below(3);
                self.line(&format!("for {name} in 0..{count} {{"));
                self.loops.push(name);
                self.block(uniform);
                self.loops.pop();
                self.line("}");
            }
            10 | 11 => {
                let (condition, inside) = self.condition();
                self.line(&format!("if {condition} {{"));
                self.block(uniform.min(inside));
                if self.next_below(2) == 0 {
                    self.line("} else {");
                    self.block(uniform.min(inside));
                }
                self.line("}");
            }
            7 if self.fences && self.next_below(2) == 0 => {
                self.line("fence()");
                self.line("if atomic_add(q[own], 1) > 5 { a += 1 }");
            }
            5 | 6 => {
                // All threads, or a range of them, access an array that has an element for each thread.
                let access = self.row_access();
                let thread = self.thread();
                let line = match self.next_below(4) {
                    0 => format!("if t < {thread} {{ {access} }}"),
                    1 => format!("if t >= {thread} {{ {access} }}"),
                    _ => access,
                };
                self.line(&line);
            }
            _ => {
                let (access, shared_percent) = (self.access(), self.shared_percent);
                // Mostly only one thread performs the access, so that some kernels have no race.
                let condition = if self.percent(shared_percent) { self.condition().0 } else { self.one_thread() };
                match condition.as_str() {
                    "true" => self.line(&access),
                    _ => self.line(&format!("if {condition} {{ {access} }}")),
                }
            }
        }
    }

    fn block(&mut self, uniform: Uniform) {
        self.depth += 1;
        let count = 1 + self.next_below(3);
        self.statements(count, uniform);
        self.depth -= 1;
    }

    fn one_thread(&mut self) -> String {
        let thread = self.thread();
        let block = self.next_below(self.blocks());
        match self.blocks() {
            1 => format!("t == {thread}"),
            _ if self.next_below(4) == 0 => format!("t == {thread}"),
            _ => format!("t == {thread} && b == {block}"),
        }
    }

    /// Returns one of a few thread numbers, so that threads often meet, within a warp and between warps.
    fn thread(&mut self) -> usize {
        [0, 0, 1, 5, 33, 39, 70][self.next_below(7)] % self.threads()
    }

    /// Returns a condition, and the scope of threads for which it has the same value.
    fn condition(&mut self) -> (String, Uniform) {
        let (thread, block) = (self.thread(), self.next_below(self.blocks()));
        match self.next_below(10) {
            0 | 1 => (format!("b == {block}"), Uniform::Block),
            2 if self.is_grid() => (format!("t / 32 == {}", self.next_below(2)), Uniform::Warp),
            3 => (format!("t % 32 == {}", thread % 32), Uniform::Thread),
            4 => (format!("t < {thread}"), Uniform::Thread),
            5 => (format!("t >= {thread}"), Uniform::Thread),
            6 => ("t % 2 == 0".into(), Uniform::Thread),
            7 => ("true".into(), Uniform::Grid),
            _ => (self.one_thread(), Uniform::Thread),
        }
    }

    fn index(&mut self) -> String {
        let last = self.loops.last().cloned();
        match (self.next_below(10), last) {
            (0, _) => "t % 3".into(),
            (1, _) => "(t + 1) % 3".into(),
            (2, _) => "b % 3".into(),
            (3, _) => "t / 32 % 3".into(),
            (4, Some(name)) => format!("{name} % 3"),
            (5, _) => "1".into(),
            _ => "0".into(),
        }
    }

    fn constant(&mut self, number: &str, scalar: &str) -> String {
        match scalar {
            "i32" => number.to_string(),
            "f32" => format!("{number}.0"),
            _ => format!("{scalar}({number})"),
        }
    }

    /// Returns a value to store, of this type.
    fn value(&mut self, scalar: &str) -> String {
        if self.percent(self.same) {
            return self.constant("1", scalar);
        }
        let last = self.loops.last().cloned();
        let number = match (self.next_below(6), last) {
            (0, _) => "t".into(),
            (1, _) => "b".into(),
            (2, Some(name)) => name,
            (3, _) => "t / 32".into(),
            (4, _) => return self.constant("1", scalar),
            _ => return self.constant("2", scalar),
        };
        if scalar == "i32" { number } else { format!("{scalar}({number})") }
    }

    fn access(&mut self) -> String {
        let shared = self.is_grid();
        match self.next_below(12) {
            0..=3 if shared => self.scalar_access("s", "i32"),
            4 if shared => self.scalar_access("r", self.scalar),
            5 | 6 => self.scalar_access("h", self.scalar),
            7 => {
                let index = self.index();
                match self.next_below(5) {
                    0 => format!("v[{index}].x = {}", self.value("i32")),
                    1 => format!("a += v[{index}].y"),
                    2 => format!("a += v[{index}].x + v[{index}].y"),
                    _ => format!("v[{index}] = i32x2({}, {})", self.value("i32"), self.value("i32")),
                }
            }
            8 => {
                let index = self.index();
                match self.next_below(5) {
                    0 => format!("a += p[{index}].n"),
                    1 => format!("a += i32(p[{index}].f)"),
                    2 => format!("atomic_max(p[{index}].n, 1)"),
                    3 => format!("p[{index}].f = {}", self.value("f32")),
                    _ => format!("p[{index}].n = {}", self.value("i32")),
                }
            }
            _ => self.scalar_access("g", "i32"),
        }
    }

    /// Returns an access to an array with an element for each thread, mostly the thread's own one.
    fn row_access(&mut self) -> String {
        let (array, own) = match self.next_below(3) {
            0 if self.is_grid() => ("y", "own"),
            _ if self.is_grid() => ("z", "t"),
            _ => ("y", "own"),
        };
        let last = self.loops.last().cloned();
        let index = match (self.next_below(9), last) {
            (0, _) => format!("{own} + 1"),
            (1, _) => format!("{} - t", self.threads() - 1),
            (2, _) => format!("t * 7 % {}", self.threads()),
            (3, _) => "t / 2".into(),
            (4 | 5, Some(name)) => format!("{own} + {name}"),
            _ => own.into(),
        };
        let place = format!("{array}[{index}]");
        match self.next_below(8) {
            0 | 1 => format!("a += {place}"),
            2 => format!("atomic_max({place}, 1)"),
            3 => format!("a += atomic_load({place})"),
            _ => format!("{place} = {}", self.value("i32")),
        }
    }

    fn scalar_access(&mut self, array: &str, scalar: &str) -> String {
        let place = format!("{array}[{}]", self.index());
        let number = if scalar == "i32" { place.clone() } else { format!("i32({place})") };
        let choice = self.next_below(14);
        match choice {
            0 | 1 => format!("a += {number}"),
            3..=6 if scalar == "i32" => {
                let op = self.random.pick(&["add", "max", "or", "exchange", "store"]);
                let used = if op != "store" && self.next_below(2) == 0 { "a += " } else { "" };
                format!("{used}atomic_{op}({place}, {})", self.next_below(3))
            }
            7 if scalar == "i32" => format!("a += atomic_load({place})"),
            _ => format!("{place} = {}", self.value(scalar)),
        }
    }
}
