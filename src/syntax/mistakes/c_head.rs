//! Translates the heads of C and CUDA functions: `__global__ void f(const float *x, int n)` is
//! `kernel f(x: [f32; N], n: i32) …`.

use super::context::{MistakeContext, c_type, joined_type};
use crate::token::Tok;

/// The parameters of a head, translated to Clk.
pub(super) struct CParameters {
    /// The parameters without the parentheses.
    pub text: String,
    /// Whether a parameter is an array.
    pub has_array: bool,
    /// Index of the closing parenthesis.
    pub close: usize,
}

/// Translates the parameters between `open` and its closing parenthesis. Parameters in Clk's syntax stay as they are.
/// Returns `None` if one of them has neither syntax, or is a pointer to a pointer.
pub(super) fn parameters(cx: &MistakeContext<'_>, open: usize, is_kernel: bool) -> Option<CParameters> {
    let mut params = CParameters { text: String::new(), has_array: false, close: open + 1 };
    let mut first = open + 1;
    loop {
        let end = parameter_end(cx, first)?;
        if first < end {
            let param = CParameter::read(cx, first, end);
            let text = match &param {
                Some(param) => param.translate(is_kernel),
                None if (first..end).any(|index| cx.kind(index) == Tok::Colon) => {
                    cx.slice(cx.spans(first, end - 1)).to_owned()
                }
                None => return None,
            };
            params.has_array |= param.is_some_and(|param| param.is_array());
            params.text += if params.text.is_empty() { "" } else { ", " };
            params.text += &text;
        }
        if cx.kind(end) == Tok::RParen {
            params.close = end;
            return Some(params);
        }
        first = end + 1;
    }
}

/// Returns the comma or parenthesis that ends the parameter that begins at `first`.
pub(super) fn parameter_end(cx: &MistakeContext<'_>, first: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = first;
    loop {
        match cx.kind(at) {
            Tok::Comma | Tok::RParen if depth == 0 => return Some(at),
            Tok::LParen | Tok::LBracket => depth += 1,
            Tok::RParen | Tok::RBracket => depth = depth.checked_sub(1)?,
            Tok::Eof | Tok::LBrace | Tok::RBrace => return None,
            _ => {}
        }
        at += 1;
    }
}

/// A parameter in C's syntax: `const float *x`, `int n`, `float m[4][4]`.
pub(super) struct CParameter<'t> {
    ty: &'static str,
    name: &'t str,
    is_pointer: bool,
    is_const: bool,
    extents: Vec<&'t str>,
}

impl<'t> CParameter<'t> {
    /// Reads the tokens `first..end`.
    pub fn read(cx: &MistakeContext<'t>, first: usize, end: usize) -> Option<CParameter<'t>> {
        let mut param = CParameter { ty: "", name: "", is_pointer: false, is_const: false, extents: vec![] };
        let mut at = first;
        while at < end && param.name.is_empty() {
            match (cx.kind(at), cx.word(at)) {
                (Tok::Const, _) => param.is_const |= !param.is_pointer,
                (Tok::Name, "volatile" | "restrict" | "__restrict__" | "__restrict" | "__grid_constant__") => {}
                (Tok::Star, _) if !param.ty.is_empty() && !param.is_pointer => param.is_pointer = true,
                // A reference.
                (Tok::And, _) if !param.ty.is_empty() && !param.is_pointer => {}
                (Tok::Name, word) if param.ty.is_empty() => param.ty = c_type(word).filter(|ty| !ty.is_empty())?,
                (Tok::Name, word) if !param.is_pointer && at + 1 < end && c_type(word).is_some() => {
                    param.ty = joined_type(param.ty, c_type(word)?);
                }
                (Tok::Name, word) => param.name = word,
                _ => return None,
            }
            at += 1;
        }
        while at < end {
            let close = (at..end).find(|&index| cx.kind(index) == Tok::RBracket);
            let close = close.filter(|_| cx.kind(at) == Tok::LBracket)?;
            param.extents.push(if close > at + 1 { cx.slice(cx.spans(at + 1, close - 1)) } else { "N" });
            at = close + 1;
        }
        (!param.name.is_empty()).then_some(param)
    }

    pub fn is_array(&self) -> bool {
        self.is_pointer || !self.extents.is_empty()
    }

    /// Returns the parameter in Clk's syntax. A kernel may write to arrays that are not `const`.
    pub fn translate(&self, is_kernel: bool) -> String {
        let access = if is_kernel && self.is_array() && !self.is_const { "inout " } else { "" };
        match (self.is_pointer, self.extents.is_empty()) {
            (true, true) => format!("{access}{}: [{}; N]", self.name, self.ty),
            (false, true) => format!("{}: {}", self.name, self.ty),
            (_, false) => format!("{access}{}: [{}; {}]", self.name, self.ty, self.extents.join(", ")),
        }
    }
}
