//! C++ types after name resolution, and the scalar types of Clk that represent them. The data model is LP64, as for
//! nvcc on Linux: `int` has 32 bits, `long` and pointers have 64.

use crate::ast::BasicType;
use smol_str::SmolStr;

/// A template argument.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TemplateValue {
    Type(CType),
    Int(i128, CType),
}

/// The arguments of the enclosing templates, innermost last.
pub(crate) type TemplateArgs = Vec<(SmolStr, TemplateValue)>;

/// A scalar type of Clk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClkScalar {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
}

impl ClkScalar {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ClkScalar::Bool => "bool",
            ClkScalar::I8 => "i8",
            ClkScalar::I16 => "i16",
            ClkScalar::I32 => "i32",
            ClkScalar::I64 => "i64",
            ClkScalar::U8 => "u8",
            ClkScalar::U16 => "u16",
            ClkScalar::U32 => "u32",
            ClkScalar::U64 => "u64",
            ClkScalar::F16 => "f16",
            ClkScalar::Bf16 => "bf16",
            ClkScalar::F32 => "f32",
            ClkScalar::F64 => "f64",
        }
    }

    pub(crate) fn size(self) -> u64 {
        match self {
            ClkScalar::Bool | ClkScalar::I8 | ClkScalar::U8 => 1,
            ClkScalar::I16 | ClkScalar::U16 | ClkScalar::F16 | ClkScalar::Bf16 => 2,
            ClkScalar::I32 | ClkScalar::U32 | ClkScalar::F32 => 4,
            ClkScalar::I64 | ClkScalar::U64 | ClkScalar::F64 => 8,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, ClkScalar::F16 | ClkScalar::Bf16 | ClkScalar::F32 | ClkScalar::F64)
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, ClkScalar::I8 | ClkScalar::I16 | ClkScalar::I32 | ClkScalar::I64)
    }

    /// Returns the smallest and largest value of an integer type; of `bool`, 0 and 1.
    pub(crate) fn limits(self) -> (i128, i128) {
        let bits = 8 * self.size() as u32;
        match self {
            ClkScalar::Bool => (0, 1),
            _ if self.is_signed() => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            _ => (0, (1i128 << bits) - 1),
        }
    }

    /// Reduces an integer to the value that a conversion to this type gives.
    pub(crate) fn wrap(self, value: i128) -> i128 {
        let bits = 8 * self.size() as u32;
        if self == ClkScalar::Bool {
            return i128::from(value != 0);
        }
        let low = value & ((1i128 << bits) - 1);
        if self.is_signed() && low >> (bits - 1) & 1 == 1 { low - (1i128 << bits) } else { low }
    }
}

/// An integer type of C++. Types of the same size are distinct in overload resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum IntKind {
    Char,
    SignedChar,
    UnsignedChar,
    Short,
    UnsignedShort,
    Int,
    UnsignedInt,
    Long,
    UnsignedLong,
    LongLong,
    UnsignedLongLong,
}

impl IntKind {
    pub(crate) fn scalar(self) -> ClkScalar {
        match self {
            IntKind::Char | IntKind::SignedChar => ClkScalar::I8,
            IntKind::UnsignedChar => ClkScalar::U8,
            IntKind::Short => ClkScalar::I16,
            IntKind::UnsignedShort => ClkScalar::U16,
            IntKind::Int => ClkScalar::I32,
            IntKind::UnsignedInt => ClkScalar::U32,
            IntKind::Long | IntKind::LongLong => ClkScalar::I64,
            IntKind::UnsignedLong | IntKind::UnsignedLongLong => ClkScalar::U64,
        }
    }

    /// The conversion rank, in the order of the standard.
    fn rank(self) -> u8 {
        match self {
            IntKind::Char | IntKind::SignedChar | IntKind::UnsignedChar => 1,
            IntKind::Short | IntKind::UnsignedShort => 2,
            IntKind::Int | IntKind::UnsignedInt => 3,
            IntKind::Long | IntKind::UnsignedLong => 4,
            IntKind::LongLong | IntKind::UnsignedLongLong => 5,
        }
    }

    fn unsigned(self) -> IntKind {
        match self {
            IntKind::Int => IntKind::UnsignedInt,
            IntKind::Long => IntKind::UnsignedLong,
            IntKind::LongLong => IntKind::UnsignedLongLong,
            other => other,
        }
    }

    pub(crate) fn promoted(self) -> IntKind {
        if self.rank() < IntKind::Int.rank() { IntKind::Int } else { self }
    }

    /// Returns the common type of two promoted operands (the usual arithmetic conversions).
    pub(crate) fn common(self, other: IntKind) -> IntKind {
        let (a, b) = (self.promoted(), other.promoted());
        if a == b {
            return a;
        }
        let (signed_a, signed_b) = (a.scalar().is_signed(), b.scalar().is_signed());
        if signed_a == signed_b {
            return if a.rank() >= b.rank() { a } else { b };
        }
        let (signed, unsigned) = if signed_a { (a, b) } else { (b, a) };
        if unsigned.rank() >= signed.rank() {
            unsigned
        } else if signed.scalar().size() > unsigned.scalar().size() {
            signed
        } else {
            signed.unsigned()
        }
    }

    pub(crate) fn cpp_name(self) -> &'static str {
        match self {
            IntKind::Char => "char",
            IntKind::SignedChar => "signed char",
            IntKind::UnsignedChar => "unsigned char",
            IntKind::Short => "short",
            IntKind::UnsignedShort => "unsigned short",
            IntKind::Int => "int",
            IntKind::UnsignedInt => "unsigned int",
            IntKind::Long => "long",
            IntKind::UnsignedLong => "unsigned long",
            IntKind::LongLong => "long long",
            IntKind::UnsignedLongLong => "unsigned long long",
        }
    }
}

/// A floating-point type of CUDA C++.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum FloatKind {
    Half,
    Bfloat16,
    Float,
    Double,
}

impl FloatKind {
    pub(crate) fn scalar(self) -> ClkScalar {
        match self {
            FloatKind::Half => ClkScalar::F16,
            FloatKind::Bfloat16 => ClkScalar::Bf16,
            FloatKind::Float => ClkScalar::F32,
            FloatKind::Double => ClkScalar::F64,
        }
    }
}

/// A group of threads of CUDA's cooperative groups. Its objects have no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GroupKind {
    Block,
    Grid,
    /// A part of a warp, with this number of lanes.
    Tile(u32),
}

/// Index of an instantiated record in `Records`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordId(pub(crate) usize);

/// A resolved C++ type without qualifiers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CType {
    Void,
    Bool,
    Int(IntKind),
    Float(FloatKind),
    /// `float4`, `half2`: the component and the number of components.
    Vector(ComponentKind, u8),
    Record(RecordId),
    /// An enum: the index of its declaration, and the type that represents it.
    Enum(usize, IntKind),
    Pointer(Box<CType>),
    Reference(Box<CType>),
    Array(Box<CType>, Option<u64>),
    FunctionPointer(Box<FunctionType>),
    Group(GroupKind),
    /// The type of `nullptr`.
    Null,
    /// A string literal, which only `printf` and `assert` accept.
    Text,
    /// The function object `cg::plus<T>()` and similar ones, by name.
    Functor(SmolStr),
}

/// The type of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FunctionType {
    pub(crate) result: CType,
    pub(crate) params: Vec<CType>,
}

/// The component of a vector type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ComponentKind {
    Int(IntKind),
    Float(FloatKind),
}

impl ComponentKind {
    pub(crate) fn ty(self) -> CType {
        match self {
            ComponentKind::Int(kind) => CType::Int(kind),
            ComponentKind::Float(kind) => CType::Float(kind),
        }
    }

    pub(crate) fn scalar(self) -> ClkScalar {
        match self {
            ComponentKind::Int(kind) => kind.scalar(),
            ComponentKind::Float(kind) => kind.scalar(),
        }
    }
}

pub(crate) const INT: CType = CType::Int(IntKind::Int);
pub(crate) const UINT: CType = CType::Int(IntKind::UnsignedInt);
pub(crate) const LONG: CType = CType::Int(IntKind::Long);
pub(crate) const SIZE: CType = CType::Int(IntKind::UnsignedLong);
pub(crate) const FLOAT: CType = CType::Float(FloatKind::Float);
pub(crate) const DOUBLE: CType = CType::Float(FloatKind::Double);

impl CType {
    /// Returns the scalar that represents a value of an arithmetic or enum type, or a pointer to a function.
    pub(crate) fn scalar(&self) -> Option<ClkScalar> {
        match self {
            CType::Bool => Some(ClkScalar::Bool),
            CType::Int(kind) | CType::Enum(_, kind) => Some(kind.scalar()),
            CType::Float(kind) => Some(kind.scalar()),
            CType::FunctionPointer(_) => Some(ClkScalar::I32),
            _ => None,
        }
    }

    pub(crate) fn is_integer(&self) -> bool {
        matches!(self, CType::Bool | CType::Int(_) | CType::Enum(..))
    }

    pub(crate) fn is_float(&self) -> bool {
        matches!(self, CType::Float(_))
    }

    pub(crate) fn is_arithmetic(&self) -> bool {
        self.is_integer() || self.is_float()
    }

    /// Returns the kind of an integer after integral promotion.
    pub(crate) fn promoted(&self) -> Option<IntKind> {
        match self {
            CType::Bool => Some(IntKind::Int),
            CType::Int(kind) | CType::Enum(_, kind) => Some(kind.promoted()),
            _ => None,
        }
    }

    /// Returns the type of the result of an arithmetic operator (the usual arithmetic conversions).
    pub(crate) fn common(&self, other: &CType) -> Option<CType> {
        match (self, other) {
            (CType::Float(a), CType::Float(b)) if a == b => Some(CType::Float(*a)),
            (CType::Float(FloatKind::Half), CType::Float(FloatKind::Bfloat16)) => None,
            (CType::Float(FloatKind::Bfloat16), CType::Float(FloatKind::Half)) => None,
            (CType::Float(a), CType::Float(b)) => Some(CType::Float(*a.max(b))),
            (CType::Float(a), b) if b.is_integer() => Some(CType::Float(*a)),
            (a, CType::Float(b)) if a.is_integer() => Some(CType::Float(*b)),
            _ => Some(CType::Int(self.promoted()?.common(other.promoted()?))),
        }
    }

    /// Returns the referenced type of a reference, else the type itself.
    pub(crate) fn referent(&self) -> &CType {
        match self {
            CType::Reference(to) => to,
            other => other,
        }
    }

    /// Returns the type of the innermost elements of an array type, else the type itself.
    pub(crate) fn leaf(&self) -> &CType {
        match self {
            CType::Array(element, _) => element.leaf(),
            other => other,
        }
    }

    /// Returns the extents of an array type, outermost first.
    pub(crate) fn extents(&self) -> Vec<Option<u64>> {
        match self {
            CType::Array(element, length) => {
                let mut all = vec![*length];
                all.extend(element.extents());
                all
            }
            _ => vec![],
        }
    }

    /// Returns the number of innermost elements of an array with known extents; 1 for other types.
    pub(crate) fn count(&self) -> Option<u64> {
        match self {
            CType::Array(element, length) => (*length)?.checked_mul(element.count()?),
            _ => Some(1),
        }
    }
}

pub(crate) fn basic_type(ty: BasicType) -> Option<CType> {
    Some(match ty {
        BasicType::Void => CType::Void,
        BasicType::Bool => CType::Bool,
        BasicType::Char => CType::Int(IntKind::Char),
        BasicType::SignedChar => CType::Int(IntKind::SignedChar),
        BasicType::UnsignedChar => CType::Int(IntKind::UnsignedChar),
        BasicType::Short => CType::Int(IntKind::Short),
        BasicType::UnsignedShort | BasicType::Char16 => CType::Int(IntKind::UnsignedShort),
        BasicType::Int | BasicType::WideChar => INT,
        BasicType::UnsignedInt | BasicType::Char32 => UINT,
        BasicType::Long => LONG,
        BasicType::UnsignedLong => SIZE,
        BasicType::LongLong => CType::Int(IntKind::LongLong),
        BasicType::UnsignedLongLong => CType::Int(IntKind::UnsignedLongLong),
        BasicType::Float => FLOAT,
        // Device code treats `long double` as `double`.
        BasicType::Double | BasicType::LongDouble => DOUBLE,
        BasicType::Int128 | BasicType::UnsignedInt128 => return None,
    })
}

/// Returns a type that the CUDA headers or the standard library declare.
pub(crate) fn header_type(name: &str) -> Option<CType> {
    let int = |kind| Some(CType::Int(kind));
    match name {
        "int8_t" | "int_least8_t" => return int(IntKind::SignedChar),
        "uint8_t" | "uchar" | "u_char" | "uint_least8_t" => return int(IntKind::UnsignedChar),
        "int16_t" => return int(IntKind::Short),
        "uint16_t" | "ushort" | "u_short" => return int(IntKind::UnsignedShort),
        "int32_t" | "int_fast32_t" => return int(IntKind::Int),
        "uint32_t" | "uint" | "u_int" | "uint_fast32_t" | "cudaTextureObject_none" => return int(IntKind::UnsignedInt),
        "int64_t" | "ssize_t" | "ptrdiff_t" | "intptr_t" | "int_fast64_t" => return int(IntKind::Long),
        "uint64_t" | "size_t" | "ulong" | "u_long" | "uintptr_t" | "uint_fast64_t" => {
            return int(IntKind::UnsignedLong);
        }
        "half" | "__half" => return Some(CType::Float(FloatKind::Half)),
        "__nv_bfloat16" | "nv_bfloat16" => return Some(CType::Float(FloatKind::Bfloat16)),
        "half2" | "__half2" => return Some(CType::Vector(ComponentKind::Float(FloatKind::Half), 2)),
        "__nv_bfloat162" | "nv_bfloat162" => return Some(CType::Vector(ComponentKind::Float(FloatKind::Bfloat16), 2)),
        "dim3" => return Some(CType::Vector(ComponentKind::Int(IntKind::UnsignedInt), 3)),
        "float_t" => return Some(FLOAT),
        "double_t" => return Some(DOUBLE),
        _ => {}
    }
    let digit = name.chars().last()?.to_digit(10)?;
    if !(2..=4).contains(&digit) {
        return None;
    }
    let component = match &name[..name.len() - 1] {
        "char" => ComponentKind::Int(IntKind::SignedChar),
        "uchar" => ComponentKind::Int(IntKind::UnsignedChar),
        "short" => ComponentKind::Int(IntKind::Short),
        "ushort" => ComponentKind::Int(IntKind::UnsignedShort),
        "int" => ComponentKind::Int(IntKind::Int),
        "uint" => ComponentKind::Int(IntKind::UnsignedInt),
        "long" => ComponentKind::Int(IntKind::Long),
        "ulong" => ComponentKind::Int(IntKind::UnsignedLong),
        "longlong" => ComponentKind::Int(IntKind::LongLong),
        "ulonglong" => ComponentKind::Int(IntKind::UnsignedLongLong),
        "float" => ComponentKind::Float(FloatKind::Float),
        "double" => ComponentKind::Float(FloatKind::Double),
        _ => return None,
    };
    Some(CType::Vector(component, digit as u8))
}
