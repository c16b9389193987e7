//! Generates random kernels whose indices result from operations and conversions that wrap around, and launches with
//! arguments near the limits of their types.

use super::random::RandomLaunch;
use clk_testing::random::Random;

/// The integer types, with the least and the largest number of each that appear in kernels.
const TYPES: [(&str, i128, i128); 8] = [
    ("i32", -(1 << 31) + 1, (1 << 31) - 1),
    ("u32", 0, (1 << 32) - 1),
    ("i32", -(1 << 31) + 1, (1 << 31) - 1),
    ("u32", 0, (1 << 32) - 1),
    ("u8", 0, 255),
    ("i16", -(1 << 15) + 1, (1 << 15) - 1),
    ("i64", -(1 << 63) + 1, (1 << 63) - 1),
    ("u64", 0, (1 << 64) - 1),
];

struct Writer {
    random: Random,
    text: String,
    /// The variables in scope, with their types.
    names: Vec<(String, &'static str)>,
    next: usize,
}

/// Returns a number of a type: a small one, or one near a limit or a power of two.
fn special(random: &mut Random, ty: &str) -> i128 {
    let (_, low, high) = *TYPES.iter().find(|known| known.0 == ty).expect("a type of the list");
    let bits = random.next_below(33) as u32;
    let near = random.next_below(5) as i128 - 2;
    let number = match random.next_below(6) {
        0 | 1 => random.next_below(7) as i128,
        2 => low + random.next_below(4) as i128,
        3 => high - random.next_below(4) as i128,
        4 => (1 << bits) + near,
        _ => near - (1 << bits),
    };
    number.clamp(low, high)
}

impl Writer {
    fn next_below(&mut self, n: usize) -> usize {
        self.random.next_below(n)
    }

    fn ty(&mut self) -> &'static str {
        self.random.pick(&TYPES).0
    }

    fn literal(&mut self, ty: &str) -> String {
        let number = special(&mut self.random, ty);
        if number < 0 { format!("(-{}{ty})", -number) } else { format!("{number}{ty}") }
    }

    /// Returns an expression of this type.
    fn value(&mut self, ty: &'static str, depth: usize) -> String {
        if depth == 0 || self.next_below(6) == 0 {
            let own: Vec<String> =
                self.names.iter().filter(|known| known.1 == ty).map(|known| known.0.clone()).collect();
            return match self.next_below(4) {
                0 => self.literal(ty),
                1 | 2 if !own.is_empty() => self.random.pick(&own),
                _ => {
                    let (name, other) = self.random.pick(&self.names.clone());
                    if other == ty { name } else { format!("{ty}({name})") }
                }
            };
        }
        let bits = if ty.ends_with('8') { 8 } else { ty[1..].parse().unwrap_or(8) };
        let by = self.next_below(bits);
        let inner = depth - 1;
        match self.next_below(16) {
            0..3 => format!("wrapping_add({}, {})", self.value(ty, inner), self.value(ty, inner)),
            3..5 => format!("wrapping_sub({}, {})", self.value(ty, inner), self.value(ty, inner)),
            5 => format!("wrapping_mul({}, {})", self.value(ty, inner), self.literal(ty)),
            6 => format!("({} + {})", self.value(ty, inner), self.literal(ty)),
            7 => format!("({} - {})", self.value(ty, inner), self.value(ty, inner)),
            8 => format!("({} / {})", self.value(ty, inner), 1 + self.next_below(40)),
            9 => format!("({} % {})", self.value(ty, inner), 1 + self.next_below(40)),
            10 => format!("({} >> {by}{ty})", self.value(ty, inner)),
            11 => format!("({} << {by}{ty})", self.value(ty, inner)),
            12 => format!("({} & {})", self.value(ty, inner), [1, 3, 8, 15, 16, 127][self.next_below(6)]),
            13 => format!("({} ^ {})", self.value(ty, inner), [1, 2, 4, 5, 127][self.next_below(5)]),
            _ => {
                let other = self.ty();
                let value = self.value(other, inner);
                if other == ty { value } else { format!("{ty}({value})") }
            }
        }
    }

    fn line(&mut self, line: &str) {
        self.text += &format!("    {line}\n");
    }

    fn fresh_name(&mut self) -> String {
        self.next += 1;
        format!("v{}", self.next - 1)
    }

    /// Declares a variable with this value.
    fn declare(&mut self, ty: &'static str, value: &str) -> String {
        let name = self.fresh_name();
        self.line(&format!("let {name}: {ty} = {value}"));
        self.names.push((name.clone(), ty));
        name
    }

    /// Writes an access of `x` or `y` at an index that a variable determines.
    fn access(&mut self, name: &str) {
        let (array, extent) = [("x", "N"), ("y", "M")][self.next_below(2)];
        let serial = self.next;
        self.next += 1;
        let (limit, shift) = (1 + self.next_below(20), self.next_below(4));
        let (index, condition) = match self.next_below(9) {
            0 | 1 => (name.to_string(), format!("{name} >= 0 && i64({name}) < i64({extent})")),
            2 => (format!("i32({name})"), format!("i32({name}) >= 0 && i32({name}) < {extent}")),
            3 => (format!("i32({name})"), format!("i64({name}) >= 0 && i64({name}) < i64({extent})")),
            4 => (format!("u32({name})"), format!("u32({name}) < u32({extent})")),
            5 => (format!("i32({name})"), format!("u32({name}) < u32({extent}) && {extent} < 1000")),
            6 => (format!("i32(u32({name}) % {limit})"), format!("{extent} >= {}", limit + shift / 3)),
            7 => (format!("i32(u32({name}) >> {})", 28 + shift), format!("{extent} >= {}", 16 >> shift)),
            _ => (format!("i32({name}) - {shift}"), format!("i32({name}) >= {shift} && i32({name}) < {extent}")),
        };
        let access = match (array, self.next_below(3)) {
            ("x", _) | (_, 0) => format!("let r{serial} = {array}[{index}]"),
            _ => format!("y[{index}] = {serial}"),
        };
        self.line(&format!("if {condition} {{ {access} }}"));
    }

    fn statement(&mut self) {
        let ty = self.ty();
        match self.next_below(8) {
            0 | 1 => {
                let value = self.value(ty, 2);
                self.declare(ty, &value);
            }
            2 => {
                let (condition, value) = (self.value("i32", 0), self.value(ty, 1));
                let first = self.value(ty, 0);
                let name = self.fresh_name();
                self.line(&format!("var {name}: {ty} = {first}"));
                let limit = self.next_below(9);
                self.line(&format!("if {condition} > {limit} {{ {name} = {value} }}"));
                self.names.push((name, ty));
            }
            3 => {
                let (first, step) = (self.value(ty, 1), self.value(ty, 0));
                let name = self.fresh_name();
                let count = 1 + self.next_below(5);
                self.line(&format!("var {name}: {ty} = {first}"));
                let end = if self.next_below(2) == 0 { count.to_string() } else { format!("i % {count}") };
                self.line(&format!("for c{name} in 0..{end} {{"));
                self.names.push((name.clone(), ty));
                self.access(&name);
                self.line(&format!("{name} = wrapping_add({name}, {step})"));
                self.line("}");
            }
            4 => {
                // A variable that decreases until it leaves the loop.
                let (value, by, last) = (self.value("u32", 1), 1 + self.next_below(7), self.next_below(5));
                let name = self.fresh_name();
                self.line(&format!("var {name}: u32 = {value}"));
                self.line(&format!("while {name} > {last} {{"));
                self.line(&format!("{name} = {name} >> {by}u32"));
                self.names.push((name.clone(), "u32"));
                self.access(&name);
                self.line("}");
            }
            _ => {
                let value = self.value(ty, 2);
                let name = self.declare(ty, &value);
                self.access(&name);
            }
        }
    }
}

/// Returns a kernel, and launches of it.
pub fn kernel(seed: u64) -> (String, Vec<RandomLaunch>) {
    let mut w = Writer { random: Random::from_seed(seed), text: String::new(), names: vec![], next: 0 };
    for _ in 0..4 {
        w.random.word();
    }
    let params = [("a", "u32"), ("b", "i32"), ("c", "u8"), ("d", "i64")];
    w.names =
        [("i", "i32"), ("i", "i32"), ("M", "i32")].iter().chain(&params).map(|&(name, ty)| (name.into(), ty)).collect();
    let params_text: String = params.iter().map(|(name, ty)| format!(", {name}: {ty}")).collect();
    w.text = format!("kernel k(x: [i32; N], out y: [i32; M]{params_text}) threads(i: M) {{\n");
    for _ in 0..1 + w.next_below(3) {
        w.statement();
    }
    // An index that is the thread's number, or nearly so.
    if w.next_below(2) == 0 {
        let ty = w.ty();
        let offset = w.value(ty, 1);
        let back = if w.next_below(4) == 0 { w.value(ty, 0) } else { offset.clone() };
        let sum = w.declare(ty, &format!("wrapping_add({ty}(i), {offset})"));
        let value = w.declare(ty, &format!("wrapping_sub({sum}, {back})"));
        w.line(&format!("if i64({value}) >= 0 && i64({value}) < i64(M) {{ y[{value}] = 1 }}"));
    }
    // Proofs ignore overflow in values on which no condition depends.
    let declared: Vec<String> =
        w.names.iter().map(|known| known.0.clone()).filter(|name| name.starts_with('v')).collect();
    for name in declared {
        w.line(&format!("if N > 0 && {name} == 3 {{ let r{name} = x[0] }}"));
    }
    w.text += "}\n";
    let mut launches = vec![];
    for _ in 0..24 {
        let others = params.iter().map(|(_, ty)| format!(", {}", special(&mut w.random, ty))).collect();
        let (n, m) = (w.random.pick(&[0, 1, 5, 16, 33, 260]), w.random.pick(&[1, 2, 3, 6, 16, 33, 260]));
        launches.push(RandomLaunch { n, m, others });
    }
    (w.text, launches)
}
