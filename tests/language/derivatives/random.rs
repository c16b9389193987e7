//! Generates random functions of an array: expressions of scalars and arrays, loops, conditions, calls, and assignments
//! to slices and to components of vectors.

use std::fmt::Write;

use clk_testing::random::Random;

/// A variable: its name and its extents (empty for a scalar).
type Variable = (String, Vec<usize>);

struct Function {
    random: Random,
    variables: Vec<Variable>,
    text: String,
    names: usize,
}

/// Returns the text of a function `f(x: [f64; 3, 4]) -> f64`.
pub fn function(seed: u64) -> String {
    let random = Random::from_seed(seed);
    let mut function = Function { random, variables: vec![("x".into(), vec![3, 4])], text: String::new(), names: 0 };
    for _ in 0..4 + function.random.next_below(6) {
        function.statement(1);
    }
    let names: Vec<String> = function.variables.iter().map(|(name, shape)| total(name, shape)).collect();
    let helper = "fn helper(a: f64, b: [f64; N]) -> f64 { var s = a\n for i in 0..N { s = s * 0.5 + sin(b[i]) }\n s }\n\
         fn put(inout v: [f64x3; N], a: [f64; N]) { v.y = a * 0.5 + v.x\n v[0].z += a[1] }\n";
    format!("{helper}fn f(x: [f64; 3, 4]) -> f64 {{\n{}    {}\n}}\n", function.text, names.join(" + "))
}

/// Returns an expression that reduces a variable to a scalar.
fn total(name: &str, shape: &[usize]) -> String {
    if shape.is_empty() { format!("tanh({name})") } else { format!("mean(sin({name}))") }
}

const SHAPES: [&[usize]; 7] = [&[], &[], &[4], &[3], &[3, 4], &[4, 3], &[2, 3, 4]];

impl Function {
    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.text, "{:1$}{text}", "", depth * 4);
    }

    fn shape(&mut self) -> Vec<usize> {
        SHAPES[self.random.next_below(SHAPES.len())].to_vec()
    }

    fn statement(&mut self, depth: usize) {
        let outer_count = self.variables.len();
        match self.random.next_below(if depth > 2 { 7 } else { 11 }) {
            0..=3 => {
                let shape = self.shape();
                let value = self.value(&shape, 3);
                self.names += 1;
                let name = format!("v{}", self.names);
                self.line(depth, &format!("var {name} = {value}"));
                if depth == 1 {
                    self.variables.push((name, shape));
                }
            }
            4 => {
                let Some((name, shape)) = self.target() else { return };
                let value = self.value(&shape, 2);
                let text = match self.random.next_below(3) {
                    0 => format!("{name} += {value}"),
                    1 => format!("{name} *= tanh({value})"),
                    _ => format!("{name} = {name} * 0.5 + {value}"),
                };
                self.line(depth, &text);
            }
            5 | 6 => self.assign_part(depth),
            7 => {
                let condition = self.value(&[], 2);
                self.line(depth, &format!("if {condition} < 0.1 {{"));
                self.statement(depth + 1);
                self.line(depth, "} else {");
                self.statement(depth + 1);
                self.line(depth, "}");
            }
            8 => {
                let turns = 1 + self.random.next_below(3);
                self.line(depth, &format!("for i{depth} in 0..{turns} {{"));
                self.statement(depth + 1);
                self.statement(depth + 1);
                self.line(depth, "}");
            }
            9 => self.components(depth),
            _ => {
                self.names += 1;
                let name = format!("v{}", self.names);
                let (a, b) = (self.value(&[], 2), self.value(&[4], 2));
                self.line(depth, &format!("var {name} = helper({a}, {b})"));
                if depth == 1 {
                    self.variables.push((name, vec![]));
                }
            }
        }
        if depth > 1 {
            self.variables.truncate(outer_count);
        }
    }

    /// Declares an array of vectors, writes its components, and computes an array from them.
    fn components(&mut self, depth: usize) {
        self.names += 1;
        let vectors = format!("c{}", self.names);
        let first = self.value(&[], 1);
        self.line(depth, &format!("var {vectors} = full(4, f64x3(0.25, {first}, -0.5))"));
        for _ in 0..2 + self.random.next_below(4) {
            let lane = ["x", "y", "z"][self.random.next_below(3)];
            let (at, op) = (self.random.next_below(4), ["=", "+=", "*="][self.random.next_below(3)]);
            let text = match self.random.next_below(8) {
                0 => format!("{vectors}.{lane} {op} {}", self.value(&[4], 2)),
                1 => format!("{vectors}.{lane} = {}", self.value(&[], 2)),
                2 => format!("{vectors}[{at}].{lane} {op} {}", self.value(&[], 2)),
                3 => format!("{vectors}.{lane}[{at}] {op} {}", self.value(&[], 2)),
                4 => format!("{vectors}.{} = {vectors}.{}", ["xy", "zx", "yz"][at % 3], ["yx", "xx", "zy"][at / 2]),
                5 => format!("{vectors}.{lane}[1..3] {op} {}", self.value(&[2], 2)),
                6 => format!("put({vectors}, {})", self.value(&[4], 2)),
                _ => {
                    let parts: Vec<String> = (0..3).map(|_| self.value(&[], 1)).collect();
                    format!("{vectors}[{at}] = f64x3({})", parts.join(", "))
                }
            };
            self.line(depth, &text);
        }
        self.names += 1;
        let name = format!("v{}", self.names);
        self.line(depth, &format!("var {name} = {vectors}.x * {vectors}.y + tanh({vectors}.z)"));
        if depth == 1 {
            self.variables.push((name, vec![4]));
        }
    }

    /// Returns a variable that can be assigned to.
    fn target(&mut self) -> Option<Variable> {
        let count = self.variables.len() - 1;
        (count > 0).then(|| self.variables[1 + self.random.next_below(count)].clone())
    }

    fn assign_part(&mut self, depth: usize) {
        let Some((name, shape)) = self.target() else { return };
        let part = match &shape[..] {
            [] => return,
            [n] => match self.random.next_below(4) {
                0 => (format!("[{}]", self.random.next_below(*n)), vec![]),
                1 => ("[0..2]".into(), vec![2]),
                2 => ("[1.. step 2]".into(), vec![n.saturating_sub(1).div_ceil(2)]),
                _ => ("[[1, 0, 1]]".into(), vec![3]),
            },
            [_, n] => match self.random.next_below(3) {
                0 => (format!("[1, {}]", self.random.next_below(*n)), vec![]),
                1 => ("[1]".into(), vec![*n]),
                _ => ("[.., 2]".into(), vec![shape[0]]),
            },
            _ => ("[1, .., 2]".into(), vec![shape[1]]),
        };
        let value = self.value(&part.1, 2);
        let text = match self.random.next_below(3) {
            0 if !part.0.starts_with("[[") => format!("{name}{} += {value}", part.0),
            _ => format!("{name}{} = {value}", part.0),
        };
        self.line(depth, &text);
    }

    /// Returns an expression of this shape.
    fn value(&mut self, shape: &[usize], depth: usize) -> String {
        if depth == 0 || self.random.next_below(8) == 0 {
            return self.leaf(shape);
        }
        match self.random.next_below(14) {
            0..=2 => {
                let (a, b) = (self.value(shape, depth - 1), self.broadcast(shape, depth - 1));
                match self.random.next_below(5) {
                    0 => format!("({a} + {b})"),
                    1 => format!("({b} - {a})"),
                    2 | 3 => format!("({a} * {b})"),
                    _ => format!("({a} / (1.0 + {b} * {b}))"),
                }
            }
            3..=5 => {
                let a = self.value(shape, depth - 1);
                let wrap = [
                    "sin(@)",
                    "cos(@)",
                    "tanh(@)",
                    "exp(tanh(@))",
                    "sqrt(1.5 + @ * @)",
                    "log(1.5 + @ * @)",
                    "abs(@)",
                    "atan(@)",
                    "(-@)",
                    "(2.0 + tanh(@)) ** 1.5",
                    "erf(@)",
                    "clamp(@, -0.6, 0.7)",
                    "fract(@)",
                    "hypot(@, 0.3)",
                    "(@) ** 2",
                ];
                wrap[self.random.next_below(wrap.len())].replace('@', &a)
            }
            6 => {
                let (a, b) = (self.value(shape, depth - 1), self.value(shape, depth - 1));
                let name = self.random.pick(&["max", "min", "atan2"]).to_string();
                if name == "atan2" { format!("atan2({a}, 2.0 + {b} * {b})") } else { format!("{name}({a}, {b})") }
            }
            7 => {
                let (a, b) = (self.value(shape, depth - 1), self.broadcast(shape, depth - 1));
                format!("select({a} > 0.0, {a} * {b}, {b} - {a})")
            }
            _ => self.shaped(shape, depth - 1),
        }
    }

    /// Returns an operand that broadcasts to this shape.
    fn broadcast(&mut self, shape: &[usize], depth: usize) -> String {
        match (self.random.next_below(4), shape) {
            (0, _) => self.value(&[], depth),
            (1, [_, rest @ ..]) if !rest.is_empty() => self.value(rest, depth),
            (2, [n, 4]) if *n == 3 => format!("reshape({}, 3, 1)", self.value(&[3], depth)),
            _ => self.value(shape, depth),
        }
    }

    /// Returns an operation that changes the shape.
    fn shaped(&mut self, shape: &[usize], depth: usize) -> String {
        let choice = self.random.next_below(4);
        match (shape, choice) {
            ([], 0) => format!("mean({})", self.value(&[3, 4], depth)),
            ([], 1) => format!("max({})", self.value(&[3, 4], depth)),
            ([], 2) => format!("dot({}, {})", self.value(&[4], depth), self.value(&[4], depth)),
            ([], _) => format!("({})[{}]", self.value(&[4], depth), self.random.next_below(4)),
            ([4], 0) => format!("sum({}, axis = 0)", self.value(&[3, 4], depth)),
            ([4], 1) => format!("({} @ {})", self.value(&[3], depth), self.value(&[3, 4], depth)),
            ([4], 2) => format!("cumsum({})", self.value(&[4], depth)),
            ([4], _) => format!("({})[[3, 0, 0, 2]]", self.value(&[4], depth)),
            ([3], 0) => format!("max({}, axis = 1)", self.value(&[3, 4], depth)),
            ([3], 1) => format!("({} @ {})", self.value(&[3, 4], depth), self.value(&[4], depth)),
            ([3], 2) => format!("prod({}, axis = 0)", self.value(&[4, 3], depth)),
            ([3], _) => {
                let (a, b) = (self.value(&[], depth), self.value(&[], depth));
                format!("[{a}, 0.25, {b}]")
            }
            ([3, 4], 0) => format!("transpose({})", self.value(&[4, 3], depth)),
            ([3, 4], 1) => format!(
                "(({} @ {}) @ {})",
                self.value(&[3, 4], depth),
                self.value(&[4, 3], depth),
                self.value(&[3, 4], depth)
            ),
            ([3, 4], 2) => format!("({})[1]", self.value(&[2, 3, 4], depth)),
            ([3, 4], _) => format!("flip({}, axis = 1)", self.value(&[3, 4], depth)),
            ([4, 3], 0) => format!("reshape({}, 4, 3)", self.value(&[3, 4], depth)),
            ([4, 3], 1) => format!("concat({}, reshape({}, 1, 3))", self.leaf(&[3, 3]), self.value(&[3], depth)),
            ([4, 3], 2) => format!("cumsum({}, axis = 0)", self.value(&[4, 3], depth)),
            ([4, 3], _) => format!("transpose({})", self.value(&[3, 4], depth)),
            ([2, 3, 4], 0) => format!("stack({}, {})", self.value(&[3, 4], depth), self.value(&[3, 4], depth)),
            ([2, 3, 4], 1) => {
                let (a, b) = (self.leaf(&[2, 3, 3]), self.value(&[3, 4], depth));
                format!("({a} @ {b})")
            }
            ([2], _) => format!("({})[1..3]", self.value(&[4], depth)),
            _ => self.leaf(shape),
        }
    }

    /// Returns a variable of this shape, a constant, or a slice of the parameter.
    fn leaf(&mut self, shape: &[usize]) -> String {
        let candidates: Vec<&Variable> = self.variables.iter().filter(|(_, own)| own == shape).collect();
        if !candidates.is_empty() && self.random.next_below(4) > 0 {
            return candidates[self.random.next_below(candidates.len())].0.clone();
        }
        match shape {
            [] => match self.random.next_below(3) {
                0 => format!("0.{}", 1 + self.random.next_below(8)),
                _ => format!("x[{}, {}]", self.random.next_below(3), self.random.next_below(4)),
            },
            [2] => "x[0..2, 1]".into(),
            [3] => format!("x[.., {}]", self.random.next_below(4)),
            [4] => format!("x[{}]", self.random.next_below(3)),
            [3, 4] => "x".into(),
            [4, 3] => "transpose(x)".into(),
            [3, 3] => "x[.., 0..3]".into(),
            [2, 3, 3] => "stack(x[.., 0..3], x[.., 1..4])".into(),
            [2, 3, 4] => "stack(x, x * 0.5)".into(),
            other => format!("full({}, 0.5f64)", other.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
        }
    }
}
