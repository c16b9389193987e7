//! Infers the types of foreign expressions from declarations, literals and functions. They decide where the
//! translation needs a conversion and which type a parameter gets.

use super::tree::{ForeignExpr, Subscript};
use std::collections::HashMap;

/// A type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) enum ForeignType {
    #[default]
    Unknown,
    /// An integer literal, which takes the type that its context needs.
    Integer,
    /// A literal with a point, likewise.
    Decimal,
    /// A scalar type in Clk's spelling.
    Scalar(String),
    /// An array of elements of a scalar type.
    Array(String),
    Text,
}

impl ForeignType {
    pub fn scalar(name: &str) -> ForeignType {
        match name {
            "" => ForeignType::Unknown,
            "str" => ForeignType::Text,
            _ => ForeignType::Scalar(name.to_owned()),
        }
    }

    pub fn is_float(&self) -> bool {
        match self {
            ForeignType::Decimal => true,
            ForeignType::Scalar(name) | ForeignType::Array(name) => name.starts_with('f') || name == "bf16",
            _ => false,
        }
    }

    /// Returns whether it is an integer, but not a literal.
    pub fn is_integer_value(&self) -> bool {
        matches!(self, ForeignType::Scalar(name) if name.starts_with(['i', 'u']))
    }

    pub fn is_array(&self) -> bool {
        matches!(self, ForeignType::Array(_))
    }

    /// Returns Clk's name of the type of a scalar, with the default types of literals.
    pub fn scalar_name(&self) -> Option<&str> {
        match self {
            ForeignType::Integer => Some("i32"),
            ForeignType::Decimal => Some("f32"),
            ForeignType::Scalar(name) => Some(name),
            ForeignType::Text => Some("str"),
            _ => None,
        }
    }

    fn element(&self) -> Option<&str> {
        match self {
            ForeignType::Array(name) => Some(name),
            other => other.scalar_name(),
        }
    }

    /// Returns the type of an operation on values of two types.
    fn joined(self, other: ForeignType) -> ForeignType {
        use ForeignType::*;
        match (self, other) {
            (Unknown, other) | (other, Unknown) => match other {
                Array(_) => other,
                _ => Unknown,
            },
            (Integer, other) | (other, Integer) => other,
            (Decimal, Scalar(name)) | (Scalar(name), Decimal) if name.starts_with(['i', 'u']) => Scalar("f32".into()),
            (Decimal, other) | (other, Decimal) => other,
            (a, b) => {
                let float = if a.is_float() { &a } else { &b };
                let element = float.element().unwrap_or("f32").to_owned();
                if a.is_array() || b.is_array() { Array(element) } else { Scalar(element) }
            }
        }
    }
}

/// Types of variables and results of functions.
#[derive(Clone, Debug, Default)]
pub(super) struct ForeignScope {
    pub variables: HashMap<String, ForeignType>,
    pub results: HashMap<String, ForeignType>,
    /// The indices in the heads of kernels of Clk: `i` of `threads(i: N)`.
    pub thread_indices: Vec<String>,
    /// Whether code with the blocks of Julia has indices that count from 0, because its variables are those of Clk.
    pub counts_from_zero: bool,
    /// The number of threads in a block, in Clk's spelling, where the head of a kernel states it.
    pub block_extent: Option<String>,
}

impl ForeignScope {
    pub fn declares(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }

    pub fn type_of(&self, e: &ForeignExpr) -> ForeignType {
        use ForeignExpr::*;
        match e {
            Number(text) => number_type(text),
            Text(_) => ForeignType::Text,
            Name(name) => match name.as_str() {
                "true" | "false" => ForeignType::scalar("bool"),
                "FLT_MAX" | "FLT_MIN" | "FLT_EPSILON" | "INFINITY" | "M_PI" => ForeignType::Decimal,
                "INT_MAX" | "INT_MIN" => ForeignType::Integer,
                _ => self.variables.get(name).cloned().unwrap_or_default(),
            },
            Unary(_, e) | Address(e) => self.type_of(e),
            Binary(op, a, b) => {
                let joined = self.type_of(a).joined(self.type_of(b));
                match *op {
                    "==" | "!=" | "<" | "<=" | ">" | ">=" | "&&" | "||" => match joined.is_array() {
                        true => ForeignType::Array("bool".into()),
                        false => ForeignType::scalar("bool"),
                    },
                    "/." if joined.is_integer_value() || joined == ForeignType::Integer => ForeignType::scalar("f32"),
                    "<<" | ">>" => self.type_of(a),
                    _ => joined,
                }
            }
            Cast(ty, _) => ForeignType::scalar(ty),
            Conditional(parts) => self.type_of(&parts[1]).joined(self.type_of(&parts[2])),
            Index(base, subscripts) => match self.type_of(base) {
                ForeignType::Array(element) => {
                    let selects_one =
                        subscripts.iter().all(|s| matches!(s, Subscript::Element(e) if !self.type_of(e).is_array()));
                    if selects_one { ForeignType::Scalar(element) } else { ForeignType::Array(element) }
                }
                _ => match base.path().as_deref().and_then(|path| path.rsplit('.').next()) {
                    Some("shape") => ForeignType::scalar("i32"),
                    _ => ForeignType::Unknown,
                },
            },
            Field(base, name) => match (base.path().as_deref(), name.as_str()) {
                (Some("threadIdx" | "blockIdx" | "blockDim" | "gridDim"), _) => ForeignType::scalar("i32"),
                (Some("thread_idx" | "block_idx" | "block_dim" | "grid_dim" | "global_idx"), _) => {
                    ForeignType::scalar("i32")
                }
                (_, "size") => ForeignType::scalar("i32"),
                (_, "T") => self.type_of(base),
                _ => ForeignType::Unknown,
            },
            Call(callee, args) => {
                let first = args.first().map(|arg| self.type_of(&arg.value)).unwrap_or_default();
                self.type_of_call(callee, first, args.get(1).map(|arg| self.type_of(&arg.value)))
            }
            List(parts) => match parts.first().map(|part| self.type_of(part)) {
                Some(ty) => ty.element().map_or(ForeignType::Unknown, |name| ForeignType::Array(name.to_owned())),
                None => ForeignType::Unknown,
            },
            Comprehension { .. } => ForeignType::Array("f32".into()),
            Pointee(_) | Tuple(_) | Closure(..) | Range(..) | Launch(..) => ForeignType::Unknown,
        }
    }

    fn type_of_call(&self, callee: &ForeignExpr, first: ForeignType, second: Option<ForeignType>) -> ForeignType {
        // A method has the array before its name.
        if let ForeignExpr::Field(base, name) = callee
            && let base @ ForeignType::Array(_) = self.type_of(base)
        {
            return self.type_of_call(&ForeignExpr::name(name), base, None);
        }
        let Some(path) = callee.path() else { return ForeignType::Unknown };
        let name = path.rsplit('.').next().unwrap_or(&path);
        if let Some(result) = self.results.get(name) {
            return result.clone();
        }
        if let Some(ty) = crate::mistakes::c_type(name).filter(|ty| !ty.is_empty()) {
            return ForeignType::scalar(ty);
        }
        match name {
            "len" | "round" | "argmax" | "argmin" | "ceil_div" | "cdiv" => ForeignType::scalar("i32"),
            "grid" if path == "cuda.grid" => ForeignType::scalar("i32"),
            "sum" | "prod" | "max" | "min" if first.is_array() && second.is_none() => {
                first.element().map(ForeignType::scalar).unwrap_or_default()
            }
            "mean" | "std" | "var" | "norm" => ForeignType::scalar("f32"),
            "zeros" | "ones" | "empty" | "linspace" | "rand" | "randn" | "random" => ForeignType::Array("f32".into()),
            "arange" => ForeignType::Array("i32".into()),
            "max" | "min" | "fmaxf" | "fminf" | "maximum" | "minimum" | "pow" | "powf" => {
                first.joined(second.unwrap_or(ForeignType::Integer))
            }
            "sqrt" | "sqrtf" | "exp" | "expf" | "log" | "logf" | "sin" | "sinf" | "cos" | "cosf" | "tanh" | "tanhf"
            | "rsqrt" | "rsqrtf" | "tan" | "tanf" => match first {
                ForeignType::Array(_) => first,
                _ if first.is_float() => first,
                _ => ForeignType::scalar("f32"),
            },
            "abs" | "fabs" | "fabsf" | "floor" | "ceil" | "floorf" | "ceilf" | "sort" | "sorted" | "flip" => first,
            _ => ForeignType::Unknown,
        }
    }
}

fn number_type(text: &str) -> ForeignType {
    let is_hexadecimal = text.starts_with("0x") || text.starts_with("0b");
    let suffix =
        text.find(['i', 'u']).filter(|_| !is_hexadecimal).or_else(|| text.find(['f', 'b']).filter(|_| !is_hexadecimal));
    match suffix {
        Some(at) => ForeignType::scalar(&text[at..]),
        None if !is_hexadecimal && text.contains(['.', 'e']) => ForeignType::Decimal,
        None => ForeignType::Integer,
    }
}
