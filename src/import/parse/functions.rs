//! Parses parameters and what follows a function's parameters, up to its body.

use super::declarators::{Declarator, DeclaredName, FunctionSignature};
use super::names::NameRole;
use super::specifiers::Specifiers;
use super::{AngleContext, CppParser, Parsed};
use crate::ast::{CppFunction, CppParam, FunctionBody, FunctionName, MemberInit, SmolStr, TemplateHeader};
use crate::lex::CppTok;

impl CppParser<'_> {
    /// Returns whether the current position is the name of a constructor, destructor or conversion outside of its
    /// class: `A::A(`, `A<T>::~A(`, `A::operator int(`.
    pub(super) fn is_structor_definition(&self) -> bool {
        let mut at = usize::from(self.kind() == CppTok::ColonColon);
        let mut class: &str = "";
        loop {
            let word = self.word_at(at);
            if word.is_empty() {
                return false;
            }
            at += 1;
            if self.kind_at(at) == CppTok::LParen {
                return !class.is_empty() && class == word;
            }
            if self.kind_at(at) == CppTok::Less {
                let mut level = 0usize;
                loop {
                    match self.kind_at(at) {
                        CppTok::Less => level += 1,
                        CppTok::Greater => level = level.saturating_sub(1),
                        CppTok::Eof | CppTok::Semi | CppTok::LBrace | CppTok::RBrace => return false,
                        _ => {}
                    }
                    at += 1;
                    if level == 0 {
                        break;
                    }
                    if at > 200 {
                        return false;
                    }
                }
            }
            if self.kind_at(at) != CppTok::ColonColon {
                return false;
            }
            at += 1;
            class = word;
            if self.kind_at(at) == CppTok::Tilde {
                return true;
            }
            if self.word_at(at) == "operator" {
                return self.kind_at(at + 1) == CppTok::Ident;
            }
        }
    }

    /// Parses `(int a, float *b = nullptr, ...)`.
    pub(super) fn parameters(&mut self) -> Parsed<FunctionSignature> {
        self.expect(CppTok::LParen, "(")?;
        let mut signature = FunctionSignature::default();
        // `(void)` is empty.
        if self.word() == "void" && self.kind_at(1) == CppTok::RParen {
            self.advance();
        }
        while self.kind() != CppTok::RParen {
            if self.accept(CppTok::Ellipsis) {
                signature.variadic = true;
                break;
            }
            let param = self.nested(Self::parameter)?;
            signature.params.push(param);
            // `int a ...` is an old form of `int a, ...`.
            if !self.accept(CppTok::Comma) && self.kind() != CppTok::Ellipsis {
                break;
            }
        }
        self.expect(CppTok::RParen, ")")?;
        Ok(signature)
    }

    fn parameter(&mut self) -> Parsed<CppParam> {
        let start = self.next;
        let mut specifiers = self.specifiers(None)?;
        let Some(base) = specifiers.ty.take() else { return Err(self.expected("a parameter")) };
        let declarator = self.declarator(&mut specifiers, true)?;
        let pack = declarator.pack;
        let name = declarator.name.as_ref().and_then(|name| name.plain());
        let ty = declarator.apply(base);
        let default = if self.accept(CppTok::Eq) {
            Some(self.in_angle(AngleContext::Operator, Self::initializer_clause)?)
        } else {
            None
        };
        let grid_constant = specifiers.grid_constant;
        Ok(CppParam { name, ty, default, pack, grid_constant, span: self.span_from(start) })
    }

    /// Builds a function from its declarator, and parses everything up to the body.
    pub(super) fn function(
        &mut self,
        specifiers: &mut Specifiers,
        mut declarator: Declarator,
        name: DeclaredName,
        signature: FunctionSignature,
        template: Option<TemplateHeader>,
        class: Option<&str>,
    ) -> Parsed<CppFunction> {
        declarator.name = None;
        let name_span = name.span;
        let mut function_name = name.name;
        if let (FunctionName::Plain(text), None, true) = (&function_name, &specifiers.ty, class.is_some()) {
            function_name = FunctionName::Constructor(text.clone());
        }
        let result = match name.conversion.or(specifiers.ty.take()) {
            Some(base) => declarator.apply(base),
            None => Self::void_at(name_span),
        };
        let mut function = CppFunction {
            name: function_name,
            name_span,
            scope: name.scope,
            attributes: std::mem::take(&mut specifiers.function),
            template,
            template_args: name.template_args,
            result,
            params: signature.params,
            variadic: signature.variadic,
            is_const: false,
            initializers: vec![],
            body: FunctionBody::None,
        };
        self.function_suffix(&mut function, specifiers)?;
        Ok(function)
    }

    /// Parses `const noexcept override -> T` and the like.
    fn function_suffix(&mut self, function: &mut CppFunction, specifiers: &mut Specifiers) -> Parsed<()> {
        loop {
            match self.word() {
                "const" => {
                    function.is_const = true;
                    self.advance();
                }
                "volatile" | "override" | "final" => self.advance(),
                "noexcept" | "throw" => {
                    self.advance();
                    if self.kind() == CppTok::LParen {
                        self.expect_brackets()?;
                    }
                }
                "requires" => return Err(self.unsupported("a `requires` clause")),
                "" => match self.kind() {
                    CppTok::Amp | CppTok::AmpAmp => self.advance(),
                    CppTok::Arrow => {
                        self.advance();
                        function.result = self.type_id()?;
                    }
                    CppTok::LBracket if self.attribute(specifiers)? => {}
                    _ => return Ok(()),
                },
                _ => {
                    if !self.attribute(specifiers)? {
                        return Ok(());
                    }
                    merge_attributes(function, specifiers);
                }
            }
        }
    }

    /// Declares the template parameters and parameters of a function.
    pub(super) fn declare_parameters(&mut self, function: &CppFunction) {
        if let Some(template) = &function.template {
            self.declare_template_params(template);
        }
        for param in &function.params {
            if let Some(name) = &param.name {
                self.scopes.declare(&name.text, NameRole::Value);
            }
        }
    }

    pub(super) fn declare_template_params(&mut self, template: &TemplateHeader) {
        for param in &template.params {
            let role = match param.kind {
                crate::ast::TemplateParamKind::Type { .. } => NameRole::Type,
                crate::ast::TemplateParamKind::Value { .. } => NameRole::Value,
                crate::ast::TemplateParamKind::Template => NameRole::ClassTemplate,
            };
            if let Some(name) = &param.name {
                self.scopes.declare(&name.text, role);
            }
        }
    }

    /// Parses `: x(1), y{2}` of a constructor.
    pub(super) fn member_initializers(&mut self) -> Parsed<Vec<MemberInit>> {
        let mut initializers = Vec::new();
        loop {
            let name = self.type_name()?;
            let braces = self.kind() == CppTok::LBrace;
            let args = if braces {
                self.advance();
                self.arguments(CppTok::RBrace, "}")?
            } else {
                self.expect(CppTok::LParen, "(")?;
                self.arguments(CppTok::RParen, ")")?
            };
            self.accept(CppTok::Ellipsis);
            initializers.push(MemberInit { name, args, braces });
            if !self.accept(CppTok::Comma) {
                return Ok(initializers);
            }
        }
    }

    /// Declares a function's name.
    pub(super) fn declare_function(&mut self, function: &CppFunction) {
        if let (FunctionName::Plain(name), None) = (&function.name, &function.scope) {
            let template = function.template.is_some();
            let role = if template { NameRole::FunctionTemplate } else { NameRole::Value };
            self.declare_function_name(name, role);
        }
    }

    fn declare_function_name(&mut self, name: &SmolStr, role: NameRole) {
        self.scopes.declare(name, role);
        if role == NameRole::FunctionTemplate {
            self.templates.insert(name.clone());
        }
    }
}

/// Adds attributes that follow a function's parameters.
fn merge_attributes(function: &mut CppFunction, specifiers: &mut Specifiers) {
    let own = &mut function.attributes;
    let more = std::mem::take(&mut specifiers.function);
    own.global |= more.global;
    own.device |= more.device;
    own.host |= more.host;
    own.inline |= more.inline;
    own.launch_bounds = more.launch_bounds.or(own.launch_bounds.take());
}

/// Returns whether a function is for the device: a kernel, or with `__device__`.
pub(super) fn is_device(function: &CppFunction) -> bool {
    function.attributes.global || function.attributes.device
}

/// Returns the name of a function for messages.
pub(super) fn function_text(function: &CppFunction) -> String {
    match &function.name {
        FunctionName::Plain(name) | FunctionName::Constructor(name) => name.to_string(),
        FunctionName::Destructor(name) => format!("~{name}"),
        FunctionName::Operator(operator) => format!("operator{operator}"),
        FunctionName::Conversion => "a conversion".to_string(),
    }
}
