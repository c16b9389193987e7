//! Values of variables and expressions in host code, with their integer types, and the conversions and arithmetic of
//! C++. A result that may wrap around or lose bits is unknown.

use super::polynomial::SizePolynomial;
use crate::ast::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// An integer type of at least 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostInt {
    pub(super) bits: u32,
    pub(super) is_signed: bool,
}

impl HostInt {
    pub(super) const INT: HostInt = HostInt { bits: 32, is_signed: true };
    pub(super) const SIZE: HostInt = HostInt { bits: 64, is_signed: false };

    pub(super) fn of_literal(literal: &IntLiteral) -> HostInt {
        let is_long = literal.length != IntLength::Int;
        let fits = |ty: HostInt| ty.contains(i128::from(literal.value)).then_some(ty);
        let all = [(32, true), (32, false), (64, true), (64, false)];
        let mut all = all.into_iter().map(|(bits, is_signed)| HostInt { bits, is_signed }).filter(|ty| {
            (!is_long || ty.bits == 64)
                && (!literal.unsigned || !ty.is_signed)
                && (literal.unsigned || literal.radix != 10 || ty.is_signed)
        });
        all.find_map(fits).unwrap_or(HostInt::SIZE)
    }

    pub(super) fn contains(self, number: i128) -> bool {
        match self.is_signed {
            true => number >= -(1i128 << (self.bits - 1)) && number < 1i128 << (self.bits - 1),
            false => number >= 0 && number < 1i128 << self.bits,
        }
    }

    /// Returns the type in which two operands are computed.
    pub(super) fn common(self, other: HostInt) -> HostInt {
        let bits = self.bits.max(other.bits);
        let is_unsigned = |ty: HostInt| !ty.is_signed && ty.bits == bits;
        HostInt { bits, is_signed: !is_unsigned(self) && !is_unsigned(other) }
    }

    /// Returns whether a conversion to this type keeps a value. `number` is its number if that is known, and
    /// `is_natural` says that it is not negative if its variables are not.
    pub(super) fn keeps(self, from: HostInt, number: Option<i128>, is_natural: bool) -> bool {
        match number {
            Some(number) => self.contains(number),
            None if self == from => true,
            None if self.is_signed => self.bits > from.bits,
            None => self.bits >= from.bits && (!from.is_signed || is_natural),
        }
    }
}

/// The integer types of a file by their names.
#[derive(Clone, Debug, Default)]
pub(super) struct HostTypes {
    /// Types that the file defines. `None` for other types than integers, and for names with several meanings.
    defined: FxHashMap<SmolStr, Option<HostInt>>,
}

impl HostTypes {
    /// Adds aliases of types, whose targets may be known aliases.
    pub(super) fn define(&mut self, aliases: &[&CppAlias]) {
        let mut defined: FxHashMap<SmolStr, Option<HostInt>> = FxHashMap::default();
        for alias in aliases {
            let target = if alias.template.is_none() { self.int_of(&alias.ty, &FxHashSet::default()) } else { None };
            let known = defined.entry(alias.name.text.clone()).or_insert(target);
            if *known != target {
                *known = None;
            }
        }
        self.defined = defined;
    }

    /// Adds names of types that are no integers.
    pub(super) fn hide<'n>(&mut self, names: impl Iterator<Item = &'n CppName>) {
        self.defined.extend(names.map(|name| (name.text.clone(), None)));
    }

    /// Returns whether the file defines a type of this name.
    pub(super) fn defines(&self, ty: &CppType) -> bool {
        matches!(&ty.kind, CppTypeKind::Named(name) if self.defined.contains_key(last_name(name)))
    }

    /// Returns the integer type that a type is. `hidden` contains the names that mean something else.
    pub(super) fn int_of(&self, ty: &CppType, hidden: &FxHashSet<SmolStr>) -> Option<HostInt> {
        use BasicType::*;
        let (bits, is_signed) = match &ty.kind {
            CppTypeKind::Basic(Int) => (32, true),
            CppTypeKind::Basic(UnsignedInt) => (32, false),
            CppTypeKind::Basic(Long | LongLong) => (64, true),
            CppTypeKind::Basic(UnsignedLong | UnsignedLongLong) => (64, false),
            CppTypeKind::Named(name) => {
                let name = last_name(name);
                if hidden.contains(name) {
                    return None;
                }
                if let Some(known) = self.defined.get(name) {
                    return *known;
                }
                match name {
                    "int32_t" => (32, true),
                    "uint32_t" | "uint" => (32, false),
                    "int64_t" | "ptrdiff_t" | "ssize_t" => (64, true),
                    "uint64_t" | "size_t" => (64, false),
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(HostInt { bits, is_signed })
    }
}

/// A value of a host variable or expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HostCodeValue {
    Unknown,
    Int(SizePolynomial, HostInt),
    /// A floating-point number.
    Float(f64),
    /// A pointer into an allocation. If it points to the first byte, the number of bytes may be known.
    Buffer {
        id: u32,
        bytes: Option<SizePolynomial>,
    },
    /// A `std::vector` or similar object, and the allocation that it owns.
    Vector {
        id: u32,
        bytes: Option<SizePolynomial>,
    },
    /// A `dim3`.
    Extents([Option<SizePolynomial>; 3]),
}

/// What a variable may hold, by its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum VariableKind {
    Int(HostInt),
    Float,
    Dim3,
    Pointer,
    Vector,
    Other,
}

/// A variable of host code.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HostVariable {
    pub(super) kind: VariableKind,
    pub(super) value: HostCodeValue,
}

pub(super) fn one() -> SizePolynomial {
    SizePolynomial::number(1)
}

/// Returns whether a value is not negative if its variables are not.
pub(super) fn is_natural(value: &SizePolynomial) -> bool {
    value.terms().all(|(_, coefficient)| coefficient >= 0)
}

// ---- syntax ----

/// Returns the names of a template's parameters.
pub(super) fn template_names(function: &CppFunction) -> FxHashSet<SmolStr> {
    let params = function.template.iter().flat_map(|header| &header.params);
    params.filter_map(|param| Some(param.name.as_ref()?.text.clone())).collect()
}

pub(super) fn axis_of(member: &QualifiedName) -> Option<usize> {
    ["x", "y", "z"].iter().position(|axis| *axis == last_name(member))
}

pub(super) fn last_name(name: &QualifiedName) -> &str {
    name.segments.last().map_or("", |last| last.name.text.as_str())
}

/// Returns a name without a scope.
pub(super) fn plain(name: &QualifiedName) -> Option<&SmolStr> {
    match &name.segments[..] {
        [only] if !name.global && only.args.is_none() => Some(&only.name.text),
        _ => None,
    }
}

/// Returns the operand of `&`, also inside of casts.
pub(super) fn address_of(expr: &CppExpr) -> Option<&CppExpr> {
    match &expr.kind {
        CppExprKind::Cast { value, .. } => address_of(value),
        CppExprKind::Unary { op: CppUnaryOp::AddressOf, operand } => Some(operand),
        _ => None,
    }
}

/// Returns a text that is the same for pointers that are computed from the same variable: `a`, `a + 1`, `&a[n]`.
pub(super) fn pointer_root(expr: &CppExpr) -> Option<String> {
    match &expr.kind {
        CppExprKind::Cast { value, .. } => pointer_root(value),
        CppExprKind::Binary { op: CppBinaryOp::Add | CppBinaryOp::Sub, left, right } => {
            pointer_root(left).or_else(|| pointer_root(right))
        }
        CppExprKind::Unary { op: CppUnaryOp::AddressOf, operand } => match &operand.kind {
            CppExprKind::Index { base, .. } => pointer_root(base),
            _ => None,
        },
        CppExprKind::Index { base, index } => {
            let index = match &index.kind {
                CppExprKind::Int(literal) => literal.value.to_string(),
                _ => pointer_root(index)?,
            };
            Some(format!("{}[{index}]", pointer_root(base)?))
        }
        CppExprKind::Member { base, member, .. } => match &base.kind {
            CppExprKind::This => Some(last_name(member).to_string()),
            _ => Some(format!("{}.{}", pointer_root(base)?, last_name(member))),
        },
        CppExprKind::Call { callee, args } => match (&callee.kind, &args[..]) {
            (CppExprKind::Name(name), [only]) if last_name(name) == "raw_pointer_cast" => pointer_root(only),
            (CppExprKind::Member { base, member, .. }, []) if matches!(last_name(member), "data" | "get" | "begin") => {
                pointer_root(base)
            }
            _ => None,
        },
        CppExprKind::Name(name) => {
            let all: Vec<&str> = name.segments.iter().map(|segment| segment.name.text.as_str()).collect();
            Some(all.join("::"))
        }
        _ => None,
    }
}

/// Returns whether a statement leaves the loop around it, or continues with it.
pub(super) fn has_jump(stmt: &CppStmt) -> bool {
    match &stmt.kind {
        CppStmtKind::Break | CppStmtKind::Continue => true,
        CppStmtKind::Block(block) => block.stmts.iter().any(has_jump),
        CppStmtKind::If(inner) => has_jump(&inner.then) || inner.otherwise.as_ref().is_some_and(has_jump),
        CppStmtKind::Switch(_) | CppStmtKind::Label(_) | CppStmtKind::Goto(_) | CppStmtKind::Refused(_) => true,
        _ => false,
    }
}

pub(super) fn is_false(expr: &CppExpr) -> bool {
    match &expr.kind {
        CppExprKind::Int(literal) => literal.value == 0,
        CppExprKind::Bool(value) => !value,
        _ => false,
    }
}
