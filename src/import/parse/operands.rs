//! Parses operands: names, literals, calls, launches, members, casts and lambdas.

use super::names::NameRole;
use super::specifiers::{Specifiers, is_basic_word};
use super::{AngleContext, CppParser, Parsed};
use crate::ast::{
    BasicType, CaptureKind, CppCastKind, CppDecl, CppDeclKind, CppExpr, CppExprKind, CppFunction, CppLambda, CppMember,
    CppName, CppParam, CppRecord, CppType, CppTypeKind, CppUnaryOp, FunctionAttributes, FunctionBody, FunctionName,
    LambdaCapture, MemberAccess, NameSegment, QualifiedName, Qualifiers, RecordKind, StringLiteral, TemplateHeader,
    TemplateParam, TemplateParamKind,
};
use crate::lex::CppTok;
use crate::literal;
use smol_str::SmolStr;

impl CppParser<'_> {
    fn expr_from(&self, start: usize, kind: CppExprKind) -> CppExpr {
        CppExpr { kind, span: self.span_from(start) }
    }

    /// Parses an operand with everything that follows it: calls, indices, members, `++`.
    pub(super) fn postfix(&mut self) -> Parsed<CppExpr> {
        let depth = self.depth;
        let start = self.next;
        let mut value = self.primary()?;
        loop {
            let kind = match self.kind() {
                CppTok::LParen => {
                    self.advance();
                    let args = self.arguments(CppTok::RParen, ")")?;
                    CppExprKind::Call { callee: Box::new(value), args }
                }
                CppTok::LaunchOpen => {
                    self.advance();
                    let config = self.launch_config()?;
                    self.expect(CppTok::LParen, "(")?;
                    let args = self.arguments(CppTok::RParen, ")")?;
                    CppExprKind::Launch { callee: Box::new(value), config, args }
                }
                CppTok::LBracket => {
                    self.advance();
                    let index = self.in_operator_context(Self::expr_or_list)?;
                    if self.kind() == CppTok::Comma {
                        return Err(self.unsupported("an index with several values"));
                    }
                    self.expect(CppTok::RBracket, "]")?;
                    CppExprKind::Index { base: Box::new(value), index: Box::new(index) }
                }
                CppTok::Dot | CppTok::Arrow => {
                    let arrow = self.kind() == CppTok::Arrow;
                    self.advance();
                    let member = self.member_name()?;
                    CppExprKind::Member { base: Box::new(value), arrow, member }
                }
                CppTok::DotStar | CppTok::ArrowStar => return Err(self.unsupported("a pointer to a member")),
                CppTok::PlusPlus => {
                    self.advance();
                    CppExprKind::Unary { op: CppUnaryOp::PostIncrement, operand: Box::new(value) }
                }
                CppTok::MinusMinus => {
                    self.advance();
                    CppExprKind::Unary { op: CppUnaryOp::PostDecrement, operand: Box::new(value) }
                }
                _ => break,
            };
            value = self.expr_from(start, kind);
            self.deepen()?;
        }
        self.depth = depth;
        Ok(value)
    }

    /// Parses the launch configuration after `<<<`.
    fn launch_config(&mut self) -> Parsed<Vec<CppExpr>> {
        let mut config = Vec::new();
        loop {
            let value = self.in_angle(AngleContext::Launch, Self::initializer_clause)?;
            config.push(value);
            if !self.accept(CppTok::Comma) {
                break;
            }
        }
        if !self.at_launch_close() {
            return Err(self.expected("`>>>`"));
        }
        for _ in 0..3 {
            self.advance();
        }
        Ok(config)
    }

    /// Parses the name after `.` or `->`.
    fn member_name(&mut self) -> Parsed<QualifiedName> {
        let start = self.next;
        let forced = self.accept_word("template");
        let name = if self.accept(CppTok::Tilde) {
            let class = self.name()?;
            CppName { text: format!("~{}", class.text).into(), span: self.span_from(start) }
        } else {
            self.name_or_operator()?
        };
        let mut segments = vec![NameSegment { name, args: None }];
        if self.kind() == CppTok::Less {
            let template = forced || self.templates.contains(&segments[0].name.text);
            segments[0].args = if forced {
                Some(self.template_args()?)
            } else if template {
                self.attempt(|parser| {
                    let args = parser.template_args()?;
                    if parser.kind() == CppTok::LParen { Ok(args) } else { Err(parser.expected("`(`")) }
                })
            } else {
                self.uncertain_template_args(NameRole::Unknown, false)
            };
        }
        while self.kind() == CppTok::ColonColon {
            self.advance();
            let name = self.name()?;
            segments.push(NameSegment { name, args: None });
        }
        Ok(QualifiedName { global: false, segments, span: self.span_from(start) })
    }

    fn primary(&mut self) -> Parsed<CppExpr> {
        let start = self.next;
        match self.kind() {
            CppTok::Number => {
                let text = self.text();
                let kind = match (literal::integer(&text), literal::float(&text)) {
                    (Some(integer), _) => CppExprKind::Int(integer),
                    (None, Some(float)) => CppExprKind::Float(float),
                    (None, None) => return Err(self.problem(format!("`{text}` is not a number"))),
                };
                self.advance();
                Ok(self.expr_from(start, kind))
            }
            CppTok::Char => {
                let text = self.text();
                let Some(character) = literal::character(&text) else {
                    return Err(self.problem(format!("`{text}` is not a character")));
                };
                self.advance();
                Ok(self.expr_from(start, CppExprKind::Char(character)))
            }
            CppTok::Str => {
                let string = self.string_literal()?;
                Ok(self.expr_from(start, CppExprKind::String(string)))
            }
            CppTok::LParen => self.parenthesized(),
            CppTok::LBracket => self.nested(Self::lambda),
            CppTok::Ident | CppTok::ColonColon => self.name_operand(),
            _ => Err(self.expected("an expression")),
        }
    }

    /// Parses adjacent string literals.
    pub(super) fn string_literal(&mut self) -> Parsed<StringLiteral> {
        let mut whole: Option<StringLiteral> = None;
        while self.kind() == CppTok::Str {
            let text = self.text();
            let Some(part) = literal::string(&text) else {
                return Err(self.problem(format!("{text} has an invalid escape sequence")));
            };
            self.advance();
            whole = Some(match whole {
                None => part,
                Some(mut whole) => {
                    whole.bytes.extend(part.bytes);
                    whole.ty = if whole.ty == BasicType::Char { part.ty } else { whole.ty };
                    whole
                }
            });
        }
        whole.ok_or_else(|| self.expected("a string"))
    }

    fn parenthesized(&mut self) -> Parsed<CppExpr> {
        let start = self.next;
        if self.kind_at(1) == CppTok::LBrace {
            self.advance();
            let block = self.nested(Self::block)?;
            self.expect(CppTok::RParen, ")")?;
            return Ok(self.expr_from(start, CppExprKind::Statements(Box::new(block))));
        }
        self.advance();
        if self.kind() == CppTok::Ellipsis {
            let fold = self.fold_expression(start)?;
            self.expect(CppTok::RParen, ")")?;
            return Ok(fold);
        }
        let mut value = self.nested(|parser| parser.in_operator_context(Self::expr))?;
        self.expect(CppTok::RParen, ")")?;
        value.span = self.span_from(start);
        Ok(value)
    }

    /// Parses an operand that starts with a word or `::`.
    fn name_operand(&mut self) -> Parsed<CppExpr> {
        let start = self.next;
        let simple = match self.word() {
            "true" => Some(CppExprKind::Bool(true)),
            "false" => Some(CppExprKind::Bool(false)),
            "nullptr" | "__null" => Some(CppExprKind::Nullptr),
            "this" => Some(CppExprKind::This),
            _ => None,
        };
        if let Some(kind) = simple {
            self.advance();
            return Ok(self.expr_from(start, kind));
        }
        let cast = match self.word() {
            "static_cast" => Some(CppCastKind::Static),
            "reinterpret_cast" => Some(CppCastKind::Reinterpret),
            "const_cast" => Some(CppCastKind::Const),
            "dynamic_cast" => Some(CppCastKind::Dynamic),
            _ => None,
        };
        if let Some(kind) = cast {
            return self.named_cast(kind);
        }
        match self.word() {
            "typeid" | "__builtin_offsetof" | "__builtin_va_arg" | "va_arg" => {
                self.advance();
                self.expect_brackets()?;
                let refusal = self.refusal("an operator on a type, such as `typeid` or `offsetof`", start, None);
                return Ok(self.expr_from(start, CppExprKind::Refused(refusal)));
            }
            "requires" => return Err(self.unsupported("a `requires` expression")),
            "typename" => {
                self.advance();
                let name = self.type_name()?;
                return self.construction(start, CppTypeKind::Named(name));
            }
            "decltype" => {
                let mut specifiers = self.specifiers(None)?;
                let Some(ty) = specifiers.ty.take() else { return Err(self.expected("a type")) };
                return self.construction(start, ty.kind);
            }
            "if" | "else" | "for" | "while" | "do" | "return" | "case" | "default" | "break" | "continue"
            | "switch" | "struct" | "class" | "union" | "enum" | "const" | "static" | "template" | "using"
            | "namespace" | "goto" => {
                return Err(self.expected("an expression"));
            }
            word if is_basic_word(word) => {
                let mut specifiers = self.specifiers(None)?;
                let Some(ty) = specifiers.ty.take() else { return Err(self.expected("a type")) };
                return self.construction(start, ty.kind);
            }
            _ => {}
        }
        let name = self.value_name()?;
        let role = self.role(&name);
        let known_type = matches!(role, NameRole::Type | NameRole::ClassTemplate);
        let constructs = match self.kind() {
            CppTok::LBrace => known_type || role == NameRole::Unknown,
            CppTok::LParen => known_type,
            _ => false,
        };
        if constructs {
            return self.construction(start, CppTypeKind::Named(name));
        }
        Ok(self.expr_from(start, CppExprKind::Name(name)))
    }

    /// Parses `(args)` or `{args}` after a type.
    fn construction(&mut self, start: usize, kind: CppTypeKind) -> Parsed<CppExpr> {
        let ty = CppType { kind, qualifiers: Default::default(), span: self.span_from(start) };
        let braces = self.kind() == CppTok::LBrace;
        let args = if braces {
            self.advance();
            self.arguments(CppTok::RBrace, "}")?
        } else {
            self.expect(CppTok::LParen, "(")?;
            self.arguments(CppTok::RParen, ")")?
        };
        Ok(self.expr_from(start, CppExprKind::Construct { ty: Box::new(ty), args, braces }))
    }

    fn named_cast(&mut self, kind: CppCastKind) -> Parsed<CppExpr> {
        let start = self.next;
        self.advance();
        self.expect(CppTok::Less, "<")?;
        let ty = self.in_angle(AngleContext::Template, Self::type_id)?;
        self.expect(CppTok::Greater, ">")?;
        self.expect(CppTok::LParen, "(")?;
        let value = self.nested(|parser| parser.in_operator_context(Self::expr))?;
        self.expect(CppTok::RParen, ")")?;
        Ok(self.expr_from(start, CppExprKind::Cast { kind, ty: Box::new(ty), value: Box::new(value) }))
    }

    /// Parses `(T)value` if the parentheses contain a type.
    pub(super) fn cast(&mut self) -> Parsed<Option<CppExpr>> {
        let start = self.next;
        if !matches!(self.kind_at(1), CppTok::Ident | CppTok::ColonColon) {
            return Ok(None);
        }
        self.next += 1;
        let known = self.at_type();
        let value = !known
            && self.kind() == CppTok::Ident
            && self.kind_at(1) != CppTok::ColonColon
            && matches!(self.scopes.find(&self.text()), NameRole::Value | NameRole::FunctionTemplate);
        if value || self.type_failures.contains(&start) {
            self.next = start;
            return Ok(None);
        }
        let ty = self.attempt(|parser| {
            let ty = parser.in_angle(AngleContext::Operator, Self::type_id)?;
            parser.expect(CppTok::RParen, ")")?;
            Ok(ty)
        });
        let Some(ty) = ty.filter(|ty| self.is_cast(ty, known)) else {
            self.type_failures.insert(start);
            self.next = start;
            return Ok(None);
        };
        if self.kind() == CppTok::LBrace {
            self.advance();
            let args = self.arguments(CppTok::RBrace, "}")?;
            let construct = CppExprKind::Construct { ty: Box::new(ty), args, braces: true };
            return Ok(Some(self.expr_from(start, construct)));
        }
        let value = self.nested(Self::unary)?;
        let kind = CppExprKind::Cast { kind: CppCastKind::CStyle, ty: Box::new(ty), value: Box::new(value) };
        Ok(Some(self.expr_from(start, kind)))
    }

    /// Returns whether a type in parentheses is a cast of what follows. `known` tells whether it is certainly a type.
    fn is_cast(&self, ty: &CppType, known: bool) -> bool {
        let operand = match self.kind() {
            CppTok::Ident => !matches!(self.word(), "and" | "or" | "xor" | "bitand" | "bitor" | "not_eq"),
            CppTok::Number | CppTok::Str | CppTok::Char | CppTok::Tilde | CppTok::Not | CppTok::ColonColon => true,
            // These are binary operators, calls or indices if the parentheses contain a value.
            CppTok::LParen
            | CppTok::LBracket
            | CppTok::LBrace
            | CppTok::Plus
            | CppTok::Minus
            | CppTok::Star
            | CppTok::Amp
            | CppTok::PlusPlus
            | CppTok::MinusMinus => known || is_certain_type(ty),
            _ => false,
        };
        // A function type is a call such as `(f(x))`.
        operand && !matches!(ty.kind, CppTypeKind::Function { .. })
    }

    pub(super) fn sizeof(&mut self) -> Parsed<CppExpr> {
        let start = self.next;
        self.advance();
        if self.accept(CppTok::Ellipsis) {
            self.expect(CppTok::LParen, "(")?;
            let name = self.name()?;
            self.expect(CppTok::RParen, ")")?;
            return Ok(self.expr_from(start, CppExprKind::SizeofPack(name)));
        }
        if let Some(ty) = self.parenthesized_type() {
            return Ok(self.expr_from(start, CppExprKind::SizeofType(Box::new(ty))));
        }
        let value = self.nested(Self::unary)?;
        Ok(self.expr_from(start, CppExprKind::SizeofExpr(Box::new(value))))
    }

    /// Parses `(T)` if the parentheses contain a type, not a value.
    fn parenthesized_type(&mut self) -> Option<CppType> {
        if self.kind() != CppTok::LParen {
            return None;
        }
        self.attempt(|parser| {
            parser.advance();
            let known = parser.at_type();
            let ty = parser.in_angle(AngleContext::Operator, Self::type_id)?;
            parser.expect(CppTok::RParen, ")")?;
            if known || is_certain_type(&ty) { Ok(ty) } else { Err(parser.expected("a type")) }
        })
    }

    pub(super) fn alignof(&mut self) -> Parsed<CppExpr> {
        let start = self.next;
        self.advance();
        self.expect(CppTok::LParen, "(")?;
        let ty = self.in_angle(AngleContext::Operator, Self::type_id)?;
        self.expect(CppTok::RParen, ")")?;
        Ok(self.expr_from(start, CppExprKind::AlignofType(Box::new(ty))))
    }

    /// Skips `new T[n]` or `new (place) T(args)`.
    pub(super) fn new_expression(&mut self) -> Parsed<CppExpr> {
        let start = self.next;
        self.advance();
        let mut is_plain = self.kind() != CppTok::LParen;
        if !is_plain {
            self.expect_brackets()?;
        }
        if !matches!(self.kind(), CppTok::Semi | CppTok::RParen | CppTok::Comma) {
            self.specifiers(None)?;
            while matches!(self.kind(), CppTok::Star) || self.word() == "const" {
                self.advance();
            }
        }
        while matches!(self.kind(), CppTok::LBracket | CppTok::LParen | CppTok::LBrace) {
            let is_length = self.kind() == CppTok::LBracket;
            let first = self.next;
            self.expect_brackets()?;
            // A call may assign its arguments.
            is_plain &= self.tokens[first..self.next - 1].windows(2).all(|pair| {
                let is_operand = matches!(pair[1].kind, CppTok::Ident | CppTok::Number | CppTok::RParen);
                let is_group = pair[1].kind == CppTok::LParen && pair[0].kind != CppTok::Ident;
                let is_operator = matches!(pair[1].text.as_str(), "+" | "-" | "*" | "/" | "." | "->" | "::");
                is_length && (is_operand || is_group || is_operator)
            });
        }
        let help = Some("use a local array, or pass memory as a parameter");
        let construct = if is_plain { "a `new` expression" } else { "a `new` expression with arguments" };
        let refusal = self.refusal(construct, start, help);
        Ok(self.expr_from(start, CppExprKind::Refused(refusal)))
    }

    pub(super) fn delete_expression(&mut self, start: usize) -> Parsed<CppExpr> {
        self.advance();
        if self.kind() == CppTok::LBracket {
            self.expect_brackets()?;
        }
        let operand = self.nested(Self::unary)?;
        let is_plain = matches!(operand.kind, CppExprKind::Name(_) | CppExprKind::Member { .. });
        let construct =
            if is_plain { "a `delete` expression" } else { "a `delete` expression with a computed pointer" };
        let refusal = self.refusal(construct, start, None);
        Ok(self.expr_from(start, CppExprKind::Refused(refusal)))
    }

    /// Parses `[captures](params) -> T { body }`.
    fn lambda(&mut self) -> Parsed<CppExpr> {
        let start = self.next;
        self.advance();
        let (mut default_capture, mut captures) = (None, Vec::new());
        while self.kind() != CppTok::RBracket {
            if self.kind() == CppTok::Amp && matches!(self.kind_at(1), CppTok::Comma | CppTok::RBracket) {
                self.advance();
                default_capture = Some(CaptureKind::Reference);
            } else if self.kind() == CppTok::Eq {
                self.advance();
                default_capture = Some(CaptureKind::Copy);
            } else {
                let kind = if self.accept(CppTok::Amp) { CaptureKind::Reference } else { CaptureKind::Copy };
                let is_copied_object = self.accept(CppTok::Star);
                self.accept(CppTok::Ellipsis);
                let mut name = self.name()?;
                if is_copied_object {
                    name.text = SmolStr::new_static("*this");
                }
                self.accept(CppTok::Ellipsis);
                let init =
                    if self.accept(CppTok::Eq) { Some(self.in_operator_context(Self::assignment)?) } else { None };
                captures.push(LambdaCapture { kind, name, init });
            }
            if !self.accept(CppTok::Comma) {
                break;
            }
        }
        self.expect(CppTok::RBracket, "]")?;
        let mut specifiers = Specifiers::default();
        while self.attribute(&mut specifiers)? {}
        if self.kind() == CppTok::Less {
            return Err(self.unsupported("a lambda template"));
        }
        let depth = self.scopes.depth();
        self.scopes.push();
        for capture in &captures {
            self.scopes.declare(&capture.name.text, NameRole::Value);
        }
        let outer = std::mem::replace(&mut self.in_for_header, false);
        let (mut params, mut variadic) = (vec![], false);
        if self.kind() == CppTok::LParen {
            let parsed = self.in_operator_context(Self::parameters)?;
            (params, variadic) = (parsed.params, parsed.variadic);
        }
        for name in params.iter().filter_map(|param| param.name.as_ref()) {
            self.scopes.declare(&name.text, NameRole::Value);
        }
        let (mut mutable, mut result) = (false, None);
        loop {
            match self.word() {
                "mutable" => mutable = true,
                "constexpr" => {}
                "noexcept" if self.kind_at(1) == CppTok::LParen => {
                    self.advance();
                    self.expect_brackets()?;
                    continue;
                }
                "noexcept" => {}
                "" if self.kind() == CppTok::Arrow => {
                    self.advance();
                    result = Some(self.in_operator_context(Self::type_id)?);
                    continue;
                }
                _ if self.attribute(&mut specifiers)? => continue,
                _ => break,
            }
            self.advance();
        }
        let body = self.in_operator_context(Self::block)?;
        self.scopes.pop_to(depth);
        self.in_for_header = outer;
        let span = self.span_from(start);
        let template = auto_params(&mut params);
        let no_result = CppType { kind: CppTypeKind::Auto, qualifiers: Qualifiers::default(), span };
        let call = CppFunction {
            name: FunctionName::Operator("()".into()),
            name_span: span,
            scope: None,
            attributes: FunctionAttributes { device: true, ..specifiers.function },
            template,
            template_args: None,
            result: result.unwrap_or(no_result),
            params,
            variadic,
            is_const: !mutable,
            initializers: vec![],
            body: FunctionBody::Block(body),
        };
        let call = CppDecl { kind: CppDeclKind::Function(Box::new(call)), span };
        let class = CppRecord {
            kind: RecordKind::Struct,
            name: None,
            scope: None,
            template: None,
            template_args: None,
            align: None,
            packed: false,
            bases: vec![],
            members: Some(vec![CppMember { access: MemberAccess::Public, decl: call }]),
            span,
        };
        let lambda = CppLambda { default_capture, captures, class };
        Ok(self.expr_from(start, CppExprKind::Lambda(Box::new(lambda))))
    }
}

/// Replaces each `auto` in the types of a lambda's parameters by a template parameter.
fn auto_params(params: &mut [CppParam]) -> Option<TemplateHeader> {
    fn replace(ty: &mut CppType, name: &CppName) -> bool {
        match &mut ty.kind {
            CppTypeKind::Auto => {
                let segments = vec![NameSegment { name: name.clone(), args: None }];
                ty.kind = CppTypeKind::Named(QualifiedName { global: false, segments, span: name.span });
                true
            }
            CppTypeKind::Pointer(to) | CppTypeKind::Reference(to) | CppTypeKind::RvalueReference(to) => {
                replace(to, name)
            }
            CppTypeKind::Array { element, .. } => replace(element, name),
            _ => false,
        }
    }
    let mut header: Option<TemplateHeader> = None;
    for (at, param) in params.iter_mut().enumerate() {
        // No name of a file has a space.
        let name = CppName { text: format!("auto {at}").into(), span: param.ty.span };
        if replace(&mut param.ty, &name) {
            let (kind, span) = (TemplateParamKind::Type { default: None }, param.span);
            let own = TemplateParam { name: Some(name), kind, pack: param.pack, span };
            header.get_or_insert(TemplateHeader { params: vec![], span }).params.push(own);
        }
    }
    header
}

/// Returns whether something that was parsed as a type is one even if its name is unknown: `T *` or `T<int>`, but not
/// `x[2]`, which may be an element.
pub(super) fn is_certain_type(ty: &CppType) -> bool {
    match &ty.kind {
        CppTypeKind::Pointer(_) | CppTypeKind::Reference(_) | CppTypeKind::RvalueReference(_) => true,
        CppTypeKind::Named(name) => name.segments.last().is_some_and(|last| last.args.is_some()),
        _ => ty.qualifiers != Qualifiers::default(),
    }
}
