//! Parses the words before a declarator: storage, attributes, qualifiers and the type itself.

use super::names::{NameRole, is_library_type};
use super::{CppParser, Parsed};
use crate::ast::{
    BasicType, CppExpr, CppExprKind, CppType, CppTypeKind, FunctionAttributes, LaunchBounds, Qualifiers,
    VariableAttributes,
};
use crate::lex::CppTok;
use crate::source::SourceSpan;

/// The words before the declarators of a declaration.
#[derive(Default)]
pub(super) struct Specifiers {
    /// `None` for constructors, destructors and conversions.
    pub ty: Option<CppType>,
    pub function: FunctionAttributes,
    pub variable: VariableAttributes,
    /// Whether there is no type, as before the name of a constructor.
    pub untyped: bool,
    pub is_typedef: bool,
    pub is_friend: bool,
    /// `__attribute__((packed))` of a record.
    pub packed: bool,
    pub grid_constant: bool,
    /// Whether the words define or declare a class or enum.
    pub defines_type: bool,
}

/// The number of each word of a fundamental type.
#[derive(Default)]
struct BasicWords {
    any: bool,
    base: Option<BasicType>,
    long: u8,
    short: bool,
    signed: bool,
    unsigned: bool,
}

impl BasicWords {
    /// Counts a word. Returns `false` if the word is not part of a fundamental type.
    fn count(&mut self, word: &str) -> bool {
        let base = match word {
            "void" => BasicType::Void,
            "bool" | "_Bool" => BasicType::Bool,
            "char" => BasicType::Char,
            "wchar_t" => BasicType::WideChar,
            "char16_t" => BasicType::Char16,
            "char32_t" => BasicType::Char32,
            "int" => BasicType::Int,
            "__int128" => BasicType::Int128,
            "float" => BasicType::Float,
            "double" => BasicType::Double,
            "long" | "short" | "signed" | "__signed__" | "unsigned" => {
                match word {
                    "long" => self.long += 1,
                    "short" => self.short = true,
                    "unsigned" => self.unsigned = true,
                    _ => self.signed = true,
                }
                self.any = true;
                return true;
            }
            _ => return false,
        };
        self.any = true;
        self.base = Some(base);
        true
    }

    fn basic_type(&self) -> Option<BasicType> {
        use BasicType as B;
        let unsigned = self.unsigned;
        let of = |signed, plain| Some(if unsigned { plain } else { signed });
        match (self.base, self.long, self.short) {
            (Some(B::Char), 0, false) if unsigned => Some(B::UnsignedChar),
            (Some(B::Char), 0, false) if self.signed => Some(B::SignedChar),
            (Some(B::Int128), 0, false) => of(B::Int128, B::UnsignedInt128),
            (Some(B::Double), 1, false) if !unsigned => Some(B::LongDouble),
            (None | Some(B::Int), 0, true) => of(B::Short, B::UnsignedShort),
            (None | Some(B::Int), 0, false) => of(B::Int, B::UnsignedInt),
            (None | Some(B::Int), 1, false) => of(B::Long, B::UnsignedLong),
            (None | Some(B::Int), 2, false) => of(B::LongLong, B::UnsignedLongLong),
            (Some(base), 0, false) if !unsigned && !self.signed => Some(base),
            _ => None,
        }
    }
}

/// Returns whether a word starts a fundamental type.
pub(super) fn is_basic_word(word: &str) -> bool {
    BasicWords::default().count(word)
}

/// Returns whether a word can only occur in a declaration or a type.
pub(super) fn is_declaration_word(word: &str) -> bool {
    matches!(
        word,
        "const"
            | "volatile"
            | "static"
            | "extern"
            | "inline"
            | "constexpr"
            | "consteval"
            | "constinit"
            | "mutable"
            | "thread_local"
            | "register"
            | "struct"
            | "class"
            | "union"
            | "enum"
            | "typedef"
            | "using"
            | "auto"
            | "static_assert"
            | "_Static_assert"
            | "alignas"
            | "typename"
            | "decltype"
            | "typeof"
            | "__typeof__"
            | "namespace"
            | "template"
            | "friend"
            | "explicit"
            | "virtual"
            | "__extension__"
            | "restrict"
    ) || is_cuda_word(word)
}

/// Returns whether a word is an attribute of CUDA or of a compiler.
fn is_cuda_word(word: &str) -> bool {
    matches!(
        word,
        "__global__"
            | "__device__"
            | "__host__"
            | "__shared__"
            | "__constant__"
            | "__managed__"
            | "__forceinline__"
            | "__noinline__"
            | "__inline__"
            | "__inline"
            | "__restrict__"
            | "__restrict"
            | "__launch_bounds__"
            | "__cluster_dims__"
            | "__maxnreg__"
            | "__block_size__"
            | "__align__"
            | "__attribute__"
            | "__grid_constant__"
            | "__const__"
            | "__volatile__"
            | "__nv_pure__"
            | "__declspec"
    )
}

impl CppParser<'_> {
    /// Parses specifiers. `class` is the name of the enclosing class, whose constructors have no type.
    pub(super) fn specifiers(&mut self, class: Option<&str>) -> Parsed<Specifiers> {
        let mut specifiers = Specifiers::default();
        let mut qualifiers = Qualifiers::default();
        // The tokens of the type, without attributes before and after it.
        let (mut first, mut last) = (None, self.next);
        let mut words = BasicWords::default();
        let mut named: Option<CppTypeKind> = None;
        loop {
            if self.attribute(&mut specifiers)? {
                continue;
            }
            let at = self.next;
            if self.qualifier(&mut qualifiers) {
                first.get_or_insert(at);
                last = self.next;
                continue;
            }
            let typed = named.is_some() || words.any;
            match self.word() {
                "" if self.kind() == CppTok::ColonColon && !typed => {
                    if self.is_structor_definition() {
                        break;
                    }
                    named = Some(CppTypeKind::Named(self.type_name()?));
                }
                "" => break,
                "struct" | "class" | "union" if !typed => {
                    let (kind, definition) = self.record_specifier(&mut specifiers)?;
                    specifiers.defines_type |= definition;
                    named = Some(kind);
                }
                "enum" if !typed => {
                    let (kind, definition) = self.enum_specifier()?;
                    specifiers.defines_type |= definition;
                    named = Some(kind);
                }
                "auto" | "__auto_type" if !typed => {
                    self.advance();
                    named = Some(CppTypeKind::Auto);
                }
                "decltype" | "typeof" | "__typeof__" | "__typeof" if !typed => named = Some(self.decltype()?),
                "typename" if !typed => {
                    self.advance();
                    named = Some(CppTypeKind::Named(self.type_name()?));
                }
                word if is_basic_word(word) => {
                    if named.is_some() {
                        return Err(self.expected("a name"));
                    }
                    words.count(word);
                    self.advance();
                }
                // The name of the declaration follows the type.
                _ if typed => break,
                "operator" => break,
                word => {
                    let constructor = class == Some(word) && self.kind_at(1) == CppTok::LParen;
                    if constructor || self.is_structor_definition() {
                        break;
                    }
                    named = Some(CppTypeKind::Named(self.type_name()?));
                }
            }
            if self.next == at {
                break;
            }
            first.get_or_insert(at);
            last = self.next;
        }
        let first = first.unwrap_or(last);
        let span = self.span_between(first, last.max(first + 1));
        let kind = match named {
            Some(kind) => Some(kind),
            None if words.any => match words.basic_type() {
                Some(basic) => Some(CppTypeKind::Basic(basic)),
                None => return Err(self.expected("a valid combination of type words")),
            },
            None => None,
        };
        specifiers.untyped = kind.is_none();
        specifiers.ty = kind.map(|kind| CppType { kind, qualifiers, span });
        Ok(specifiers)
    }

    /// Parses `const`, `volatile` or `restrict`.
    pub(super) fn qualifier(&mut self, qualifiers: &mut Qualifiers) -> bool {
        match self.word() {
            "const" | "__const__" | "__const" => qualifiers.is_const = true,
            "volatile" | "__volatile__" => qualifiers.volatile = true,
            "restrict" | "__restrict__" | "__restrict" => qualifiers.restrict = true,
            _ => return false,
        }
        self.advance();
        true
    }

    /// Parses a storage class or an attribute.
    pub(super) fn attribute(&mut self, specifiers: &mut Specifiers) -> Parsed<bool> {
        let start = self.next;
        let (function, variable) = (&mut specifiers.function, &mut specifiers.variable);
        match self.word() {
            "static" => (function.is_static, variable.is_static) = (true, true),
            "extern" => {
                variable.is_extern = true;
                if self.kind_at(1) == CppTok::Str {
                    function.extern_c = true;
                    self.advance();
                }
            }
            "inline" | "__inline__" | "__inline" | "__forceinline__" | "__forceinline" => {
                (function.inline, variable.inline) = (true, true);
            }
            "constexpr" | "consteval" | "constinit" => (function.constexpr, variable.constexpr) = (true, true),
            "mutable" => variable.mutable = true,
            "thread_local" | "__thread" => variable.thread_local = true,
            "virtual" => function.is_virtual = true,
            "typedef" => specifiers.is_typedef = true,
            "friend" => specifiers.is_friend = true,
            "__global__" => function.global = true,
            "__device__" => (function.device, variable.device) = (true, true),
            "__host__" => function.host = true,
            "__shared__" => variable.shared = true,
            "__constant__" => variable.constant = true,
            "__managed__" => variable.managed = true,
            "__grid_constant__" => specifiers.grid_constant = true,
            "register" | "__noinline__" | "__extension__" | "__nv_pure__" => {}
            "explicit" => {
                function.explicit = true;
                if self.kind_at(1) == CppTok::LParen {
                    self.advance();
                    self.expect_brackets()?;
                    return Ok(true);
                }
            }
            "__launch_bounds__" => {
                self.advance();
                let mut arguments = self.attribute_arguments()?.into_iter();
                let Some(max_threads) = arguments.next() else { return Err(self.expected("the number of threads")) };
                specifiers.function.launch_bounds = Some(LaunchBounds {
                    max_threads,
                    min_blocks: arguments.next(),
                    max_cluster: arguments.next(),
                    span: self.span_from(start),
                });
                return Ok(true);
            }
            "__cluster_dims__" => {
                self.advance();
                specifiers.function.cluster_dims = self.attribute_arguments()?;
                return Ok(true);
            }
            "__maxnreg__" | "__block_size__" | "__declspec" => {
                self.advance();
                self.expect_brackets()?;
                return Ok(true);
            }
            "__align__" | "alignas" => {
                self.advance();
                specifiers.variable.align = self.alignment()?;
                return Ok(true);
            }
            "__attribute__" => {
                self.advance();
                self.gnu_attribute(specifiers)?;
                return Ok(true);
            }
            "" if self.kind() == CppTok::LBracket && self.kind_at(1) == CppTok::LBracket => {
                self.expect_brackets()?;
                return Ok(true);
            }
            _ => return Ok(false),
        }
        self.advance();
        Ok(true)
    }

    /// Parses `((aligned(16)))` after `__attribute__`; other attributes have no meaning here.
    fn gnu_attribute(&mut self, specifiers: &mut Specifiers) -> Parsed<()> {
        let end = self.closing.get(self.next).map_or(0, |&close| close as usize);
        for at in self.next..end {
            let aligned = matches!(self.tokens[at].text.as_str(), "aligned" | "__aligned__");
            if aligned && self.tokens.get(at + 1).is_some_and(|token| token.kind == CppTok::LParen) {
                self.next = at + 1;
                specifiers.variable.align = self.alignment()?;
                break;
            }
            match self.tokens[at].text.as_str() {
                "packed" | "__packed__" => specifiers.packed = true,
                "vector_size" | "ext_vector_type" => return Err(self.unsupported("a vector type of the compiler")),
                _ => {}
            }
        }
        if end == 0 {
            return Err(self.expected("the end of the attribute"));
        }
        self.next = end + 1;
        Ok(())
    }

    fn attribute_arguments(&mut self) -> Parsed<Vec<CppExpr>> {
        self.expect(CppTok::LParen, "(")?;
        self.arguments(CppTok::RParen, ")")
    }

    /// Parses the parentheses of `alignas(16)` or `alignas(T)`. An alignment to a type is not kept: it is at most the
    /// alignment of that type.
    fn alignment(&mut self) -> Parsed<Option<Box<CppExpr>>> {
        let start = self.next;
        self.expect(CppTok::LParen, "(")?;
        if self.at_type() {
            let ty = self.type_id()?;
            self.expect(CppTok::RParen, ")")?;
            let kind = CppExprKind::AlignofType(Box::new(ty));
            return Ok(Some(Box::new(CppExpr { kind, span: self.span_from(start) })));
        }
        let mut arguments = self.arguments(CppTok::RParen, ")")?;
        Ok(arguments.pop().map(Box::new))
    }

    fn decltype(&mut self) -> Parsed<CppTypeKind> {
        let is_decltype = self.word_at(0).contains("decltype");
        self.advance();
        if self.kind_at(1) == CppTok::Ident && self.word_at(1) == "auto" && self.kind_at(2) == CppTok::RParen {
            self.expect_brackets()?;
            return Ok(CppTypeKind::Auto);
        }
        self.expect(CppTok::LParen, "(")?;
        let is_bracketed = self.kind() == CppTok::LParen;
        let value = self.in_operator_context(CppParser::expr)?;
        self.expect(CppTok::RParen, ")")?;
        let is_name = matches!(value.kind, CppExprKind::Name(_) | CppExprKind::Member { .. });
        let gives_reference = is_decltype && (is_bracketed || !is_name);
        Ok(CppTypeKind::Decltype { value: Box::new(value), gives_reference })
    }

    /// Parses a type without a name: `const float *`, `T (&)[4]`.
    pub(super) fn type_id(&mut self) -> Parsed<CppType> {
        self.nested(|parser| {
            let mut specifiers = parser.specifiers(None)?;
            let Some(base) = specifiers.ty.take() else { return Err(parser.expected("a type")) };
            let declarator = parser.declarator(&mut specifiers, true)?;
            if declarator.name.is_some() {
                return Err(parser.expected("a type"));
            }
            Ok(declarator.apply(base))
        })
    }

    /// Returns whether the current word certainly starts a type.
    pub(super) fn at_type(&mut self) -> bool {
        let word = self.word();
        if is_basic_word(word) {
            return true;
        }
        match word {
            "const" | "volatile" | "struct" | "class" | "union" | "enum" | "typename" | "decltype" | "auto"
            | "typeof" | "__typeof__" => return true,
            "" if self.kind() != CppTok::ColonColon => return false,
            _ => {}
        }
        if self.kind() == CppTok::Ident && self.kind_at(1) != CppTok::ColonColon {
            return matches!(self.scopes.find(&self.text()), NameRole::Type | NameRole::ClassTemplate);
        }
        self.looks_like(|parser| {
            let name = parser.type_name()?;
            let last = name.segments.last();
            // A member of a dependent class is a type only after `typename`.
            Ok(matches!(parser.role(&name), NameRole::Type | NameRole::ClassTemplate)
                || last.is_some_and(|last| last.name.text.ends_with("_t") || is_library_type(&last.name.text)))
        })
    }

    /// Returns `void` at a place, the type of constructors and destructors.
    pub(super) fn void_at(span: SourceSpan) -> CppType {
        CppType { kind: CppTypeKind::Basic(BasicType::Void), qualifiers: Qualifiers::default(), span }
    }
}
