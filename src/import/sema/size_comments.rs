//! Sizes that comments of a CUDA file state. `// clk: x[n + 2], assume n > 0` in a kernel or before it says that `x`
//! has at least `n + 2` elements, and that `n` is positive in every launch.

use super::program::Program;
use super::size_names::{KernelSizes, in_clk, shared_length};
use crate::ast::{CppComment, CppFunction, FunctionBody, TranslationUnit};
use smol_str::SmolStr;

const PREFIX: &str = "clk:";

/// What a comment states.
#[derive(Debug)]
pub(super) enum StatedSize {
    /// The position of an array parameter, or of the length of a dynamic shared array, and the least number of
    /// elements.
    Length(usize, SizeExpr),
    Condition(SizeExpr),
}

/// An expression of integers, as tokens.
#[derive(Debug)]
pub(super) struct SizeExpr {
    /// The expression as the comment has it.
    pub(super) text: SmolStr,
    tokens: Vec<SizeToken>,
}

#[derive(Debug)]
enum SizeToken {
    /// A parameter of the kernel, in the Clk text.
    Name(SmolStr),
    /// A number or an operator.
    Verbatim(SmolStr),
}

/// Returns the comments that state sizes of a kernel: those in its body, and those between it and the function before.
pub(super) fn comments_of<'u>(unit: &'u TranslationUnit, program: &Program<'_>, id: usize) -> Vec<&'u CppComment> {
    let functions: Vec<&CppFunction> = program.functions.iter().map(|entry| entry.function).collect();
    let own = functions[id];
    let is_about = |comment: &&CppComment| {
        let place = comment.span;
        let contains = |function: &&&CppFunction| match &function.body {
            FunctionBody::Block(body) => {
                let body = body.span.span;
                body.file == place.file && body.start <= place.start && place.end <= body.end
            }
            _ => false,
        };
        let starts = |function: &&&CppFunction| {
            let name = function.name_span.span;
            name.file == place.file && name.start >= place.end
        };
        let next = || functions.iter().filter(starts).min_by_key(|function| function.name_span.span.start);
        functions.iter().find(contains).or_else(next).is_some_and(|function| std::ptr::eq(*function, own))
    };
    unit.comments.iter().filter(|comment| is_size_comment(comment)).filter(is_about).collect()
}

/// The extents of the launch that comments state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StatedExtents {
    /// The highest axis that they mention.
    pub(super) axis: u8,
    /// The extents of the block that are numbers.
    pub(super) block: [Option<i128>; 3],
}

impl StatedExtents {
    pub(super) fn of(comments: &[&CppComment]) -> StatedExtents {
        let mut block = [None; 3];
        for comment in comments {
            let text = comment.text.trim().strip_prefix(PREFIX).unwrap_or_default();
            for item in split_items(text) {
                let condition = item.strip_prefix("assume ").unwrap_or(item).split_once("==");
                let Some((name, number)) = condition.map(|(name, number)| (name.trim(), number.trim())) else {
                    continue;
                };
                let axis = ["blockDim.x", "blockDim.y", "blockDim.z"].iter().position(|known| *known == name);
                if let (Some(axis), Ok(number)) = (axis, number.parse()) {
                    block[axis] = Some(number);
                }
            }
        }
        StatedExtents { axis: highest_axis(comments), block }
    }
}

fn highest_axis(comments: &[&CppComment]) -> u8 {
    let mentions = |axis: &str| {
        let extents = [format!("blockDim.{axis}"), format!("gridDim.{axis}")];
        comments.iter().any(|comment| extents.iter().any(|extent| comment.text.contains(extent)))
    };
    match (mentions("z"), mentions("y")) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    }
}

pub(super) fn is_size_comment(comment: &CppComment) -> bool {
    comment.text.trim_start().starts_with(PREFIX)
}

/// Parses a comment about a kernel. `names` contains the names in C++ of its parameters. The error is the title of
/// a diagnostic.
pub(super) fn parse(comment: &CppComment, own: KernelSizes<'_>, names: &[SmolStr]) -> Result<Vec<StatedSize>, String> {
    let text = comment.text.trim().strip_prefix(PREFIX).unwrap_or_default();
    let mut sizes = vec![];
    let mut is_assumed = false;
    for item in split_items(text) {
        if let Some(condition) = item.strip_prefix("assume ") {
            is_assumed = true;
            sizes.push(StatedSize::Condition(expression(condition, own, names)?));
            continue;
        }
        let length = item.strip_suffix(']').and_then(|item| item.split_once('['));
        match length.filter(|(name, _)| is_name(name.trim())) {
            Some((name, length)) => {
                if let Some(at) = shared_length(own.kernel, name.trim()) {
                    sizes.push(StatedSize::Length(at, expression(length, own, names)?));
                    continue;
                }
                let Some(at) = names.iter().position(|known| known == name.trim()) else {
                    return Err(format!("`{}` is not a parameter", name.trim()));
                };
                if !own.kernel.params.get(at).is_some_and(|param| param.ty.starts_with('[')) {
                    return Err(format!("`{}` is not a pointer", name.trim()));
                }
                sizes.push(StatedSize::Length(at, expression(length, own, names)?));
            }
            None if is_assumed => sizes.push(StatedSize::Condition(expression(item, own, names)?)),
            None => return Err(format!("`{item}` is neither a length, `x[n]`, nor a condition, `assume n > 0`")),
        }
    }
    Ok(sizes)
}

/// Splits a text at its commas outside of brackets.
fn split_items(text: &str) -> Vec<&str> {
    let (mut items, mut depth, mut start) = (vec![], 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                items.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(text[start..].trim());
    items.retain(|item| !item.is_empty());
    items
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

const OPERATORS: [&str; 15] = ["<=", ">=", "==", "!=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "(", ")"];

/// Parses an expression of parameters, numbers and operators.
fn expression(text: &str, own: KernelSizes<'_>, names: &[SmolStr]) -> Result<SizeExpr, String> {
    let mut tokens = vec![];
    let mut rest = text.trim();
    let (mut depth, mut is_operand_next) = (0, true);
    while !rest.is_empty() {
        let word = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len());
        let token = if word > 0 {
            &rest[..word]
        } else {
            let operator = OPERATORS.iter().find(|operator| rest.starts_with(**operator));
            *operator.ok_or_else(|| format!("`{text}` is not an expression of parameters and integers"))?
        };
        rest = rest[token.len()..].trim_start();
        let fits = match token {
            "(" => is_operand_next,
            "-" => true,
            _ if word > 0 => is_operand_next,
            _ => !is_operand_next,
        };
        depth += i32::from(token == "(") - i32::from(token == ")");
        if !fits || depth < 0 {
            return Err(format!("`{text}` is not an expression of parameters and integers"));
        }
        is_operand_next = word == 0 && token != ")";
        tokens.push(if is_name(token) {
            SizeToken::Name(parameter(token, own, names)?)
        } else if word == 0 || token.chars().all(|c| c.is_ascii_digit()) {
            SizeToken::Verbatim(token.into())
        } else {
            return Err(format!("`{token}` is not a decimal integer"));
        });
    }
    if is_operand_next || depth != 0 {
        return Err(format!("`{text}` is not an expression of parameters and integers"));
    }
    Ok(SizeExpr { text: text.trim().into(), tokens })
}

/// Returns the name in the Clk text of a scalar parameter or an extent of the launch.
fn parameter(name: &str, own: KernelSizes<'_>, names: &[SmolStr]) -> Result<SmolStr, String> {
    // `v.n` is the field of a parameter.
    let (first, fields) = name.split_once('.').map_or((name, ""), |(first, _)| (first, &name[first.len()..]));
    let clk = match names.iter().position(|known| known == first) {
        Some(at) => own.kernel.params.get(at).map(|param| SmolStr::from(format!("{}{fields}", param.name))),
        None => Some(in_clk(name).into()),
    };
    let known = clk.and_then(|clk| Some((own.type_of(&clk)?, clk)));
    let (ty, clk) = known.ok_or_else(|| format!("`{name}` is not a parameter"))?;
    match ty {
        "i32" | "u32" | "i64" | "u64" => Ok(clk),
        _ => Err(format!("`{name}` is not an integer of at least 32 bits")),
    }
}

impl SizeExpr {
    /// Returns the parameters in the expression.
    pub(super) fn names(&self) -> impl Iterator<Item = &SmolStr> {
        self.tokens.iter().filter_map(|token| match token {
            SizeToken::Name(name) => Some(name),
            SizeToken::Verbatim(_) => None,
        })
    }

    /// Returns the Clk text. `convert` writes the conversion of a parameter.
    pub(super) fn clk_text(&self, convert: &dyn Fn(&str) -> String) -> String {
        let mut text = String::new();
        for token in &self.tokens {
            if !text.is_empty() && !text.ends_with('(') && !matches!(token, SizeToken::Verbatim(token) if token == ")")
            {
                text.push(' ');
            }
            match token {
                SizeToken::Name(name) => text += &convert(name),
                SizeToken::Verbatim(token) => text += token,
            }
        }
        text
    }
}
