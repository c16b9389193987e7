//! Function bodies and declarations that do not parse: host code is skipped, device code refused.

use super::functions::{function_text, is_device};
use super::{AngleContext, CppParser, Parsed, SyntaxProblem, loop_counters};
use crate::ast::{CppDecl, CppDeclKind, CppFunction, CppName, FunctionBody, Refusal, SmolStr};
use crate::lex::CppTok;
use crate::source::SourceSpan;
use clk_base::diag::{Diagnostic, Severity};

/// Maximum number of notes about skipped host code.
const MAX_SKIP_NOTES: usize = 20;

impl CppParser<'_> {
    /// Moves after a body, which starts with `{` or with the initializers of a constructor.
    pub(super) fn skip_function_body(&mut self) -> Parsed<()> {
        if self.accept(CppTok::Colon) {
            loop {
                while !matches!(self.kind(), CppTok::LParen | CppTok::LBrace | CppTok::Eof | CppTok::Semi) {
                    self.advance();
                }
                self.expect_brackets()?;
                self.accept(CppTok::Ellipsis);
                if !self.accept(CppTok::Comma) {
                    break;
                }
            }
        }
        if self.kind() != CppTok::LBrace {
            return Err(self.expected("`{`"));
        }
        self.expect_brackets()
    }

    /// Parses the body at the current position. If that fails, the position is after the body as well.
    pub(super) fn function_body(&mut self, function: &mut CppFunction) {
        let start = self.next;
        let (depth, scopes, angle) = (self.depth, self.scopes.depth(), self.angle);
        self.angle = AngleContext::Operator;
        let end = match self.skip_function_body() {
            Ok(()) => self.next,
            Err(_) => self.tokens.len() - 1,
        };
        self.next = start;
        let deferred = std::mem::take(&mut self.deferred);
        let result = self.body_tokens(function, end);
        self.deferred = deferred;
        self.scopes.pop_to(scopes);
        (self.depth, self.angle) = (depth, angle);
        if let Err(problem) = result {
            self.next = end;
            let span = self.span_from(start);
            function.initializers.clear();
            function.body = if is_device(function) {
                FunctionBody::Refused(Self::syntax_refusal(&problem))
            } else {
                self.report_skip(&format!("the host function `{}`", function_text(function)), &problem);
                FunctionBody::Skipped(span)
            };
        }
    }

    fn body_tokens(&mut self, function: &mut CppFunction, end: usize) -> Parsed<()> {
        let start = self.next;
        // A method that is defined outside of its class sees the class's members.
        for segment in function.scope.iter().flat_map(|scope| &scope.segments) {
            self.scopes.push_owner(&segment.name.text);
        }
        self.scopes.push();
        self.declare_parameters(function);
        if self.accept(CppTok::Colon) {
            function.initializers = self.member_initializers()?;
        }
        let mut body = self.block()?;
        if self.next != end {
            return Err(self.expected("the end of the function"));
        }
        loop_counters::move_into_loops(&mut body, &self.tokens[start..end]);
        function.body = FunctionBody::Block(body);
        Ok(())
    }

    /// Moves after a declaration that does not parse.
    pub(super) fn skip_declaration(&mut self, start: usize, problem: &SyntaxProblem) -> CppDecl {
        self.next = start;
        let mut name = None;
        loop {
            match self.kind() {
                CppTok::Eof => break,
                CppTok::Semi => {
                    self.advance();
                    break;
                }
                CppTok::RBrace => break,
                CppTok::LBrace => {
                    if !self.skip_brackets() {
                        self.next = self.tokens.len() - 1;
                    }
                    // `} name;` ends a class, `};` an initializer.
                    if self.kind() == CppTok::Semi {
                        self.advance();
                    } else if self.kind() == CppTok::Ident && self.kind_at(1) == CppTok::Semi {
                        continue;
                    }
                    break;
                }
                CppTok::LParen => {
                    let before = self.next.checked_sub(1).and_then(|at| self.tokens.get(at));
                    let before = before.filter(|token| self.next > start && token.kind == CppTok::Ident);
                    if let Some(token) = before.filter(|token| name.is_none() && !token.text.starts_with("__")) {
                        name = Some(CppName { text: token.text.clone(), span: token.span });
                    }
                    if !self.skip_brackets() {
                        self.advance();
                    }
                }
                _ => self.advance(),
            }
        }
        let span = self.span_from(start);
        let has = |words: &[&str]| {
            let region = self.tokens.get(start..self.next).unwrap_or(&[]);
            region.iter().any(|token| token.kind == CppTok::Ident && words.contains(&token.text.as_str()))
        };
        let kernel = has(&["__global__"]);
        let kind = if kernel || has(&["__device__", "__constant__"]) {
            CppDeclKind::Refused { name, kernel, refusal: Self::syntax_refusal(problem) }
        } else {
            let text = name.as_ref().map_or("this declaration".to_string(), |name| format!("`{}`", name.text));
            self.report_skip(&text, problem);
            CppDeclKind::Skipped
        };
        CppDecl { kind, span }
    }

    /// Returns the refusal of device code that does not parse. The translation reports it where the code is needed.
    fn syntax_refusal(problem: &SyntaxProblem) -> Refusal {
        let construct = match problem.construct {
            Some(construct) => SmolStr::new_static(construct),
            None => format!("syntax that is not understood: {}", problem.message).into(),
        };
        Refusal { construct, span: problem.span, help: None }
    }

    /// Notes that host code is skipped.
    fn report_skip(&mut self, subject: &str, problem: &SyntaxProblem) {
        if self.skip_notes < MAX_SKIP_NOTES {
            self.skip_notes += 1;
            let title = format!("{subject} is skipped: {}", problem.message);
            let diagnostic = Diagnostic::new(Severity::Note, "W0851", title).at(problem.span.span, "");
            self.diagnostics.push(self.provenance.explain(diagnostic, problem.span));
        }
    }

    /// Returns the span of the current position without tokens.
    pub(super) fn empty_span(&self) -> SourceSpan {
        let here = self.span();
        SourceSpan { span: clk_base::source::Span { end: here.span.start, ..here.span }, ..here }
    }
}
