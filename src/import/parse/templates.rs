//! Parses template headers, template arguments and qualified names.

use super::names::NameRole;
use super::operands::is_certain_type;
use super::{AngleContext, CppParser, Parsed};
use crate::ast::{
    CppExpr, CppExprKind, CppName, CppTemplateArg, CppTypeKind, FunctionName, NameSegment, QualifiedName, Qualifiers,
    TemplateHeader, TemplateParam, TemplateParamKind,
};
use crate::lex::CppTok;

impl CppParser<'_> {
    /// Parses `template <…>` and declares its parameters. The caller has opened a scope for them.
    pub(super) fn template_header(&mut self) -> Parsed<TemplateHeader> {
        let start = self.next;
        self.advance();
        self.expect(CppTok::Less, "<")?;
        let mut params = Vec::new();
        while self.kind() != CppTok::Greater {
            let param = self.in_angle(AngleContext::Template, CppParser::template_param)?;
            params.push(param);
            if !self.accept(CppTok::Comma) {
                break;
            }
        }
        self.expect(CppTok::Greater, ">")?;
        if self.word() == "requires" {
            return Err(self.unsupported("a `requires` clause"));
        }
        Ok(TemplateHeader { params, span: self.span_from(start) })
    }

    fn template_param(&mut self) -> Parsed<TemplateParam> {
        let start = self.next;
        if self.word() == "template" {
            self.advance();
            self.expect(CppTok::Less, "<")?;
            let depth = self.scopes.depth();
            self.scopes.push();
            while self.kind() != CppTok::Greater {
                self.nested(CppParser::template_param)?;
                if !self.accept(CppTok::Comma) {
                    break;
                }
            }
            self.scopes.pop_to(depth);
            self.expect(CppTok::Greater, ">")?;
            if !self.accept_word("class") {
                self.accept_word("typename");
            }
            let pack = self.accept(CppTok::Ellipsis);
            let name = if self.kind() == CppTok::Ident { Some(self.name()?) } else { None };
            if let Some(name) = &name {
                self.scopes.declare(&name.text, NameRole::ClassTemplate);
            }
            if self.accept(CppTok::Eq) {
                self.type_name()?;
            }
            return Ok(TemplateParam { name, kind: TemplateParamKind::Template, pack, span: self.span_from(start) });
        }
        let type_param = matches!(self.word(), "typename" | "class")
            && match self.kind_at(1) {
                // `typename T::type N` is a value; `typename T` a type.
                CppTok::Ident => {
                    matches!(self.kind_at(2), CppTok::Comma | CppTok::Greater | CppTok::Eq | CppTok::GreaterEq)
                }
                CppTok::Ellipsis | CppTok::Comma | CppTok::Greater | CppTok::Eq => true,
                _ => false,
            };
        if type_param {
            self.advance();
            let pack = self.accept(CppTok::Ellipsis);
            let name = if self.kind() == CppTok::Ident { Some(self.name()?) } else { None };
            if let Some(name) = &name {
                self.scopes.declare(&name.text, NameRole::Type);
            }
            let default = if self.accept(CppTok::Eq) { Some(self.type_id()?) } else { None };
            let span = self.span_from(start);
            return Ok(TemplateParam { name, kind: TemplateParamKind::Type { default }, pack, span });
        }
        let mut specifiers = self.specifiers(None)?;
        let Some(base) = specifiers.ty.take() else { return Err(self.expected("a template parameter")) };
        let declarator = self.declarator(&mut specifiers, true)?;
        let pack = declarator.pack;
        let name = declarator.name.as_ref().and_then(|name| name.plain());
        let ty = declarator.apply(base);
        if let Some(name) = &name {
            self.scopes.declare(&name.text, NameRole::Value);
        }
        let default = if self.accept(CppTok::Eq) { Some(self.assignment()?) } else { None };
        let kind = TemplateParamKind::Value { ty, default };
        Ok(TemplateParam { name, kind, pack, span: self.span_from(start) })
    }

    /// Parses `<int, 3, T*>`.
    pub(super) fn template_args(&mut self) -> Parsed<Vec<CppTemplateArg>> {
        self.nested(|parser| {
            parser.expect(CppTok::Less, "<")?;
            let mut args = Vec::new();
            while parser.kind() != CppTok::Greater {
                let arg = parser.in_angle(AngleContext::Template, CppParser::template_arg)?;
                args.push(arg);
                if !parser.accept(CppTok::Comma) {
                    break;
                }
            }
            parser.expect(CppTok::Greater, ">")?;
            Ok(args)
        })
    }

    fn template_arg(&mut self) -> Parsed<CppTemplateArg> {
        let known = self.at_type();
        let at_end = |parser: &Self| matches!(parser.kind(), CppTok::Comma | CppTok::Greater | CppTok::Ellipsis);
        let possible = known || matches!(self.kind(), CppTok::Ident | CppTok::ColonColon);
        let ty = if !possible || (!known && self.is_value_name()) {
            None
        } else {
            self.attempt(|parser| {
                let ty = parser.type_id()?;
                let named = matches!(ty.kind, CppTypeKind::Named(_));
                if at_end(parser) && (known || named || is_certain_type(&ty)) {
                    Ok(ty)
                } else {
                    Err(parser.expected("`>`"))
                }
            })
        };
        let arg = match ty {
            // A name that may be a value.
            Some(ty) if !known && ty.qualifiers == Qualifiers::default() => match ty.kind {
                CppTypeKind::Named(name) if name.segments.last().is_none_or(|last| last.args.is_none()) => {
                    let span = name.span;
                    CppTemplateArg::Value(CppExpr { kind: CppExprKind::Name(name), span })
                }
                kind => CppTemplateArg::Type(crate::ast::CppType { kind, ..ty }),
            },
            Some(ty) => CppTemplateArg::Type(ty),
            None => CppTemplateArg::Value(self.conditional()?),
        };
        if self.accept(CppTok::Ellipsis) {
            return Ok(CppTemplateArg::Pack(Box::new(arg)));
        }
        Ok(arg)
    }

    /// Returns whether the current word is known to be a value.
    fn is_value_name(&self) -> bool {
        let word = self.word();
        matches!(word, "true" | "false" | "sizeof" | "nullptr" | "static_cast" | "alignof" | "this")
            || (self.kind() == CppTok::Ident
                && self.kind_at(1) != CppTok::ColonColon
                && matches!(self.scopes.find(&self.text()), NameRole::Value | NameRole::FunctionTemplate))
    }

    /// Parses a qualified name in a place where only a type can be: `<` starts template arguments.
    pub(super) fn type_name(&mut self) -> Parsed<QualifiedName> {
        let start = self.next;
        let global = self.accept(CppTok::ColonColon);
        let mut segments = Vec::new();
        loop {
            self.accept_word("template");
            let name = self.name()?;
            let args = if self.kind() == CppTok::Less { Some(self.template_args()?) } else { None };
            segments.push(NameSegment { name, args });
            if self.kind() != CppTok::ColonColon || !self.segment_follows() {
                break;
            }
            self.advance();
        }
        Ok(QualifiedName { global, segments, span: self.span_from(start) })
    }

    /// Returns whether the `::` at the current position continues a name, unlike in `C::*`.
    fn segment_follows(&self) -> bool {
        self.kind_at(1) == CppTok::Ident
    }

    /// Parses a name, or the name of an operator, `operator+`.
    pub(super) fn name_or_operator(&mut self) -> Parsed<CppName> {
        let start = self.next;
        if self.word() != "operator" {
            return self.name();
        }
        self.advance();
        match self.operator_name()? {
            FunctionName::Operator(text) => {
                Ok(CppName { text: format!("operator{text}").into(), span: self.span_from(start) })
            }
            _ => Err(self.unsupported("a conversion that is called by its name")),
        }
    }

    /// Parses a qualified name in an expression. `<` starts template arguments if the name is a template, or if what
    /// follows fits.
    pub(super) fn value_name(&mut self) -> Parsed<QualifiedName> {
        let start = self.next;
        let global = self.accept(CppTok::ColonColon);
        let mut segments: Vec<NameSegment> = Vec::new();
        loop {
            let forced = self.accept_word("template");
            let name = self.name_or_operator()?;
            segments.push(NameSegment { name, args: None });
            if self.kind() == CppTok::Less {
                let so_far = QualifiedName { global, segments, span: self.span_from(start) };
                let role = self.role(&so_far);
                segments = so_far.segments;
                let args = match role {
                    _ if forced => Some(self.template_args()?),
                    NameRole::ClassTemplate | NameRole::FunctionTemplate => self.attempt(CppParser::template_args),
                    NameRole::Value => None,
                    _ => self.uncertain_template_args(role, segments.len() > 1),
                };
                if let Some(last) = segments.last_mut() {
                    last.args = args;
                }
            }
            if self.kind() != CppTok::ColonColon || !(self.segment_follows() || self.word_at(1) == "template") {
                break;
            }
            self.advance();
        }
        Ok(QualifiedName { global, segments, span: self.span_from(start) })
    }

    /// Tries template arguments after a name that no declaration introduces.
    pub(super) fn uncertain_template_args(&mut self, role: NameRole, qualified: bool) -> Option<Vec<CppTemplateArg>> {
        let position = self.next;
        if self.type_failures.contains(&position) {
            return None;
        }
        let found = self.attempt(|parser| {
            let args = parser.template_args()?;
            let follows =
                matches!(parser.kind(), CppTok::LParen | CppTok::ColonColon | CppTok::LBrace | CppTok::LaunchOpen);
            // `x < float(b), c > d` has no type arguments, though `float(b)` may be read as the type of a function.
            let has_type = args
                .iter()
                .any(|arg| matches!(arg, CppTemplateArg::Type(ty) if !matches!(ty.kind, CppTypeKind::Function { .. })));
            let likely = qualified || role == NameRole::Type;
            if has_type || (likely && follows) { Ok(args) } else { Err(parser.expected("`(`")) }
        });
        if found.is_none() {
            self.type_failures.insert(position);
        }
        found
    }
}
