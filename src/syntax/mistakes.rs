use crate::base::diag::Diagnostic;
use crate::base::source::FileId;
use crate::syntax::lex::Lexed;
use crate::syntax::parse::Mistake;
pub fn explain(file: FileId, _text: &str, lexed: &Lexed, mistake: Mistake) -> Diagnostic {
    match mistake {
        Mistake::Said(d) => *d,
        Mistake::Miss { miss, .. } => Diagnostic::error("E0101", "x").at(lexed.tokens[miss.at].span(file), ""),
    }
}
