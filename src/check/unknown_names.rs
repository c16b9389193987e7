//! Reports names that are not defined, with the equivalent of a name of another language or the most similar name.

use crate::context::{Cx, ErrorReported};
use crate::foreign_names::{self, ForeignUse};
use crate::report::MAX_ERRORS;
use crate::suggestions;
use crate::typed::{NameBinding, Type};
use clk_base::diag::{Applicability, Diagnostic, MisspelledName};
use clk_base::source::Span;
use clk_syntax::ast;

impl Cx<'_> {
    /// Reports an undefined name.
    pub fn unknown_name(&mut self, name: &ast::Name) -> ErrorReported {
        self.report_unknown(name, None)
    }

    /// Reports an undefined name that is called. `span` is that of the call.
    pub fn unknown_callee(&mut self, name: &ast::Name, args: &[ast::Arg], span: Span) -> ErrorReported {
        self.report_unknown(name, Some((args, span)))
    }

    /// Returns whether the first argument of a call is a function of the program.
    fn is_function_first(&self, call: Option<(&[ast::Arg], Span)>) -> bool {
        let first = call.and_then(|(args, _)| args.first()).map(|arg| &crate::build::bare(&arg.value).kind);
        matches!(first, Some(ast::ExprKind::Name(f)) if matches!(self.module.names.get(f.text.as_str()), Some(NameBinding::Fn(_))))
    }

    /// Returns the code of a call with one argument whose equivalent depends on the argument's type.
    fn typed_equivalent(&self, word: &str, call: Option<(&[ast::Arg], Span)>) -> Option<(String, Span)> {
        let ([ast::Arg { name: None, value }], span) = call? else { return None };
        let ast::ExprKind::Name(variable) = &crate::build::bare(value).kind else { return None };
        let name = &variable.text;
        let code = match (word, self.type_of_variable(value)?) {
            ("int", ty) if crate::build::is_text(&ty) => format!("parse(i32, {name})"),
            ("float", ty) if crate::build::is_text(&ty) => format!("parse(f32, {name})"),
            ("size", Type::Array(array)) if array.dims.len() > 1 => format!("len(reshape({name}, -1))"),
            _ => return None,
        };
        Some((code, span))
    }

    /// Returns the span of a variable of this name in a block that has ended.
    pub(crate) fn ended_local(&self, name: &ast::Name) -> Option<Span> {
        let has_ended = |span: Span| span.file == name.span.file && span.end <= name.span.start;
        let mut locals = self.locals.iter().map(|(_, local)| local);
        locals.find(|local| local.name == name.text && has_ended(local.span)).map(|local| local.span)
    }

    fn report_unknown(&mut self, name: &ast::Name, call: Option<(&[ast::Arg], Span)>) -> ErrorReported {
        let word = name.text.as_str();
        let later = self.script_names.and_then(|names| names.get(word)).copied();
        if later.is_some() && !self.in_host() {
            return self.script_variable(name);
        }
        let mut d = Diagnostic::error("E0201", format!("nothing here is called `{word}`"))
            .at(name.span, "this name is not defined");
        if let Some(ended) = self.ended_local(name) {
            d = belongs_to_ended_block(d, word, ended);
        } else if let Some(later) = later {
            d = d
                .because(later, "it is declared only here")
                .help("statements run from top to bottom: move one of the two");
        } else {
            // Only the first errors are shown. For these, `clk_check::suggest_names` searches the names of the module
            // for a similar name.
            let shown = self.diagnostics.len() < MAX_ERRORS;
            let own = shown.then(|| suggestions::nearest(word, self.scopes.iter().map(|(own, _)| own))).flatten();
            let near = own.map(str::to_owned);
            // For an item of the standard library with the same name, `clk_check::suggest_names` adds its import.
            if word == "end" {
                d = d.help("indices count from 0, so the last element is `x[len(x) - 1]`");
                return self.report_error(d);
            }
            if let Some((code, span)) = self.typed_equivalent(word, call) {
                d = d.fix(format!("write `{code}`"), span, code, Applicability::MaybeIncorrect);
                return self.report_error(d);
            }
            let foreign = clk_scalar::foreign_names::find(word).filter(|row| !row.is_library_item(word));
            match foreign.filter(|foreign| !foreign.is_common_word || near.is_none()) {
                Some(_) if word == "gradient" && self.is_function_first(call) => {
                    d = d.help("the derivative of a function is `grad(f)(x)`");
                    if let Some(([f, x, ..], _)) = call {
                        let edits = vec![
                            (name.span, "grad".to_owned()),
                            (
                                Span { start: f.value.span.end, end: x.value.span.start, ..f.value.span },
                                ")(".to_owned(),
                            ),
                        ];
                        d = d.fix_all("call the derivative", edits, Applicability::MaybeIncorrect);
                    }
                }
                Some(row) => d = foreign_names::explain(d, &row, &ForeignUse { name: word, span: name.span, call }),
                None => d.misspelled = Some(Box::new(MisspelledName { span: name.span, word: word.to_owned(), near })),
            }
        }
        self.report_error(d)
    }
}

/// Adds the block of a variable to an error about its name, which is used after the block.
pub(crate) fn belongs_to_ended_block(d: Diagnostic, word: &str, declared: Span) -> Diagnostic {
    d.because(declared, "it belongs to a block that ends before this")
        .help(format!("declare it before the block, `var {word} = …`, and assign to it in the block"))
}
