//! The syntax tree of a CUDA C++ file, as written: names are unresolved, and no conversion is made explicit.
//!
//! Type names start with `Cpp`, because `clk_syntax` has nodes of the same kinds. Parentheses are not nodes; the tree
//! structure expresses them. Constructs that Clk does not translate are [`Refusal`] nodes, so that only the kernel that
//! contains one is refused. The depth of a tree is bounded ([`MAX_DEPTH`]), so recursive functions may visit it.

use crate::source::SourceSpan;
use clk_base::source::Span;
use rustc_hash::FxHashMap;
pub use smol_str::SmolStr;

/// Maximum number of nested nodes, also in chains such as `a + b + c + …`, which nest to the left.
pub const MAX_DEPTH: usize = 256;

/// An identifier and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct CppName {
    pub text: SmolStr,
    pub span: SourceSpan,
}

/// A file after preprocessing, including the local headers that it includes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TranslationUnit {
    pub decls: Vec<CppDecl>,
    /// The comments of all files that were read, in the order of reading. Those of the main file's directives and of
    /// its skipped groups are left out.
    pub comments: Vec<CppComment>,
    /// The places of all identifiers after preprocessing, except names of members after `.` and `->`.
    pub identifiers: FxHashMap<SmolStr, Vec<SourceSpan>>,
    /// The file as the host pass reads it, if the passes may differ: the file has `__CUDA_ARCH__`.
    pub host: Option<Box<TranslationUnit>>,
}

impl TranslationUnit {
    /// Returns the file as the host pass reads it.
    pub fn of_host(&self) -> &TranslationUnit {
        self.host.as_deref().unwrap_or(self)
    }
}

/// A comment, `// …` or `/* … */`.
#[derive(Clone, Debug, PartialEq)]
pub struct CppComment {
    pub span: Span,
    /// The text without the delimiters.
    pub text: SmolStr,
    pub block: bool,
    /// The end of the last token before the comment on its line.
    pub line_code: Option<u32>,
}

/// A construct that is not translated. The kernel or function that contains it is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The C++ term for the construct, with an article where it is a countable noun: "a `goto` statement".
    pub construct: SmolStr,
    pub span: SourceSpan,
    /// A way around it.
    pub help: Option<SmolStr>,
}

// ---- declarations ----

#[derive(Clone, Debug, PartialEq)]
pub struct CppDecl {
    pub kind: CppDeclKind,
    pub span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CppDeclKind {
    /// A function: kernel, device function, method, host function; a definition or only a declaration.
    Function(Box<CppFunction>),
    /// `int n = 3, *p;`: variables, and fields of a record.
    Variables(VariableDecl),
    Record(Box<CppRecord>),
    Enum(Box<CppEnum>),
    /// `typedef T name;` or `using name = T;`
    Alias(Box<CppAlias>),
    /// `namespace a { … }`. `namespace a::b` is nested. `inline` namespaces and unnamed ones are visible outside.
    Namespace {
        name: Option<CppName>,
        inline: bool,
        decls: Vec<CppDecl>,
    },
    /// `namespace a = b::c;`
    NamespaceAlias {
        name: CppName,
        target: QualifiedName,
    },
    /// `extern "C" { … }`
    LinkageBlock(Vec<CppDecl>),
    /// `using namespace a;`
    UsingNamespace(QualifiedName),
    /// `using a::b;`
    UsingName(QualifiedName),
    StaticAssert {
        condition: CppExpr,
        message: Option<String>,
    },
    /// `template void f<float>(float*);`
    ExplicitInstantiation(Box<CppFunction>),
    /// `friend …;` in a record. Only inline definitions matter.
    Friend(Option<Box<CppDecl>>),
    /// A kernel, device function or device variable that does not parse.
    Refused {
        /// The name of the function, if it is known.
        name: Option<CppName>,
        kernel: bool,
        refusal: Refusal,
    },
    /// Host code that does not parse.
    Skipped,
}

/// Whether and where a function runs; both flags of `__host__ __device__` are set. A function without attributes is
/// for the host, unless it is `constexpr` or a method that device code calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FunctionAttributes {
    pub global: bool,
    pub device: bool,
    pub host: bool,
    /// `inline`, `__inline__` or `__forceinline__`.
    pub inline: bool,
    pub constexpr: bool,
    /// `static`: internal linkage, or a method without an object.
    pub is_static: bool,
    pub extern_c: bool,
    pub is_virtual: bool,
    pub explicit: bool,
    /// `__launch_bounds__(…)`
    pub launch_bounds: Option<LaunchBounds>,
    /// `__cluster_dims__(…)`
    pub cluster_dims: Vec<CppExpr>,
}

/// `__launch_bounds__(max_threads, min_blocks, max_blocks_per_cluster)`.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchBounds {
    pub max_threads: CppExpr,
    pub min_blocks: Option<CppExpr>,
    pub max_cluster: Option<CppExpr>,
    pub span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CppFunction {
    pub name: FunctionName,
    /// The place of the name.
    pub name_span: SourceSpan,
    /// The class or namespace of a definition outside of it: `Vec<T>` of `Vec<T>::dot`.
    pub scope: Option<QualifiedName>,
    pub attributes: FunctionAttributes,
    pub template: Option<TemplateHeader>,
    /// `<int>` of an explicit specialization, `template <> void f<int>(…)`, or of an explicit instantiation.
    pub template_args: Option<Vec<CppTemplateArg>>,
    /// The result type; a trailing result type replaces `auto`. `void` for constructors and destructors.
    pub result: CppType,
    pub params: Vec<CppParam>,
    /// Whether the parameters end with `…`, as for C's `printf`.
    pub variadic: bool,
    /// Whether a method is `const`.
    pub is_const: bool,
    /// `: x(1), y{2}` of a constructor.
    pub initializers: Vec<MemberInit>,
    pub body: FunctionBody,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FunctionName {
    Plain(SmolStr),
    /// `operator+`: the token or tokens of the operator, `()`, `[]`, `new`, `+=`.
    Operator(SmolStr),
    /// `operator float`, which has the type as result.
    Conversion,
    Constructor(SmolStr),
    Destructor(SmolStr),
}

#[derive(Clone, Debug, PartialEq)]
pub enum FunctionBody {
    /// Only a declaration.
    None,
    Block(CppBlock),
    /// `= default`
    Defaulted,
    /// `= delete`
    Deleted,
    /// `= 0`
    Pure,
    /// Host code that does not parse; a note reports it.
    Skipped(SourceSpan),
    /// Device code that does not parse.
    Refused(Refusal),
}

/// `name(args)` or `name{args}` in a constructor's list of initializers.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberInit {
    pub name: QualifiedName,
    pub args: Vec<CppExpr>,
    pub braces: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CppParam {
    pub name: Option<CppName>,
    /// The type as written: an array type here means a pointer, `float x[]`.
    pub ty: CppType,
    pub default: Option<CppExpr>,
    /// `T... values`
    pub pack: bool,
    /// `__grid_constant__`
    pub grid_constant: bool,
    pub span: SourceSpan,
}

/// `template <typename T, int N = 4>`; no parameters for an explicit specialization, `template <>`.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateHeader {
    pub params: Vec<TemplateParam>,
    pub span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TemplateParam {
    pub name: Option<CppName>,
    pub kind: TemplateParamKind,
    /// `typename... T`
    pub pack: bool,
    pub span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TemplateParamKind {
    Type {
        default: Option<CppType>,
    },
    Value {
        ty: CppType,
        default: Option<CppExpr>,
    },
    /// `template <typename> class C`
    Template,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct VariableAttributes {
    pub shared: bool,
    pub device: bool,
    pub constant: bool,
    pub managed: bool,
    pub is_extern: bool,
    pub is_static: bool,
    pub constexpr: bool,
    pub inline: bool,
    pub mutable: bool,
    pub thread_local: bool,
    /// `alignas(16)` or `__align__(16)`, in bytes.
    pub align: Option<Box<CppExpr>>,
}

/// `__shared__ float a[N], b;`
#[derive(Clone, Debug, PartialEq)]
pub struct VariableDecl {
    pub attributes: VariableAttributes,
    /// The template header of a variable template.
    pub template: Option<TemplateHeader>,
    /// Never empty. A record or enum that the declaration defines is in the type of each variable.
    pub variables: Vec<CppVariable>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CppVariable {
    pub name: VariableName,
    /// The class or namespace of a definition outside of it.
    pub scope: Option<QualifiedName>,
    pub ty: CppType,
    pub init: CppInit,
    /// The width of a bit field.
    pub bits: Option<CppExpr>,
    pub span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub enum VariableName {
    Plain(CppName),
    /// `auto [a, b] = …`
    Bindings(Vec<CppName>),
    /// An unnamed bit field or parameter.
    Unnamed,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CppInit {
    /// No initializer: indeterminate for scalars, the default constructor for classes.
    None,
    /// `= value`; the value may be [`CppExprKind::InitList`].
    Equal(CppExpr),
    /// `(args)`
    Paren(Vec<CppExpr>),
    /// `{args}`
    Brace(Vec<CppExpr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    Struct,
    Class,
    Union,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberAccess {
    Public,
    Protected,
    Private,
}

/// A struct, class or union.
#[derive(Clone, Debug, PartialEq)]
pub struct CppRecord {
    pub kind: RecordKind,
    /// `None` for an unnamed record.
    pub name: Option<CppName>,
    /// The scope of a definition outside of its class or namespace.
    pub scope: Option<QualifiedName>,
    pub template: Option<TemplateHeader>,
    /// `<int, N>` of a full or partial specialization.
    pub template_args: Option<Vec<CppTemplateArg>>,
    /// `alignas(16)` or `__align__(16)`.
    pub align: Option<Box<CppExpr>>,
    /// `__attribute__((packed))`: the fields have no space between them.
    pub packed: bool,
    pub bases: Vec<BaseClass>,
    /// `None` for a declaration without a body, `struct S;`.
    pub members: Option<Vec<CppMember>>,
    pub span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BaseClass {
    pub access: MemberAccess,
    pub is_virtual: bool,
    pub name: QualifiedName,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CppMember {
    pub access: MemberAccess,
    pub decl: CppDecl,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CppEnum {
    pub name: Option<CppName>,
    /// `enum class`
    pub scoped: bool,
    /// `: unsigned char`
    pub underlying: Option<CppType>,
    /// `None` for a declaration without a body.
    pub enumerators: Option<Vec<Enumerator>>,
    pub span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Enumerator {
    pub name: CppName,
    pub value: Option<CppExpr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CppAlias {
    pub name: CppName,
    pub template: Option<TemplateHeader>,
    pub ty: CppType,
}

// ---- names and types ----

/// `::a::b<int>::c`.
#[derive(Clone, Debug, PartialEq)]
pub struct QualifiedName {
    /// Whether it starts with `::`.
    pub global: bool,
    /// Never empty.
    pub segments: Vec<NameSegment>,
    pub span: SourceSpan,
}

/// A part of a qualified name. In an expression, the name may be that of an operator, `operator==`, or of a destructor,
/// `~T`.
#[derive(Clone, Debug, PartialEq)]
pub struct NameSegment {
    pub name: CppName,
    /// `<int, 3>`
    pub args: Option<Vec<CppTemplateArg>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CppTemplateArg {
    Type(CppType),
    /// A value, or a name that the parser does not know to be a type.
    Value(CppExpr),
    /// `T...`
    Pack(Box<CppTemplateArg>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct CppType {
    pub kind: CppTypeKind,
    pub qualifiers: Qualifiers,
    pub span: SourceSpan,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Qualifiers {
    pub is_const: bool,
    pub volatile: bool,
    /// `__restrict__`, of a pointer or reference.
    pub restrict: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CppTypeKind {
    Basic(BasicType),
    /// A class, enum, alias, template parameter or vector type such as `float4`. After `typename`, or if its scope
    /// depends on a template parameter, a dependent name.
    Named(QualifiedName),
    Pointer(Box<CppType>),
    Reference(Box<CppType>),
    /// `T&&`
    RvalueReference(Box<CppType>),
    Array {
        element: Box<CppType>,
        length: Option<Box<CppExpr>>,
    },
    /// The type of a function, to which only pointers and references exist.
    Function {
        result: Box<CppType>,
        params: Vec<CppParam>,
    },
    /// `T C::*`
    MemberPointer {
        class: QualifiedName,
        target: Box<CppType>,
    },
    /// `auto`, also `decltype(auto)`.
    Auto,
    /// `decltype(e)` or `typeof(e)`.
    Decltype {
        value: Box<CppExpr>,
        /// Whether an lvalue gives a reference, as in `decltype((x))` and `decltype(x[0])`, but not in `decltype(x)`.
        gives_reference: bool,
    },
    /// A record that is defined here: `struct { int x; } s;`
    Record(Box<CppRecord>),
    /// An enum that is defined here.
    Enum(Box<CppEnum>),
}

/// The fundamental types. `char` is distinct from `signed char` and `unsigned char`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BasicType {
    Void,
    Bool,
    Char,
    SignedChar,
    UnsignedChar,
    WideChar,
    Char16,
    Char32,
    Short,
    UnsignedShort,
    Int,
    UnsignedInt,
    Long,
    UnsignedLong,
    LongLong,
    UnsignedLongLong,
    Int128,
    UnsignedInt128,
    Float,
    Double,
    LongDouble,
}

// ---- statements ----

/// `{ … }`
#[derive(Clone, Debug, PartialEq)]
pub struct CppBlock {
    pub stmts: Vec<CppStmt>,
    pub span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CppStmt {
    pub kind: CppStmtKind,
    pub span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CppStmtKind {
    /// `;`
    Empty,
    Expr(CppExpr),
    /// A declaration of variables, a type, an alias or a name.
    Decl(CppDecl),
    Block(CppBlock),
    If(Box<CppIf>),
    While {
        unroll: Option<UnrollHint>,
        condition: Box<CppCondition>,
        body: Box<CppStmt>,
    },
    DoWhile {
        unroll: Option<UnrollHint>,
        body: Box<CppStmt>,
        condition: Box<CppExpr>,
    },
    For(Box<CppFor>),
    /// `for (auto x : range)`
    RangeFor {
        variable: Box<VariableDecl>,
        range: Box<CppExpr>,
        body: Box<CppStmt>,
    },
    Switch(Box<CppSwitch>),
    Return(Option<CppExpr>),
    Break,
    Continue,
    /// `name:`; the statement after it follows as a statement of its own.
    Label(CppName),
    Goto(CppName),
    /// A statement without a translation: `goto *p`, `asm`, `try`, `throw`, a `case` label inside of a nested
    /// statement.
    Refused(Refusal),
}

#[derive(Clone, Debug, PartialEq)]
pub struct CppIf {
    pub constexpr: bool,
    /// `if (init; condition)`
    pub init: Option<CppStmt>,
    pub condition: CppCondition,
    pub then: CppStmt,
    pub otherwise: Option<CppStmt>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CppFor {
    pub unroll: Option<UnrollHint>,
    /// An expression, a declaration or empty.
    pub init: CppStmt,
    pub condition: Option<CppCondition>,
    pub step: Option<CppExpr>,
    pub body: CppStmt,
}

/// A condition of `if`, `while`, `for` or `switch`.
#[derive(Clone, Debug, PartialEq)]
pub enum CppCondition {
    Expr(CppExpr),
    /// `if (int n = f())`
    Decl(VariableDecl),
}

/// `#pragma unroll`, `#pragma unroll 4` or `#pragma unroll(N)` before a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct UnrollHint {
    pub count: Option<Box<CppExpr>>,
    pub span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CppSwitch {
    pub init: Option<CppStmt>,
    pub condition: CppCondition,
    /// Statements before the first label; they only declare variables, because they never run.
    pub prologue: Vec<CppStmt>,
    pub sections: Vec<SwitchSection>,
}

/// Labels and the statements after them. Without a jump at the end, the next section follows.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchSection {
    /// Never empty.
    pub labels: Vec<SwitchLabel>,
    pub stmts: Vec<CppStmt>,
    pub span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SwitchLabel {
    Case(CppExpr),
    /// `case low ... high:`, an extension of GCC.
    Range(CppExpr, CppExpr),
    Default,
}

// ---- expressions ----

#[derive(Clone, Debug, PartialEq)]
pub struct CppExpr {
    pub kind: CppExprKind,
    pub span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CppExprKind {
    Int(IntLiteral),
    Float(FloatLiteral),
    Char(CharLiteral),
    String(StringLiteral),
    Bool(bool),
    Nullptr,
    This,
    /// A variable, function, enumerator or constant template parameter. With template arguments, `f<int>`.
    Name(QualifiedName),
    Unary {
        op: CppUnaryOp,
        operand: Box<CppExpr>,
    },
    Binary {
        op: CppBinaryOp,
        left: Box<CppExpr>,
        right: Box<CppExpr>,
    },
    /// `target = value`, or `target op= value`.
    Assign {
        op: Option<CppBinaryOp>,
        target: Box<CppExpr>,
        value: Box<CppExpr>,
    },
    /// `condition ? then : otherwise`
    Conditional {
        condition: Box<CppExpr>,
        then: Box<CppExpr>,
        otherwise: Box<CppExpr>,
    },
    /// `left, right`
    Comma {
        left: Box<CppExpr>,
        right: Box<CppExpr>,
    },
    /// `callee(args)`: a function, a method (the callee is a `Member`) or an object with `operator()`. The callee may
    /// also be the name of a type that the parser does not know to be one.
    Call {
        callee: Box<CppExpr>,
        args: Vec<CppExpr>,
    },
    /// `callee<<<grid, block, shared_bytes, stream>>>(args)`
    Launch {
        callee: Box<CppExpr>,
        config: Vec<CppExpr>,
        args: Vec<CppExpr>,
    },
    /// `base[index]`
    Index {
        base: Box<CppExpr>,
        index: Box<CppExpr>,
    },
    /// `base.member` or, with `arrow`, `base->member`. The member is qualified in `b.Base::f()` only.
    Member {
        base: Box<CppExpr>,
        arrow: bool,
        member: QualifiedName,
    },
    Cast {
        kind: CppCastKind,
        ty: Box<CppType>,
        value: Box<CppExpr>,
    },
    /// `T(args)` or `T{args}`. With one argument and parentheses, it means the same as a C-style cast.
    Construct {
        ty: Box<CppType>,
        args: Vec<CppExpr>,
        braces: bool,
    },
    /// `{a, b}`, `{.x = 1}`: the initializer of a variable, argument, result or operand of `=`.
    InitList(Vec<InitItem>),
    SizeofExpr(Box<CppExpr>),
    SizeofType(Box<CppType>),
    AlignofType(Box<CppType>),
    /// `sizeof...(Pack)`
    SizeofPack(CppName),
    Lambda(Box<CppLambda>),
    /// `({ int t = x; t * t; })`, an extension of GCC: the value is that of the last statement.
    Statements(Box<CppBlock>),
    /// `pattern...` in a list of arguments.
    PackExpansion(Box<CppExpr>),
    /// An expression without a translation: `new`, `delete`, `throw`, `typeid`, a fold expression, `.*`.
    Refused(Refusal),
}

/// An integer literal. Its type follows from `radix`, `suffix` and `value`: a decimal literal without `u` is never
/// unsigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntLiteral {
    pub value: u64,
    pub radix: u32,
    pub unsigned: bool,
    pub length: IntLength,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntLength {
    Int,
    Long,
    LongLong,
}

/// A floating-point literal.
#[derive(Clone, Debug, PartialEq)]
pub struct FloatLiteral {
    /// The literal as written, without digit separators and suffix.
    pub text: SmolStr,
    /// The value rounded to a `double`.
    pub double: f64,
    /// The value rounded once to a `float`.
    pub single: f32,
    /// `Float`, `Double` or `LongDouble`.
    pub ty: BasicType,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharLiteral {
    pub value: u32,
    /// `Char`, `WideChar`, `Char16` or `Char32`.
    pub ty: BasicType,
}

/// Adjacent string literals, concatenated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringLiteral {
    /// The bytes without the terminating zero. Wide strings are UTF-8 here as well.
    pub bytes: Vec<u8>,
    /// The type of a character.
    pub ty: BasicType,
}

#[derive(Clone, Debug, PartialEq)]
pub struct InitItem {
    pub designator: Option<Designator>,
    pub value: CppExpr,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Designator {
    /// `.name = …`
    Field(CppName),
    /// `[index] = …`
    Index(CppExpr),
}

#[derive(Clone, Debug, PartialEq)]
pub struct CppLambda {
    /// `[&]` or `[=]`
    pub default_capture: Option<CaptureKind>,
    pub captures: Vec<LambdaCapture>,
    /// The class of the object: unnamed, with `operator()` as its only member. Each `auto` of a parameter is a template
    /// parameter.
    pub class: CppRecord,
}

impl CppLambda {
    /// Returns the `operator()`.
    pub fn call(&self) -> Option<&CppFunction> {
        self.class.members.iter().flatten().find_map(|member| match &member.decl.kind {
            CppDeclKind::Function(function) => Some(&**function),
            _ => None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureKind {
    Reference,
    Copy,
}

/// `x`, `&x`, `x = init`, `this`; the name of `*this` is `*this`.
#[derive(Clone, Debug, PartialEq)]
pub struct LambdaCapture {
    pub kind: CaptureKind,
    pub name: CppName,
    pub init: Option<CppExpr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CppCastKind {
    /// `(T)e`
    CStyle,
    Static,
    Reinterpret,
    Const,
    Dynamic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CppUnaryOp {
    Plus,
    Minus,
    Not,
    BitNot,
    Deref,
    AddressOf,
    PreIncrement,
    PreDecrement,
    PostIncrement,
    PostDecrement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CppBinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Shl,
    Shr,
    BitAnd,
    BitOr,
    BitXor,
    And,
    Or,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl CppUnaryOp {
    /// Returns the operator as written.
    pub fn text(self) -> &'static str {
        match self {
            CppUnaryOp::Plus => "+",
            CppUnaryOp::Minus => "-",
            CppUnaryOp::Not => "!",
            CppUnaryOp::BitNot => "~",
            CppUnaryOp::Deref => "*",
            CppUnaryOp::AddressOf => "&",
            CppUnaryOp::PreIncrement | CppUnaryOp::PostIncrement => "++",
            CppUnaryOp::PreDecrement | CppUnaryOp::PostDecrement => "--",
        }
    }
}

impl CppBinaryOp {
    /// Returns the operator as written.
    pub fn text(self) -> &'static str {
        match self {
            CppBinaryOp::Add => "+",
            CppBinaryOp::Sub => "-",
            CppBinaryOp::Mul => "*",
            CppBinaryOp::Div => "/",
            CppBinaryOp::Rem => "%",
            CppBinaryOp::Shl => "<<",
            CppBinaryOp::Shr => ">>",
            CppBinaryOp::BitAnd => "&",
            CppBinaryOp::BitOr => "|",
            CppBinaryOp::BitXor => "^",
            CppBinaryOp::And => "&&",
            CppBinaryOp::Or => "||",
            CppBinaryOp::Eq => "==",
            CppBinaryOp::Ne => "!=",
            CppBinaryOp::Lt => "<",
            CppBinaryOp::Le => "<=",
            CppBinaryOp::Gt => ">",
            CppBinaryOp::Ge => ">=",
        }
    }
}
