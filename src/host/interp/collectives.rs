//! Collective builtins, with which the ranks of a script exchange values: `all_reduce`, `broadcast`, `send` and others.
//!
//! Input: a value and the call's options. Output: the value that this rank receives. The value is packed into an array.
//! The [`RankCommunicator`] exchanges the bytes of the array, or the ranks' GPUs exchange them directly. Without a
//! communicator, the script runs as a single rank.

use std::sync::Arc;

use thiserror::Error;

use crate::array::{Array, ElementType};
use crate::grad;
use crate::problem::{HostResult, RuntimeError};
use crate::ranks::{Collective, CollectiveCall, RankCommunicator, RanksError, ReduceOp};
use crate::value::{HostValue, RecordValue};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{Expr, Type};
use clk_runtime::exchange::{CollectiveReduction, CommunicatorDevice, DeviceCollective};
use clk_runtime::storage::Storage;
use clk_scalar::builtin::RankFn;

use super::builtin::NamedArgs;
use super::context::{Eval, EvalContext, Signal};
use super::eval::named_arg;
use super::frame::HostFrame;

/// A value that was packed into an array for a collective.
struct PackedValue {
    array: Array,
    /// Whether the value was a single value rather than an array. It is then the only element of `array`.
    is_single: bool,
}

impl EvalContext<'_> {
    /// Evaluates a call of `rank`, `ranks`, `send`, `receive` or a collective builtin.
    pub(super) fn eval_collective(
        &mut self,
        frame: &mut HostFrame,
        what: RankFn,
        args: &[Expr],
        more: NamedArgs<'_>,
        expr: &Expr,
    ) -> Eval {
        let group = self.interp.ranks.communicator.clone();
        let (rank, ranks) = group.as_ref().map_or((0, 1), |group| (group.rank(), group.ranks()));
        match what {
            RankFn::Rank => return Ok(HostValue::i32(rank as i32)),
            RankFn::Ranks => return Ok(HostValue::i32(ranks as i32)),
            _ => {}
        }
        let Some(x) = args.first() else { return Err(self.internal_error(expr.span, "a wrong number of arguments")) };
        let value = self.eval(frame, x)?;
        let collective = self.collective_of(frame, what, more, expr.span, ranks)?;
        let packed = self.pack_value(frame, collective, &value, x, expr.span)?;
        if let Collective::ReduceScatter(_) = collective {
            self.check_divisible(&packed.array, ranks, x.span)?;
        }
        let Some(group) = group else { return self.single_rank_result(collective, value, packed, expr.span) };
        self.run_collective(&group, collective, packed, expr.span)
    }

    /// Returns the operation of a call, with its root rank, peer or reduction. Returns an error if there is no such
    /// rank or reduction.
    fn collective_of(
        &mut self,
        frame: &mut HostFrame,
        what: RankFn,
        more: NamedArgs<'_>,
        span: Span,
        ranks: u32,
    ) -> Eval<Collective> {
        let mut rank = |machine: &mut Self, name: &str| -> Eval<u32> {
            let Some(arg) = named_arg(more, name) else { return Ok(0) };
            let number = machine.eval_integer(frame, arg)?;
            let valid = u32::try_from(number).ok().filter(|&rank| rank < ranks);
            valid.ok_or_else(|| {
                let valid_ranks = if ranks == 1 {
                    "there is rank 0 alone".into()
                } else {
                    format!("ranks are from 0 to {}", ranks - 1)
                };
                machine
                    .error(Diagnostic::error("E0552", format!("there is no rank {number}")).at(arg.span, valid_ranks))
            })
        };
        Ok(match what {
            RankFn::Broadcast => Collective::Broadcast { from: rank(self, "from")? },
            RankFn::Send => Collective::Send { to: rank(self, "to")? },
            RankFn::Receive => Collective::Receive { from: rank(self, "from")? },
            RankFn::AllGather => Collective::AllGather,
            RankFn::AllReduce => Collective::AllReduce(self.reduce_op(frame, more)?),
            RankFn::ReduceScatter => Collective::ReduceScatter(self.reduce_op(frame, more)?),
            RankFn::Rank | RankFn::Ranks => return Err(self.internal_error(span, "a call that exchanges nothing")),
        })
    }

    fn reduce_op(&mut self, frame: &mut HostFrame, more: NamedArgs<'_>) -> Eval<ReduceOp> {
        let Some(arg) = named_arg(more, "op") else { return Ok(ReduceOp::Sum) };
        let value = self.eval(frame, arg)?;
        let name = if let HostValue::Str(name) = &value { name.as_str() } else { "" };
        ReduceOp::from_name(name).ok_or_else(|| {
            let diagnostic = Diagnostic::error("E0552", format!("there is no operation `{name}`"));
            self.error(diagnostic.at(arg.span, "\"sum\", \"prod\", \"min\" or \"max\""))
        })
    }

    /// Packs a value into an array. Returns an error if the collective does not support the value's type.
    fn pack_value(
        &mut self,
        frame: &HostFrame,
        collective: Collective,
        value: &HostValue,
        x: &Expr,
        span: Span,
    ) -> Eval<PackedValue> {
        if contains_traced(value) {
            let problem = RuntimeError::new("E0553", format!("`{}` has no derivative", collective.name()))
                .label("the derivative would have to go through other ranks")
                .help("take the derivative of what each rank computes, and exchange that: `all_reduce(grad(loss)(w))`");
            return Err(self.problem(problem.help(crate::problem::NO_GRAD), span));
        }
        let reduces = matches!(collective, Collective::AllReduce(_) | Collective::ReduceScatter(_));
        let element = match value {
            HostValue::Array(array) => {
                let is_number = array.scalar().is_some_and(|scalar| scalar.is_num());
                if reduces && !is_number {
                    return Err(self.unsupported_value(collective, value, x.span));
                }
                return Ok(PackedValue { array: array.clone(), is_single: false });
            }
            HostValue::Scalar(number) => ElementType::Scalar(number.ty),
            HostValue::Vector(vector) => ElementType::Vector(vector.ty(), vector.lanes() as u8),
            HostValue::Int(_) | HostValue::Float(_) => ElementType::Scalar(self.scalar_of(frame, &x.ty, x.span)?),
            HostValue::Record(_) | HostValue::Tuple(_) => {
                let ty = self.concrete(frame, &x.ty);
                if !matches!(ty, Type::Struct(_) | Type::Tuple(_)) {
                    return Err(self.unsupported_value(collective, value, x.span));
                }
                self.interp.caches.layouts.element(self.program, &ty)
            }
            _ => return Err(self.unsupported_value(collective, value, x.span)),
        };
        if collective == Collective::ReduceScatter(ReduceOp::Sum)
            || reduces && !element.scalar().is_some_and(|scalar| scalar.is_num())
        {
            return Err(self.unsupported_value(collective, value, x.span));
        }
        let array = Array::zeros(element, &[1]).and_then(|mut array| {
            array.set_item(0, value)?;
            Ok(array)
        });
        Ok(PackedValue { array: self.locate_error(array, x.span)?, is_single: true })
    }

    fn unsupported_value(&self, collective: Collective, value: &HostValue, span: Span) -> Signal {
        let (name, found) = (collective.name(), value.type_name());
        let title = format!("`{name}` does not take `{found}`");
        self.error(Diagnostic::error("E0505", title).at(span, format!("this is `{found}`")))
    }

    /// Checks that the extent of the first axis is a multiple of the number of ranks.
    fn check_divisible(&self, array: &Array, ranks: u32, span: Span) -> Eval<()> {
        let extent = array.shape().first().copied().unwrap_or(0);
        if extent % ranks as usize == 0 {
            return Ok(());
        }
        let title = format!("the first axis, of extent {extent}, cannot be cut into {ranks} equal parts");
        let diagnostic = Diagnostic::error("E0552", title).at(span, format!("this is `{}`", array.type_name()));
        Err(self.error(diagnostic.help(format!("make it a multiple of `ranks()`, which is {ranks}"))))
    }

    /// Returns the result of a collective if the script runs as a single rank.
    fn single_rank_result(
        &mut self,
        collective: Collective,
        value: HostValue,
        packed: PackedValue,
        span: Span,
    ) -> Eval {
        match collective {
            Collective::AllGather => Ok(HostValue::Array(packed.array)),
            Collective::Send { .. } | Collective::Receive { .. } => Err(self.own_rank_error(collective, span)),
            _ => Ok(value),
        }
    }

    fn own_rank_error(&self, collective: Collective, span: Span) -> Signal {
        let title = format!("`{}` is for another rank, and this is the same one", collective.name());
        self.error(Diagnostic::error("E0552", title).at(span, "a rank already has its own values"))
    }

    fn run_collective(
        &mut self,
        group: &Arc<dyn RankCommunicator>,
        collective: Collective,
        packed: PackedValue,
        span: Span,
    ) -> Eval {
        if let Collective::Send { to: peer } | Collective::Receive { from: peer } = collective
            && peer == group.rank()
        {
            return Err(self.own_rank_error(collective, span));
        }
        self.interp.ranks.call_count += 1;
        let PackedValue { array, is_single: single } = packed;
        let element = array.element().clone();
        let call = CollectiveCall {
            op: collective,
            element: element.to_string(),
            scalar: element
                .scalar()
                .filter(|_| matches!(collective, Collective::AllReduce(_) | Collective::ReduceScatter(_))),
            shape: (!single).then(|| array.shape().iter().map(|&extent| extent as u64).collect()),
            bytes: array.byte_len() as u64,
            by_device: false,
            span,
        };
        let mut shape = array.shape().to_vec();
        match (collective, shape.first_mut()) {
            (Collective::AllGather, Some(extent)) => *extent *= group.ranks() as usize,
            (Collective::ReduceScatter(_), Some(extent)) => *extent /= group.ranks() as usize,
            _ => {}
        }
        if let Some((joined, what)) = self.device_collective(group, &call)? {
            let call = CollectiveCall { by_device: true, ..call };
            group.call(&call, &[]).map_err(|ending| self.ranks_error(&ending, span))?;
            return self.locate_error(exchange_on_device(&*joined, what, &array, &shape), span);
        }
        let sends = match collective {
            Collective::Receive { .. } => false,
            Collective::Broadcast { from } => from == group.rank(),
            _ => true,
        };
        let bytes = if sends { self.locate_error(array.bytes(), span)? } else { &[] };
        let received = group.call(&call, bytes).map_err(|ending| self.ranks_error(&ending, span))?;
        if let Collective::Send { .. } = collective {
            return Ok(HostValue::Unit);
        }
        let result = self.locate_error(Array::from_bytes(element, &shape, &received), span)?;
        if single && collective != Collective::AllGather {
            let item = self.locate_error(result.item(0), span)?;
            return item.ok_or_else(|| self.internal_error(span, "a value without an element"));
        }
        Ok(HostValue::Array(result))
    }

    /// If GPUs can execute the collective, returns their communicator and its operation. The result depends only on the
    /// call and on the joined GPUs, so it is the same on all ranks.
    fn device_collective(
        &mut self,
        group: &Arc<dyn RankCommunicator>,
        call: &CollectiveCall,
    ) -> Eval<Option<(Arc<dyn CommunicatorDevice>, DeviceCollective)>> {
        if !call.op.is_collective() || call.shape.is_none() {
            return Ok(None);
        }
        if self.interp.ranks.device_communicator.is_none() {
            self.interp.ranks.device_communicator = Some(self.join_devices(group, call)?);
        }
        let Some(joined) = self.interp.ranks.device_communicator.clone().flatten().filter(|_| call.bytes > 0) else {
            return Ok(None);
        };
        let operation = match (call.op, call.scalar) {
            (Collective::AllReduce(op), Some(scalar)) => DeviceCollective::AllReduce(device_reduction(op), scalar),
            (Collective::ReduceScatter(op), Some(scalar)) => {
                DeviceCollective::ReduceScatter(device_reduction(op), scalar)
            }
            (Collective::AllGather, _) => DeviceCollective::AllGather,
            (Collective::Broadcast { from }, _) => DeviceCollective::Broadcast { from },
            _ => return Ok(None),
        };
        let can = match operation {
            DeviceCollective::AllReduce(how, scalar) | DeviceCollective::ReduceScatter(how, scalar) => {
                joined.can_reduce(how, scalar)
            }
            DeviceCollective::AllGather | DeviceCollective::Broadcast { .. } => true,
        };
        Ok(can.then_some((joined, operation)))
    }

    /// Joins the GPUs of all ranks in a communicator, if every rank has a suitable GPU. Otherwise returns `None`, and
    /// the ranks exchange data through the host.
    fn join_devices(
        &mut self,
        group: &Arc<dyn RankCommunicator>,
        call: &CollectiveCall,
    ) -> Eval<Option<Arc<dyn CommunicatorDevice>>> {
        let span = call.span;
        let device = self.interp.options.device.clone();
        let exchange = if device.memory().is_some() { Some(device.collectives()) } else { None };
        let word = match &exchange {
            None => "sim".to_string(),
            Some(Err(why)) => format!("no {why}"),
            Some(Ok(exchange)) => {
                let ticket = if group.rank() == 0 { exchange.ticket() } else { Ok(vec![]) };
                match ticket {
                    Ok(ticket) => format!("yes {} {}", exchange.identity(), to_hexadecimal(&ticket)),
                    Err(why) => format!("no {why}"),
                }
            }
        };
        let words = group.agree(call, &word).map_err(|ending| self.ranks_error(&ending, span))?;
        match (agree_on_ticket(&words), exchange) {
            (Ok(Some(ticket)), Some(Ok(exchange))) => {
                let theirs = group.clone();
                let guard = Arc::new(move || theirs.settle().is_ok());
                let joined = exchange.join(&ticket, group.rank(), group.ranks(), guard);
                let joined = joined.map_err(|why| {
                    let title = format!("{} cannot join the GPUs of the other ranks: {why}", device.name());
                    self.error(Diagnostic::error("E0554", title).at(span, "first needed here"))
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

    fn ranks_error(&self, ending: &RanksError, span: Span) -> Signal {
        self.error(ending.at(span, self.sources))
    }
}

/// Returns whether a value or a part of it is traced.
fn contains_traced(value: &HostValue) -> bool {
    match value {
        HostValue::Tuple(parts) | HostValue::Record(RecordValue { fields: parts, .. }) => {
            parts.iter().any(contains_traced)
        }
        other => grad::is_traced(other),
    }
}

/// Why ranks exchange arrays through the host.
#[derive(Debug, PartialEq, Eq, Error)]
enum NoDeviceExchange {
    #[error("rank {rank}: {why}")]
    Rank { rank: usize, why: String },
    #[error("kernels of rank {0} run on the simulator")]
    Simulator(usize),
    #[error("ranks {0} and {1} have the same GPU")]
    SameGpu(usize, usize),
    #[error("rank 0 has no ticket")]
    NoTicket,
}

/// Evaluates the messages with which the ranks describe their devices. Returns the ticket for joining the communicator
/// if all ranks can join, and `None` if all run on the simulator.
fn agree_on_ticket(words: &[String]) -> Result<Option<Vec<u8>>, NoDeviceExchange> {
    if words.iter().all(|word| word == "sim") {
        return Ok(None);
    }
    let mut identities: Vec<&str> = vec![];
    let mut ticket = vec![];
    for (rank, word) in words.iter().enumerate() {
        if let Some(why) = word.strip_prefix("no ") {
            return Err(NoDeviceExchange::Rank { rank, why: why.into() });
        }
        let mut parts = word.strip_prefix("yes ").unwrap_or("").split(' ');
        let (Some(identity), Some(own)) = (parts.next().filter(|word| !word.is_empty()), parts.next()) else {
            return Err(NoDeviceExchange::Simulator(rank));
        };
        if let Some(other) = identities.iter().position(|known| *known == identity) {
            return Err(NoDeviceExchange::SameGpu(other, rank));
        }
        identities.push(identity);
        if rank == 0 {
            ticket = parse_hexadecimal(own).ok_or(NoDeviceExchange::NoTicket)?;
        }
    }
    Ok(Some(ticket))
}

fn to_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    digits.chunks(2).map(|pair| if let [high, low] = pair { Some(high << 4 | low) } else { None }).collect()
}

fn device_reduction(op: ReduceOp) -> CollectiveReduction {
    match op {
        ReduceOp::Sum => CollectiveReduction::Sum,
        ReduceOp::Prod => CollectiveReduction::Prod,
        ReduceOp::Min => CollectiveReduction::Min,
        ReduceOp::Max => CollectiveReduction::Max,
    }
}

/// Runs a collective on the GPUs. Returns the new array, which has the given shape.
fn exchange_on_device(
    joined: &dyn CommunicatorDevice,
    what: DeviceCollective,
    array: &Array,
    shape: &[usize],
) -> HostResult<HostValue> {
    let bytes = array.element().size() * shape.iter().product::<usize>();
    let mut storage = Storage::unset(bytes);
    joined.exchange(what, array.storage()?, &mut storage)?;
    Ok(HostValue::Array(Array::with_storage(array.element().clone(), shape, storage)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_agree_on_the_ticket() {
        let of = |words: &[&str]| agree_on_ticket(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>());
        assert_eq!(of(&["sim", "sim"]), Ok(None));
        assert_eq!(of(&["yes a 01ff", "yes b "]), Ok(Some(vec![1, 255])));
        assert_eq!(of(&["yes a 01ff", "yes a "]), Err(NoDeviceExchange::SameGpu(0, 1)));
        assert_eq!(of(&["yes a 01ff", "sim"]), Err(NoDeviceExchange::Simulator(1)));
        assert_eq!(of(&["yes a 01ff", "no NCCL"]), Err(NoDeviceExchange::Rank { rank: 1, why: "NCCL".into() }));
        assert!(of(&["yes a 01f", "yes b "]).is_err());
        assert_eq!(parse_hexadecimal(&to_hexadecimal(&[0, 127, 255])), Some(vec![0, 127, 255]));
    }
}
