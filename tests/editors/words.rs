//! The words of Clk by the way editors show them, from the compiler's tables.

use clk_lang::lang::builtin::TABLE;
use clk_lang::lang::scalar::Scalar;
use clk_lang::syntax::token::KEYWORDS;

const CONTROL: &[&str] = &["if", "else", "for", "in", "while", "loop", "break", "continue", "return", "import"];
const CONSTANTS: &[&str] = &["true", "false"];

/// Keywords that steer.
pub fn control() -> Vec<String> {
    pick(|word| CONTROL.contains(&word))
}

/// Keywords that declare something or say how it is passed.
pub fn declarations() -> Vec<String> {
    pick(|word| !CONTROL.contains(&word) && !CONSTANTS.contains(&word))
}

pub fn constants() -> Vec<String> {
    pick(|word| CONSTANTS.contains(&word))
}

fn pick(which: impl Fn(&str) -> bool) -> Vec<String> {
    KEYWORDS.iter().map(|(word, _)| *word).filter(|word| which(word)).map(str::to_string).collect()
}

/// Scalars, vectors, `str`.
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

fn builtins(which: impl Fn(&str) -> bool) -> Vec<String> {
    TABLE.iter().filter(|entry| which(entry.signature)).map(|entry| entry.name.to_string()).collect()
}

/// The words in lines of at most `width` characters behind `indent`.
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

/// The words in double quotes.
pub fn quoted(words: &[String]) -> Vec<String> {
    words.iter().map(|word| format!("\"{word}\"")).collect()
}
