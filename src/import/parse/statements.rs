//! Parses statements.

use super::declarations::DeclPlace;
use super::names::NameRole;
use super::specifiers::{is_basic_word, is_declaration_word};
use super::{AngleContext, CppParser, Parsed};
use crate::ast::{
    CppBlock, CppCondition, CppDecl, CppDeclKind, CppFor, CppIf, CppStmt, CppStmtKind, CppSwitch, SwitchLabel,
    SwitchSection, UnrollHint, VariableDecl,
};
use crate::lex::CppTok;

/// The parts before the condition of `if` and `switch`.
struct ConditionParts {
    init: Option<CppStmt>,
    condition: CppCondition,
}

impl CppParser<'_> {
    /// Parses `{ … }` with a scope of its own.
    pub(super) fn block(&mut self) -> Parsed<CppBlock> {
        let start = self.next;
        self.expect(CppTok::LBrace, "{")?;
        let depth = self.scopes.depth();
        self.scopes.push();
        let mut stmts = Vec::new();
        while self.kind() != CppTok::RBrace {
            if self.kind() == CppTok::Eof {
                return Err(self.expected("`}`"));
            }
            let stmt = self.statement()?;
            stmts.push(stmt);
        }
        self.advance();
        self.scopes.pop_to(depth);
        Ok(CppBlock { stmts, span: self.span_from(start) })
    }

    pub(super) fn statement(&mut self) -> Parsed<CppStmt> {
        self.nested(|parser| {
            let start = parser.next;
            let unroll = parser.unroll_hint()?;
            let kind = parser.statement_kind(unroll)?;
            Ok(CppStmt { kind, span: parser.span_from(start) })
        })
    }

    /// Parses the body of a loop or branch, whose declarations are not visible outside.
    fn scoped_statement(&mut self) -> Parsed<CppStmt> {
        let depth = self.scopes.depth();
        self.scopes.push();
        let stmt = self.statement()?;
        self.scopes.pop_to(depth);
        Ok(stmt)
    }

    /// Parses `#pragma unroll` before a loop; the last of several counts.
    fn unroll_hint(&mut self) -> Parsed<Option<UnrollHint>> {
        let mut hint = None;
        while self.kind() == CppTok::PragmaUnroll {
            let start = self.next;
            self.advance();
            let count = if self.kind() == CppTok::PragmaEnd { None } else { Some(Box::new(self.conditional()?)) };
            if self.kind() != CppTok::PragmaEnd {
                return Err(self.expected("the end of the pragma"));
            }
            self.advance();
            hint = Some(UnrollHint { count, span: self.span_from(start) });
        }
        Ok(hint)
    }

    fn statement_kind(&mut self, unroll: Option<UnrollHint>) -> Parsed<CppStmtKind> {
        let start = self.next;
        match self.kind() {
            CppTok::Semi => {
                self.advance();
                return Ok(CppStmtKind::Empty);
            }
            CppTok::LBrace => return Ok(CppStmtKind::Block(self.block()?)),
            // A pragma at the end of a block, without a loop.
            CppTok::RBrace if unroll.is_some() => return Ok(CppStmtKind::Empty),
            CppTok::LBracket if self.kind_at(1) == CppTok::LBracket => {
                self.expect_brackets()?;
                return self.statement_kind(unroll);
            }
            _ => {}
        }
        match self.word() {
            "if" => return self.if_statement(),
            "while" => {
                self.advance();
                self.expect(CppTok::LParen, "(")?;
                let depth = self.scopes.depth();
                self.scopes.push();
                let condition = Box::new(self.condition()?);
                self.expect(CppTok::RParen, ")")?;
                let body = Box::new(self.scoped_statement()?);
                self.scopes.pop_to(depth);
                return Ok(CppStmtKind::While { unroll, condition, body });
            }
            "do" => {
                self.advance();
                let body = Box::new(self.scoped_statement()?);
                if !self.accept_word("while") {
                    return Err(self.expected("`while`"));
                }
                self.expect(CppTok::LParen, "(")?;
                let condition = Box::new(self.in_operator_context(Self::expr)?);
                self.expect(CppTok::RParen, ")")?;
                self.expect(CppTok::Semi, ";")?;
                return Ok(CppStmtKind::DoWhile { unroll, body, condition });
            }
            "for" => return self.for_statement(unroll),
            "switch" => return self.switch_statement(),
            "return" => {
                self.advance();
                let value = match self.kind() {
                    CppTok::Semi => None,
                    _ => Some(self.expr_or_list()?),
                };
                self.expect(CppTok::Semi, ";")?;
                return Ok(CppStmtKind::Return(value));
            }
            "break" | "continue" => {
                let is_break = self.word() == "break";
                self.advance();
                self.expect(CppTok::Semi, ";")?;
                return Ok(if is_break { CppStmtKind::Break } else { CppStmtKind::Continue });
            }
            "goto" if self.kind_at(1) == CppTok::Ident => {
                self.advance();
                let name = self.name()?;
                self.expect(CppTok::Semi, ";")?;
                return Ok(CppStmtKind::Goto(name));
            }
            "goto" => {
                self.skip_to_semicolon()?;
                let help = Some("use a loop or a flag");
                return Ok(CppStmtKind::Refused(self.refusal("a `goto` to a computed label", start, help)));
            }
            "asm" | "__asm__" | "__asm" => {
                self.skip_to_semicolon()?;
                let help = Some("use the CUDA intrinsic for the instruction");
                return Ok(CppStmtKind::Refused(self.refusal("inline assembly", start, help)));
            }
            "try" => {
                self.advance();
                self.expect_brackets()?;
                while self.accept_word("catch") {
                    self.expect_brackets()?;
                    self.expect_brackets()?;
                }
                return Ok(CppStmtKind::Refused(self.refusal("a `try` block", start, None)));
            }
            "co_return" | "co_yield" | "co_await" => return Err(self.unsupported("a coroutine")),
            "case" | "default" if self.word() == "case" || self.kind_at(1) == CppTok::Colon => {
                self.switch_label()?;
                let construct = "a `case` label that is not directly in the body of its `switch`";
                return Ok(CppStmtKind::Refused(self.refusal(construct, start, None)));
            }
            "else" => return Err(self.expected("a statement")),
            _ => {}
        }
        if self.kind() == CppTok::Ident && self.kind_at(1) == CppTok::Colon && !is_declaration_word(self.word()) {
            let name = self.name()?;
            self.advance();
            return Ok(CppStmtKind::Label(name));
        }
        if self.at_declaration() {
            return Ok(CppStmtKind::Decl(self.block_declaration()?));
        }
        let value = self.in_operator_context(Self::expr)?;
        self.expect(CppTok::Semi, ";")?;
        Ok(CppStmtKind::Expr(value))
    }

    fn skip_to_semicolon(&mut self) -> Parsed<()> {
        while !matches!(self.kind(), CppTok::Semi | CppTok::LBrace | CppTok::RBrace | CppTok::Eof) {
            if self.kind() == CppTok::LParen {
                self.expect_brackets()?;
            } else {
                self.advance();
            }
        }
        self.expect(CppTok::Semi, ";")
    }

    fn block_declaration(&mut self) -> Parsed<CppDecl> {
        let start = self.next;
        if self.at_bindings() {
            let mut specifiers = self.specifiers(None)?;
            let decl = self.bindings(&mut specifiers)?;
            self.expect(CppTok::Semi, ";")?;
            return Ok(CppDecl { kind: CppDeclKind::Variables(decl), span: self.span_from(start) });
        }
        let mut decls = self.declaration(DeclPlace::Block)?;
        match decls.pop() {
            Some(decl) if decls.is_empty() => Ok(decl),
            _ => Err(self.expected("a declaration")),
        }
    }

    /// Returns whether structured bindings follow, such as `const auto& [a, b] = …`.
    fn at_bindings(&self) -> bool {
        let mut ahead = 0;
        while matches!(self.word_at(ahead), "const" | "constexpr" | "static") {
            ahead += 1;
        }
        if self.word_at(ahead) != "auto" {
            return false;
        }
        ahead += 1 + usize::from(self.word_at(ahead + 1) == "const");
        ahead += usize::from(matches!(self.kind_at(ahead), CppTok::Amp | CppTok::AmpAmp));
        self.kind_at(ahead) == CppTok::LBracket && self.kind_at(ahead + 1) == CppTok::Ident
    }

    /// Returns whether a declaration starts here, not an expression.
    pub(super) fn at_declaration(&mut self) -> bool {
        let word = self.word();
        if is_declaration_word(word) {
            return true;
        }
        // `int(x);` is an expression.
        if is_basic_word(word) {
            let function = self.kind_at(1) == CppTok::LParen && self.declares_after_type(1, NameRole::Type);
            return function || !matches!(self.kind_at(1), CppTok::LParen | CppTok::LBrace);
        }
        match self.kind() {
            CppTok::Ident => {}
            CppTok::ColonColon => {}
            _ => return false,
        }
        if matches!(
            word,
            "not"
                | "compl"
                | "new"
                | "delete"
                | "throw"
                | "sizeof"
                | "this"
                | "operator"
                | "nullptr"
                | "true"
                | "false"
        ) {
            return false;
        }
        let simple = self.kind() == CppTok::Ident && !matches!(self.kind_at(1), CppTok::ColonColon | CppTok::Less);
        if simple {
            let role = self.scopes.find(&self.text());
            return self.declares_after_type(1, role);
        }
        if self.kind() == CppTok::Ident
            && self.kind_at(1) == CppTok::Less
            && matches!(self.scopes.find(&self.text()), NameRole::Value | NameRole::FunctionTemplate)
        {
            return false;
        }
        let from = self.next;
        self.looks_like(|parser| {
            let name = parser.type_name()?;
            let role = parser.role(&name);
            // A name with template arguments that no declaration introduces is a type if another name follows.
            let ahead = parser.next - from;
            parser.next = from;
            Ok(parser.declares_after_type(ahead, role))
        })
    }

    /// Returns whether the tokens after a name of the given role make it the type of a declaration.
    fn declares_after_type(&self, ahead: usize, role: NameRole) -> bool {
        let known = matches!(role, NameRole::Type | NameRole::ClassTemplate);
        if matches!(role, NameRole::Value | NameRole::FunctionTemplate | NameRole::Namespace) {
            return false;
        }
        let mut at = ahead;
        loop {
            match self.kind_at(at) {
                CppTok::Star | CppTok::Amp | CppTok::AmpAmp => at += 1,
                CppTok::Ident
                    if matches!(
                        self.word_at(at),
                        "const" | "volatile" | "__restrict__" | "__restrict" | "restrict"
                    ) =>
                {
                    at += 1;
                }
                // `T (*f)(int)`
                CppTok::LParen if known && at == ahead => {
                    return matches!(self.kind_at(at + 1), CppTok::Star | CppTok::Amp)
                        && self.kind_at(at + 2) == CppTok::Ident
                        && match self.kind_at(at + 3) {
                            CppTok::RParen => matches!(self.kind_at(at + 4), CppTok::LParen | CppTok::LBracket),
                            // `T (*f[2])(int)`
                            kind => kind == CppTok::LBracket,
                        };
                }
                _ => break,
            }
        }
        let operators = ["and", "or", "xor", "bitand", "bitor", "not_eq"];
        if self.kind_at(at) != CppTok::Ident || operators.contains(&self.word_at(at)) {
            return false;
        }
        if known || at == ahead {
            return true;
        }
        // `unknown * name` without a use of the product is a declaration.
        matches!(self.kind_at(at + 1), CppTok::Semi | CppTok::Eq | CppTok::Comma | CppTok::LBracket | CppTok::Colon)
    }

    fn if_statement(&mut self) -> Parsed<CppStmtKind> {
        self.advance();
        let constexpr = self.accept_word("constexpr");
        self.expect(CppTok::LParen, "(")?;
        let depth = self.scopes.depth();
        self.scopes.push();
        let parts = self.condition_parts()?;
        self.expect(CppTok::RParen, ")")?;
        let then = self.scoped_statement()?;
        let otherwise = if self.accept_word("else") { Some(self.scoped_statement()?) } else { None };
        self.scopes.pop_to(depth);
        let ConditionParts { init, condition } = parts;
        Ok(CppStmtKind::If(Box::new(CppIf { constexpr, init, condition, then, otherwise })))
    }

    /// Parses `init; condition` or `condition`.
    fn condition_parts(&mut self) -> Parsed<ConditionParts> {
        let start = self.next;
        let condition = self.condition()?;
        if self.kind() != CppTok::Semi {
            return Ok(ConditionParts { init: None, condition });
        }
        self.advance();
        let span = self.span_from(start);
        let kind = match condition {
            CppCondition::Expr(value) => CppStmtKind::Expr(value),
            CppCondition::Decl(decl) => CppStmtKind::Decl(CppDecl { kind: CppDeclKind::Variables(decl), span }),
        };
        let condition = self.condition()?;
        Ok(ConditionParts { init: Some(CppStmt { kind, span }), condition })
    }

    fn condition(&mut self) -> Parsed<CppCondition> {
        if self.at_declaration() {
            return Ok(CppCondition::Decl(self.header_variables()?));
        }
        Ok(CppCondition::Expr(self.in_operator_context(Self::expr)?))
    }

    /// Parses the variables of a condition or of a `for`, without the token after them.
    fn header_variables(&mut self) -> Parsed<VariableDecl> {
        let bindings = self.at_bindings();
        let mut specifiers = self.specifiers(None)?;
        if bindings {
            return self.bindings(&mut specifiers);
        }
        let start = self.next;
        let outer = std::mem::replace(&mut self.in_for_header, true);
        let result = self.in_angle(AngleContext::Operator, |parser| {
            let first = parser.declarator(&mut specifiers, false)?;
            parser.variable_list(&mut specifiers, first, start, None)
        });
        self.in_for_header = outer;
        result
    }

    fn for_statement(&mut self, unroll: Option<UnrollHint>) -> Parsed<CppStmtKind> {
        self.advance();
        self.expect(CppTok::LParen, "(")?;
        let depth = self.scopes.depth();
        self.scopes.push();
        let start = self.next;
        let kind = if self.kind() == CppTok::Semi {
            CppStmtKind::Empty
        } else if self.at_declaration() {
            let decl = self.header_variables()?;
            if self.accept(CppTok::Colon) {
                let range = Box::new(self.in_operator_context(Self::expr_or_list)?);
                self.expect(CppTok::RParen, ")")?;
                let body = Box::new(self.scoped_statement()?);
                self.scopes.pop_to(depth);
                return Ok(CppStmtKind::RangeFor { variable: Box::new(decl), range, body });
            }
            CppStmtKind::Decl(CppDecl { kind: CppDeclKind::Variables(decl), span: self.span_from(start) })
        } else {
            CppStmtKind::Expr(self.in_operator_context(Self::expr)?)
        };
        let span = if self.next == start { self.empty_span() } else { self.span_from(start) };
        let init = CppStmt { kind, span };
        self.expect(CppTok::Semi, ";")?;
        let condition = if self.kind() == CppTok::Semi { None } else { Some(self.condition()?) };
        self.expect(CppTok::Semi, ";")?;
        let step = if self.kind() == CppTok::RParen { None } else { Some(self.in_operator_context(Self::expr)?) };
        self.expect(CppTok::RParen, ")")?;
        let body = self.scoped_statement()?;
        self.scopes.pop_to(depth);
        Ok(CppStmtKind::For(Box::new(CppFor { unroll, init, condition, step, body })))
    }

    fn switch_statement(&mut self) -> Parsed<CppStmtKind> {
        let start = self.next;
        self.advance();
        self.expect(CppTok::LParen, "(")?;
        let depth = self.scopes.depth();
        self.scopes.push();
        let ConditionParts { init, condition } = self.condition_parts()?;
        self.expect(CppTok::RParen, ")")?;
        if self.kind() != CppTok::LBrace {
            self.scoped_statement()?;
            self.scopes.pop_to(depth);
            return Ok(CppStmtKind::Refused(self.refusal("a `switch` without braces", start, None)));
        }
        self.advance();
        let (mut prologue, mut sections) = (Vec::new(), Vec::<SwitchSection>::new());
        while self.kind() != CppTok::RBrace {
            let from = self.next;
            if self.word() == "case" || (self.word() == "default" && self.kind_at(1) == CppTok::Colon) {
                let mut labels = Vec::new();
                while self.word() == "case" || (self.word() == "default" && self.kind_at(1) == CppTok::Colon) {
                    labels.push(self.switch_label()?);
                }
                sections.push(SwitchSection { labels, stmts: vec![], span: self.span_from(from) });
                continue;
            }
            if self.kind() == CppTok::Eof {
                return Err(self.expected("`}`"));
            }
            let stmt = self.statement()?;
            match sections.last_mut() {
                Some(section) => {
                    section.span = section.span.to(stmt.span);
                    section.stmts.push(stmt);
                }
                None => prologue.push(stmt),
            }
        }
        self.advance();
        self.scopes.pop_to(depth);
        Ok(CppStmtKind::Switch(Box::new(CppSwitch { init, condition, prologue, sections })))
    }

    fn switch_label(&mut self) -> Parsed<SwitchLabel> {
        let label = if self.accept_word("default") {
            SwitchLabel::Default
        } else {
            self.advance();
            let low = self.in_operator_context(Self::conditional)?;
            if self.accept(CppTok::Ellipsis) {
                SwitchLabel::Range(low, self.in_operator_context(Self::conditional)?)
            } else {
                SwitchLabel::Case(low)
            }
        };
        self.expect(CppTok::Colon, ":")?;
        Ok(label)
    }
}
