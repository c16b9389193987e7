//! A script that launches each kernel of a translation once. Its arguments satisfy the conditions that the kernel
//! assumes: the sizes are chosen first, and then the lengths that they require.

use super::size_names::{KernelSizes, is_extent};
use super::tree::{ClkFile, ClkFunction, Param, Stmt, StmtKind};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The sizes that are tried for integer parameters, in this order.
const SIZES: [i128; 4] = [64, 16, 4, 1];

/// The length of an array about which nothing is assumed.
const UNKNOWN_LENGTH: i128 = 1 << 20;

/// The length of a dynamic shared array about which nothing is assumed.
const SHARED_LENGTH: i128 = 1024;

/// The maximum length of an array.
const MAX_LENGTH: i128 = 1 << 24;

/// The number of elements of a result that the script prints.
const SHOWN: i128 = 8;

/// Passes over the conditions until all hold.
const MAX_PASSES: usize = 20;

/// The extent of a block along each of its axes, for one, two and three axes.
const BLOCKS: [i128; 3] = [32, 8, 4];

/// Returns the script for all kernels of a file.
pub(super) fn launch_script(file: &ClkFile) -> String {
    let mut text = String::from(
        "\n// A script to start from. It launches each kernel once, with arrays of the assumed lengths.\n",
    );
    for kernel in file.functions.iter().filter(|function| function.geometry.is_some()) {
        text.push('\n');
        let sizes = KernelSizes { kernel, structs: &file.structs };
        match SIZES.iter().find_map(|size| arguments(sizes, *size)) {
            Some(values) => launch(file, kernel, &values, &mut text),
            None => {
                let _ = writeln!(text, "// No arguments were found for `{}` that satisfy its `assume`.", kernel.name);
            }
        }
    }
    text
}

/// Values of integer parameters, of integer fields such as `v.n`, and of lengths of arrays.
type SizeValues = BTreeMap<SmolStr, i128>;

/// Returns values that satisfy all conditions of a kernel, if there are some with this size.
fn arguments(sizes: KernelSizes<'_>, size: i128) -> Option<SizeValues> {
    let kernel = sizes.kernel;
    let geometry = kernel.geometry.as_ref()?;
    let conditions: Vec<Condition> =
        geometry.assume.iter().map(|text| Condition::parse(text)).collect::<Option<_>>()?;
    let mentioned = |name: &str| conditions.iter().any(|condition| condition.mentions(name));
    let is_shared_length = |name: &str| {
        let extent = |stmt: &Stmt| matches!(&stmt.kind, StmtKind::Shared { ty, .. } if extent_of(ty) == Some(name));
        kernel.body.iter().any(extent)
    };
    let initial = |name: &str| match (mentioned(name), is_shared_length(name)) {
        (true, _) => size,
        (false, true) => SHARED_LENGTH,
        (false, false) => 1,
    };
    let mut values = SizeValues::new();
    for param in &kernel.params {
        add_sizes(sizes, &param.name, &param.ty, &initial, &mut values);
    }
    let block = BLOCKS[geometry.block.len().clamp(1, 3) - 1].min(size);
    for (grid, own) in geometry.grid.iter().zip(&geometry.block) {
        values.insert(own.as_str().into(), block);
        values.insert(grid.as_str().into(), (size + block - 1) / block);
    }
    for _ in 0..MAX_PASSES {
        let mut holds = true;
        for condition in &conditions {
            holds &= condition.satisfy(&mut values)?;
        }
        if holds {
            break;
        }
    }
    let holds = conditions.iter().all(|condition| condition.holds(&values) == Some(true));
    let lengths = kernel.params.iter().flat_map(|param| extent_of(&param.ty));
    for length in lengths {
        values.entry(length.into()).or_insert(UNKNOWN_LENGTH);
    }
    let fits = values.values().all(|value| (0..=MAX_LENGTH).contains(value));
    (holds && fits).then_some(values)
}

/// Returns the length of an array type that is a name.
fn extent_of(ty: &str) -> Option<&str> {
    let (_, extent) = array_of(ty)?;
    extent.starts_with(|c: char| c.is_alphabetic() || c == '_').then_some(extent)
}

/// Returns the type of the elements and the length of an array type.
fn array_of(ty: &str) -> Option<(&str, &str)> {
    ty.strip_prefix('[')?.strip_suffix(']')?.rsplit_once("; ")
}

fn is_integer(ty: &str) -> bool {
    matches!(ty, "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64")
}

/// Adds the values of an integer parameter, or of the integers in a struct.
fn add_sizes(sizes: KernelSizes<'_>, name: &str, ty: &str, value: &dyn Fn(&str) -> i128, values: &mut SizeValues) {
    if is_integer(ty) && !is_extent(name) {
        values.insert(name.into(), value(name));
    }
    for (field, ty) in sizes.fields_of(ty).unwrap_or_default() {
        add_sizes(sizes, &format!("{name}.{field}"), ty, value, values);
    }
}

// ---- conditions ----

/// A condition of an `assume` clause: a disjunction of comparisons.
struct Condition {
    alternatives: Vec<Comparison>,
}

struct Comparison {
    op: &'static str,
    left: SizeTerm,
    right: SizeTerm,
}

/// An expression of an `assume` clause. Its arithmetic is exact.
enum SizeTerm {
    Number(i128),
    Name(SmolStr),
    Binary(char, Box<SizeTerm>, Box<SizeTerm>),
    CeilDiv(Box<SizeTerm>, Box<SizeTerm>),
}

impl Condition {
    fn parse(text: &str) -> Option<Condition> {
        let mut alternatives = vec![];
        for part in text.split("||") {
            let ops = ["<=", ">=", "==", "!=", "<", ">"];
            let (at, op) =
                ops.iter().filter_map(|op| Some((part.find(op)?, *op))).min_by_key(|(at, op)| (*at, 2 - op.len()))?;
            let (left, right) = (TermParser::parse(&part[..at])?, TermParser::parse(&part[at + op.len()..])?);
            alternatives.push(Comparison { op, left, right });
        }
        Some(Condition { alternatives })
    }

    fn mentions(&self, name: &str) -> bool {
        self.alternatives.iter().any(|one| one.left.mentions(name) || one.right.mentions(name))
    }

    fn holds(&self, values: &SizeValues) -> Option<bool> {
        let mut holds = false;
        for one in &self.alternatives {
            holds |= one.holds(values)?;
        }
        Some(holds)
    }

    /// Changes a value such that the condition holds. Returns whether it held before; `None` if no value can be
    /// changed.
    fn satisfy(&self, values: &mut SizeValues) -> Option<bool> {
        if self.holds(values) == Some(true) {
            return Some(true);
        }
        let Comparison { op, left, right } = self.alternatives.last()?;
        let (name, value) = match (left, right) {
            (SizeTerm::Name(name), _) if right.value(values).is_some() => {
                let bound = right.value(values)?;
                let value = match *op {
                    "<" => bound - 1,
                    ">" | "!=" => bound + 1,
                    _ => bound,
                };
                (name, value)
            }
            (_, SizeTerm::Name(name)) => {
                let bound = left.value(values)?;
                let value = match *op {
                    ">" => bound - 1,
                    "<" | "!=" => bound + 1,
                    _ => bound,
                };
                (name, value)
            }
            _ => return None,
        };
        values.insert(name.clone(), value);
        Some(false)
    }
}

impl Comparison {
    fn holds(&self, values: &SizeValues) -> Option<bool> {
        let (a, b) = (self.left.value(values)?, self.right.value(values)?);
        Some(match self.op {
            "<=" => a <= b,
            ">=" => a >= b,
            "==" => a == b,
            "!=" => a != b,
            "<" => a < b,
            _ => a > b,
        })
    }
}

impl SizeTerm {
    fn mentions(&self, name: &str) -> bool {
        match self {
            SizeTerm::Number(_) => false,
            SizeTerm::Name(own) => own == name,
            SizeTerm::Binary(_, a, b) | SizeTerm::CeilDiv(a, b) => a.mentions(name) || b.mentions(name),
        }
    }

    fn value(&self, values: &SizeValues) -> Option<i128> {
        match self {
            SizeTerm::Number(number) => Some(*number),
            SizeTerm::Name(name) => values.get(name).copied(),
            SizeTerm::CeilDiv(a, b) => {
                let (a, b) = (a.value(values)?, b.value(values)?);
                (b > 0).then(|| a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0))
            }
            SizeTerm::Binary(op, a, b) => {
                let (a, b) = (a.value(values)?, b.value(values)?);
                match op {
                    '+' => a.checked_add(b),
                    '-' => a.checked_sub(b),
                    '*' => a.checked_mul(b),
                    '/' => a.checked_div(b),
                    _ => a.checked_rem(b),
                }
            }
        }
    }
}

/// Parses terms: names, numbers, `+ - * / %`, parentheses, conversions and `ceil_div`.
struct TermParser<'a> {
    rest: &'a str,
}

impl TermParser<'_> {
    fn parse(text: &str) -> Option<SizeTerm> {
        let mut parser = TermParser { rest: text.trim() };
        let term = parser.sum()?;
        parser.rest.is_empty().then_some(term)
    }

    fn accept(&mut self, op: char) -> bool {
        let Some(rest) = self.rest.strip_prefix(op) else { return false };
        self.rest = rest.trim_start();
        true
    }

    fn operator(&mut self, ops: &[char]) -> Option<char> {
        ops.iter().copied().find(|op| self.accept(*op))
    }

    fn sum(&mut self) -> Option<SizeTerm> {
        let mut term = self.product()?;
        while let Some(op) = self.operator(&['+', '-']) {
            term = SizeTerm::Binary(op, Box::new(term), Box::new(self.product()?));
        }
        Some(term)
    }

    fn product(&mut self) -> Option<SizeTerm> {
        let mut term = self.operand()?;
        while let Some(op) = self.operator(&['*', '/', '%']) {
            term = SizeTerm::Binary(op, Box::new(term), Box::new(self.operand()?));
        }
        Some(term)
    }

    fn operand(&mut self) -> Option<SizeTerm> {
        if self.accept('-') {
            return Some(SizeTerm::Binary('-', Box::new(SizeTerm::Number(0)), Box::new(self.operand()?)));
        }
        if self.accept('(') {
            let term = self.sum()?;
            return self.accept(')').then_some(term);
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let length = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest.trim_start();
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let digits = word.split(['i', 'u']).next()?;
            return digits.parse().ok().map(SizeTerm::Number);
        }
        if word.is_empty() || !self.accept('(') {
            return (!word.is_empty()).then(|| SizeTerm::Name(word.into()));
        }
        let first = self.sum()?;
        let term = match word {
            "ceil_div" => {
                let second = if self.accept(',') { self.sum()? } else { return None };
                SizeTerm::CeilDiv(Box::new(first), Box::new(second))
            }
            conversion if is_integer(conversion) => first,
            _ => return None,
        };
        self.accept(')').then_some(term)
    }
}

// ---- the launch ----

/// Writes the arguments of a kernel and its launch.
fn launch(file: &ClkFile, kernel: &ClkFunction, values: &SizeValues, text: &mut String) {
    let sizes = KernelSizes { kernel, structs: &file.structs };
    let taken = |name: &str| {
        file.functions.iter().any(|item| item.name == name)
            || file.constants.iter().any(|item| item.name == name)
            || file.structs.iter().any(|item| item.name == name)
    };
    let variable = |param: &Param| {
        let mut name = format!("{}_{}", kernel.name, param.name.trim_start_matches('_'));
        while taken(&name) {
            name.push('_');
        }
        name
    };
    let mut arguments = vec![];
    let mut written = vec![];
    let mut is_named = false;
    for param in &kernel.params {
        let Some((element, extent)) = array_of(&param.ty) else {
            let value = value_of(sizes, &param.name, &param.ty, values);
            // The length of dynamic shared memory follows the extents.
            is_named |= is_extent(&param.name);
            arguments.push(if is_named { format!("{} = {value}", param.name) } else { value });
            continue;
        };
        let length = values.get(extent).copied().or(extent.parse().ok()).unwrap_or(1).max(1);
        let name = variable(param);
        let word = if param.inout { "var" } else { "let" };
        let value = match element {
            "f32" => format!("random({length})"),
            "f64" => format!("random({length}, type = f64)"),
            _ if is_integer(element) => format!("zeros({length}, type = {element})"),
            _ => format!("full({length}, {})", value_of(sizes, "", element, values)),
        };
        let _ = writeln!(text, "{word} {name} = {value}");
        if param.inout {
            let first = if length > SHOWN { format!("{name}[0..{SHOWN}]") } else { name.clone() };
            written.push((param.name.clone(), first));
        }
        arguments.push(name);
    }
    let _ = writeln!(text, "{}({})", kernel.name, arguments.join(", "));
    for (param, name) in written {
        let _ = writeln!(text, "print(\"{param} of {}:\", {name})", kernel.name);
    }
}

/// Returns a value of a type. `name` is the parameter or the field.
fn value_of(sizes: KernelSizes<'_>, name: &str, ty: &str, values: &SizeValues) -> String {
    if let Some((element, count)) = array_of(ty) {
        let count: usize = count.parse().unwrap_or(1);
        return format!("[{}]", vec![value_of(sizes, "", element, values); count].join(", "));
    }
    if let Some(fields) = sizes.fields_of(ty) {
        let fields: Vec<String> = fields
            .iter()
            .map(|(field, ty)| format!("{field}: {}", value_of(sizes, &format!("{name}.{field}"), ty, values)))
            .collect();
        return format!("{ty} {{ {} }}", fields.join(", "));
    }
    let number = values.get(name).copied().unwrap_or(0);
    match ty {
        "bool" => "false".into(),
        "f32" => "0.5".into(),
        "i32" => number.to_string(),
        _ if is_integer(ty) => format!("{ty}({number})"),
        "f64" | "f16" | "bf16" => format!("{ty}(0.5)"),
        _ => match ty.split_once('x') {
            Some(("f32" | "f64" | "f16" | "bf16", _)) => format!("{ty}(0.5)"),
            _ => format!("{ty}(0)"),
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::sema::tests::translated;

    fn script(text: &str) -> String {
        let script = translated(text).script;
        let lines: Vec<&str> = script.lines().filter(|line| !line.is_empty() && !line.starts_with("//")).collect();
        lines.join("\n")
    }

    #[test]
    fn arguments_satisfy_the_assumptions() {
        let text = "__global__ void k(const float *x, int *y, double a, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = x[2 * i] * a;
        }";
        let expected = "let k_x = random(127)
var k_y = zeros(64, type = i32)
k(k_x, k_y, f64(0.5), 64, grid_x = 2, block_x = 32)
print(\"y of k:\", k_y[0..8])";
        assert_eq!(script(text), expected);
    }

    #[test]
    fn equations_and_conditions_determine_arguments() {
        let text = "struct V { int n; float *p; bool all; };
        // clk: x[rows * cols], assume rows == 3, cols > 300, blockDim.x == 128, gridDim.x == 2
        __global__ void k(float *x, V v, int rows, int cols, long step) {
            x[threadIdx.x] = v.all ? step : v.p[0];
        }";
        let expected = "var k_x = random(903)
let k_v_p = random(1048576)
k(k_x, k_v_p, V { n: 1, all: false }, 3, 301, i64(1), grid_x = 2, block_x = 128)
print(\"x of k:\", k_x[0..8])";
        assert_eq!(script(text), expected);
    }
}
