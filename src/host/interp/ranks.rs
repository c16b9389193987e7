//! The builtins by which the ranks of a script exchange values.
//!
//! Input: a value and the call's options. Output: the value that this rank gets. The value becomes an array of its type, whose bytes a
//! [`Group`] exchanges; without a group there is one rank, and each builtin is the identity.

use std::sync::Arc;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{Expr, Type};
use crate::device::exchange::{Combine, Exchanged, Joined};
use crate::device::storage::Storage;
use crate::host::array::{Array, Element};
use crate::host::grad;
use crate::host::problem::{Outcome, Problem};
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
        self.interp.exchanges += 1;
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
        let mut shape = array.shape().to_vec();
        match (deed, shape.first_mut()) {
            (Deed::AllGather, Some(extent)) => *extent *= group.ranks() as usize,
            (Deed::ReduceScatter(_), Some(extent)) => *extent /= group.ranks() as usize,
            _ => {}
        }
        if let Some((joined, what)) = self.by_device(group, &call)? {
            let call = Call { by_device: true, ..call };
            group.call(&call, &[]).map_err(|ending| self.ending(&ending, span))?;
            return self.settle_problem(exchanged(&*joined, what, &array, &shape), span);
        }
        let gives = match deed {
            Deed::Receive { .. } => false,
            Deed::Broadcast { from } => from == group.rank(),
            _ => true,
        };
        let bytes = if gives { self.settle_problem(array.bytes(), span)? } else { &[] };
        let got = group.call(&call, bytes).map_err(|ending| self.ending(&ending, span))?;
        if let Deed::Send { .. } = deed {
            return Ok(Value::Unit);
        }
        let result = self.settle_problem(Array::from_bytes(element, &shape, &got), span)?;
        if single && deed != Deed::AllGather {
            let item = self.settle_problem(result.item(0), span)?;
            return item.ok_or_else(|| self.broken(span, "a value without an element"));
        }
        Ok(Value::Array(result))
    }

    /// Returns the device and what it does, if devices do what a call says. All ranks decide the same, as the call is the same.
    fn by_device(&mut self, group: &Arc<dyn Group>, call: &Call) -> Eval<Option<(Arc<dyn Joined>, Exchanged)>> {
        if !call.deed.is_collective() || call.shape.is_none() {
            return Ok(None);
        }
        if self.interp.joined.is_none() {
            self.interp.joined = Some(self.join(group, call)?);
        }
        let Some(joined) = self.interp.joined.clone().flatten().filter(|_| call.bytes > 0) else { return Ok(None) };
        let what = match (call.deed, call.scalar) {
            (Deed::AllReduce(op), Some(scalar)) => Exchanged::AllReduce(combine(op), scalar),
            (Deed::ReduceScatter(op), Some(scalar)) => Exchanged::ReduceScatter(combine(op), scalar),
            (Deed::AllGather, _) => Exchanged::AllGather,
            (Deed::Broadcast { from }, _) => Exchanged::Broadcast { from },
            _ => return Ok(None),
        };
        let can = match what {
            Exchanged::AllReduce(how, scalar) | Exchanged::ReduceScatter(how, scalar) => joined.combines(how, scalar),
            Exchanged::AllGather | Exchanged::Broadcast { .. } => true,
        };
        Ok(can.then_some((joined, what)))
    }

    /// Joins the devices of all ranks, if all have such that can; else values go over the connections of the ranks.
    fn join(&mut self, group: &Arc<dyn Group>, call: &Call) -> Eval<Option<Arc<dyn Joined>>> {
        let span = call.span;
        let device = self.interp.options.device.clone();
        let exchange = if device.is_remote() { Some(device.exchange()) } else { None };
        let word = match &exchange {
            None => "sim".to_string(),
            Some(Err(why)) => format!("no {why}"),
            Some(Ok(exchange)) => {
                let ticket = if group.rank() == 0 { exchange.ticket() } else { Ok(vec![]) };
                match ticket {
                    Ok(ticket) => format!("yes {} {}", exchange.identity(), hexadecimal(&ticket)),
                    Err(why) => format!("no {why}"),
                }
            }
        };
        let words = group.agree(call, &word).map_err(|ending| self.ending(&ending, span))?;
        match (agreed(&words), exchange) {
            (Ok(Some(ticket)), Some(Ok(exchange))) => {
                let theirs = group.clone();
                let guard = Arc::new(move || theirs.settle().is_ok());
                let joined = exchange.join(&ticket, group.rank(), group.ranks(), guard);
                let joined = joined.map_err(|why| {
                    let title = format!("{} cannot join the GPUs of the other ranks: {why}", device.name());
                    self.error(Diagnostic::error("E0554", title).at(span, "needed here first"))
                })?;
                let ended = joined.clone();
                group.at_end(Box::new(move || ended.abort()));
                Ok(Some(joined))
            }
            (Err(why), _) => {
                group.tell(&format!("ranks exchange arrays through the host, slowly: {why}"));
                Ok(None)
            }
            _ => Ok(None),
        }
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

/// Returns the ticket of a group of devices that all ranks have; nothing if no rank has a device of its own, or why there is none.
fn agreed(words: &[String]) -> Result<Option<Vec<u8>>, String> {
    if words.iter().all(|word| word == "sim") {
        return Ok(None);
    }
    let mut seen: Vec<&str> = vec![];
    let mut ticket = vec![];
    for (rank, word) in words.iter().enumerate() {
        if let Some(why) = word.strip_prefix("no ") {
            return Err(format!("rank {rank}: {why}"));
        }
        let mut parts = word.strip_prefix("yes ").unwrap_or("").split(' ');
        let (Some(identity), Some(own)) = (parts.next().filter(|word| !word.is_empty()), parts.next()) else {
            return Err(format!("kernels of rank {rank} run on the simulator"));
        };
        if let Some(other) = seen.iter().position(|known| *known == identity) {
            return Err(format!("ranks {other} and {rank} have the same GPU"));
        }
        seen.push(identity);
        if rank == 0 {
            ticket = bytes_of(own).ok_or("rank 0 has no ticket")?;
        }
    }
    Ok(Some(ticket))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    digits.chunks(2).map(|pair| if let [high, low] = pair { Some(high << 4 | low) } else { None }).collect()
}

fn combine(op: Op) -> Combine {
    match op {
        Op::Sum => Combine::Sum,
        Op::Prod => Combine::Prod,
        Op::Min => Combine::Min,
        Op::Max => Combine::Max,
    }
}

/// Has devices exchange an array; returns the new one, of this shape.
fn exchanged(joined: &dyn Joined, what: Exchanged, array: &Array, shape: &[usize]) -> Outcome<Value> {
    let bytes = array.element().size() * shape.iter().product::<usize>();
    let mut storage = Storage::unset(bytes);
    joined.exchange(what, array.storage()?, &mut storage)?;
    Ok(Value::Array(Array::with_storage(array.element().clone(), shape, storage)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_agree_on_what_exchanges_arrays() {
        let of = |words: &[&str]| agreed(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>());
        assert_eq!(of(&["sim", "sim"]), Ok(None));
        assert_eq!(of(&["yes a 01ff", "yes b "]), Ok(Some(vec![1, 255])));
        assert_eq!(of(&["yes a 01ff", "yes a "]), Err("ranks 0 and 1 have the same GPU".into()));
        assert_eq!(of(&["yes a 01ff", "sim"]), Err("kernels of rank 1 run on the simulator".into()));
        assert_eq!(of(&["yes a 01ff", "no NCCL"]), Err("rank 1: NCCL".into()));
        assert!(of(&["yes a 01f", "yes b "]).is_err());
        assert_eq!(bytes_of(&hexadecimal(&[0, 127, 255])), Some(vec![0, 127, 255]));
    }
}
