//! Arithmetic on affine forms, and code that computes the value of an affine form: in the vector's first lane, in each
//! lane, or as a 64-bit index.

use super::affine_form::*;
use super::*;

impl RegionBuilder<'_> {
    pub(super) fn operand_value(&mut self, atom: FormOperand) -> LaneValue {
        match atom {
            FormOperand::Imm(v) => self.constant(LaneTy::I32, v.into()),
            FormOperand::Value(value) => value,
        }
    }

    fn operand_op(&mut self, op: LaneBinOp, a: FormOperand, b: FormOperand) -> FormOperand {
        match (op, a, b) {
            (_, FormOperand::Imm(x), FormOperand::Imm(y)) => FormOperand::Imm(match op {
                LaneBinOp::Add => x.wrapping_add(y),
                LaneBinOp::Sub => x.wrapping_sub(y),
                _ => x.wrapping_mul(y),
            }),
            (LaneBinOp::Add | LaneBinOp::Sub, a, ZERO) => a,
            (LaneBinOp::Add, ZERO, b) => b,
            (LaneBinOp::Mul, ZERO, _) | (LaneBinOp::Mul, _, ZERO) => ZERO,
            (LaneBinOp::Mul, a, FormOperand::Imm(1)) | (LaneBinOp::Mul, FormOperand::Imm(1), a) => a,
            _ => {
                let (a, b) = (self.operand_value(a), self.operand_value(b));
                FormOperand::Value(self.pure(LaneOp::Scalar(op, LaneElem::I32), LaneTy::I32, &[a, b]))
            }
        }
    }

    /// Returns the sum or difference of two affine forms.
    pub(super) fn linear_sum(&mut self, op: LaneBinOp, a: &LaneAffine, b: &LaneAffine) -> LaneAffine {
        let base = self.operand_op(op, a.base, b.base);
        let mut syms: Vec<FormSymbol> = a.terms.iter().map(|t| t.0).collect();
        syms.extend(b.terms.iter().map(|t| t.0).filter(|s| a.coefficient_of(*s) == ZERO));
        syms.dedup();
        let terms =
            syms.into_iter().map(|sym| (sym, self.operand_op(op, a.coefficient_of(sym), b.coefficient_of(sym))));
        let terms = terms.filter(|t| t.1 != ZERO).collect();
        LaneAffine { base, terms }
    }

    /// Returns the product of two affine forms. At least one of them must be uniform.
    pub(super) fn linear_product(&mut self, a: &LaneAffine, b: &LaneAffine) -> Option<LaneAffine> {
        let (form, factor) = match (a.terms.is_empty(), b.terms.is_empty()) {
            (_, true) => (a, b.base),
            (true, _) => (b, a.base),
            _ if b.is_uniform() => (a, FormOperand::Value(self.linear_scalar(b))),
            _ if a.is_uniform() => (b, FormOperand::Value(self.linear_scalar(a))),
            _ => return None,
        };
        let base = self.operand_op(LaneBinOp::Mul, form.base, factor);
        let terms = form.terms.iter().map(|&(sym, c)| (sym, self.operand_op(LaneBinOp::Mul, c, factor)));
        let terms = terms.filter(|t| t.1 != ZERO).collect();
        Some(LaneAffine { base, terms })
    }

    /// If the affine form has more than [`MAX_INDEX_COUNTERS`] loop counters, computes the sum of all terms without
    /// coordinates as one value, which becomes the base.
    pub(super) fn limit_counters(&mut self, form: &LaneAffine) -> LaneAffine {
        let is_axis = |t: &&(FormSymbol, FormOperand)| matches!(t.0, FormSymbol::Axis(_));
        if form.terms.iter().filter(|t| !is_axis(t)).count() <= MAX_INDEX_COUNTERS {
            return form.clone();
        }
        let terms = form.terms.iter().copied();
        let (own, rest): (Vec<_>, Vec<_>) = terms.partition(|t| is_axis(&t));
        let base = self.linear_scalar(&LaneAffine { base: form.base, terms: rest });
        LaneAffine { base: FormOperand::Value(base), terms: own }
    }

    /// Emits code for the affine form's value in the vector's first lane, as an `i32`.
    pub(super) fn linear_scalar(&mut self, form: &LaneAffine) -> LaneValue {
        let mut sum = form.base;
        let mut terms = form.terms.clone();
        terms.sort_by_key(|&(sym, _)| self.sym_level(sym));
        for (sym, c) in terms {
            let value = match sym {
                FormSymbol::Axis(axis) => self.pure(LaneOp::Coord(axis), LaneTy::I32, &[]),
                FormSymbol::Counter(counter) => self.pure(LaneOp::Trunc, LaneTy::I32, &[counter]),
            };
            let product = self.operand_op(LaneBinOp::Mul, FormOperand::Value(value), c);
            sum = self.operand_op(LaneBinOp::Add, sum, product);
        }
        self.operand_value(sum)
    }

    pub(super) fn sym_level(&self, sym: FormSymbol) -> u8 {
        match sym {
            FormSymbol::Axis(_) => 1,
            FormSymbol::Counter(counter) => self.levels[counter.index()],
        }
    }

    /// Emits code for the affine form's value in each lane.
    pub(super) fn linear_vector(&mut self, form: &LaneAffine) -> LaneValue {
        if let Some(value) = form.as_imm() {
            return self.splat(false, u64::from(value as u32));
        }
        let first = self.linear_scalar(form);
        let first = self.pure(LaneOp::Broadcast, LaneTy::V32, &[first]);
        let lane_offsets = match form.coefficient(0) {
            ZERO => return first,
            FormOperand::Imm(c) => self.pure(LaneOp::Iota(c), LaneTy::V32, &[]),
            FormOperand::Value(c) => {
                let (c, lanes) =
                    (self.pure(LaneOp::Broadcast, LaneTy::V32, &[c]), self.pure(LaneOp::Iota(1), LaneTy::V32, &[]));
                self.pure(LaneOp::Vector(LaneBinOp::Mul, LaneElem::I32), LaneTy::V32, &[c, lanes])
            }
        };
        self.pure(LaneOp::Vector(LaneBinOp::Add, LaneElem::I32), LaneTy::V32, &[first, lane_offsets])
    }

    // Values of affine forms in 64 bits

    pub(super) fn wide(&mut self, atom: FormOperand) -> LaneValue {
        match atom {
            FormOperand::Imm(v) => self.constant(LaneTy::I64, v.into()),
            FormOperand::Value(value) => self.pure(LaneOp::Sext, LaneTy::I64, &[value]),
        }
    }

    /// Returns `a op b` on `i64`s, or `b` if `a` is `None`.
    pub(super) fn wide_op(&mut self, op: LaneBinOp, a: Option<LaneValue>, b: LaneValue) -> LaneValue {
        match a {
            None => b,
            Some(a) => self.pure(LaneOp::Scalar(op, LaneElem::I64), LaneTy::I64, &[a, b]),
        }
    }

    /// Emits code for the affine form's value without its multiple of x, as an `i64`. `at` lists counters to be
    /// replaced by a value, or by 0 if the value is `None`. Loop-invariant terms are added first. The sum cannot
    /// overflow: there are at most two counters, each below 2^30 ([`COUNTER_LIMIT`]).
    pub(super) fn linear_row(&mut self, form: &LaneAffine, at: &[(LaneValue, Option<LaneValue>)]) -> LaneValue {
        let mut sum = (form.base != ZERO).then(|| self.wide(form.base));
        let mut terms = form.without(FormSymbol::Axis(0)).terms;
        terms.sort_by_key(|&(sym, _)| self.sym_level(sym));
        for (sym, c) in terms {
            let value = match at.iter().find(|(counter, _)| sym == FormSymbol::Counter(*counter)) {
                Some((_, None)) => continue,
                Some(&(_, Some(value))) => value,
                None => self.wide_sym(sym),
            };
            let term = match c {
                FormOperand::Imm(1) => value,
                _ => {
                    let c = self.wide(c);
                    self.wide_op(LaneBinOp::Mul, Some(value), c)
                }
            };
            sum = Some(self.wide_op(LaneBinOp::Add, sum, term));
        }
        match sum {
            Some(sum) => sum,
            None => self.constant(LaneTy::I64, 0),
        }
    }

    pub(super) fn wide_sym(&mut self, sym: FormSymbol) -> LaneValue {
        match sym {
            FormSymbol::Counter(counter) => counter,
            FormSymbol::Axis(axis) => {
                let value = self.pure(LaneOp::Coord(axis), LaneTy::I32, &[]);
                self.pure(LaneOp::Sext, LaneTy::I64, &[value])
            }
        }
    }

    /// Returns the outermost level at which the affine form can be computed after its counters have been replaced as in
    /// [`RegionBuilder::linear_row`].
    pub(super) fn linear_level(&self, form: &LaneAffine, at: &[(LaneValue, Option<LaneValue>)]) -> u8 {
        let level = |atom: &FormOperand| match atom {
            FormOperand::Imm(_) => 0,
            FormOperand::Value(value) => self.levels[value.index()],
        };
        let of_sym = |sym: &FormSymbol| match sym {
            FormSymbol::Axis(_) => 1,
            FormSymbol::Counter(counter) => match at.iter().find(|(c, _)| c == counter) {
                Some((_, value)) => value.map_or(0, |v| self.levels[v.index()]),
                None => self.levels[counter.index()],
            },
        };
        let terms = form.terms.iter().map(|(sym, c)| level(c).max(of_sym(sym))).max().unwrap_or(0);
        terms.max(level(&form.base))
    }
}
