//! `einsum`, composed of operations that have derivatives.
//!
//! # Order
//! An axis that only one operand has, and the result does not, is summed first, by `sum`. The product of two operands
//! is `a * b` if no axis is summed. Otherwise it is `a @ b` of matrices whose columns or rows are the summed axes, in
//! their order in `a`. The result has the same bits as these operations. A sum of integers has the type of the
//! elements, and is an error if it does not fit.

use super::ops::{binary, gather, index, permute, reduce_to, reshape};
use super::trace_value::primal;
use crate::array::{Array, SliceSpec};
use crate::graph::ExecContext;
use crate::ops::{GatherIndex, ReduceKind, operand};
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::alloc;
use clk_check::einsum::Subscripts;
use clk_scalar::ops::BinaryOp;

/// Evaluates `einsum("ij,jk->ik", a, b)`.
pub(crate) fn einsum(exec: &ExecContext, subscripts: &str, operands: &[HostValue]) -> HostResult<HostValue> {
    let subscripts =
        Subscripts::parse(subscripts).map_err(|(title, help)| RuntimeError::new("E0505", title).help(help))?;
    let mut terms = vec![];
    for (letters, value) in subscripts.operands.iter().zip(operands) {
        let mut term = EinsumTerm::new(letters, value)?;
        term.check_extents(&terms)?;
        term.take_diagonals(exec)?;
        terms.push(term);
    }
    for at in 0..terms.len() {
        let kept: Vec<char> = terms
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .flat_map(|(_, t)| &t.letters)
            .chain(&subscripts.result)
            .copied()
            .collect();
        terms[at].sum_except(exec, &kept)?;
    }
    let term = match &terms[..] {
        [term] => term.clone(),
        [a, b] => product(exec, a, b, &subscripts.result)?,
        _ => return Err(RuntimeError::new("E0505", "`einsum` takes one or two operands")),
    };
    term.in_order(exec, &subscripts.result)
}

/// A value and the letters of its axes. Without letters, it is a number.
#[derive(Clone)]
struct EinsumTerm {
    value: HostValue,
    letters: Vec<char>,
    shape: Vec<usize>,
}

impl EinsumTerm {
    fn new(letters: &[char], value: &HostValue) -> HostResult<EinsumTerm> {
        let shape = operand::array(&primal(value), "`einsum`")?.shape().to_vec();
        if shape.len() != letters.len() {
            let name: String = letters.iter().collect();
            let title = format!("`{name}` names {} axes, but the array has {}", letters.len(), shape.len());
            return Err(RuntimeError::new("E0503", title).help("each axis of an operand has a letter"));
        }
        Ok(EinsumTerm { value: value.clone(), letters: letters.to_vec(), shape })
    }

    /// Returns the extent of an axis; 1 if the term does not have it.
    fn extent(&self, letter: char) -> usize {
        self.letters.iter().position(|other| *other == letter).map_or(1, |axis| self.shape[axis])
    }

    /// Checks that axes with one letter have one extent, in this term and in the terms before it.
    fn check_extents(&self, before: &[EinsumTerm]) -> HostResult<()> {
        for (letter, &extent) in self.letters.iter().zip(&self.shape) {
            let holds = |term: &&EinsumTerm| term.letters.contains(letter);
            let other = before.iter().find(holds).unwrap_or(self).extent(*letter);
            if other != extent {
                let title = format!("the axis `{letter}` of `einsum` has two extents: {other} and {extent}");
                return Err(RuntimeError::new("E0501", title).help("axes with one letter have the same extent"));
            }
        }
        Ok(())
    }

    /// Replaces axes with the same letter by their diagonal, in the place of the first of them.
    fn take_diagonals(&mut self, exec: &ExecContext) -> HostResult<()> {
        let is_double = |letters: &[char], letter: char| letters.iter().filter(|other| **other == letter).count() > 1;
        while let Some(letter) = self.letters.iter().copied().find(|&letter| is_double(&self.letters, letter)) {
            let extent = self.extent(letter);
            let places: Vec<i32> = alloc::collect(extent, 0..extent as i32);
            let places = Array::from_shaped(&places, &[extent])?;
            let pick = |other: &char| match *other == letter {
                true => GatherIndex::Array(places.clone()),
                false => GatherIndex::Spec(SliceSpec::ALL),
            };
            self.value = gather(exec, &self.value, &self.letters.iter().map(pick).collect::<Vec<_>>())?;
            let first = self.letters.iter().position(|other| *other == letter);
            let kept = |axis: &usize| self.letters[*axis] != letter || Some(*axis) == first;
            let kept: Vec<usize> = (0..self.letters.len()).filter(kept).collect();
            (self.letters, self.shape) = kept.iter().map(|&axis| (self.letters[axis], self.shape[axis])).unzip();
        }
        Ok(())
    }

    /// Sums all axes except these.
    fn sum_except(&mut self, exec: &ExecContext, kept: &[char]) -> HostResult<()> {
        let summed = |letter: &char| !kept.contains(letter);
        let axes: Vec<i64> = (0..self.letters.len()).filter(|&k| summed(&self.letters[k])).map(|k| k as i64).collect();
        if !axes.is_empty() {
            let scalar = operand::array(&primal(&self.value), "`einsum`")?.scalar().filter(|scalar| scalar.is_int());
            self.value = reduce_to(exec, ReduceKind::Sum, &self.value, Some(&axes), scalar)?;
            let kept =
                self.letters.iter().copied().zip(self.shape.iter().copied()).filter(|(letter, _)| !summed(letter));
            (self.letters, self.shape) = kept.unzip();
        }
        Ok(())
    }

    /// Returns the value with its axes in the order of these letters, which are all of its letters.
    fn in_order(&self, exec: &ExecContext, letters: &[char]) -> HostResult<HostValue> {
        if self.letters.is_empty() {
            return Ok(self.value.clone());
        }
        let axis = |letter: &char| self.letters.iter().position(|other| other == letter);
        permute(exec, &self.value, &letters.iter().filter_map(axis).collect::<Vec<_>>())
    }

    /// Returns the value with one axis for each group of letters.
    fn grouped(&self, exec: &ExecContext, groups: &[&[char]]) -> HostResult<HostValue> {
        let extents = |group: &&[char]| group.iter().map(|&letter| self.extent(letter)).product::<usize>() as i64;
        let dims: Vec<i64> = groups.iter().map(extents).collect();
        reshape(exec, &self.in_order(exec, &groups.concat())?, &dims)
    }
}

/// Multiplies two terms and sums the axes that both have and the result does not.
fn product(exec: &ExecContext, a: &EinsumTerm, b: &EinsumTerm, result: &[char]) -> HostResult<EinsumTerm> {
    let both = |letter: &&char| a.letters.contains(letter) && b.letters.contains(letter);
    let summed: Vec<char> = a.letters.iter().filter(|c| both(c) && !result.contains(c)).copied().collect();
    let batch: Vec<char> = result.iter().filter(both).copied().collect();
    let rows: Vec<char> = a.letters.iter().filter(|c| !b.letters.contains(c)).copied().collect();
    let columns: Vec<char> = b.letters.iter().filter(|c| !a.letters.contains(c)).copied().collect();
    let letters = [batch.as_slice(), &rows, &columns].concat();
    let shape: Vec<usize> = letters
        .iter()
        .map(|&letter| a.extent(letter) * if batch.contains(&letter) { 1 } else { b.extent(letter) })
        .collect();
    let dims: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
    let value = if summed.is_empty() {
        let spread = |term: &EinsumTerm| match term.letters.is_empty() {
            true => Ok(term.value.clone()),
            false => term.grouped(exec, &letters.iter().map(std::slice::from_ref).collect::<Vec<_>>()),
        };
        binary(exec, BinaryOp::Mul, &spread(a)?, &spread(b)?)?
    } else {
        let (left, right): (Vec<&[char]>, Vec<&[char]>) = match batch.is_empty() {
            true => (vec![&rows, &summed], vec![&summed, &columns]),
            false => (vec![&batch, &rows, &summed], vec![&batch, &summed, &columns]),
        };
        let matrix = binary(exec, BinaryOp::MatMul, &a.grouped(exec, &left)?, &b.grouped(exec, &right)?)?;
        match dims.is_empty() {
            true => index(exec, &matrix, &[SliceSpec::At(0), SliceSpec::At(0)])?,
            false => reshape(exec, &matrix, &dims)?,
        }
    };
    Ok(EinsumTerm { value, letters, shape })
}
