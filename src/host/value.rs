//! Values of script variables.

use std::any::Any;
use std::sync::Arc;

use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::base::escape;
use crate::check::typed::KernelId;
use crate::host::array::{Array, RecordLayout};
use crate::host::problem::{Outcome, Problem};
use crate::lang::scalar::{self, Scalar};

/// Named arrays or columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Contains only [`Value::Array`] and [`Value::Strings`].
    pub columns: IndexMap<SmolStr, Value>,
    /// The members of the file whose type Clk does not have, with the error for a program that reads one.
    pub unreadable: IndexMap<SmolStr, Problem>,
}

impl Table {
    /// Returns an error if a member of the file is unreadable, for operations on the whole table.
    pub fn check_readable(&self) -> Outcome<()> {
        self.unreadable.values().next().map_or(Ok(()), |problem| Err(problem.clone()))
    }
}

impl std::ops::Deref for Table {
    type Target = IndexMap<SmolStr, Value>;

    fn deref(&self) -> &Self::Target {
        &self.columns
    }
}

/// A value on the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Unit,
    /// A number or `bool` of a known type.
    Scalar(scalar::Value),
    /// An untyped integer literal: it takes the other operand's type, else `i32`.
    Int(i128),
    /// An untyped float literal: likewise, else `f32`.
    Float(f64),
    Vector(Vector),
    Str(SmolStr),
    Array(Array),
    Record(Record),
    Tuple(Vec<Value>),
    Range(Range),
    /// The named arrays of an .npz or .safetensors file, or the columns of a .csv file.
    Table(Arc<Table>),
    /// An array of texts.
    Strings(Arc<[SmolStr]>),
    Timing(Timing),
    Kernel(KernelId),
    /// A float, a vector or an array whose derivative is taken along, inside of a function that is being differentiated.
    Traced(Arc<Traced>),
}

/// A value whose derivative is taken along.
#[derive(Clone, Debug)]
pub struct Traced {
    /// A float, a vector, or an array of them; traced itself at a lower level, perhaps.
    pub(crate) value: Value,
    pub(crate) level: u32,
    pub(crate) link: Link,
}

/// Two traced values are equal if what they stand for is.
impl PartialEq for Traced {
    fn eq(&self, other: &Traced) -> bool {
        self.value == other.value
    }
}

/// How the derivative of a value is found.
#[derive(Clone, Debug)]
pub(crate) enum Link {
    /// Reverse: its tape (a `grad::Tape`), and the number of its node there.
    Node(Arc<dyn Any + Send + Sync>, u32),
    /// Forward: its tangent, which has its shape.
    Tangent(Value),
    /// Not at all: the derivative of each operation is judged by itself, by a `grad::Auditor`.
    Audit(Arc<dyn Any + Send + Sync>),
}

impl Link {
    /// Returns the number of the node, if it is one.
    pub(crate) fn node(&self) -> Option<u32> {
        match self {
            Link::Node(_, node) => Some(*node),
            Link::Tangent(_) | Link::Audit(_) => None,
        }
    }

    /// Returns the tangent, if it is one.
    pub(crate) fn into_tangent(self) -> Option<Value> {
        match self {
            Link::Tangent(tangent) => Some(tangent),
            Link::Node(..) | Link::Audit(_) => None,
        }
    }
}

impl Traced {
    /// Returns the plain value.
    pub fn primal(&self) -> &Value {
        match &self.value {
            Value::Traced(inner) => inner.primal(),
            value => value,
        }
    }
}

/// A vector, such as an `f32x3`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vector {
    ty: Scalar,
    lanes: u8,
    bits: [u64; 4],
}

impl Vector {
    /// Creates a vector from the bits of its lanes; takes at most four.
    pub fn new(ty: Scalar, lanes: impl IntoIterator<Item = u64>) -> Vector {
        let mut vector = Vector { ty, lanes: 0, bits: [0; 4] };
        for (place, bits) in vector.bits.iter_mut().zip(lanes) {
            *place = bits;
            vector.lanes += 1;
        }
        vector
    }

    pub fn ty(&self) -> Scalar {
        self.ty
    }

    pub fn lanes(&self) -> usize {
        usize::from(self.lanes)
    }

    /// Returns one component.
    pub fn lane(&self, lane: usize) -> Option<scalar::Value> {
        self.values().nth(lane)
    }

    /// Returns all components.
    pub fn values(&self) -> impl Iterator<Item = scalar::Value> + use<> {
        let ty = self.ty;
        self.bits.into_iter().take(self.lanes()).map(move |bits| scalar::Value { ty, bits })
    }

    /// Returns the bits of four lanes; those beyond the vector's are 0.
    pub(crate) fn all_bits(&self) -> [u64; 4] {
        self.bits
    }
}

/// A value of a struct type, with its fields in declaration order.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub layout: Arc<RecordLayout>,
    pub fields: Vec<Value>,
}

impl Record {
    /// Returns the fields with their names.
    pub fn named_fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.layout.fields.iter().map(|field| field.name.as_str()).zip(&self.fields)
    }
}

/// `start..end step s`, with the end exclusive or inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub inclusive: bool,
    pub step: i64,
}

/// The result of `time { }`, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub runs: u32,
}

impl Value {
    /// Returns the parts of a tuple; of another value, itself.
    pub fn parts(&self) -> &[Value] {
        match self {
            Value::Tuple(parts) => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// Returns the size in bytes of the arrays and texts in the value.
    pub fn byte_len(&self) -> usize {
        match self {
            Value::Array(array) => array.byte_len(),
            Value::Tuple(parts) | Value::Record(Record { fields: parts, .. }) => {
                parts.iter().map(Value::byte_len).sum()
            }
            Value::Table(table) => table.values().map(Value::byte_len).sum(),
            Value::Strings(texts) => texts.iter().map(|text| size_of_val(text) + text.len()).sum(),
            _ => 0,
        }
    }

    pub fn bool(value: bool) -> Value {
        Value::of(value)
    }

    pub fn i32(value: i32) -> Value {
        Value::of(value)
    }

    pub fn i64(value: i64) -> Value {
        Value::of(value)
    }

    pub fn f32(value: f32) -> Value {
        Value::of(value)
    }

    pub fn f64(value: f64) -> Value {
        Value::of(value)
    }

    /// Creates a scalar of the corresponding type: `Value::of(1.0f32)`.
    pub fn of<T: scalar::Element>(value: T) -> Value {
        Value::Scalar(scalar::Value::of(value))
    }

    pub fn str(text: impl Into<SmolStr>) -> Value {
        Value::Str(text.into())
    }

    /// Returns the value of a `bool`.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Scalar(v) if v.ty == Scalar::Bool => Some(v.bits != 0),
            _ => None,
        }
    }

    /// Returns a scalar of known type.
    pub fn as_scalar(&self) -> Option<scalar::Value> {
        match self {
            Value::Scalar(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the value of an integer of any type.
    pub fn as_int(&self) -> Option<i128> {
        match self {
            Value::Int(n) => Some(*n),
            Value::Scalar(v) if v.ty.is_int() => v.as_integer(),
            _ => None,
        }
    }

    /// Converts an untyped literal to a scalar type, if possible (`1` to any number, `1.5` to any float). Typed scalars are
    /// returned unchanged, whatever `to` is.
    pub fn adapt(&self, to: Scalar) -> Option<scalar::Value> {
        match self {
            Value::Scalar(number) => Some(*number),
            Value::Int(n) => number_literal(*n, to),
            Value::Float(x) => float_literal(*x, to),
            _ => None,
        }
    }

    /// Gives an untyped literal its default type: `i32` (or `i64` or `u64` if necessary), or `f32` (or `f64`).
    pub fn settled(self) -> Value {
        match self {
            Value::Int(n) => [Scalar::I32, Scalar::I64, Scalar::U64]
                .into_iter()
                .find_map(|ty| scalar::Value::from_integer(ty, n))
                .map_or(Value::Float(n as f64).settled(), Value::Scalar),
            Value::Float(x) => Value::Scalar(float_literal(x, Scalar::F32).unwrap_or(scalar::Value::of(x))),
            other => other,
        }
    }

    /// Returns the type as the user would write it.
    pub fn type_name(&self) -> String {
        match self {
            Value::Unit => "()".into(),
            Value::Scalar(v) => v.ty.to_string(),
            Value::Int(_) => "integer literal".into(),
            Value::Float(_) => "float literal".into(),
            Value::Vector(v) => format!("{}x{}", v.ty, v.lanes),
            Value::Str(_) => "str".into(),
            Value::Array(array) => array.type_name(),
            Value::Record(record) => escape::name(&record.layout.name).into_owned(),
            Value::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(Value::type_name).collect();
                format!("({})", parts.join(", "))
            }
            Value::Range(_) => "range".into(),
            Value::Table(_) => "table of arrays".into(),
            Value::Strings(texts) => format!("[str; {}]", texts.len()),
            Value::Timing(_) => "timing".into(),
            Value::Kernel(_) => "kernel".into(),
            Value::Traced(traced) => traced.primal().type_name(),
        }
    }
}

/// Returns the integer as a number of this type, if it fits.
fn number_literal(n: i128, to: Scalar) -> Option<scalar::Value> {
    match to {
        Scalar::Bool => None,
        to if to.is_float() => float_literal(n as f64, to).and(scalar::Value::from_integer(to, n)),
        to => scalar::Value::from_integer(to, n),
    }
}

/// Returns the float as a number of this type, if that is a float type and rounds it neither to an infinity nor to 0.
fn float_literal(x: f64, to: Scalar) -> Option<scalar::Value> {
    let number = to.is_float().then(|| scalar::Value::of(x).to_type(to))?;
    let rounded = number.as_f64();
    (rounded.is_infinite() == x.is_infinite() && (rounded == 0.0) == (x == 0.0)).then_some(number)
}
