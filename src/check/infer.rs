//! Type inference: the table of a body's type variables, and unification.
//!
//! A type variable is represented as a [`Type::Param`] whose number is larger than any position of a type parameter; `finish`
//! replaces all of them before the tree leaves the checker. Each variable has a kind, which says which types it may become
//! and what it defaults to.

use std::sync::Arc;

use crate::base::source::Span;
use crate::check::typed::{ArrayType, Bound, Dim, Type};
use crate::lang::scalar::Scalar;

const FIRST: u32 = 1 << 31;

/// The set of types that a variable may become, and its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any plain data: the kind of a type parameter without a bound.
    Any,
    /// An integer literal: any numeric type, `i32` by default.
    Num,
    /// The element of `zeros(…)`: a float, `f32` by default, unless a stated type requires integers ([`Vars::admit_stated`]).
    Element,
    Int,
    /// Any float type, `f32` by default.
    Float,
}

impl Kind {
    pub fn of_bound(bound: Bound) -> Kind {
        match bound {
            Bound::Any => Kind::Any,
            Bound::Num => Kind::Num,
            Bound::Int => Kind::Int,
            Bound::Float => Kind::Float,
        }
    }

    /// Returns the intersection of two kinds, if it is not empty.
    pub fn meet(self, other: Kind) -> Option<Kind> {
        use Kind::*;
        Some(match (self, other) {
            (a, b) if a == b => a,
            (Any, k) | (k, Any) => k,
            (Int, Float | Element) | (Float | Element, Int) => return None,
            (Int, _) | (_, Int) => Int,
            (Float, _) | (_, Float) => Float,
            (Num | Element, Num | Element) => Element,
        })
    }

    pub fn takes_scalar(self, s: Scalar) -> bool {
        match self {
            Kind::Any => true,
            Kind::Num => s.is_num(),
            Kind::Int => s.is_int(),
            Kind::Float | Kind::Element => s.is_float(),
        }
    }

    fn takes_bound(self, bound: Bound) -> bool {
        match self {
            Kind::Any => true,
            Kind::Num => bound != Bound::Any,
            Kind::Int => bound == Bound::Int,
            Kind::Float | Kind::Element => bound == Bound::Float,
        }
    }

    fn default(self) -> Type {
        match self {
            Kind::Any => Type::Error,
            Kind::Num | Kind::Int => Type::Scalar(Scalar::I32),
            Kind::Element | Kind::Float => Type::Scalar(Scalar::F32),
        }
    }
}

#[derive(Clone, Debug)]
enum Slot {
    Open(Kind),
    Is(Type),
}

/// The type variables of one body, and the bounds of the type parameters in scope.
#[derive(Clone, Debug, Default)]
pub struct Vars {
    slots: Vec<Slot>,
    bounds: Vec<Bound>,
    /// The types of numbers that the statements being checked use, from the outermost one on.
    used: Vec<Type>,
    /// The variables of kind `Element`, each with the place in its call where `type = …` can be written.
    elements: Vec<(Type, Span)>,
}

/// How many uses were noted when a statement began.
#[derive(Clone, Copy, Debug)]
pub struct Uses(usize);

/// Returns the index of the type variable that a type is, if it is one.
fn number(ty: &Type) -> Option<usize> {
    match ty {
        Type::Param(n) if *n >= FIRST => Some((*n - FIRST) as usize),
        _ => None,
    }
}

impl Vars {
    /// Creates an empty table. `bounds` are those of the enclosing item's generics by position (`Any` for those that are not
    /// types).
    pub fn new(bounds: Vec<Bound>) -> Vars {
        Vars { slots: Vec::new(), bounds, used: Vec::new(), elements: Vec::new() }
    }

    pub fn fresh(&mut self, kind: Kind) -> Type {
        let n = FIRST + self.slots.len() as u32;
        self.slots.push(Slot::Open(kind));
        Type::Param(n)
    }

    /// Returns a variable for the elements of `zeros(…)`, in whose call `type = …` can be written at `end`.
    pub fn fresh_element(&mut self, end: Span) -> Type {
        let ty = self.fresh(Kind::Element);
        self.elements.push((ty.clone(), end));
        ty
    }

    /// Returns where `type = …` can be written so that the scalars in `ty` get another type. Empty unless `ty` is still a variable.
    pub fn element_calls(&self, ty: &Type) -> Vec<Span> {
        let scalar = match self.shallow(ty) {
            Type::Array(a) => self.shallow(&a.element),
            scalar => scalar,
        };
        let same = self.elements.iter().filter(|(ty, _)| number(&scalar).is_some() && self.shallow(ty) == scalar);
        same.map(|(_, end)| *end).collect()
    }

    /// Admits integers for elements of `zeros(…)` in `ty` where `want`, a type that the program states, has integers.
    pub fn admit_stated(&mut self, ty: &Type, want: &Type) {
        if self.elements.is_empty() {
            return;
        }
        match (self.shallow(ty), self.shallow(want)) {
            (Type::Array(a), Type::Array(b)) => self.admit_stated(&a.element, &b.element),
            (Type::Tuple(a), Type::Tuple(b)) => a.iter().zip(b.iter()).for_each(|(a, b)| self.admit_stated(a, b)),
            (var, want) if self.kind(&var) == Some(Kind::Element) => {
                let is_stated = match &want {
                    Type::Scalar(s) => s.is_int(),
                    Type::Param(p) if number(&want).is_none() => matches!(self.bound(*p), Bound::Num | Bound::Int),
                    open => self.kind(open) == Some(Kind::Int),
                };
                if is_stated {
                    self.admit_integers(&var);
                }
            }
            _ => {}
        }
    }

    /// Admits integers for an element of `zeros(…)`, since its place requires them.
    pub fn admit_integers(&mut self, ty: &Type) {
        let ty = self.shallow(ty);
        if let (Some(n), Some(Kind::Element)) = (number(&ty), self.kind(&ty)) {
            self.slots[n] = Slot::Open(Kind::Num);
        }
    }

    pub fn bound(&self, param: u32) -> Bound {
        self.bounds.get(param as usize).copied().unwrap_or(Bound::Any)
    }

    /// Whether a type is a type parameter of the enclosing item, rather than a variable of inference.
    pub fn is_declared(&self, ty: &Type) -> bool {
        matches!(ty, Type::Param(_)) && number(ty).is_none()
    }

    /// Resolves a solved variable at the top of a type, and one that is the element of an array.
    pub fn shallow(&self, ty: &Type) -> Type {
        let mut ty = ty;
        while let Some(Slot::Is(next)) = number(ty).and_then(|n| self.slots.get(n)) {
            ty = next;
        }
        match ty {
            Type::Array(a) if number(&a.element).is_some() => match self.shallow(&a.element) {
                element if element == a.element => ty.clone(),
                element => array(element, a.dims.clone()),
            },
            _ => ty.clone(),
        }
    }

    /// Whether a value of the type is an array, or a tuple that contains one.
    pub fn holds_array(&self, ty: &Type) -> bool {
        match self.shallow(ty) {
            Type::Array(_) => true,
            Type::Tuple(parts) => parts.iter().any(|part| self.holds_array(part)),
            _ => false,
        }
    }

    /// Returns the kind of an open variable; none for all other types.
    pub fn kind(&self, ty: &Type) -> Option<Kind> {
        match self.slots.get(number(&self.shallow(ty))?)? {
            Slot::Open(kind) => Some(*kind),
            Slot::Is(_) => None,
        }
    }

    /// Returns the kind of a numeric scalar type, parameter or variable; none for all other types.
    pub fn scalar_kind(&self, ty: &Type) -> Option<Kind> {
        match self.shallow(ty) {
            Type::Scalar(s) if s.is_int() => Some(Kind::Int),
            Type::Scalar(s) if s.is_float() => Some(Kind::Float),
            ref t if number(t).is_some() => self.kind(t),
            Type::Param(p) => Some(Kind::of_bound(self.bound(p))),
            _ => None,
        }
    }

    /// Restricts a type to a kind; returns false if that is impossible. `Unknown` and `Error` satisfy every kind.
    pub fn require(&mut self, ty: &Type, kind: Kind) -> bool {
        let ty = self.shallow(ty);
        if let Some(n) = number(&ty) {
            let Some(Slot::Open(have)) = self.slots.get(n) else { return true };
            let Some(met) = have.meet(kind) else { return false };
            self.slots[n] = Slot::Open(met);
            return true;
        }
        match ty {
            Type::Error | Type::Unknown | Type::Never => true,
            Type::Scalar(s) => kind.takes_scalar(s),
            Type::Param(p) => kind.takes_bound(self.bound(p)),
            Type::Vector(..) | Type::Struct(_) | Type::Tuple(_) => kind == Kind::Any,
            _ => false,
        }
    }

    fn set(&mut self, n: usize, ty: &Type) -> bool {
        let var = Type::Param(FIRST + n as u32);
        if let Some(m) = number(ty) {
            if m == n {
                return true;
            }
            let (Some(Slot::Open(a)), Some(Slot::Open(b))) = (self.slots.get(n), self.slots.get(m)) else {
                return true;
            };
            let Some(met) = a.meet(*b) else { return false };
            self.slots[m] = Slot::Open(met);
            self.slots[n] = Slot::Is(ty.clone());
            return true;
        }
        let kind = match self.kind(&var) {
            Some(kind) => kind,
            None => return true,
        };
        if !self.require(ty, kind) {
            return false;
        }
        if *ty != Type::Never {
            self.slots[n] = Slot::Is(ty.clone());
        }
        true
    }

    /// Unifies two types. Returns false if they differ; variables solved on the way stay solved.
    pub fn unify(&mut self, a: &Type, b: &Type) -> bool {
        if a == b {
            return true;
        }
        let (a, b) = (self.shallow(a), self.shallow(b));
        match (number(&a), number(&b)) {
            (Some(n), _) => return self.set(n, &b),
            (_, Some(n)) => return self.set(n, &a),
            _ => {}
        }
        match (&a, &b) {
            (Type::Error | Type::Unknown | Type::Never, _) | (_, Type::Error | Type::Unknown | Type::Never) => true,
            (Type::Array(x), Type::Array(y)) => {
                x.dims.len() == y.dims.len()
                    && x.dims.iter().zip(&y.dims).all(|(x, y)| same_dim(x, y))
                    && self.unify(&x.element, &y.element)
            }
            (Type::Tuple(x), Type::Tuple(y)) => {
                x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| self.unify(x, y))
            }
            (Type::Fn(x), Type::Fn(y)) => {
                x.params.len() == y.params.len()
                    && x.params.iter().zip(&y.params).all(|(x, y)| self.unify(x, y))
                    && self.unify(&x.result, &y.result)
            }
            _ => a == b,
        }
    }

    /// Returns the common type of two branches: like `unify`, but dimensions that differ become unknown.
    pub fn join(&mut self, a: &Type, b: &Type) -> Option<Type> {
        let (a, b) = (self.shallow(a), self.shallow(b));
        match (&a, &b) {
            (Type::Never, _) => Some(b),
            (_, Type::Never) => Some(a),
            (Type::Error, _) | (_, Type::Error) => Some(Type::Error),
            (Type::Unknown, _) => self.unify(&a, &b).then_some(Type::Unknown),
            (_, Type::Unknown) => self.unify(&a, &b).then_some(Type::Unknown),
            (Type::Array(x), Type::Array(y)) if x.dims.len() == y.dims.len() => {
                let dims = x.dims.iter().zip(&y.dims);
                let dims = dims.map(|(x, y)| if x == y { x.clone() } else { Dim::Unknown }).collect();
                self.unify(&x.element, &y.element).then(|| array(x.element.clone(), dims))
            }
            _ => self.unify(&a, &b).then_some(a),
        }
    }

    /// Notes that the statement uses numbers of this type, or of an array's elements.
    pub fn uses(&mut self, ty: &Type) {
        let scalar = match ty {
            Type::Array(a) => &a.element,
            scalar => scalar,
        };
        if self.kind(scalar).is_some_and(|kind| !matches!(kind, Kind::Any | Kind::Float)) {
            self.used.push(scalar.clone());
        }
    }

    /// Begins a statement: returns what ends it.
    pub fn statement(&self) -> Uses {
        Uses(self.used.len())
    }

    /// Ends a statement: what it uses has its default type if the statement does not need another. Results depend on the type (of
    /// quotients, of what overflows), and those of a statement must not depend on the ones that follow. The width of floats is left to
    /// these: it only rounds.
    pub fn end_statement(&mut self, begin: Uses) {
        for ty in self.used.split_off(begin.0.min(self.used.len())) {
            match self.kind(&ty) {
                Some(Kind::Num | Kind::Int) => self.unify(&ty, &Type::Scalar(Scalar::I32)),
                Some(Kind::Element) => self.require(&ty, Kind::Float),
                _ => true,
            };
        }
    }

    /// Takes back what has been noted since then: uses that depend on no number.
    pub fn unused(&mut self, since: Uses) {
        self.used.truncate(since.0);
    }

    /// Substitutes all variables in a type; open ones become their defaults.
    pub fn finish(&self, ty: &Type) -> Type {
        match ty {
            Type::Param(n) if *n >= FIRST => {
                let ty = self.shallow(ty);
                match number(&ty) {
                    Some(_) => self.kind(&ty).map_or(Type::Error, Kind::default),
                    None => self.finish(&ty),
                }
            }
            Type::Array(a) => match self.finish(&a.element) {
                element if element == a.element => ty.clone(),
                element => array(element, a.dims.clone()),
            },
            Type::Tuple(parts) => Type::Tuple(parts.iter().map(|p| self.finish(p)).collect()),
            _ => ty.clone(),
        }
    }

    /// Substitutes the variables of a type in place, if it has any.
    pub fn finish_in(&self, ty: &mut Type) {
        match ty {
            Type::Scalar(_) | Type::Unit => {}
            Type::Param(n) if *n < FIRST => {}
            Type::Param(_) | Type::Array(_) | Type::Tuple(_) => *ty = self.finish(ty),
            _ => {}
        }
    }
}

/// Whether two dimensions may be equal, as far as is known at compile time.
pub(crate) fn same_dim(a: &Dim, b: &Dim) -> bool {
    match (a, b) {
        (Dim::Unknown | Dim::Local(_) | Dim::Expr(_), _) | (_, Dim::Unknown | Dim::Local(_) | Dim::Expr(_)) => true,
        (Dim::Known(a), Dim::Known(b)) => a == b,
        (Dim::Name(a), Dim::Name(b)) => a == b,
        (Dim::Known(_), Dim::Name(_)) | (Dim::Name(_), Dim::Known(_)) => false,
    }
}

pub(crate) fn array(element: Type, dims: Vec<Dim>) -> Type {
    Type::Array(Arc::new(ArrayType { element, dims }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_takes_the_type_its_use_asks_for() {
        let mut vars = Vars::default();
        let (a, b) = (vars.fresh(Kind::Num), vars.fresh(Kind::Float));
        assert!(vars.unify(&a, &b));
        assert_eq!(vars.finish(&a), Type::Scalar(Scalar::F32));
        assert!(vars.unify(&b, &Type::Scalar(Scalar::F64)));
        assert_eq!(vars.finish(&a), Type::Scalar(Scalar::F64));
        assert!(!vars.unify(&a, &Type::Scalar(Scalar::I32)));
    }

    #[test]
    fn the_first_statement_that_uses_a_number_decides() {
        let mut vars = Vars::default();
        let kinds = [Kind::Num, Kind::Num, Kind::Element, Kind::Float, Kind::Num, Kind::Num];
        let [number, other, element, float, outer, unused] = kinds.map(|kind| vars.fresh(kind));
        let begin = vars.statement();
        vars.uses(&outer);
        let inner = vars.statement();
        for ty in [&number, &other, &element, &float] {
            vars.uses(ty);
        }
        assert!(vars.unify(&other, &Type::Scalar(Scalar::F32)));
        let length = vars.statement();
        vars.uses(&unused);
        vars.unused(length);
        vars.end_statement(inner);
        assert_eq!(vars.finish(&number), Type::Scalar(Scalar::I32));
        assert!(!vars.unify(&number, &Type::Scalar(Scalar::I64)));
        assert_eq!(vars.kind(&element), Some(Kind::Float));
        assert_eq!(vars.kind(&float), Some(Kind::Float));
        assert_eq!((vars.kind(&outer), vars.kind(&unused)), (Some(Kind::Num), Some(Kind::Num)));
        vars.end_statement(begin);
        assert_eq!((vars.kind(&outer), vars.kind(&unused)), (None, Some(Kind::Num)));
    }

    #[test]
    fn only_a_stated_type_makes_elements_integers() {
        let mut vars = Vars::default();
        let (i32, end) = (Type::Scalar(Scalar::I32), Span::default());
        let elements = [(); 4].map(|()| vars.fresh_element(end));
        let literal = vars.fresh(Kind::Num);
        assert!(!vars.unify(&elements[0], &i32));
        assert!(vars.unify(&literal, &elements[0]));
        assert_eq!(vars.finish(&literal), Type::Scalar(Scalar::F32));
        assert_eq!(vars.element_calls(&array(literal, vec![])), [end]);

        vars.admit_stated(&array(elements[1].clone(), vec![]), &array(i32.clone(), vec![]));
        assert!(vars.unify(&elements[1], &i32));

        let begin = vars.statement();
        vars.uses(&elements[2]);
        vars.end_statement(begin);
        vars.admit_stated(&elements[2], &i32);
        assert!(!vars.unify(&elements[2], &i32));

        // Another variable states nothing, nor does a float.
        let open = vars.fresh(Kind::Num);
        vars.admit_stated(&elements[3], &open);
        vars.admit_stated(&elements[3], &Type::Scalar(Scalar::F64));
        assert_eq!(vars.kind(&elements[3]), Some(Kind::Element));
    }

    #[test]
    fn a_float_literal_is_no_integer() {
        let mut vars = Vars::new(vec![Bound::Num, Bound::Float]);
        let (a, b) = (vars.fresh(Kind::Float), vars.fresh(Kind::Int));
        assert!(!vars.unify(&a, &b));
        assert!(!vars.unify(&a, &Type::Param(0)));
        assert!(vars.unify(&a, &Type::Param(1)));
    }
}
