//! Type inference: the type variables of a body, and unification.
//!
//! A type variable is represented as a [`Type::Param`] whose number is greater than the positions of all type
//! parameters. `finish` replaces all type variables before the checker returns the tree. Each variable has a class: the
//! set of types that it may become, and a default.

use std::sync::Arc;

use crate::typed::{ArrayType, Dim, Type, TypeBound};
use clk_base::source::Span;
use clk_scalar::Scalar;

const FIRST: u32 = 1 << 31;

/// The set of types that a variable may become, and its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeClass {
    /// All types of plain data: the class of a type parameter without a bound.
    Any,
    /// An integer literal: any numeric type, `i32` by default.
    Num,
    /// The element type of `zeros(…)`: a float type, by default `f32`, unless a declared type requires integers
    /// ([`Vars::admit_declared`]).
    Element,
    Int,
    /// Any float type, `f32` by default.
    Float,
}

impl TypeClass {
    pub fn of_bound(bound: TypeBound) -> TypeClass {
        match bound {
            TypeBound::Any => TypeClass::Any,
            TypeBound::Num => TypeClass::Num,
            TypeBound::Int => TypeClass::Int,
            TypeBound::Float => TypeClass::Float,
        }
    }

    /// Returns the intersection of two classes; `None` if it is empty.
    pub fn intersect(self, other: TypeClass) -> Option<TypeClass> {
        use TypeClass::*;
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
            TypeClass::Any => true,
            TypeClass::Num => s.is_num(),
            TypeClass::Int => s.is_int(),
            TypeClass::Float | TypeClass::Element => s.is_float(),
        }
    }

    fn takes_bound(self, bound: TypeBound) -> bool {
        match self {
            TypeClass::Any => true,
            TypeClass::Num => bound != TypeBound::Any,
            TypeClass::Int => bound == TypeBound::Int,
            TypeClass::Float | TypeClass::Element => bound == TypeBound::Float,
        }
    }

    fn default(self) -> Type {
        match self {
            TypeClass::Any => Type::Error,
            TypeClass::Num | TypeClass::Int => Type::Scalar(Scalar::I32),
            TypeClass::Element | TypeClass::Float => Type::Scalar(Scalar::F32),
        }
    }
}

#[derive(Clone, Debug)]
enum InferenceSlot {
    Open(TypeClass),
    Is(Type),
}

/// The type variables of one body, and the bounds of the type parameters in scope.
#[derive(Clone, Debug, Default)]
pub struct Vars {
    slots: Vec<InferenceSlot>,
    bounds: Vec<TypeBound>,
    /// The types of numbers that the statements being checked use, from the outermost to the innermost statement.
    used: Vec<Type>,
    /// The variables of class `Element`, each with the span in its call at which `type = …` can be inserted.
    elements: Vec<(Type, Span)>,
}

/// The number of uses of types that were recorded when a statement began.
#[derive(Clone, Copy, Debug)]
pub struct UseCount(usize);

/// Returns the index of a type variable; `None` for other types.
fn number(ty: &Type) -> Option<usize> {
    match ty {
        Type::Param(n) if *n >= FIRST => Some((*n - FIRST) as usize),
        _ => None,
    }
}

impl Vars {
    /// Creates an empty table. `bounds[i]` is the bound of generic `i` of the enclosing item (`Any` if that is not a
    /// type).
    pub fn new(bounds: Vec<TypeBound>) -> Vars {
        Vars { slots: Vec::new(), bounds, used: Vec::new(), elements: Vec::new() }
    }

    pub fn fresh(&mut self, kind: TypeClass) -> Type {
        let n = FIRST + self.slots.len() as u32;
        self.slots.push(InferenceSlot::Open(kind));
        Type::Param(n)
    }

    /// Returns a variable for the element type of a call of `zeros(…)`. `end` is the span in this call at which `type =
    /// …` can be inserted.
    pub fn fresh_element(&mut self, end: Span) -> Type {
        let ty = self.fresh(TypeClass::Element);
        self.elements.push((ty.clone(), end));
        ty
    }

    /// Returns the spans at which `type = …` can be inserted to change the scalar type in `ty`. Empty unless that type
    /// is still a variable.
    pub fn element_calls(&self, ty: &Type) -> Vec<Span> {
        let scalar = match self.shallow(ty) {
            Type::Array(a) => self.shallow(&a.element),
            scalar => scalar,
        };
        let same = self.elements.iter().filter(|(ty, _)| number(&scalar).is_some() && self.shallow(ty) == scalar);
        same.map(|(_, end)| *end).collect()
    }

    /// Allows integers as elements of `zeros(…)` in `ty`, if `want`, a type that the program declares explicitly, has
    /// integers there.
    pub fn admit_declared(&mut self, ty: &Type, want: &Type) {
        if self.elements.is_empty() {
            return;
        }
        match (self.shallow(ty), self.shallow(want)) {
            (Type::Array(a), Type::Array(b)) => self.admit_declared(&a.element, &b.element),
            (Type::Tuple(a), Type::Tuple(b)) => a.iter().zip(b.iter()).for_each(|(a, b)| self.admit_declared(a, b)),
            (var, want) if self.kind(&var) == Some(TypeClass::Element) => {
                let has_integers = match &want {
                    Type::Scalar(s) => s.is_int(),
                    Type::Param(p) if number(&want).is_none() => {
                        matches!(self.bound(*p), TypeBound::Num | TypeBound::Int)
                    }
                    open => self.kind(open) == Some(TypeClass::Int),
                };
                if has_integers {
                    self.admit_integers(&var);
                }
            }
            _ => {}
        }
    }

    /// Allows integers as elements of `zeros(…)`, because the context of the call requires them.
    pub fn admit_integers(&mut self, ty: &Type) {
        let ty = self.shallow(ty);
        if let (Some(n), Some(TypeClass::Element)) = (number(&ty), self.kind(&ty)) {
            self.slots[n] = InferenceSlot::Open(TypeClass::Num);
        }
    }

    pub fn bound(&self, param: u32) -> TypeBound {
        self.bounds.get(param as usize).copied().unwrap_or(TypeBound::Any)
    }

    /// Returns whether a type is a type parameter of the enclosing item, rather than a variable of inference.
    pub fn is_declared(&self, ty: &Type) -> bool {
        matches!(ty, Type::Param(_)) && number(ty).is_none()
    }

    /// Replaces a type that is a solved variable, and the element type of an array if it is a solved variable.
    pub fn shallow(&self, ty: &Type) -> Type {
        let mut ty = ty;
        while let Some(InferenceSlot::Is(next)) = number(ty).and_then(|n| self.slots.get(n)) {
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

    /// Returns whether a value of the type is an array, or a tuple that contains one.
    pub fn holds_array(&self, ty: &Type) -> bool {
        match self.shallow(ty) {
            Type::Array(_) => true,
            Type::Tuple(parts) => parts.iter().any(|part| self.holds_array(part)),
            _ => false,
        }
    }

    /// Returns the class of an unsolved variable; `None` for all other types.
    pub fn kind(&self, ty: &Type) -> Option<TypeClass> {
        match self.slots.get(number(&self.shallow(ty))?)? {
            InferenceSlot::Open(kind) => Some(*kind),
            InferenceSlot::Is(_) => None,
        }
    }

    /// Returns the class of a numeric scalar type, type parameter or variable; `None` for all other types.
    pub fn scalar_kind(&self, ty: &Type) -> Option<TypeClass> {
        match self.shallow(ty) {
            Type::Scalar(s) if s.is_int() => Some(TypeClass::Int),
            Type::Scalar(s) if s.is_float() => Some(TypeClass::Float),
            ref t if number(t).is_some() => self.kind(t),
            Type::Param(p) => Some(TypeClass::of_bound(self.bound(p))),
            _ => None,
        }
    }

    /// Restricts a type to a class; returns false if that is impossible. `Unknown` and `Error` satisfy every class.
    pub fn require(&mut self, ty: &Type, kind: TypeClass) -> bool {
        let ty = self.shallow(ty);
        if let Some(n) = number(&ty) {
            let Some(InferenceSlot::Open(own)) = self.slots.get(n) else { return true };
            let Some(common) = own.intersect(kind) else { return false };
            self.slots[n] = InferenceSlot::Open(common);
            return true;
        }
        match ty {
            Type::Error | Type::Unknown | Type::Never => true,
            Type::Scalar(s) => kind.takes_scalar(s),
            Type::Param(p) => kind.takes_bound(self.bound(p)),
            Type::Vector(..) | Type::Struct(_) | Type::Tuple(_) => kind == TypeClass::Any,
            _ => false,
        }
    }

    fn set(&mut self, n: usize, ty: &Type) -> bool {
        let var = Type::Param(FIRST + n as u32);
        if let Some(m) = number(ty) {
            if m == n {
                return true;
            }
            let (Some(InferenceSlot::Open(a)), Some(InferenceSlot::Open(b))) = (self.slots.get(n), self.slots.get(m))
            else {
                return true;
            };
            let Some(common) = a.intersect(*b) else { return false };
            self.slots[m] = InferenceSlot::Open(common);
            self.slots[n] = InferenceSlot::Is(ty.clone());
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
            self.slots[n] = InferenceSlot::Is(ty.clone());
        }
        true
    }

    /// Unifies two types. Returns false if they differ. Even then, variables that were solved before the difference was
    /// found stay solved.
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

    /// Records that the statement uses numbers of this type, or of this array's element type.
    pub fn record_use(&mut self, ty: &Type) {
        let scalar = match ty {
            Type::Array(a) => &a.element,
            scalar => scalar,
        };
        if self.kind(scalar).is_some_and(|kind| !matches!(kind, TypeClass::Any | TypeClass::Float)) {
            self.used.push(scalar.clone());
        }
    }

    /// Begins a statement. The caller passes the result to [`Vars::end_statement`] at the end of the statement.
    pub fn begin_statement(&self) -> UseCount {
        UseCount(self.used.len())
    }

    /// Ends a statement. Types of integer literals that it uses become their default if they are not determined yet,
    /// and element types of `zeros(…)` become floats. These types affect results (quotients, overflow), and the result
    /// of a statement must not depend on later statements. The width of floats may be determined later, because it
    /// affects only rounding.
    pub fn end_statement(&mut self, begin: UseCount) {
        for ty in self.used.split_off(begin.0.min(self.used.len())) {
            match self.kind(&ty) {
                Some(TypeClass::Num | TypeClass::Int) => self.unify(&ty, &Type::Scalar(Scalar::I32)),
                Some(TypeClass::Element) => self.require(&ty, TypeClass::Float),
                _ => true,
            };
        }
    }

    /// Discards the recorded uses of number types since `since`: the code checked since then needs the types of
    /// numbers, but not their values.
    pub fn discard_uses(&mut self, since: UseCount) {
        self.used.truncate(since.0);
    }

    /// Substitutes all variables in a type. Unsolved variables become their defaults.
    pub fn finish(&self, ty: &Type) -> Type {
        match ty {
            Type::Param(n) if *n >= FIRST => {
                let ty = self.shallow(ty);
                match number(&ty) {
                    Some(_) => self.kind(&ty).map_or(Type::Error, TypeClass::default),
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

/// Returns whether two dimensions may be equal at run time.
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
    fn a_literal_takes_the_type_of_its_use() {
        let mut vars = Vars::default();
        let (a, b) = (vars.fresh(TypeClass::Num), vars.fresh(TypeClass::Float));
        assert!(vars.unify(&a, &b));
        assert_eq!(vars.finish(&a), Type::Scalar(Scalar::F32));
        assert!(vars.unify(&b, &Type::Scalar(Scalar::F64)));
        assert_eq!(vars.finish(&a), Type::Scalar(Scalar::F64));
        assert!(!vars.unify(&a, &Type::Scalar(Scalar::I32)));
    }

    #[test]
    fn the_first_statement_that_uses_a_number_decides() {
        let mut vars = Vars::default();
        let kinds =
            [TypeClass::Num, TypeClass::Num, TypeClass::Element, TypeClass::Float, TypeClass::Num, TypeClass::Num];
        let [number, other, element, float, outer, unused] = kinds.map(|kind| vars.fresh(kind));
        let begin = vars.begin_statement();
        vars.record_use(&outer);
        let inner = vars.begin_statement();
        for ty in [&number, &other, &element, &float] {
            vars.record_use(ty);
        }
        assert!(vars.unify(&other, &Type::Scalar(Scalar::F32)));
        let length = vars.begin_statement();
        vars.record_use(&unused);
        vars.discard_uses(length);
        vars.end_statement(inner);
        assert_eq!(vars.finish(&number), Type::Scalar(Scalar::I32));
        assert!(!vars.unify(&number, &Type::Scalar(Scalar::I64)));
        assert_eq!(vars.kind(&element), Some(TypeClass::Float));
        assert_eq!(vars.kind(&float), Some(TypeClass::Float));
        assert_eq!((vars.kind(&outer), vars.kind(&unused)), (Some(TypeClass::Num), Some(TypeClass::Num)));
        vars.end_statement(begin);
        assert_eq!((vars.kind(&outer), vars.kind(&unused)), (None, Some(TypeClass::Num)));
    }

    #[test]
    fn only_an_explicit_type_makes_elements_integers() {
        let mut vars = Vars::default();
        let (i32, end) = (Type::Scalar(Scalar::I32), Span::default());
        let elements = [(); 4].map(|()| vars.fresh_element(end));
        let literal = vars.fresh(TypeClass::Num);
        assert!(!vars.unify(&elements[0], &i32));
        assert!(vars.unify(&literal, &elements[0]));
        assert_eq!(vars.finish(&literal), Type::Scalar(Scalar::F32));
        assert_eq!(vars.element_calls(&array(literal, vec![])), [end]);

        vars.admit_declared(&array(elements[1].clone(), vec![]), &array(i32.clone(), vec![]));
        assert!(vars.unify(&elements[1], &i32));

        let begin = vars.begin_statement();
        vars.record_use(&elements[2]);
        vars.end_statement(begin);
        vars.admit_declared(&elements[2], &i32);
        assert!(!vars.unify(&elements[2], &i32));

        // Neither another variable nor a declared float type allows integers.
        let open = vars.fresh(TypeClass::Num);
        vars.admit_declared(&elements[3], &open);
        vars.admit_declared(&elements[3], &Type::Scalar(Scalar::F64));
        assert_eq!(vars.kind(&elements[3]), Some(TypeClass::Element));
    }

    #[test]
    fn a_float_literal_is_not_an_integer() {
        let mut vars = Vars::new(vec![TypeBound::Num, TypeBound::Float]);
        let (a, b) = (vars.fresh(TypeClass::Float), vars.fresh(TypeClass::Int));
        assert!(!vars.unify(&a, &b));
        assert!(!vars.unify(&a, &Type::Param(0)));
        assert!(vars.unify(&a, &Type::Param(1)));
    }
}
