//! Parses declarators: `*p`, `a[2][3]`, `(*f)(int)`, `&r`.

use super::names::NameRole;
use super::specifiers::Specifiers;
use super::{AngleContext, CppParser, Parsed};
use crate::ast::{
    CppExpr, CppName, CppParam, CppType, CppTypeKind, FunctionName, NameSegment, QualifiedName, Qualifiers, SmolStr,
};
use crate::lex::CppTok;
use crate::source::SourceSpan;

/// A step from the type of the specifiers to the type of the declared name.
pub(super) enum TypeStep {
    Pointer(Qualifiers),
    Reference(Qualifiers),
    RvalueReference,
    MemberPointer(QualifiedName),
    Array(Option<CppExpr>),
    Function(FunctionSignature),
}

/// The parameters of a function.
#[derive(Default)]
pub(super) struct FunctionSignature {
    pub params: Vec<CppParam>,
    pub variadic: bool,
}

/// The name in a declarator.
pub(super) struct DeclaredName {
    pub name: FunctionName,
    pub scope: Option<QualifiedName>,
    /// `<int>` of a specialization.
    pub template_args: Option<Vec<crate::ast::CppTemplateArg>>,
    /// The type of a conversion operator.
    pub conversion: Option<CppType>,
    pub span: SourceSpan,
}

impl DeclaredName {
    /// Returns the name of a variable.
    pub fn plain(&self) -> Option<CppName> {
        match &self.name {
            FunctionName::Plain(text) => Some(CppName { text: text.clone(), span: self.span }),
            _ => None,
        }
    }
}

pub(super) struct Declarator {
    pub name: Option<DeclaredName>,
    /// The steps in the order of their application.
    pub steps: Vec<TypeStep>,
    /// `...` of a parameter pack.
    pub pack: bool,
    pub span: SourceSpan,
}

impl Declarator {
    /// Returns the type of the declared name.
    pub fn apply(self, base: CppType) -> CppType {
        let span = base.span.to(self.span);
        self.steps.into_iter().fold(base, |ty, step| {
            let mut qualifiers = Qualifiers::default();
            let inner = Box::new(ty);
            let kind = match step {
                TypeStep::Pointer(own) => {
                    qualifiers = own;
                    CppTypeKind::Pointer(inner)
                }
                TypeStep::Reference(own) => {
                    qualifiers = own;
                    CppTypeKind::Reference(inner)
                }
                TypeStep::RvalueReference => CppTypeKind::RvalueReference(inner),
                TypeStep::MemberPointer(class) => CppTypeKind::MemberPointer { class, target: inner },
                TypeStep::Array(length) => CppTypeKind::Array { element: inner, length: length.map(Box::new) },
                TypeStep::Function(signature) => CppTypeKind::Function { result: inner, params: signature.params },
            };
            CppType { kind, qualifiers, span }
        })
    }

    /// Takes the parameters if the declarator declares a function, not a pointer to one.
    pub fn take_signature(&mut self) -> Option<FunctionSignature> {
        match self.steps.pop() {
            Some(TypeStep::Function(signature)) => Some(signature),
            other => {
                self.steps.extend(other);
                None
            }
        }
    }
}

impl CppParser<'_> {
    /// Parses a declarator. `unnamed` allows it to have no name. Attributes between `*` and the name are added to the
    /// specifiers.
    pub(super) fn declarator(&mut self, specifiers: &mut Specifiers, unnamed: bool) -> Parsed<Declarator> {
        self.nested(|parser| parser.declarator_level(specifiers, unnamed))
    }

    fn declarator_level(&mut self, specifiers: &mut Specifiers, unnamed: bool) -> Parsed<Declarator> {
        let start = self.next;
        let mut steps = self.pointers(specifiers)?;
        if steps.len() > 64 {
            return Err(self.unsupported("a pointer with more than 64 levels"));
        }
        let pack = self.accept(CppTok::Ellipsis);
        let (mut name, mut inner) = (None, Vec::new());
        match self.kind() {
            CppTok::Ident | CppTok::Tilde | CppTok::ColonColon if self.at_declared_name() => {
                name = Some(self.declared_name()?);
            }
            CppTok::LParen if self.is_grouped_declarator(unnamed) => {
                self.advance();
                let group = self.declarator(specifiers, unnamed)?;
                self.expect(CppTok::RParen, ")")?;
                (name, inner) = (group.name, group.steps);
            }
            _ if unnamed => {}
            _ => return Err(self.expected("a name")),
        }
        while self.attribute(specifiers)? {}
        let mut suffixes = Vec::new();
        loop {
            match self.kind() {
                CppTok::LBracket if self.kind_at(1) != CppTok::LBracket => {
                    self.advance();
                    let length = if self.kind() == CppTok::RBracket {
                        None
                    } else {
                        Some(self.in_angle(AngleContext::Operator, CppParser::assignment)?)
                    };
                    self.expect(CppTok::RBracket, "]")?;
                    suffixes.push(TypeStep::Array(length));
                    if suffixes.len() > 64 {
                        return Err(self.unsupported("an array with more than 64 dimensions"));
                    }
                }
                CppTok::LParen
                    if suffixes.is_empty()
                        && (!inner.is_empty()
                            || specifiers.untyped
                            || self.is_parameter_list(name.as_ref(), unnamed)) =>
                {
                    let signature = self.in_angle(AngleContext::Operator, CppParser::parameters)?;
                    suffixes.push(TypeStep::Function(signature));
                    // A pointer or reference to a function may have qualifiers that do not matter here.
                    break;
                }
                _ => break,
            }
        }
        while self.word() == "__attribute__" && self.attribute(specifiers)? {}
        steps.extend(suffixes.into_iter().rev());
        steps.extend(inner);
        Ok(Declarator { name, steps, pack, span: self.span_from(start) })
    }

    /// Parses `*`, `&`, `&&` and `C::*` with their qualifiers.
    fn pointers(&mut self, specifiers: &mut Specifiers) -> Parsed<Vec<TypeStep>> {
        let mut steps = Vec::new();
        loop {
            match self.kind() {
                CppTok::Star => {
                    self.advance();
                    let mut qualifiers = Qualifiers::default();
                    while self.qualifier(&mut qualifiers) || self.attribute(specifiers)? {}
                    steps.push(TypeStep::Pointer(qualifiers));
                }
                CppTok::Amp => {
                    self.advance();
                    let mut qualifiers = Qualifiers::default();
                    while self.qualifier(&mut qualifiers) || self.attribute(specifiers)? {}
                    steps.push(TypeStep::Reference(qualifiers));
                }
                CppTok::AmpAmp => {
                    self.advance();
                    let mut qualifiers = Qualifiers::default();
                    while self.qualifier(&mut qualifiers) || self.attribute(specifiers)? {}
                    steps.push(TypeStep::RvalueReference);
                }
                CppTok::Ident if self.kind_at(1) == CppTok::ColonColon && self.kind_at(2) == CppTok::Star => {
                    let name = self.name()?;
                    let span = name.span;
                    self.advance();
                    self.advance();
                    let segments = vec![NameSegment { name, args: None }];
                    steps.push(TypeStep::MemberPointer(QualifiedName { global: false, segments, span }));
                }
                _ => return Ok(steps),
            }
        }
    }

    fn at_declared_name(&mut self) -> bool {
        // Words such as `override`, `final` and `noexcept` follow a function without a name only.
        !matches!(self.word(), "override" | "final" | "noexcept" | "const" | "requires")
    }

    /// Parses the name of a declarator: `f`, `A<T>::f`, `operator+`, `~A`.
    fn declared_name(&mut self) -> Parsed<DeclaredName> {
        let start = self.next;
        let global = self.accept(CppTok::ColonColon);
        let mut segments: Vec<NameSegment> = Vec::new();
        let (mut template_args, mut conversion) = (None, None);
        let name = loop {
            if self.kind() == CppTok::Tilde {
                self.advance();
                break FunctionName::Destructor(self.name()?.text);
            }
            if self.word() == "operator" {
                self.advance();
                let name = self.operator_name()?;
                if name == FunctionName::Conversion {
                    conversion = Some(self.conversion_type()?);
                }
                break name;
            }
            let name = self.name()?;
            // `<` after the name of a function is a specialization only.
            let args = if self.kind() == CppTok::Less { Some(self.template_args()?) } else { None };
            if self.accept(CppTok::ColonColon) {
                segments.push(NameSegment { name, args });
                continue;
            }
            template_args = args;
            let constructor = segments.last().is_some_and(|class| class.name.text == name.text);
            break if constructor { FunctionName::Constructor(name.text) } else { FunctionName::Plain(name.text) };
        };
        let span = self.span_from(start);
        let scope = if segments.is_empty() { None } else { Some(QualifiedName { global, segments, span }) };
        Ok(DeclaredName { name, scope, template_args, conversion, span })
    }

    /// Parses the type after `operator` of a conversion.
    fn conversion_type(&mut self) -> Parsed<CppType> {
        let start = self.next;
        let mut specifiers = self.specifiers(None)?;
        let Some(base) = specifiers.ty.take() else { return Err(self.expected("a type")) };
        let steps = self.pointers(&mut specifiers)?;
        Ok(Declarator { name: None, steps, pack: false, span: self.span_from(start) }.apply(base))
    }

    /// Parses the operator after `operator`.
    pub(super) fn operator_name(&mut self) -> Parsed<FunctionName> {
        let two = |parser: &mut Self, close, text: &'static str| {
            parser.advance();
            parser.expect(close, &text[1..])?;
            Ok(FunctionName::Operator(SmolStr::new_static(text)))
        };
        match self.kind() {
            CppTok::LParen => return two(self, CppTok::RParen, "()"),
            CppTok::LBracket => return two(self, CppTok::RBracket, "[]"),
            CppTok::Ident => {
                if matches!(self.word(), "new" | "delete") {
                    return Err(self.unsupported("an operator `new` or `delete`"));
                }
                return Ok(FunctionName::Conversion);
            }
            CppTok::Str => return Err(self.unsupported("a user-defined literal")),
            _ => {}
        }
        let mut text = self.text().to_string();
        self.advance();
        // `>>`, `>>=` are several tokens.
        while text.starts_with('>') && matches!(self.kind(), CppTok::Greater | CppTok::GreaterEq) {
            text += &self.text();
            self.advance();
        }
        Ok(FunctionName::Operator(text.into()))
    }

    /// Returns whether `(` starts a declarator in parentheses, not parameters.
    fn is_grouped_declarator(&mut self, unnamed: bool) -> bool {
        match self.kind_at(1) {
            CppTok::Star | CppTok::Amp | CppTok::AmpAmp => true,
            CppTok::LParen => unnamed,
            CppTok::Ident if self.kind_at(2) == CppTok::ColonColon && self.kind_at(3) == CppTok::Star => true,
            // `int (x);` or `float (a)[4]`, where a type cannot follow.
            CppTok::Ident if !unnamed => {
                self.next += 1;
                let ty = self.at_type();
                self.next -= 1;
                !ty
            }
            _ => false,
        }
    }

    /// Returns whether `(` after a name starts parameters, not the arguments of an initializer.
    fn is_parameter_list(&mut self, name: Option<&DeclaredName>, unnamed: bool) -> bool {
        let Some(name) = name else { return unnamed || self.looks_like_parameters() };
        if !matches!(name.name, FunctionName::Plain(_)) {
            return true;
        }
        self.looks_like_parameters()
    }

    /// Returns whether a parameter such as `T (&x)[4]` or `T (*f)(int)` follows.
    fn is_grouped_parameter(&self) -> bool {
        self.kind() == CppTok::Ident
            && self.kind_at(1) == CppTok::LParen
            && matches!(self.kind_at(2), CppTok::Amp | CppTok::Star)
            && self.kind_at(3) == CppTok::Ident
            && self.kind_at(4) == CppTok::RParen
            && matches!(self.kind_at(5), CppTok::LBracket | CppTok::LParen)
    }

    fn looks_like_parameters(&mut self) -> bool {
        match self.kind_at(1) {
            CppTok::RParen | CppTok::Ellipsis => return true,
            CppTok::Ident | CppTok::ColonColon | CppTok::LBracket => {}
            _ => return false,
        }
        self.looks_like(|parser| {
            parser.advance();
            if parser.at_type()
                && !(super::specifiers::is_basic_word(parser.word()) && parser.kind_at(1) == CppTok::LParen)
            {
                // `T(x)` and `T{…}` are expressions, unlike `T (&x)[4]` and `T (*f)(int)`.
                let brackets = matches!(parser.kind_at(1), CppTok::LParen | CppTok::LBrace);
                let expression = brackets && !super::specifiers::is_declaration_word(parser.word());
                return Ok(!expression || parser.is_grouped_parameter());
            }
            if super::specifiers::is_declaration_word(parser.word()) || parser.is_grouped_parameter() {
                return Ok(true);
            }
            // `Unknown name` or `Unknown *name,` declare a parameter; a known value does not.
            let known =
                parser.kind_at(1) != CppTok::ColonColon && parser.scopes.find(&parser.text()) == NameRole::Value;
            if known {
                return Ok(false);
            }
            parser.type_name()?;
            let mut pointer = false;
            let mut ignored = crate::ast::Qualifiers::default();
            loop {
                if matches!(parser.kind(), CppTok::Star | CppTok::Amp | CppTok::AmpAmp) {
                    pointer = true;
                    parser.advance();
                } else if !parser.qualifier(&mut ignored) {
                    break;
                }
            }
            let named = parser.kind() == CppTok::Ident;
            if named {
                parser.advance();
            }
            let ends = matches!(parser.kind(), CppTok::Comma | CppTok::RParen | CppTok::LBracket | CppTok::Eq);
            Ok(ends && (named || pointer))
        })
    }
}
