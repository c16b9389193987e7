//! Returns the keywords and names of Clk from the compiler's tables, grouped as editors highlight them.

use clk_scalar::Scalar;
use clk_scalar::builtin::TABLE;
use clk_syntax::token::KEYWORDS;

const CONTROL: &[&str] = &["if", "else", "for", "in", "while", "loop", "break", "continue", "return", "import"];
const CONSTANTS: &[&str] = &["true", "false"];

/// Returns control flow keywords.
pub fn control() -> Vec<String> {
    pick(|word| CONTROL.contains(&word))
}

/// Returns the keywords of declarations and of parameter passing.
pub fn declarations() -> Vec<String> {
    pick(|word| !CONTROL.contains(&word) && !CONSTANTS.contains(&word))
}

pub fn constants() -> Vec<String> {
    pick(|word| CONSTANTS.contains(&word))
}

fn pick(predicate: impl Fn(&str) -> bool) -> Vec<String> {
    KEYWORDS.iter().map(|(word, _)| *word).filter(|word| predicate(word)).map(str::to_string).collect()
}

/// Returns the names of scalar and vector types, and `str`.
pub fn types() -> Vec<String> {
    let mut types: Vec<String> = Scalar::ALL.iter().map(|s| s.name().to_string()).collect();
    for scalar in Scalar::ALL.into_iter().filter(|s| s.is_num()) {
        types.extend((2..=4).map(|lanes| format!("{}x{lanes}", scalar.name())));
    }
    types.push("str".to_string());
    types
}

pub fn functions() -> Vec<String> {
    builtins(|signature| !signature.starts_with(':'))
}

pub fn variables() -> Vec<String> {
    builtins(|signature| signature.starts_with(':'))
}

fn builtins(predicate: impl Fn(&str) -> bool) -> Vec<String> {
    TABLE.iter().filter(|entry| predicate(entry.signature)).map(|entry| entry.name.to_string()).collect()
}

/// Arranges the words in lines of at most `width` characters, including `indent`.
pub fn lines(words: &[String], indent: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in words {
        let last = lines.last_mut().expect("a line");
        if !last.is_empty() && indent.len() + last.len() + 1 + word.len() > width {
            lines.push(word.clone());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.iter().map(|line| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
}

/// Puts the words in double quotes.
pub fn quoted(words: &[String]) -> Vec<String> {
    words.iter().map(|word| format!("\"{word}\"")).collect()
}
