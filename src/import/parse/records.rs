//! Parses classes and enums.

use super::names::NameRole;
use super::specifiers::Specifiers;
use super::{CppParser, Parsed};
use crate::ast::{
    BaseClass, CppDeclKind, CppEnum, CppMember, CppRecord, CppTypeKind, Enumerator, MemberAccess, QualifiedName,
    RecordKind, SmolStr, TemplateHeader,
};
use crate::lex::CppTok;

impl CppParser<'_> {
    /// Parses `struct name`, as a type, or a definition. The flag tells whether it is a definition or declaration.
    pub(super) fn record_specifier(&mut self, specifiers: &mut Specifiers) -> Parsed<(CppTypeKind, bool)> {
        let start = self.next;
        let kind = match self.word() {
            "struct" => RecordKind::Struct,
            "class" => RecordKind::Class,
            _ => RecordKind::Union,
        };
        self.advance();
        let outer_align = specifiers.variable.align.take();
        let outer_packed = std::mem::take(&mut specifiers.packed);
        while self.attribute(specifiers)? {}
        let mut name = if self.kind() == CppTok::Ident { Some(self.type_name()?) } else { None };
        while self.attribute(specifiers)? {}
        if self.word() == "final" && matches!(self.kind_at(1), CppTok::LBrace | CppTok::Colon) {
            self.advance();
        }
        let mut align = specifiers.variable.align.take();
        specifiers.variable.align = outer_align;
        let body = matches!(self.kind(), CppTok::LBrace | CppTok::Colon);
        if !body && self.kind() != CppTok::Semi {
            // An elaborated type, `struct S x;`.
            let Some(name) = name else { return Err(self.expected("the name of a type")) };
            if let [only] = &name.segments[..] {
                self.declare_type_if_new(&only.name.text);
            }
            return Ok((CppTypeKind::Named(name), false));
        }
        if name.is_none() && !body {
            return Err(self.expected("the name of a type"));
        }
        let (own, template_args, scope) = match name.as_mut().and_then(|name| name.segments.pop()) {
            Some(segment) => (Some(segment.name), segment.args, name.filter(|scope| !scope.segments.is_empty())),
            None => (None, None, None),
        };
        if let Some(own) = &own {
            self.declare_type_if_new(&own.text);
        }
        let mut record = CppRecord {
            kind,
            name: own,
            scope,
            template: None,
            template_args,
            align: None,
            packed: false,
            bases: vec![],
            members: None,
            span: self.span_from(start),
        };
        if body {
            self.nested(|parser| parser.record_body(&mut record))?;
            record.span = self.span_from(start);
            // GNU attributes may follow the body.
            let kept = specifiers.variable.align.take();
            while self.word() == "__attribute__" && self.attribute(specifiers)? {}
            align = specifiers.variable.align.take().or(align);
            specifiers.variable.align = kept;
        }
        record.align = align;
        record.packed = specifiers.packed;
        specifiers.packed = outer_packed;
        Ok((CppTypeKind::Record(Box::new(record)), true))
    }

    /// Declares a class name in the innermost scope, unless it is a template already.
    fn declare_type_if_new(&mut self, name: &SmolStr) {
        if !matches!(self.scopes.find(name), NameRole::ClassTemplate | NameRole::Type) {
            self.scopes.declare(name, NameRole::Type);
        }
    }

    /// Parses the base classes and members of a record. Bodies of methods come last, because they see all members.
    fn record_body(&mut self, record: &mut CppRecord) -> Parsed<()> {
        let default = if record.kind == RecordKind::Class { MemberAccess::Private } else { MemberAccess::Public };
        if self.accept(CppTok::Colon) {
            loop {
                let base = self.base_class(default)?;
                record.bases.push(base);
                if !self.accept(CppTok::Comma) {
                    break;
                }
            }
        }
        let close = self.closing.get(self.next).map_or(0, |&close| close as usize);
        self.expect(CppTok::LBrace, "{")?;
        if close == 0 {
            return Err(self.expected("`}` at the end of the class"));
        }
        let depth = self.scopes.depth();
        let class = record.name.as_ref().map(|name| name.text.clone());
        match &class {
            Some(class) => self.scopes.push_owner(class),
            None => self.scopes.push(),
        }
        for base in &record.bases {
            if let Some(last) = base.name.segments.last() {
                self.scopes.inherit(&last.name.text);
            }
        }
        let (mut members, mut access, mut deferred) = (Vec::<CppMember>::new(), default, Vec::new());
        while self.next < close {
            let specifier = match self.word() {
                "public" => Some(MemberAccess::Public),
                "protected" => Some(MemberAccess::Protected),
                "private" => Some(MemberAccess::Private),
                _ => None,
            };
            if let Some(specifier) = specifier.filter(|_| self.kind_at(1) == CppTok::Colon) {
                access = specifier;
                self.advance();
                self.advance();
                continue;
            }
            let before = self.deferred.len();
            let from = self.next;
            members.extend(
                self.recovered_declaration(from, class.as_deref()).into_iter().map(|decl| CppMember { access, decl }),
            );
            // A member function is the only declaration of its line.
            if let Some(body) = self.deferred.drain(before..).next() {
                deferred.push((members.len() - 1, body));
            }
        }
        self.next = close;
        for (member, body) in deferred {
            if let Some(CppDeclKind::Function(function)) = members.get_mut(member).map(|member| &mut member.decl.kind) {
                self.next = body;
                self.function_body(function);
            }
        }
        self.next = close + 1;
        self.scopes.pop_to(depth);
        record.members = Some(members);
        Ok(())
    }

    fn base_class(&mut self, default: MemberAccess) -> Parsed<BaseClass> {
        let (mut access, mut is_virtual) = (default, false);
        loop {
            match self.word() {
                "public" => access = MemberAccess::Public,
                "protected" => access = MemberAccess::Protected,
                "private" => access = MemberAccess::Private,
                "virtual" => is_virtual = true,
                _ => break,
            }
            self.advance();
        }
        self.accept_word("typename");
        let name = self.type_name()?;
        self.accept(CppTok::Ellipsis);
        Ok(BaseClass { access, is_virtual, name })
    }

    /// Parses `enum name : type { … }`. The flag tells whether it is a definition.
    pub(super) fn enum_specifier(&mut self) -> Parsed<(CppTypeKind, bool)> {
        let start = self.next;
        self.advance();
        let scoped = self.accept_word("class") || self.accept_word("struct");
        let mut ignored = Specifiers::default();
        while self.attribute(&mut ignored)? {}
        let name = if self.kind() == CppTok::Ident { Some(self.name()?) } else { None };
        let colon = self.kind() == CppTok::Colon;
        let underlying = if colon {
            self.advance();
            let mut specifiers = self.specifiers(None)?;
            specifiers.ty.take()
        } else {
            None
        };
        if self.kind() != CppTok::LBrace {
            let Some(name) = name else { return Err(self.expected("the name of an enum")) };
            self.declare_type_if_new(&name.text);
            if colon || self.kind() == CppTok::Semi {
                let span = self.span_from(start);
                let declared = CppEnum { name: Some(name), scoped, underlying, enumerators: None, span };
                return Ok((CppTypeKind::Enum(Box::new(declared)), true));
            }
            let span = name.span;
            let segments = vec![crate::ast::NameSegment { name, args: None }];
            return Ok((CppTypeKind::Named(QualifiedName { global: false, segments, span }), false));
        }
        if let Some(name) = &name {
            self.declare_type_if_new(&name.text);
        }
        self.advance();
        match &name {
            Some(name) => self.scopes.push_owner(&name.text),
            None => self.scopes.push(),
        }
        let mut enumerators = Vec::new();
        while self.kind() != CppTok::RBrace {
            let name = self.name()?;
            self.scopes.declare(&name.text, NameRole::Value);
            if !scoped {
                self.scopes.declare_outside(&name.text, NameRole::Value);
            }
            let value = if self.accept(CppTok::Eq) { Some(self.in_operator_context(Self::conditional)?) } else { None };
            enumerators.push(Enumerator { name, value });
            if !self.accept(CppTok::Comma) {
                break;
            }
        }
        self.scopes.pop();
        self.expect(CppTok::RBrace, "}")?;
        let span = self.span_from(start);
        let defined = CppEnum { name, scoped, underlying, enumerators: Some(enumerators), span };
        Ok((CppTypeKind::Enum(Box::new(defined)), true))
    }

    /// Moves the template header into a record that is declared alone.
    pub(super) fn record_declaration(kind: CppTypeKind, template: Option<TemplateHeader>) -> Option<CppDeclKind> {
        match kind {
            CppTypeKind::Record(mut record) => {
                record.template = template;
                Some(CppDeclKind::Record(record))
            }
            CppTypeKind::Enum(defined) => Some(CppDeclKind::Enum(defined)),
            _ => None,
        }
    }
}
