//! Tests that host code and kernels agree: random functions of scalars and arrays run on the host and in a one-thread
//! kernel. Both give the same bits, or both fail.
//!
//! Kernels run in the simulator, which has its own compiler, passes and machine code. The host and the simulator share
//! the arithmetic of `clk_scalar`, which is therefore not tested here. The test compares control flow, evaluation
//! order, variables, array elements and calls. `CLK_FUZZ_SECONDS=60 CLK_FUZZ_SEED=7 cargo test --test host host_code::`
//! runs longer, on other programs.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clk_compile::{NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_host::value::HostValue;
use clk_ir::Checks;
use clk_runtime::Control;
use clk_sim::Simulator;
use clk_testing::random::Random;
use clk_testing::world::CapturedOutput;
use clk_testing::{optional_setting, setting};

const TYPES: [&str; 9] = ["i32", "i32", "f32", "bool", "i64", "u8", "u32", "f64", "i16"];

/// A variable: name, type (`[T]` for an array of four), and whether it can be assigned to.
type Variable = (String, String, bool);

/// Generator of one program.
struct Program {
    random: Random,
    names: usize,
    depth: usize,
    /// The name, the parameter types and the result type of each function.
    functions: Vec<(String, Vec<String>, String)>,
    text: String,
}

impl Program {
    fn new(seed: u64) -> Program {
        let random = Random::from_seed(seed);
        Program { random, names: 0, depth: 0, functions: Vec::new(), text: String::new() }
    }

    fn name(&mut self, letter: char) -> String {
        self.names += 1;
        format!("{letter}{}", self.names)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.random.next_below(n) == 0
    }

    fn ty(&mut self) -> String {
        self.random.pick(&TYPES).to_string()
    }

    fn literal(&mut self, ty: &str) -> String {
        let number = match ty {
            "bool" => return self.random.pick(&["true", "false"]).to_string(),
            "f32" | "f64" => self.random.pick(&["0.0", "0.5", "1.5", "3.0", "1000.0"]),
            "u8" => self.random.pick(&["0", "1", "7", "255"]),
            "i16" => self.random.pick(&["0", "1", "300", "32767"]),
            "i32" => self.random.pick(&["0", "1", "2", "9", "2147483647"]),
            "u32" => self.random.pick(&["0", "1", "3", "4294967295"]),
            _ => self.random.pick(&["0", "1", "5", "9223372036854775807"]),
        };
        format!("{number}{ty}")
    }

    fn variable(&mut self, scope: &[Variable], ty: &str, assigned: bool) -> Option<String> {
        let candidates: Vec<&Variable> = scope.iter().filter(|v| v.1 == ty && (v.2 || !assigned)).collect();
        if candidates.is_empty() { None } else { Some(candidates[self.random.next_below(candidates.len())].0.clone()) }
    }

    fn leaf(&mut self, scope: &[Variable], ty: &str) -> String {
        match self.variable(scope, ty, false) {
            Some(name) if !self.one_in(5) => name,
            _ => self.literal(ty),
        }
    }

    fn expression(&mut self, scope: &[Variable], ty: &str, depth: usize) -> String {
        if depth == 0 || self.one_in(8) {
            return self.leaf(scope, ty);
        }
        let inner = depth - 1;
        match self.random.next_below(10) {
            0..=3 => self.operation(scope, ty, inner),
            4 => {
                let from = self.ty();
                format!("{ty}({})", self.expression(scope, &from, inner))
            }
            5 => {
                let cond = self.expression(scope, "bool", inner);
                let (a, b) = (self.expression(scope, ty, inner), self.expression(scope, ty, inner));
                format!("(if {cond} {{ {a} }} else {{ {b} }})")
            }
            6 => match self.variable(scope, &format!("[{ty}]"), false) {
                Some(array) => format!("{array}[{}]", self.index(scope, inner)),
                None => self.leaf(scope, ty),
            },
            7 => self.call(scope, ty, inner),
            8 => match self.variable(scope, ty, true) {
                Some(name) => {
                    let (new, result) = (self.expression(scope, ty, inner), self.expression(scope, ty, inner));
                    format!("{{ {name} = {new}; {result} }}")
                }
                None => self.leaf(scope, ty),
            },
            _ if ty != "bool" => {
                let (a, b) = (self.expression(scope, ty, inner), self.expression(scope, ty, inner));
                format!("{}({a}, {b})", self.random.pick(&["min", "max"]))
            }
            _ => format!("(!{})", self.expression(scope, ty, inner)),
        }
    }

    fn operation(&mut self, scope: &[Variable], ty: &str, depth: usize) -> String {
        if ty == "bool" {
            let of = self.ty();
            let ops: &[&str] = match of.as_str() {
                "bool" => &["&&", "||", "==", "!=", "&", "|", "^"],
                _ => &["<", "<=", ">", ">=", "==", "!="],
            };
            let op = self.random.pick(ops);
            return format!("({} {op} {})", self.expression(scope, &of, depth), self.expression(scope, &of, depth));
        }
        let ops: &[&str] = match ty.starts_with('f') {
            true => &["+", "-", "*", "/"],
            false => &["+", "-", "*", "+", "-", "*", "&", "|", "^", "/", "%", "<<", ">>"],
        };
        let op = self.random.pick(ops).to_string();
        let left = self.expression(scope, ty, depth);
        let right = match op.as_str() {
            "<<" | ">>" => format!("({} & 7{ty})", self.expression(scope, ty, depth)),
            _ => self.expression(scope, ty, depth),
        };
        format!("({left} {op} {right})")
    }

    /// Returns an index, usually inside an array of four.
    fn index(&mut self, scope: &[Variable], depth: usize) -> String {
        let any = self.expression(scope, "i32", depth.min(1));
        if self.one_in(15) { any } else { format!("clamp({any}, 0, 3)") }
    }

    fn call(&mut self, scope: &[Variable], ty: &str, depth: usize) -> String {
        let candidates: Vec<usize> = (0..self.functions.len()).filter(|&i| self.functions[i].2 == ty).collect();
        if candidates.is_empty() {
            return self.leaf(scope, ty);
        }
        let (name, params, _) = self.functions[candidates[self.random.next_below(candidates.len())]].clone();
        let mut args = Vec::new();
        for param in &params {
            args.push(match self.variable(scope, param, false) {
                Some(array) if param.starts_with('[') => array,
                _ if param.starts_with('[') => return self.leaf(scope, ty),
                _ => self.expression(scope, param, depth),
            });
        }
        format!("{name}({})", args.join(", "))
    }

    fn block(&mut self, scope: &[Variable], looped: bool, result: &str) {
        let mut scope = scope.to_vec();
        self.depth += 1;
        for _ in 0..1 + self.random.next_below(3) {
            self.statement(&mut scope, looped, result);
        }
        self.depth -= 1;
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:indent$}{text}", "", indent = 4 * (self.depth + 1));
    }

    fn statement(&mut self, scope: &mut Vec<Variable>, looped: bool, result: &str) {
        let ty = self.ty();
        match self.random.next_below(if self.depth < 2 { 12 } else { 8 }) {
            0 | 1 => {
                let (value, name) = (self.expression(scope, &ty, 3), self.name('v'));
                self.line(&format!("var {name} = {value}"));
                scope.push((name, ty, true));
            }
            2 => {
                let (value, name) = (self.expression(scope, &ty, 1), self.name('a'));
                self.line(&format!("var {name}: [{ty}; 4] = {value}"));
                scope.push((name, format!("[{ty}]"), true));
            }
            3 | 4 => {
                let Some(name) = self.variable(scope, &ty, true) else { return };
                let op = if ty == "bool" { "=" } else { self.random.pick(&["=", "=", "+=", "-=", "*="]) }.to_string();
                let value = self.expression(scope, &ty, 3);
                self.line(&format!("{name} {op} {value}"));
            }
            5 | 6 => {
                let Some(array) = self.variable(scope, &format!("[{ty}]"), true) else { return };
                let op = if ty == "bool" { "=" } else { self.random.pick(&["=", "+=", "-="]) }.to_string();
                let (index, value) = (self.index(scope, 2), self.expression(scope, &ty, 2));
                self.line(&format!("{array}[{index}] {op} {value}"));
            }
            7 => {
                let cond = self.expression(scope, "bool", 2);
                let value = self.expression(scope, result, 1);
                match looped {
                    true if !self.one_in(3) => {
                        let jump = self.random.pick(&["break", "continue"]).to_string();
                        self.line(&format!("if {cond} {{ {jump} }}"));
                    }
                    _ => self.line(&format!("if {cond} {{ return {value} }}")),
                }
            }
            8 | 9 => {
                let cond = self.expression(scope, "bool", 2);
                self.line(&format!("if {cond} {{"));
                self.block(scope, looped, result);
                if self.one_in(2) {
                    self.line("} else {");
                    self.block(scope, looped, result);
                }
                self.line("}");
            }
            10 => {
                let (name, of) = (self.name('i'), self.random.pick(&["i32", "i32", "i64", "u8", "i16"]).to_string());
                let range = match self.random.next_below(4) {
                    0 => format!("0{of}..={}{of}", self.random.next_below(5)),
                    1 if of.starts_with('i') => format!("{}{of}..0{of} step -2", self.random.next_below(9)),
                    2 => format!("0{of}..{}{of} step 3", self.random.next_below(12)),
                    _ => format!("{}{of}..{}{of}", self.random.next_below(3), self.random.next_below(8)),
                };
                self.line(&format!("for {name} in {range} {{"));
                let mut inner = scope.clone();
                inner.push((name, of, false));
                self.block(&inner, true, result);
                self.line("}");
            }
            _ => {
                let (name, most) = (self.name('c'), 1 + self.random.next_below(5));
                let cond = self.expression(scope, "bool", 1);
                self.line(&format!("var {name} = 0"));
                self.line(&format!("while {name} < {most} && {cond} {{"));
                self.line(&format!("    {name} += 1"));
                let mut inner = scope.clone();
                inner.push((name, "i32".into(), false));
                self.block(&inner, true, result);
                self.line("}");
            }
        }
    }

    fn function(&mut self) {
        let (name, result) = (self.name('f'), self.ty());
        let mut params = Vec::new();
        for _ in 0..self.random.next_below(4) {
            let ty = self.ty();
            params.push(if self.one_in(4) { format!("[{ty}]") } else { ty });
        }
        let mut scope: Vec<Variable> =
            params.iter().enumerate().map(|(i, ty)| (format!("p{i}"), ty.clone(), false)).collect();
        let _ = writeln!(self.text, "fn {name}({}) -> {result} {{", declared(&params));
        for _ in 0..2 + self.random.next_below(5) {
            self.statement(&mut scope, false, &result);
        }
        let value = self.expression(&scope, &result, 3);
        self.line(&value);
        self.text.push_str("}\n");
        self.functions.push((name, params, result));
    }

    /// Returns the definitions, a session entry that calls the last function on the host, and an entry that calls it in
    /// a kernel.
    fn build(mut self) -> [String; 3] {
        for _ in 0..1 + self.random.next_below(3) {
            self.function();
        }
        let (name, params, result) = self.functions.last().cloned().expect("a function");
        let names: Vec<String> = (0..params.len()).map(|i| format!("p{i}")).collect();
        let _ = writeln!(
            self.text,
            "kernel run({}{}out r: [{result}; 1]) threads(i: 1) {{ r[i] = {name}({}) }}",
            declared(&params),
            if params.is_empty() { "" } else { ", " },
            names.join(", ")
        );
        let mut args = Vec::new();
        for param in &params {
            args.push(match param.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                Some(element) => {
                    let items: Vec<String> = (0..4).map(|_| self.literal(element)).collect();
                    let array = self.name('g');
                    let _ = writeln!(self.text, "let {array} = [{}]", items.join(", "));
                    array
                }
                None => self.literal(param),
            });
        }
        let args = args.join(", ");
        [self.text, format!("{name}({args})"), format!("run({args})[0]")]
    }
}

fn declared(params: &[String]) -> String {
    let shown = params.iter().enumerate().map(|(i, ty)| match ty.strip_suffix(']') {
        Some(array) => format!("p{i}: {array}; 4]"),
        None => format!("p{i}: {ty}"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The outcome of a session entry: its value, or the code of its error.
type EntryResult = Result<HostValue, &'static str>;

/// Runs a session entry after its definitions; returns `None` if the checker rejects the program.
fn run(definitions: &str, entry: &str, arithmetic: bool) -> Option<EntryResult> {
    let mut session = Session::default();
    let outcome = session.add("random.clk", &format!("{definitions}{entry}\n"), &NoFiles);
    if outcome.failed() {
        return None;
    }
    let control = Control { workers: 1, checks: Checks { arithmetic, ..Checks::default() }, ..Control::default() };
    let device = Arc::new(Simulator::default());
    let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
    let mut last = None;
    for chunk in outcome.chunks {
        match interpreter.run_chunk(&session, chunk, &mut CapturedOutput::default()) {
            Ok(value) => last = value,
            Err(error) => return Some(Err(error.code)),
        }
    }
    last.map(Ok)
}

/// Returns whether a code is that of an arithmetic error. The host and kernels must report the same one.
fn is_of_arithmetic(code: &str) -> bool {
    matches!(code, "E0612" | "E0613" | "E0614")
}

#[test]
fn random_functions_compute_the_same_on_the_host_and_in_a_kernel() {
    let seconds = optional_setting("CLK_FUZZ_SECONDS");
    let end = seconds.map(|s| Instant::now() + Duration::from_secs(s));
    let first: u64 = setting("CLK_FUZZ_SEED", 0);
    let (mut values, mut faults, mut early, mut unused, mut count) = (0, 0, 0, 0, 0u64);
    while end.map_or(count < 300, |end| Instant::now() < end) {
        count += 1;
        let seed = first * 1_000_000 + count;
        let [definitions, host, device] = Program::new(seed).build();
        let arithmetic = seed.is_multiple_of(3);
        let show = || format!("seed {seed}, arithmetic checks {arithmetic}\n{definitions}{host}\n");
        let Some(on_host) = run(&definitions, &host, arithmetic) else { continue };
        let on_device = run(&definitions, &device, arithmetic).unwrap_or_else(|| panic!("refused\n{}", show()));
        match (&on_host, &on_device) {
            (Ok(a), Ok(b)) => {
                assert_eq!(a, b, "{}", show());
                values += 1;
            }
            // The kernel compiler reports some faults before the run, even in code that may be unreachable. It also
            // removes unused operations together with their faults.
            (_, Err(code)) if code.starts_with("E04") => early += 1,
            (Err(_), Ok(_)) => unused += 1,
            (Err(a), Err(b)) => {
                assert!(a == b || !is_of_arithmetic(a) && !is_of_arithmetic(b), "{a}, {b}: {}", show());
                assert_ne!(*a, "E0999", "{}", show());
                faults += 1;
            }
            (a, b) => panic!("{a:?} on the host, {b:?} in a kernel: {}", show()),
        }
    }
    let summary =
        format!("{values} values, {faults} faults, {early} early, {unused} in unused code, of {count} programs");
    assert!(values * 3 > count && faults * 60 > count && unused * 20 < count, "{summary}");
}
