//! Parses declarations of namespaces, classes and blocks.

use super::declarators::Declarator;
use super::names::NameRole;
use super::specifiers::Specifiers;
use super::{AngleContext, CppParser, Parsed};
use crate::ast::{
    CppAlias, CppDecl, CppDeclKind, CppFunction, CppInit, CppVariable, FunctionBody, TemplateHeader, VariableDecl,
    VariableName,
};
use crate::lex::CppTok;

/// Where a declaration is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DeclPlace<'c> {
    Namespace,
    /// In a class, of this name.
    Class(Option<&'c str>),
    Block,
}

impl<'c> DeclPlace<'c> {
    fn class(self) -> Option<&'c str> {
        match self {
            DeclPlace::Class(name) => name,
            _ => None,
        }
    }
}

impl CppParser<'_> {
    /// Parses declarations up to a token, which is not read.
    pub(super) fn declarations_until(&mut self, end: CppTok) -> Vec<CppDecl> {
        let mut decls = Vec::new();
        while self.kind() != end && self.kind() != CppTok::Eof {
            let start = self.next;
            decls.extend(self.recovered(start, DeclPlace::Namespace));
        }
        decls
    }

    /// Parses a member of a class. One that does not parse is skipped or refused alone.
    pub(super) fn recovered_declaration(&mut self, start: usize, class: Option<&str>) -> Vec<CppDecl> {
        self.recovered(start, DeclPlace::Class(class))
    }

    fn recovered(&mut self, start: usize, place: DeclPlace<'_>) -> Vec<CppDecl> {
        let (depth, scopes, deferred) = (self.depth, self.scopes.depth(), self.deferred.len());
        let result = self.declaration(place);
        self.depth = depth;
        self.angle = AngleContext::Operator;
        let decls = match result {
            Ok(decls) => decls,
            Err(problem) => {
                self.scopes.pop_to(scopes);
                self.deferred.truncate(deferred);
                vec![self.skip_declaration(start, &problem)]
            }
        };
        if self.next == start {
            self.advance();
        }
        decls
    }

    /// Parses a declaration with everything that can come before it.
    pub(super) fn declaration(&mut self, place: DeclPlace<'_>) -> Parsed<Vec<CppDecl>> {
        self.nested(|parser| parser.declaration_here(place))
    }

    fn declaration_here(&mut self, place: DeclPlace<'_>) -> Parsed<Vec<CppDecl>> {
        let start = self.next;
        let one = |parser: &Self, kind| Ok(vec![CppDecl { kind, span: parser.span_from(start) }]);
        match self.word() {
            "" => match self.kind() {
                CppTok::Semi => {
                    self.advance();
                    return Ok(vec![]);
                }
                CppTok::PragmaUnroll => {
                    // A pragma before a function has no effect.
                    while self.kind() != CppTok::PragmaEnd && self.kind() != CppTok::Eof {
                        self.advance();
                    }
                    self.advance();
                    return Ok(vec![]);
                }
                _ => {}
            },
            "namespace" => return self.namespace(start, false),
            "inline" if self.word_at(1) == "namespace" => {
                self.advance();
                return self.namespace(start, true);
            }
            "using" => {
                let kind = self.using(None)?;
                return one(self, kind);
            }
            "template" => return self.template_declaration(start, place),
            "extern" if self.kind_at(1) == CppTok::Str && self.kind_at(2) == CppTok::LBrace => {
                self.advance();
                self.advance();
                self.advance();
                let decls = self.declarations_until(CppTok::RBrace);
                self.expect(CppTok::RBrace, "}")?;
                return one(self, CppDeclKind::LinkageBlock(decls));
            }
            "extern" if self.word_at(1) == "template" => {
                self.advance();
                return self.template_declaration(start, place);
            }
            "static_assert" | "_Static_assert" => {
                let kind = self.static_assert()?;
                return one(self, kind);
            }
            "friend" => {
                self.advance();
                let decl = self.friend()?;
                return one(self, CppDeclKind::Friend(decl.map(Box::new)));
            }
            "asm" | "__asm__" => return Err(self.unsupported("inline assembly")),
            _ => {}
        }
        let kind = self.simple_declaration(place, None)?;
        one(self, kind)
    }

    fn namespace(&mut self, start: usize, inline: bool) -> Parsed<Vec<CppDecl>> {
        self.advance();
        let mut specifiers = Specifiers::default();
        while self.attribute(&mut specifiers)? {}
        let mut names = Vec::new();
        while self.kind() == CppTok::Ident {
            self.accept_word("inline");
            names.push(self.name()?);
            if !self.accept(CppTok::ColonColon) {
                break;
            }
        }
        if self.kind() == CppTok::Eq
            && let Some(name) = names.pop()
        {
            self.advance();
            let target = self.type_name()?;
            self.expect(CppTok::Semi, ";")?;
            self.scopes.declare(&name.text, NameRole::Namespace);
            if let Some(last) = target.segments.last() {
                self.scopes.alias(&name.text, &last.name.text);
            }
            let kind = CppDeclKind::NamespaceAlias { name, target };
            return Ok(vec![CppDecl { kind, span: self.span_from(start) }]);
        }
        self.expect(CppTok::LBrace, "{")?;
        let depth = self.scopes.depth();
        for name in &names {
            self.scopes.declare(&name.text, NameRole::Namespace);
            self.scopes.push_owner(&name.text);
        }
        let decls = self.declarations_until(CppTok::RBrace);
        self.scopes.pop_to(depth);
        self.expect(CppTok::RBrace, "}")?;
        let span = self.span_from(start);
        if inline {
            for name in &names {
                self.scopes.use_namespace(&name.text);
            }
        }
        let innermost = names.pop();
        let mut kind = CppDeclKind::Namespace { name: innermost, inline, decls };
        while let Some(name) = names.pop() {
            kind = CppDeclKind::Namespace { name: Some(name), inline: false, decls: vec![CppDecl { kind, span }] };
        }
        Ok(vec![CppDecl { kind, span }])
    }

    /// Parses `using …;`.
    fn using(&mut self, template: Option<TemplateHeader>) -> Parsed<CppDeclKind> {
        self.advance();
        if self.accept_word("namespace") {
            let name = self.type_name()?;
            self.expect(CppTok::Semi, ";")?;
            if let Some(last) = name.segments.last() {
                self.scopes.use_namespace(&last.name.text);
            }
            return Ok(CppDeclKind::UsingNamespace(name));
        }
        if self.kind() == CppTok::Ident && matches!(self.kind_at(1), CppTok::Eq | CppTok::LBracket) {
            let name = self.name()?;
            let mut ignored = Specifiers::default();
            while self.attribute(&mut ignored)? {}
            self.expect(CppTok::Eq, "=")?;
            let ty = self.type_id()?;
            self.expect(CppTok::Semi, ";")?;
            let role = if template.is_some() { NameRole::ClassTemplate } else { NameRole::Type };
            self.scopes.declare(&name.text, role);
            self.alias_members(&name.text, &ty);
            return Ok(CppDeclKind::Alias(Box::new(CppAlias { name, template, ty })));
        }
        self.accept_word("typename");
        let name = self.type_name()?;
        self.expect(CppTok::Semi, ";")?;
        let role = self.role(&name);
        if let Some(last) = name.segments.last().filter(|_| role != NameRole::Unknown) {
            self.scopes.declare(&last.name.text, role);
        }
        Ok(CppDeclKind::UsingName(name))
    }

    /// Makes the members of a class known under the name of an alias.
    fn alias_members(&mut self, name: &crate::ast::SmolStr, ty: &crate::ast::CppType) {
        let target = match &ty.kind {
            crate::ast::CppTypeKind::Named(target) => target.segments.last().map(|last| &last.name.text),
            crate::ast::CppTypeKind::Record(record) => record.name.as_ref().map(|name| &name.text),
            _ => None,
        };
        if let Some(target) = target {
            self.scopes.alias(name, target);
        }
    }

    fn static_assert(&mut self) -> Parsed<CppDeclKind> {
        self.advance();
        self.expect(CppTok::LParen, "(")?;
        let condition = self.in_angle(AngleContext::Operator, Self::assignment)?;
        let message = if self.accept(CppTok::Comma) {
            let message = self.string_literal()?;
            Some(String::from_utf8_lossy(&message.bytes).into_owned())
        } else {
            None
        };
        self.expect(CppTok::RParen, ")")?;
        self.expect(CppTok::Semi, ";")?;
        Ok(CppDeclKind::StaticAssert { condition, message })
    }

    /// Parses a friend: only functions matter.
    fn friend(&mut self) -> Parsed<Option<CppDecl>> {
        let start = self.next;
        if matches!(self.word(), "class" | "struct") || self.word() == "template" {
            while !matches!(self.kind(), CppTok::Semi | CppTok::LBrace | CppTok::Eof) {
                self.advance();
            }
            if self.kind() == CppTok::Semi {
                self.advance();
                return Ok(None);
            }
            return Err(self.unsupported("a friend template that is defined in a class"));
        }
        let kind = self.simple_declaration(DeclPlace::Namespace, None)?;
        Ok(Some(CppDecl { kind, span: self.span_from(start) }))
    }

    fn template_declaration(&mut self, start: usize, place: DeclPlace<'_>) -> Parsed<Vec<CppDecl>> {
        if self.kind_at(1) != CppTok::Less {
            self.advance();
            let kind = self.simple_declaration(DeclPlace::Namespace, None)?;
            let kind = match kind {
                CppDeclKind::Function(function) => CppDeclKind::ExplicitInstantiation(function),
                other => other,
            };
            return Ok(vec![CppDecl { kind, span: self.span_from(start) }]);
        }
        let depth = self.scopes.depth();
        self.scopes.push();
        let mut header = self.template_header()?;
        // The members of a class template have a second header, whose parameters come last.
        while self.word() == "template" && self.kind_at(1) == CppTok::Less {
            let inner = self.template_header()?;
            header.params.extend(inner.params);
        }
        let kind = match self.word() {
            "using" => self.using(Some(header))?,
            "friend" => {
                self.advance();
                CppDeclKind::Friend(self.friend()?.map(Box::new))
            }
            "concept" => return Err(self.unsupported("a concept")),
            _ => self.simple_declaration(place, Some(header))?,
        };
        self.scopes.pop_to(depth);
        match &kind {
            CppDeclKind::Function(function) => self.declare_function(function),
            CppDeclKind::Record(record) => {
                if let Some(name) = &record.name {
                    self.scopes.declare(&name.text, NameRole::ClassTemplate);
                }
            }
            CppDeclKind::Alias(alias) => self.scopes.declare(&alias.name.text, NameRole::ClassTemplate),
            CppDeclKind::Variables(decl) => {
                for variable in &decl.variables {
                    if let VariableName::Plain(name) = &variable.name {
                        self.scopes.declare(&name.text, NameRole::FunctionTemplate);
                    }
                }
            }
            _ => {}
        }
        Ok(vec![CppDecl { kind, span: self.span_from(start) }])
    }

    /// Parses a declaration of functions, variables or a type, up to its `;` or the end of its body.
    pub(super) fn simple_declaration(
        &mut self,
        place: DeclPlace<'_>,
        template: Option<TemplateHeader>,
    ) -> Parsed<CppDeclKind> {
        let specifiers = self.specifiers(place.class())?;
        if specifiers.is_friend && matches!(place, DeclPlace::Class(_)) {
            // A friend that is defined in a class is a function of the namespace.
            let start = self.next;
            let kind = self.after_specifiers(specifiers, DeclPlace::Namespace, template)?;
            let decl = CppDecl { kind, span: self.span_from(start) };
            return Ok(CppDeclKind::Friend(Some(Box::new(decl))));
        }
        self.after_specifiers(specifiers, place, template)
    }

    fn after_specifiers(
        &mut self,
        mut specifiers: Specifiers,
        place: DeclPlace<'_>,
        template: Option<TemplateHeader>,
    ) -> Parsed<CppDeclKind> {
        if specifiers.defines_type
            && !specifiers.is_typedef
            && self.kind() == CppTok::Semi
            && let Some(ty) = specifiers.ty.take()
        {
            let anonymous = matches!(&ty.kind, crate::ast::CppTypeKind::Record(record) if record.name.is_none());
            if let Some(kind) = Self::record_declaration(ty.kind, template) {
                if anonymous {
                    self.declare_anonymous_members(&kind);
                }
                self.advance();
                return Ok(kind);
            }
            return Err(self.expected("a name"));
        }
        let start = self.next;
        let mut declarator = self.declarator(&mut specifiers, matches!(place, DeclPlace::Class(_)))?;
        if specifiers.is_typedef {
            return self.typedef(specifiers, declarator);
        }
        if let Some(signature) = declarator.take_signature() {
            let Some(name) = declarator.name.take() else { return Err(self.expected("the name of a function")) };
            let function = self.function(&mut specifiers, declarator, name, signature, template, place.class())?;
            return self.function_rest(function, place);
        }
        if specifiers.ty.is_none() {
            return Err(self.expected("a type"));
        }
        self.variables(specifiers, declarator, start, template)
    }

    /// Declares the members of an unnamed union or struct in the scope around it.
    fn declare_anonymous_members(&mut self, kind: &CppDeclKind) {
        let CppDeclKind::Record(record) = kind else { return };
        for member in record.members.iter().flatten() {
            if let CppDeclKind::Variables(decl) = &member.decl.kind {
                for variable in &decl.variables {
                    if let VariableName::Plain(name) = &variable.name {
                        self.scopes.declare(&name.text, NameRole::Value);
                    }
                }
            }
        }
    }

    /// Parses the names of a `typedef`. Further names are aliases of their own in a block of declarations.
    fn typedef(&mut self, mut specifiers: Specifiers, first: Declarator) -> Parsed<CppDeclKind> {
        let Some(base) = specifiers.ty.take() else { return Err(self.expected("a type")) };
        let mut aliases = Vec::new();
        let mut declarator = first;
        loop {
            let Some(name) = declarator.name.as_ref().and_then(|name| name.plain()) else {
                return Err(self.expected("a name"));
            };
            let ty = declarator.apply(base.clone());
            self.scopes.declare(&name.text, NameRole::Type);
            self.alias_members(&name.text, &ty);
            let span = name.span;
            let kind = CppDeclKind::Alias(Box::new(CppAlias { name, template: None, ty }));
            aliases.push(CppDecl { kind, span });
            if !self.accept(CppTok::Comma) {
                break;
            }
            declarator = self.declarator(&mut specifiers, false)?;
        }
        self.expect(CppTok::Semi, ";")?;
        match aliases.pop() {
            Some(only) if aliases.is_empty() => Ok(only.kind),
            last => {
                aliases.extend(last);
                Ok(CppDeclKind::LinkageBlock(aliases))
            }
        }
    }

    /// Parses what follows a function's parameters and attributes: its body, or the end of the declaration.
    fn function_rest(&mut self, mut function: CppFunction, place: DeclPlace<'_>) -> Parsed<CppDeclKind> {
        self.declare_function(&function);
        match self.kind() {
            CppTok::LBrace | CppTok::Colon => {
                if place == DeclPlace::Block {
                    return Err(self.unsupported("a function that is defined in a function"));
                }
                if matches!(place, DeclPlace::Class(_)) {
                    self.deferred.push(self.next);
                    self.skip_function_body()?;
                } else {
                    self.function_body(&mut function);
                }
                return Ok(CppDeclKind::Function(Box::new(function)));
            }
            CppTok::Eq => {
                self.advance();
                function.body = match self.text().as_str() {
                    "default" => FunctionBody::Defaulted,
                    "delete" => FunctionBody::Deleted,
                    "0" => FunctionBody::Pure,
                    _ => return Err(self.expected("`default`, `delete` or `0`")),
                };
                self.advance();
            }
            _ if self.word() == "try" => return Err(self.unsupported("a `try` block")),
            CppTok::Comma => return Err(self.unsupported("a declaration of a function together with other names")),
            _ => {}
        }
        self.expect(CppTok::Semi, ";")?;
        Ok(CppDeclKind::Function(Box::new(function)))
    }

    /// Parses the variables of a declaration after the first declarator, up to the `;`.
    fn variables(
        &mut self,
        mut specifiers: Specifiers,
        first: Declarator,
        start: usize,
        template: Option<TemplateHeader>,
    ) -> Parsed<CppDeclKind> {
        let decl = self.variable_list(&mut specifiers, first, start, template)?;
        self.expect(CppTok::Semi, ";")?;
        Ok(CppDeclKind::Variables(decl))
    }

    pub(super) fn variable_list(
        &mut self,
        specifiers: &mut Specifiers,
        first: Declarator,
        start: usize,
        template: Option<TemplateHeader>,
    ) -> Parsed<VariableDecl> {
        let Some(base) = specifiers.ty.take() else { return Err(self.expected("a type")) };
        let mut variables = Vec::new();
        let (mut declarator, mut from) = (first, start);
        loop {
            let variable = self.variable(declarator, base.clone(), from)?;
            variables.push(variable);
            if !self.accept(CppTok::Comma) {
                break;
            }
            from = self.next;
            // A bit field may have no name.
            declarator = self.declarator(specifiers, self.kind() == CppTok::Colon)?;
        }
        Ok(VariableDecl { attributes: std::mem::take(&mut specifiers.variable), template, variables })
    }

    /// Parses the initializer of a variable.
    fn variable(&mut self, mut declarator: Declarator, base: crate::ast::CppType, start: usize) -> Parsed<CppVariable> {
        let name = declarator.name.take();
        let (variable_name, scope) = match &name {
            Some(name) => match name.plain() {
                Some(plain) => (VariableName::Plain(plain), name.scope.clone()),
                None => return Err(self.expected("the name of a variable")),
            },
            None if self.kind() == CppTok::LBracket || self.kind() == CppTok::Colon => (VariableName::Unnamed, None),
            None => return Err(self.expected("a name")),
        };
        if let VariableName::Plain(plain) = &variable_name {
            // The variable is in scope in its own initializer.
            self.scopes.declare(&plain.text, NameRole::Value);
        }
        let ty = declarator.apply(base);
        // `for (T x : range)` has the same colon; its caller parses it.
        let bits = match self.kind() {
            CppTok::Colon if !self.in_for_header => {
                self.advance();
                Some(self.in_operator_context(Self::conditional)?)
            }
            _ => None,
        };
        let init = self.variable_init()?;
        Ok(CppVariable { name: variable_name, scope, ty, init, bits, span: self.span_from(start) })
    }

    fn variable_init(&mut self) -> Parsed<CppInit> {
        self.in_angle(AngleContext::Operator, |parser| match parser.kind() {
            CppTok::Eq => {
                parser.advance();
                Ok(CppInit::Equal(parser.initializer_clause()?))
            }
            CppTok::LParen => {
                parser.advance();
                Ok(CppInit::Paren(parser.arguments(CppTok::RParen, ")")?))
            }
            CppTok::LBrace => {
                parser.advance();
                Ok(CppInit::Brace(parser.arguments(CppTok::RBrace, "}")?))
            }
            _ => Ok(CppInit::None),
        })
    }

    /// Parses `auto [a, b] = value;`, after the specifiers.
    pub(super) fn bindings(&mut self, specifiers: &mut Specifiers) -> Parsed<VariableDecl> {
        let start = self.next;
        let Some(base) = specifiers.ty.take() else { return Err(self.expected("a type")) };
        let reference = matches!(self.kind(), CppTok::Amp | CppTok::AmpAmp);
        if reference {
            self.advance();
        }
        self.expect(CppTok::LBracket, "[")?;
        let mut names = Vec::new();
        loop {
            let name = self.name()?;
            self.scopes.declare(&name.text, NameRole::Value);
            names.push(name);
            if !self.accept(CppTok::Comma) {
                break;
            }
        }
        self.expect(CppTok::RBracket, "]")?;
        let init = self.variable_init()?;
        let span = self.span_from(start);
        let ty = match reference {
            true => crate::ast::CppType {
                kind: crate::ast::CppTypeKind::Reference(Box::new(base)),
                qualifiers: crate::ast::Qualifiers::default(),
                span,
            },
            false => base,
        };
        let variable = CppVariable { name: VariableName::Bindings(names), scope: None, ty, init, bits: None, span };
        let attributes = std::mem::take(&mut specifiers.variable);
        Ok(VariableDecl { attributes, template: None, variables: vec![variable] })
    }
}
