//! [`HostValue`]: a value of a script variable or expression.

use std::any::Any;
use std::sync::Arc;

use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::array::{Array, RecordLayout};
use crate::problem::{HostResult, RuntimeError};
use clk_base::escape;
use clk_check::typed::KernelId;
use clk_scalar::Scalar;

/// A table: named arrays, or named columns.
#[derive(Clone, Debug, PartialEq)]
pub struct TableValue {
    /// The arrays or columns by name. Each is a [`HostValue::Array`] or a [`HostValue::Strings`].
    pub columns: IndexMap<SmolStr, HostValue>,
    /// Names of the arrays in the file whose element type Clk does not support. A program that reads one gets the
    /// error.
    pub unreadable: IndexMap<SmolStr, RuntimeError>,
}

impl TableValue {
    /// Returns an error if an array of the file is unreadable. Operations on the whole table call this.
    pub fn check_readable(&self) -> HostResult<()> {
        self.unreadable.values().next().map_or(Ok(()), |problem| Err(problem.clone()))
    }
}

impl std::ops::Deref for TableValue {
    type Target = IndexMap<SmolStr, HostValue>;

    fn deref(&self) -> &Self::Target {
        &self.columns
    }
}

/// A value on the host.
#[derive(Clone, Debug, PartialEq)]
pub enum HostValue {
    Unit,
    /// A number or `bool` of a known type.
    Scalar(clk_scalar::ScalarValue),
    /// An untyped integer literal. It adopts the type of the other operand; without one, its type is `i32`.
    Int(i128),
    /// An untyped float literal. It adopts the type of the other operand; without one, its type is `f32`.
    Float(f64),
    Vector(Vector),
    Str(SmolStr),
    Array(Array),
    Record(RecordValue),
    Tuple(Vec<HostValue>),
    Range(RangeValue),
    /// The named arrays of an .npz or .safetensors file, or the columns of a .csv file.
    Table(Arc<TableValue>),
    /// An array of texts.
    Strings(Arc<[SmolStr]>),
    Timing(Timing),
    Kernel(KernelId),
    /// A float, a vector or an array inside a function that is being differentiated.
    Traced(Arc<Traced>),
}

/// A value with its link to derivative information, inside a function that is being differentiated.
#[derive(Clone, Debug)]
pub struct Traced {
    /// A float, a vector, or an array of them. In nested derivatives, it may itself be a traced value of an outer
    /// derivative.
    pub(crate) value: HostValue,
    pub(crate) level: u32,
    pub(crate) link: GradLink,
}

/// Two traced values are equal if the untraced values in them are equal.
impl PartialEq for Traced {
    fn eq(&self, other: &Traced) -> bool {
        self.value == other.value
    }
}

/// How the derivative of a traced value is computed.
#[derive(Clone, Debug)]
pub(crate) enum GradLink {
    /// Reverse mode: the tape (a `grad::GradTape`), and the index of the value's node on it.
    Node(Arc<dyn Any + Send + Sync>, u32),
    /// Forward mode: the tangent, which has the same shape as the value.
    Tangent(HostValue),
    /// Each operation on the value is checked by a `grad::DerivativeAuditor`, for `gradcheck`.
    Audit(Arc<dyn Any + Send + Sync>),
}

impl GradLink {
    /// Returns the index of the tape node, for a link of reverse mode.
    pub(crate) fn node(&self) -> Option<u32> {
        match self {
            GradLink::Node(_, node) => Some(*node),
            GradLink::Tangent(_) | GradLink::Audit(_) => None,
        }
    }

    /// Returns the tangent, for a link of forward mode.
    pub(crate) fn into_tangent(self) -> Option<HostValue> {
        match self {
            GradLink::Tangent(tangent) => Some(tangent),
            GradLink::Node(..) | GradLink::Audit(_) => None,
        }
    }
}

impl Traced {
    /// Returns the value without any links, even if it is traced by several derivatives.
    pub fn primal(&self) -> &HostValue {
        match &self.value {
            HostValue::Traced(inner) => inner.primal(),
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
    /// Creates a vector from the bits of its lanes. Uses at most four lanes.
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

    /// Returns the component with index `lane`; `None` if it does not exist.
    pub fn lane(&self, lane: usize) -> Option<clk_scalar::ScalarValue> {
        self.values().nth(lane)
    }

    /// Returns all components.
    pub fn values(&self) -> impl Iterator<Item = clk_scalar::ScalarValue> + use<> {
        let ty = self.ty;
        self.bits.into_iter().take(self.lanes()).map(move |bits| clk_scalar::ScalarValue { ty, bits })
    }

    /// Returns the bits of four lanes; those beyond the vector's are 0.
    pub(crate) fn all_bits(&self) -> [u64; 4] {
        self.bits
    }
}

/// A value of a struct type, with its fields in declaration order.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordValue {
    pub layout: Arc<RecordLayout>,
    pub fields: Vec<HostValue>,
}

impl RecordValue {
    /// Returns the fields with their names.
    pub fn named_fields(&self) -> impl Iterator<Item = (&str, &HostValue)> {
        self.layout.fields.iter().map(|field| field.name.as_str()).zip(&self.fields)
    }
}

/// The range `start..end step s`, or `start..=end step s` if `inclusive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeValue {
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

impl HostValue {
    /// Returns the parts of a tuple. For another value, returns a slice that contains only the value.
    pub fn parts(&self) -> &[HostValue] {
        match self {
            HostValue::Tuple(parts) => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// Returns the total size in bytes of the arrays and texts in the value.
    pub fn byte_len(&self) -> usize {
        match self {
            HostValue::Array(array) => array.byte_len(),
            HostValue::Tuple(parts) | HostValue::Record(RecordValue { fields: parts, .. }) => {
                parts.iter().map(HostValue::byte_len).sum()
            }
            HostValue::Table(table) => table.values().map(HostValue::byte_len).sum(),
            HostValue::Strings(texts) => texts.iter().map(|text| size_of_val(text) + text.len()).sum(),
            _ => 0,
        }
    }

    pub fn bool(value: bool) -> HostValue {
        HostValue::of(value)
    }

    pub fn i32(value: i32) -> HostValue {
        HostValue::of(value)
    }

    pub fn i64(value: i64) -> HostValue {
        HostValue::of(value)
    }

    pub fn f32(value: f32) -> HostValue {
        HostValue::of(value)
    }

    pub fn f64(value: f64) -> HostValue {
        HostValue::of(value)
    }

    /// Creates a scalar from a Rust number: `HostValue::of(1.0f32)` is an `f32`.
    pub fn of<T: clk_scalar::ScalarType>(value: T) -> HostValue {
        HostValue::Scalar(clk_scalar::ScalarValue::of(value))
    }

    pub fn str(text: impl Into<SmolStr>) -> HostValue {
        HostValue::Str(text.into())
    }

    /// Returns the value of a `bool`.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            HostValue::Scalar(v) if v.ty == Scalar::Bool => Some(v.bits != 0),
            _ => None,
        }
    }

    /// Returns the scalar in a [`HostValue::Scalar`]; `None` for untyped literals and other values.
    pub fn as_scalar(&self) -> Option<clk_scalar::ScalarValue> {
        match self {
            HostValue::Scalar(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the value of an integer of any type, or of an untyped integer literal.
    pub fn as_int(&self) -> Option<i128> {
        match self {
            HostValue::Int(n) => Some(*n),
            HostValue::Scalar(v) if v.ty.is_int() => v.as_integer(),
            _ => None,
        }
    }

    /// Converts an untyped literal to a scalar type, if possible (`1` to any number, `1.5` to any float). Typed scalars
    /// are returned unchanged, whatever `to` is.
    pub fn adapt(&self, to: Scalar) -> Option<clk_scalar::ScalarValue> {
        match self {
            HostValue::Scalar(number) => Some(*number),
            HostValue::Int(n) => number_literal(*n, to),
            HostValue::Float(x) => float_literal(*x, to),
            _ => None,
        }
    }

    /// Converts an untyped literal to its default type: `i32` (or `i64` or `u64` if it is too large), or `f32` (or
    /// `f64` if it is out of range). Returns other values unchanged.
    pub fn with_default_type(self) -> HostValue {
        match self {
            HostValue::Int(n) => [Scalar::I32, Scalar::I64, Scalar::U64]
                .into_iter()
                .find_map(|ty| clk_scalar::ScalarValue::from_integer(ty, n))
                .map_or(HostValue::Float(n as f64).with_default_type(), HostValue::Scalar),
            HostValue::Float(x) => {
                HostValue::Scalar(float_literal(x, Scalar::F32).unwrap_or(clk_scalar::ScalarValue::of(x)))
            }
            other => other,
        }
    }

    /// Returns the name of the value's type for messages, as users write it in source code.
    pub fn type_name(&self) -> String {
        match self {
            HostValue::Unit => "()".into(),
            HostValue::Scalar(v) => v.ty.to_string(),
            HostValue::Int(_) => "integer literal".into(),
            HostValue::Float(_) => "float literal".into(),
            HostValue::Vector(v) => format!("{}x{}", v.ty, v.lanes),
            HostValue::Str(_) => "str".into(),
            HostValue::Array(array) => array.type_name(),
            HostValue::Record(record) => escape::name(&record.layout.name).into_owned(),
            HostValue::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(HostValue::type_name).collect();
                format!("({})", parts.join(", "))
            }
            HostValue::Range(_) => "range".into(),
            HostValue::Table(_) => "table of arrays".into(),
            HostValue::Strings(texts) => format!("[str; {}]", texts.len()),
            HostValue::Timing(_) => "timing".into(),
            HostValue::Kernel(_) => "kernel".into(),
            HostValue::Traced(traced) => traced.primal().type_name(),
        }
    }
}

/// Converts an integer literal to a numeric type. Returns `None` for `bool`, and if the literal is out of range.
fn number_literal(n: i128, to: Scalar) -> Option<clk_scalar::ScalarValue> {
    match to {
        Scalar::Bool => None,
        to if to.is_float() => float_literal(n as f64, to).and(clk_scalar::ScalarValue::from_integer(to, n)),
        to => clk_scalar::ScalarValue::from_integer(to, n),
    }
}

/// Converts a float literal to a float type. Returns `None` for other types, and if the literal would round to an
/// infinity, or to 0 although it is not 0.
fn float_literal(x: f64, to: Scalar) -> Option<clk_scalar::ScalarValue> {
    let number = to.is_float().then(|| clk_scalar::ScalarValue::of(x).to_type(to))?;
    let rounded = number.as_f64();
    (rounded.is_infinite() == x.is_infinite() && (rounded == 0.0) == (x == 0.0)).then_some(number)
}
