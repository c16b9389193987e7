//! The builtins by which the ranks of a script exchange values.
//!
//! Input: a value and the call's options. Output: the value that this rank gets. The value becomes an array of its type, whose bytes a
//! [`Group`](crate::host::ranks::Group) exchanges; without a group there is one rank, and each builtin is the identity.

use std::sync::Arc;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{Expr, Type};
use crate::host::array::{Array, Element};
use crate::host::grad;
use crate::host::problem::Problem;
use crate::host::ranks::{Call, Deed, Ending, Group, Op};
use crate::host::value::{Record, Value};
use crate::lang::builtin::Together;

use super::builtin::Named;
use super::eval::named;
use super::frame::Frame;
use super::machine::{Eval, Machine, Signal};

/// A value as an array that is exchanged.
struct Parcel {
    array: Array,
    /// Whether it is a single value.
    single: bool,
}

impl Machine<'_> {
    /// Evaluates a call of one of these builtins.
    pub(super) fn together(
        &mut self,
        frame: &mut Frame,
        what: Together,
        args: &[Expr],
        more: Named<'_>,
        expr: &Expr,
    ) -> Eval {
        let group = self.interp.group.clone();
        let (rank, ranks) = group.as_ref().map_or((0, 1), |group| (group.rank(), group.ranks()));
        match what {
            Together::Rank => return Ok(Value::i32(rank as i32)),
            Together::Ranks => return Ok(Value::i32(ranks as i32)),
            _ => {}
        }
        let Some(x) = args.first() else { return Err(self.broken(expr.span, "a wrong number of arguments")) };
        let value = self.eval(frame, x)?;
        let deed = self.deed(frame, what, more, expr.span, ranks)?;
        let parcel = self.parcel(frame, deed, &value, x, expr.span)?;
        if let Deed::ReduceScatter(_) = deed {
            self.divides(&parcel.array, ranks, x.span)?;
        }
        let Some(group) = group else { return self.alone(deed, value, parcel, expr.span) };
        self.exchange(&group, deed, parcel, expr.span)
    }

    /// Returns what a call does; an error if there is no such operation or rank.
    fn deed(&mut self, frame: &mut Frame, what: Together, more: Named<'_>, span: Span, ranks: u32) -> Eval<Deed> {
        let mut rank = |machine: &mut Self, name: &str| -> Eval<u32> {
            let Some(given) = named(more, name) else { return Ok(0) };
            let number = machine.integer(frame, given)?;
            let found = u32::try_from(number).ok().filter(|&rank| rank < ranks);
            found.ok_or_else(|| {
                let there = if ranks == 1 {
                    "there is rank 0 alone".into()
                } else {
                    format!("ranks are from 0 to {}", ranks - 1)
                };
                machine.error(Diagnostic::error("E0552", format!("there is no rank {number}")).at(given.span, there))
            })
        };
        Ok(match what {
            Together::Broadcast => Deed::Broadcast { from: rank(self, "from")? },
            Together::Send => Deed::Send { to: rank(self, "to")? },
            Together::Receive => Deed::Receive { from: rank(self, "from")? },
            Together::AllGather => Deed::AllGather,
            Together::AllReduce => Deed::AllReduce(self.operation(frame, more)?),
            Together::ReduceScatter => Deed::ReduceScatter(self.operation(frame, more)?),
            Together::Rank | Together::Ranks => return Err(self.broken(span, "a call that exchanges nothing")),
        })
    }

    fn operation(&mut self, frame: &mut Frame, more: Named<'_>) -> Eval<Op> {
        let Some(given) = named(more, "op") else { return Ok(Op::Sum) };
        let value = self.eval(frame, given)?;
        let name = if let Value::Str(name) = &value { name.as_str() } else { "" };
        Op::from_name(name).ok_or_else(|| {
            let diagnostic = Diagnostic::error("E0552", format!("there is no operation `{name}`"));
            self.error(diagnostic.at(given.span, "\"sum\", \"prod\", \"min\" or \"max\""))
        })
    }

    /// Makes a value one that can be exchanged.
    fn parcel(&mut self, frame: &Frame, deed: Deed, value: &Value, x: &Expr, span: Span) -> Eval<Parcel> {
        if has_traced(value) {
            let problem = Problem::new("E0553", format!("`{}` has no derivative", deed.name()))
                .label("the derivative would have to go through other ranks")
                .help("take the derivative of what each rank computes, and exchange that: `all_reduce(grad(loss)(w))`");
            return Err(self.problem(problem.help(crate::host::problem::NO_GRAD), span));
        }
        let reduces = matches!(deed, Deed::AllReduce(_) | Deed::ReduceScatter(_));
        let element = match value {
            Value::Array(array) => {
                let is_number = array.scalar().is_some_and(|scalar| scalar.is_num());
                if reduces && !is_number {
                    return Err(self.no_number(deed, value, x.span));
                }
                return Ok(Parcel { array: array.clone(), single: false });
            }
            Value::Scalar(number) => Element::Scalar(number.ty),
            Value::Vector(vector) => Element::Vector(vector.ty(), vector.lanes() as u8),
            Value::Int(_) | Value::Float(_) => Element::Scalar(self.scalar_of(frame, &x.ty, x.span)?),
            Value::Record(_) | Value::Tuple(_) => {
                let ty = self.concrete(frame, &x.ty);
                if !matches!(ty, Type::Struct(_) | Type::Tuple(_)) {
                    return Err(self.no_number(deed, value, x.span));
                }
                self.interp.layouts.element(self.program, &ty)
            }
            _ => return Err(self.no_number(deed, value, x.span)),
        };
        if deed == Deed::ReduceScatter(Op::Sum) || reduces && !element.scalar().is_some_and(|scalar| scalar.is_num()) {
            return Err(self.no_number(deed, value, x.span));
        }
        let array = Array::zeros(element, &[1]).and_then(|mut array| {
            array.set_item(0, value)?;
            Ok(array)
        });
        Ok(Parcel { array: self.settle_problem(array, x.span)?, single: true })
    }

    fn no_number(&self, deed: Deed, value: &Value, span: Span) -> Signal {
        let (name, found) = (deed.name(), value.type_name());
        let title = format!("`{name}` does not take `{found}`");
        self.error(Diagnostic::error("E0505", title).at(span, format!("this is `{found}`")))
    }

    /// Whether the first axis is a multiple of the number of ranks.
    fn divides(&self, array: &Array, ranks: u32, span: Span) -> Eval<()> {
        let extent = array.shape().first().copied().unwrap_or(0);
        if extent % ranks as usize == 0 {
            return Ok(());
        }
        let title = format!("the first axis, of extent {extent}, cannot be cut into {ranks} equal parts");
        let diagnostic = Diagnostic::error("E0552", title).at(span, format!("this is `{}`", array.type_name()));
        Err(self.error(diagnostic.help(format!("make it a multiple of `ranks()`, which is {ranks}"))))
    }

    /// What a call gives where there is one rank.
    fn alone(&mut self, deed: Deed, value: Value, parcel: Parcel, span: Span) -> Eval {
        match deed {
            Deed::AllGather => Ok(Value::Array(parcel.array)),
            Deed::Send { .. } | Deed::Receive { .. } => Err(self.to_itself(deed, span)),
            _ => Ok(value),
        }
    }

    fn to_itself(&self, deed: Deed, span: Span) -> Signal {
        let title = format!("`{}` is for another rank, and this is the same one", deed.name());
        self.error(Diagnostic::error("E0552", title).at(span, "a rank has its own values already"))
    }

    fn exchange(&mut self, group: &Arc<dyn Group>, deed: Deed, parcel: Parcel, span: Span) -> Eval {
        if let Deed::Send { to: peer } | Deed::Receive { from: peer } = deed
            && peer == group.rank()
        {
            return Err(self.to_itself(deed, span));
        }
        let Parcel { array, single } = parcel;
        let element = array.element().clone();
        let call = Call {
            deed,
            element: element.to_string(),
            scalar: element.scalar().filter(|_| matches!(deed, Deed::AllReduce(_) | Deed::ReduceScatter(_))),
            shape: (!single).then(|| array.shape().iter().map(|&extent| extent as u64).collect()),
            bytes: array.byte_len() as u64,
            by_device: false,
            span,
        };
        let gives = match deed {
            Deed::Receive { .. } => false,
            Deed::Broadcast { from } => from == group.rank(),
            _ => true,
        };
        let bytes = if gives { self.settle_problem(array.bytes(), span)? } else { &[] };
        let got = group.call(&call, bytes).map_err(|ending| self.ending(&ending, span))?;
        let mut shape = array.shape().to_vec();
        match (deed, shape.first_mut()) {
            (Deed::Send { .. }, _) => return Ok(Value::Unit),
            (Deed::AllGather, Some(extent)) => *extent *= group.ranks() as usize,
            (Deed::ReduceScatter(_), Some(extent)) => *extent /= group.ranks() as usize,
            _ => {}
        }
        let result = self.settle_problem(Array::from_bytes(element, &shape, &got), span)?;
        if single && deed != Deed::AllGather {
            let item = self.settle_problem(result.item(0), span)?;
            return item.ok_or_else(|| self.broken(span, "a value without an element"));
        }
        Ok(Value::Array(result))
    }

    fn ending(&self, ending: &Ending, span: Span) -> Signal {
        self.error(ending.at(span, self.sources))
    }
}

/// Whether a derivative is taken along with a value or a part of it.
fn has_traced(value: &Value) -> bool {
    match value {
        Value::Tuple(parts) | Value::Record(Record { fields: parts, .. }) => parts.iter().any(has_traced),
        other => grad::is_traced(other),
    }
}
