//! Arithmetic on linear forms, and their values: in the vector's first lane, in each lane, and as indices in 64 bits.

use super::form::*;
use super::*;

impl Builder<'_> {
    pub(super) fn atom_value(&mut self, atom: Atom) -> Value {
        match atom {
            Atom::Imm(v) => self.constant(Ty::I32, v.into()),
            Atom::Value(value) => value,
        }
    }

    fn atom(&mut self, op: Bin, a: Atom, b: Atom) -> Atom {
        match (op, a, b) {
            (_, Atom::Imm(x), Atom::Imm(y)) => Atom::Imm(match op {
                Bin::Add => x.wrapping_add(y),
                Bin::Sub => x.wrapping_sub(y),
                _ => x.wrapping_mul(y),
            }),
            (Bin::Add | Bin::Sub, a, ZERO) => a,
            (Bin::Add, ZERO, b) => b,
            (Bin::Mul, ZERO, _) | (Bin::Mul, _, ZERO) => ZERO,
            (Bin::Mul, a, Atom::Imm(1)) | (Bin::Mul, Atom::Imm(1), a) => a,
            _ => {
                let (a, b) = (self.atom_value(a), self.atom_value(b));
                Atom::Value(self.pure(Op::Scalar(op, Elem::I32), Ty::I32, &[a, b]))
            }
        }
    }

    /// Returns a sum or difference.
    pub(super) fn linear_sum(&mut self, op: Bin, a: &Linear, b: &Linear) -> Linear {
        let base = self.atom(op, a.base, b.base);
        let mut syms: Vec<Sym> = a.terms.iter().map(|t| t.0).collect();
        syms.extend(b.terms.iter().map(|t| t.0).filter(|s| a.of(*s) == ZERO));
        syms.dedup();
        let terms = syms.into_iter().map(|sym| (sym, self.atom(op, a.of(sym), b.of(sym))));
        let terms = terms.filter(|t| t.1 != ZERO).collect();
        Linear { base, terms }
    }

    /// Returns a product, of which one factor is a single uniform part.
    pub(super) fn linear_product(&mut self, a: &Linear, b: &Linear) -> Option<Linear> {
        let (form, factor) = match (a.terms.is_empty(), b.terms.is_empty()) {
            (_, true) => (a, b.base),
            (true, _) => (b, a.base),
            _ if b.is_uniform() => (a, Atom::Value(self.linear_scalar(b))),
            _ if a.is_uniform() => (b, Atom::Value(self.linear_scalar(a))),
            _ => return None,
        };
        let base = self.atom(Bin::Mul, form.base, factor);
        let terms = form.terms.iter().map(|&(sym, c)| (sym, self.atom(Bin::Mul, c, factor)));
        let terms = terms.filter(|t| t.1 != ZERO).collect();
        Some(Linear { base, terms })
    }

    /// Returns the form with the part that is the same in all lanes as one value, if it has more counters than an index may have.
    pub(super) fn few_counters(&mut self, form: &Linear) -> Linear {
        let is_axis = |t: &&(Sym, Atom)| matches!(t.0, Sym::Axis(_));
        if form.terms.iter().filter(|t| !is_axis(t)).count() <= COUNTERS_OF_INDEX {
            return form.clone();
        }
        let terms = form.terms.iter().copied();
        let (own, rest): (Vec<_>, Vec<_>) = terms.partition(|t| is_axis(&t));
        let base = self.linear_scalar(&Linear { base: form.base, terms: rest });
        Linear { base: Atom::Value(base), terms: own }
    }

    /// Returns the form's value in the vector's first lane, as `i32`.
    pub(super) fn linear_scalar(&mut self, form: &Linear) -> Value {
        let mut sum = form.base;
        let mut terms = form.terms.clone();
        terms.sort_by_key(|&(sym, _)| self.sym_level(sym));
        for (sym, c) in terms {
            let value = match sym {
                Sym::Axis(axis) => self.pure(Op::Coord(axis), Ty::I32, &[]),
                Sym::Counter(counter) => self.pure(Op::Trunc, Ty::I32, &[counter]),
            };
            let product = self.atom(Bin::Mul, Atom::Value(value), c);
            sum = self.atom(Bin::Add, sum, product);
        }
        self.atom_value(sum)
    }

    fn sym_level(&self, sym: Sym) -> u8 {
        match sym {
            Sym::Axis(_) => 1,
            Sym::Counter(counter) => self.levels[counter.index()],
        }
    }

    /// Returns the form's value in each lane.
    pub(super) fn linear_vector(&mut self, form: &Linear) -> Value {
        if let Some(value) = form.as_imm() {
            return self.splat(false, u64::from(value as u32));
        }
        let first = self.linear_scalar(form);
        let first = self.pure(Op::Broadcast, Ty::V32, &[first]);
        let along = match form.coefficient(0) {
            ZERO => return first,
            Atom::Imm(c) => self.pure(Op::Iota(c), Ty::V32, &[]),
            Atom::Value(c) => {
                let (c, lanes) = (self.pure(Op::Broadcast, Ty::V32, &[c]), self.pure(Op::Iota(1), Ty::V32, &[]));
                self.pure(Op::Vector(Bin::Mul, Elem::I32), Ty::V32, &[c, lanes])
            }
        };
        self.pure(Op::Vector(Bin::Add, Elem::I32), Ty::V32, &[first, along])
    }

    // In 64 bits

    pub(super) fn wide(&mut self, atom: Atom) -> Value {
        match atom {
            Atom::Imm(v) => self.constant(Ty::I64, v.into()),
            Atom::Value(value) => self.pure(Op::Sext, Ty::I64, &[value]),
        }
    }

    /// Returns `a op b` on `i64`s, folded where one of them is neutral.
    pub(super) fn wide_op(&mut self, op: Bin, a: Option<Value>, b: Value) -> Value {
        match a {
            None => b,
            Some(a) => self.pure(Op::Scalar(op, Elem::I64), Ty::I64, &[a, b]),
        }
    }

    /// Returns the form's value without its multiples of x, as `i64`, with these values in place of counters (`None`: 0). Parts
    /// that vary less are added first. As counters are below 2^30 ([`COUNTERS`]) and there are at most two, nothing overflows.
    pub(super) fn linear_row(&mut self, form: &Linear, at: &[(Value, Option<Value>)]) -> Value {
        let mut sum = (form.base != ZERO).then(|| self.wide(form.base));
        let mut terms = form.without(Sym::Axis(0)).terms;
        terms.sort_by_key(|&(sym, _)| self.sym_level(sym));
        for (sym, c) in terms {
            let value = match at.iter().find(|(counter, _)| sym == Sym::Counter(*counter)) {
                Some((_, None)) => continue,
                Some(&(_, Some(value))) => value,
                None => self.wide_sym(sym),
            };
            let term = match c {
                Atom::Imm(1) => value,
                _ => {
                    let c = self.wide(c);
                    self.wide_op(Bin::Mul, Some(value), c)
                }
            };
            sum = Some(self.wide_op(Bin::Add, sum, term));
        }
        match sum {
            Some(sum) => sum,
            None => self.constant(Ty::I64, 0),
        }
    }

    pub(super) fn wide_sym(&mut self, sym: Sym) -> Value {
        match sym {
            Sym::Counter(counter) => counter,
            Sym::Axis(axis) => {
                let value = self.pure(Op::Coord(axis), Ty::I32, &[]);
                self.pure(Op::Sext, Ty::I64, &[value])
            }
        }
    }

    /// Returns the level at which the form is known, with these counters replaced.
    pub(super) fn linear_level(&self, form: &Linear, at: &[(Value, Option<Value>)]) -> u8 {
        let level = |atom: &Atom| match atom {
            Atom::Imm(_) => 0,
            Atom::Value(value) => self.levels[value.index()],
        };
        let of_sym = |sym: &Sym| match sym {
            Sym::Axis(_) => 1,
            Sym::Counter(counter) => match at.iter().find(|(c, _)| c == counter) {
                Some((_, value)) => value.map_or(0, |v| self.levels[v.index()]),
                None => self.levels[counter.index()],
            },
        };
        let terms = form.terms.iter().map(|(sym, c)| level(c).max(of_sym(sym))).max().unwrap_or(0);
        terms.max(level(&form.base))
    }
}
