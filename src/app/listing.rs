//! Syntax highlighting of generated code in terminals: DeviceIR, CUDA C++, PTX and SASS.

use super::console::paint;
use clk_base::render::RenderStyle;
use clk_scalar::Scalar;

const KEYWORD: &str = "35";
const TYPE: &str = "33";
const NUMBER: &str = "32";
const COMMENT: &str = "2";
const SPECIAL: &str = "36";

/// The language of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Ir,
    Cuda,
    /// PTX and SASS: opcodes with dots, registers, directives.
    Assembly,
}

/// Returns the text with syntax colors. If the style has no colors, returns it unchanged.
pub(crate) fn render(text: &str, language: Language, style: RenderStyle) -> String {
    if !style.color {
        return text.to_string();
    }
    let mut out = String::with_capacity(text.len() * 2);
    for line in text.split_inclusive('\n') {
        line_of(line, language, style, &mut out);
    }
    out
}

fn line_of(line: &str, language: Language, style: RenderStyle, out: &mut String) {
    let mut rest = line;
    // In assembly the first word of a line is the opcode.
    let mut first = true;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '/' if rest.starts_with("//") => rest.trim_end_matches('\n').len(),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.trim_end_matches('\n').len(), |end| end + 2),
            '"' => quoted(rest),
            c if is_word(c, language) => {
                let number = c.is_ascii_digit();
                rest.find(|c| !(is_word(c, language) || number && c == '.')).unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        let (word, behind) = rest.split_at(len);
        let color = match c {
            '/' if len > 1 => Some(COMMENT),
            '"' => Some(NUMBER),
            c if is_word(c, language) => color_of(word, behind, language, std::mem::take(&mut first)),
            _ => None,
        };
        match color {
            Some(color) => out.push_str(&paint(style, color, word)),
            None => out.push_str(word),
        }
        rest = behind;
    }
}

/// Returns the length in bytes of the string literal at the start of the text.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|&(_, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.map_or(text.trim_end_matches('\n').len(), |(at, _)| at + 1)
}

fn is_word(c: char, language: Language) -> bool {
    let mark = match language {
        Language::Ir => "_@%",
        Language::Cuda => "_#",
        Language::Assembly => "_.%$@!",
    };
    c.is_alphanumeric() || mark.contains(c)
}

fn color_of(word: &str, behind: &str, language: Language, first: bool) -> Option<&'static str> {
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return Some(NUMBER);
    }
    match language {
        Language::Ir if word.starts_with(['@', '%']) => None,
        Language::Ir if is_scalar(word) => Some(TYPE),
        Language::Ir if IR.contains(&word) => Some(KEYWORD),
        Language::Cuda if CUDA.contains(&word) || word.starts_with('#') => Some(KEYWORD),
        Language::Cuda if CUDA_TYPES.contains(&word) => Some(TYPE),
        Language::Cuda if word.starts_with("__") || CUDA_INDICES.contains(&word) => Some(SPECIAL),
        Language::Cuda if behind.starts_with('(') => Some("34"),
        Language::Assembly if word.starts_with('.') => Some(TYPE),
        Language::Assembly if word.starts_with(['@', '!']) => Some(SPECIAL),
        Language::Assembly if first && !behind.starts_with(':') => Some(KEYWORD),
        _ => None,
    }
}

fn is_scalar(word: &str) -> bool {
    let lane = word.split('x').next().unwrap_or(word);
    Scalar::from_name(lane).is_some()
}

const IR: &[&str] = &[
    "kernel",
    "fn",
    "global",
    "shared",
    "local",
    "load",
    "store",
    "if",
    "else",
    "loop",
    "for",
    "while",
    "break",
    "continue",
    "return",
    "barrier",
    "in",
    "out",
    "inout",
    "threads",
    "grid",
    "cooperative",
    "true",
    "false",
];

const CUDA: &[&str] = &[
    "const",
    "if",
    "else",
    "for",
    "while",
    "do",
    "break",
    "continue",
    "return",
    "struct",
    "typedef",
    "extern",
    "template",
    "typename",
    "static",
    "constexpr",
    "true",
    "false",
    "sizeof",
    "switch",
    "case",
    "default",
    "goto",
    "static_assert",
];

const CUDA_TYPES: &[&str] = &[
    "void", "bool", "char", "short", "int", "long", "unsigned", "float", "double", "u8", "u16", "u32", "u64", "i8",
    "i16", "i64", "f16", "bf16",
];

const CUDA_INDICES: &[&str] = &["threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"];

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: RenderStyle = RenderStyle { color: false, ascii: true, width: 80 };
    const COLORED: RenderStyle = RenderStyle { color: true, ascii: true, width: 80 };

    fn without_colors(text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('\x1b') {
            out.push_str(before);
            rest = behind.split_once('m').map_or("", |(_, rest)| rest);
        }
        out + rest
    }

    #[test]
    fn highlighting_keeps_the_text() {
        let cuda = "extern \"C\" __global__ void f(const float *x) {\n    x[threadIdx.x] = 0.5f; // é\n}\n";
        assert_eq!(render(cuda, Language::Cuda, PLAIN), cuda);
        let colored = render(cuda, Language::Cuda, COLORED);
        assert_eq!(without_colors(&colored), cuda);
        for part in ["\x1b[35mextern\x1b[0m", "\x1b[36m__global__\x1b[0m", "\x1b[34mf\x1b[0m(", "\x1b[32m0.5f\x1b[0m"] {
            assert!(colored.contains(part), "{part:?} is not in {colored:?}");
        }
        assert!(colored.contains("\x1b[2m// é\x1b[0m\n"), "{colored:?}");
    }

    #[test]
    fn assembly_has_opcodes_registers_and_directives() {
        let ptx = ".reg .f32 %f<3>;\nL0:\n\tadd.f32 %f1, %f2, 0f3F800000;\n@%p1 bra L0; /* open\n";
        let colored = render(ptx, Language::Assembly, COLORED);
        assert_eq!(without_colors(&colored), ptx);
        assert!(
            colored.contains("\x1b[35madd.f32\x1b[0m %f1") && colored.contains("\x1b[33m.reg\x1b[0m"),
            "{colored:?}"
        );
        assert!(colored.contains("\nL0:\n"), "a label is no opcode: {colored:?}");
    }
}
