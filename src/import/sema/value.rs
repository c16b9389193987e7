//! What a C++ expression denotes during translation: a value, a place (an lvalue), a pointer, or nothing.

use super::tree::{Expr, ExprKind};
use super::types::{CType, ClkScalar, GroupKind, IntKind};
use crate::ast::{IntLength, IntLiteral, Refusal};
use crate::source::SourceSpan;
use smol_str::SmolStr;
use std::rc::Rc;

/// The result of a translation step; the error is the construct that stops the function.
pub(crate) type Res<T> = Result<T, Box<Refusal>>;

/// Creates the error for a construct that is not translated.
pub(crate) fn refuse<T>(construct: impl Into<SmolStr>, span: SourceSpan, help: &str) -> Res<T> {
    let help = if help.is_empty() { None } else { Some(SmolStr::from(help)) };
    Err(Box::new(Refusal { construct: construct.into(), span, help }))
}

/// The identity of a C++ variable within one translated function: the number of its declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct VariableKey(pub(crate) usize);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ConstantValue {
    Int(i128),
    Float(f64),
}

/// A position of a thread whose limits are known, for one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    Thread(u8),
    Block(u8),
    BlockExtent(u8),
    GridExtent(u8),
    /// `blockIdx * blockDim`
    BlockStart(u8),
    /// `blockIdx * blockDim + threadIdx`
    Global(u8),
    /// `blockDim * gridDim`
    Stride(u8),
}

/// A value of arithmetic, vector or record type, as a Clk expression.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// The C++ type.
    pub(crate) ty: CType,
    pub(crate) expr: Expr,
    /// The Clk type of `expr`, for scalars. It differs from the type that represents `ty` only if the value is an
    /// integer that both types contain.
    pub(crate) rep: ClkScalar,
    /// Limits of an integer.
    pub(crate) range: Option<(i128, i128)>,
    pub(crate) constant: Option<ConstantValue>,
    pub(crate) position: Option<Position>,
    /// Whether the expression has the same value at every later point of the function.
    pub(crate) stable: bool,
    /// Whether the expression has an effect, so that it must be evaluated exactly once, at its place.
    pub(crate) effect: bool,
    /// A number that divides the value; 1 if unknown.
    pub(crate) divisor: u64,
    /// Whether `expr` may be a product, or a negated one, that a sum may contract to `fma`.
    pub(crate) is_product: bool,
}

impl Value {
    pub(crate) fn new(ty: CType, expr: Expr) -> Value {
        let rep = ty.scalar().unwrap_or(ClkScalar::I32);
        let range = if ty.is_integer() { Some(rep.limits()) } else { None };
        Value {
            ty,
            expr,
            rep,
            range,
            constant: None,
            position: None,
            stable: false,
            effect: false,
            divisor: 1,
            is_product: false,
        }
    }

    pub(crate) fn int(value: i128, ty: CType, span: SourceSpan) -> Value {
        let rep = ty.scalar().unwrap_or(ClkScalar::I32);
        let expr = match rep {
            ClkScalar::Bool => Expr::new(ExprKind::Bool(value != 0), span),
            _ => Expr::int(value, rep, span),
        };
        let divisor = u64::try_from(value.unsigned_abs()).unwrap_or(1).max(1);
        Value {
            range: Some((value, value)),
            constant: Some(ConstantValue::Int(value)),
            stable: true,
            divisor: if value == 0 { 1 << 32 } else { divisor },
            ..Value::new(ty, expr)
        }
    }

    pub(crate) fn float(value: f64, ty: CType, span: SourceSpan) -> Value {
        let rep = ty.scalar().unwrap_or(ClkScalar::F64);
        let expr = Expr::new(ExprKind::Float(value, rep), span);
        Value { constant: Some(ConstantValue::Float(value)), stable: true, ..Value::new(ty, expr) }
    }

    pub(crate) fn bool(value: bool, span: SourceSpan) -> Value {
        Value::int(i128::from(value), CType::Bool, span)
    }

    pub(crate) fn constant_int(&self) -> Option<i128> {
        match self.constant {
            Some(ConstantValue::Int(value)) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn constant_bool(&self) -> Option<bool> {
        match self.constant {
            Some(ConstantValue::Int(value)) => Some(value != 0),
            Some(ConstantValue::Float(value)) => Some(value != 0.0),
            None => None,
        }
    }
}

/// Where an array is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// A kernel's parameter, or a variable of the file.
    Global,
    Shared,
    /// Memory of a single thread.
    Local,
    /// Constant data of the file.
    Constant,
    /// A parameter of a function; its argument may be any of the above.
    Parameter,
}

/// An array of the translated program, which pointers refer to.
#[derive(Debug)]
pub(crate) struct ArrayInfo {
    pub(crate) expr: Expr,
    /// The type of the elements in the Clk text.
    pub(crate) element: CType,
    /// The extents in the Clk text; one extent for a flat array.
    pub(crate) axes: usize,
    pub(crate) space: Space,
    pub(crate) key: VariableKey,
    /// The name in C++.
    pub(crate) name: SmolStr,
}

#[derive(Clone, Debug)]
pub(crate) enum PointerBase {
    Array(Rc<ArrayInfo>),
    /// One object: `&x`.
    Object(Box<CppPlace>),
    /// One of several arrays.
    Choice(Rc<PointerChoice>),
    Null,
}

/// The arrays of a pointer, one of which a number selects when the kernel runs.
#[derive(Debug)]
pub(crate) struct PointerChoice {
    /// An `i32`: the position in `options`.
    pub(crate) selector: Value,
    /// Pointers without indices. One of them may be null.
    pub(crate) options: Vec<Pointer>,
}

/// A pointer: an array, and an index of its elements.
#[derive(Clone, Debug)]
pub(crate) struct Pointer {
    pub(crate) base: PointerBase,
    /// Indices of the leading axes.
    pub(crate) prefix: Vec<Value>,
    /// The index along the next axis, in units of `unit` bytes; `None` for 0.
    pub(crate) index: Option<Box<Value>>,
    /// The size that `index` counts: that of the array's elements, or less after a cast to a smaller type.
    pub(crate) unit: u64,
    /// The type of the object at the pointer.
    pub(crate) to: CType,
}

/// An lvalue.
#[derive(Clone, Debug)]
pub(crate) struct CppPlace {
    pub(crate) kind: PlaceKind,
    pub(crate) ty: CType,
    pub(crate) span: SourceSpan,
}

#[derive(Clone, Debug)]
pub(crate) enum PlaceKind {
    /// A variable of scalar, vector or record type.
    Variable {
        name: SmolStr,
        key: VariableKey,
        value: Option<Box<Value>>,
    },
    /// The object at a pointer.
    At(Pointer),
    Field(Box<CppPlace>, SmolStr),
    /// A component of a vector.
    Component(Box<CppPlace>, u8),
    /// A pointer variable.
    PointerVariable(VariableKey),
}

/// What an expression denotes.
#[derive(Clone, Debug)]
pub(crate) enum Denoted {
    Value(Value),
    Place(CppPlace),
    Pointer(Pointer),
    Group(GroupKind),
    Text,
    Void,
}

/// The meaning of a local name of a function.
#[derive(Clone, Debug)]
pub(crate) enum Local {
    Variable {
        name: SmolStr,
        key: VariableKey,
        ty: CType,
        known: Option<Box<Value>>,
    },
    Array {
        info: Rc<ArrayInfo>,
        ty: CType,
    },
    /// A pointer variable. If it is never assigned after its declaration, `fixed` is its value.
    Pointer {
        key: VariableKey,
        to: CType,
        index: SmolStr,
        /// The variable that selects one of several arrays.
        selector: SmolStr,
        fixed: Option<Box<Pointer>>,
    },
    /// A reference.
    Alias(CppPlace),
    /// A constant, or the value of a template parameter.
    Constant(Value),
    Group(GroupKind),
    Type(CType),
    /// A pointer to a string literal.
    Text(SmolStr),
    /// A parameter of a kernel without a translation, which the kernel must not use.
    Refused(Box<Refusal>),
}

/// The parts of a lambda's class that are not fields.
#[derive(Clone, Debug)]
pub(crate) struct Closure {
    /// The name of the variable that is initialized with the lambda.
    pub(crate) name: SmolStr,
    /// Names that mean the same in the body as outside of the lambda.
    pub(crate) locals: Vec<(SmolStr, Local)>,
    /// The function that contains the lambda.
    pub(crate) function: Option<usize>,
    /// Whether calls may change the fields.
    pub(crate) is_mutable: bool,
    /// Variables captured by reference that a call may read or change.
    pub(crate) reads: Vec<SmolStr>,
    pub(crate) writes: Vec<SmolStr>,
}

/// Returns the name under which the scope has a pointer that is a field of a parameter.
pub(crate) fn pointer_field_name(key: VariableKey, path: &[SmolStr]) -> String {
    format!("({}).{}", key.0, path.join("."))
}

/// Returns whether a path leads to a pointer in an array.
pub(crate) fn is_element_path(path: &[SmolStr]) -> bool {
    path.last().is_some_and(|last| last.starts_with(|first: char| first.is_ascii_digit()))
}

impl Value {
    /// Returns an integer literal with the type that the standard gives it.
    pub(crate) fn of_literal(literal: &IntLiteral, span: SourceSpan) -> Value {
        let value = i128::from(literal.value);
        let decimal = literal.radix == 10;
        let candidates: &[IntKind] = match (literal.unsigned, literal.length) {
            (false, IntLength::Int) => &[IntKind::Int, IntKind::UnsignedInt, IntKind::Long, IntKind::UnsignedLong],
            (true, IntLength::Int) => &[IntKind::UnsignedInt, IntKind::UnsignedLong],
            (false, IntLength::Long) => &[IntKind::Long, IntKind::UnsignedLong],
            (true, IntLength::Long) => &[IntKind::UnsignedLong],
            (false, IntLength::LongLong) => &[IntKind::LongLong, IntKind::UnsignedLongLong],
            (true, IntLength::LongLong) => &[IntKind::UnsignedLongLong],
        };
        let fits = |kind: &&IntKind| {
            let (_, high) = kind.scalar().limits();
            value <= high && (literal.unsigned || !decimal || kind.scalar().is_signed())
        };
        let kind = candidates.iter().find(fits).copied().unwrap_or(IntKind::UnsignedLong);
        Value::int(value, CType::Int(kind), span)
    }
}
