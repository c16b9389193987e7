//! Binding of arguments to parameters, for builtins, functions, kernels, conversions and struct literals.
//!
//! Input: the parameters of a callee, and the arguments as written. Output: the argument of each parameter. An argument
//! without a parameter, and a second argument for the same parameter, are errors; no argument is dropped.

use std::ops::RangeInclusive;

use crate::access::list;
use crate::build::count;
use crate::builtin_call::BuiltinCall;
use crate::context::{Cx, ResolvedName};
use crate::suggestions;
use crate::typed::{Signature, Type};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::builtin::{self, BuiltinEntry};
use clk_syntax::ast;

/// A parameter that can be passed by name, with its position if it can also be passed by position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedParam<'p> {
    pub name: &'p str,
    pub position: Option<usize>,
}

/// A parameter that is passed by name only.
pub(crate) const fn by_name(name: &str) -> NamedParam<'_> {
    NamedParam { name, position: None }
}

/// A parameter that is passed by name or by position.
pub(crate) const fn at(name: &str, position: usize) -> NamedParam<'_> {
    NamedParam { name, position: Some(position) }
}

/// The arguments that a callee accepts.
pub(crate) struct Accepted<'p> {
    pub callee: &'p str,
    /// The maximum number of positional arguments.
    pub most: usize,
    pub named_params: Vec<NamedParam<'p>>,
    /// Whether arguments by any other name are accepted, as by `save`.
    pub any_name: bool,
    /// The table entry of a builtin callee. Its signature has the names of the positional-only parameters.
    pub entry: Option<&'static BuiltinEntry>,
    /// The struct type, if the arguments are the fields of a struct.
    pub fields_of: Option<&'p Type>,
    /// The signature of a function or kernel.
    pub sig: Option<&'p Signature>,
    pub is_launch: bool,
}

impl<'p> Accepted<'p> {
    pub fn new(callee: &'p str, most: usize, named: Vec<NamedParam<'p>>) -> Accepted<'p> {
        Accepted {
            callee,
            most,
            named_params: named,
            any_name: false,
            entry: None,
            fields_of: None,
            sig: None,
            is_launch: false,
        }
    }
}

/// The arguments of a call, bound to the parameters of the callee.
pub(crate) struct CallArguments<'e> {
    /// The positional arguments, in order.
    pub positional: Vec<&'e ast::Expr>,
    /// The argument of each parameter of `Accepted::named_params`, passed by name or by position.
    pub by_param: Vec<Option<(&'e ast::Expr, Span)>>,
    /// The span of the first positional argument without a parameter.
    pub surplus: Option<Span>,
    /// Whether an error in a named argument has been reported.
    pub wrong_name: bool,
}

/// An argument: its name, if it has one, and its value.
pub(crate) type OptionallyNamed<'e> = (Option<&'e ast::Name>, &'e ast::Expr);

pub(crate) fn args_with_names(args: &[ast::Arg]) -> impl Iterator<Item = OptionallyNamed<'_>> {
    args.iter().map(|arg| (arg.name.as_ref(), &arg.value))
}

/// Returns whether a builtin has a positional-only parameter of this name: `x: T` or `type`, but not `axis = 0`.
fn by_position(entry: &BuiltinEntry, name: &str) -> bool {
    let inside = entry.signature.split_once('(').map_or("", |(_, rest)| rest);
    let inside = inside.split_once(") ->").map_or(inside, |(inside, _)| inside);
    let rests = inside.split(',').filter_map(|param| param.trim().trim_end_matches(')').strip_prefix(name));
    // A parameter with the default `all`, such as `among`, can only be passed by name.
    rests.into_iter().any(|rest| rest.is_empty() || rest.starts_with(':') && !rest.ends_with("= all"))
}

/// Returns the equivalent in Clk of an argument of NumPy or Python that this builtin does not have.
fn foreign_argument(callee: &str, argument: &str, names: &[&str]) -> Option<String> {
    Some(match (callee, argument) {
        (_, "keepdims" | "keepdim" | "keep_dims" | "keep") if names.contains(&"axis") => {
            format!(
                "leave it off for `axis = 0`, because a row broadcasts to all rows; for `axis = 1`, `reshape` restores the \
                 axis: `reshape({callee}(x, axis = 1), -1, 1)`"
            )
        }
        (_, "dims") if names.contains(&"axis") => "axes count from 0: `dims = 1` of Julia is `axis = 0`".into(),
        ("sort" | "argsort", "reverse") => "`descending = true` sorts in descending order".into(),
        ("sort", "key") => "`sort(keys, values)` sorts by keys and returns both as a tuple".into(),
        ("sort", "axis") => "`sort(keys, values)` sorts rows of values by one key for each of them".into(),
        (_, "axis" | "dim") => format!("`{callee}` has no choice of axis: leave it off"),
        ("random" | "random_int" | "random_normal", "size" | "shape" | "n") => {
            format!(
                "the extents are the last arguments without a name: `{}`",
                match callee {
                    "random_int" => "random_int(0, 10, 5)".to_owned(),
                    _ => format!("{callee}(5)"),
                }
            )
        }
        (_, "argnums" | "argnum") if names.contains(&"wrt") => {
            "name the parameter instead of its position: `wrt = x`".into()
        }
        (_, "type" | "dtype") => format!("a conversion sets the element type: `f32({callee}(…))`"),
        _ => return None,
    })
}

/// Returns advice about a function that has no choice of axis.
fn without_axis(callee: &str, argument: &str, sig: &Signature) -> Option<String> {
    let Type::Array(array) = &sig.params.first()?.ty else { return None };
    match (argument, array.dims.len()) {
        ("axis" | "dim" | "axes" | "dims", 1) => Some(one_axis(callee)),
        ("axis" | "dim" | "axes" | "dims", 2) => Some(format!(
            "leave it off; to exchange the roles of rows and columns, transpose first: `{callee}(transpose(x))`"
        )),
        _ => None,
    }
}

fn one_axis(callee: &str) -> String {
    format!("`{callee}` takes an array with one axis: a row is `x[i, ..]`, a column `x[.., j]`")
}

/// Returns the equivalent in Clk of an argument that sets up a launch in CUDA, OpenCL, Numba, Julia or Triton.
fn launch_setting(callee: &str, argument: &str) -> Option<String> {
    let word: String = argument.chars().filter(|c| *c != '_').flat_map(char::to_lowercase).collect();
    Some(match &*word {
        "threads" | "nthreads" | "numthreads" | "grid" | "griddim" | "gridsize" | "block" | "blockdim"
        | "blocksize" | "blocks" | "nblocks" | "numblocks" | "threadsperblock" | "blockspergrid" | "globalsize"
        | "localsize" | "ndrange" | "workgroupsize" | "dim" | "size" => format!(
            "leave it off: `threads(i: N)` or `grid(…) block(…)` in the kernel's head sets the launch, and \
             `{callee}<<<grid, block>>>(…)` overrides it"
        ),
        "numwarps" => "leave it off: `block(…)` in the kernel's head sets the number of threads in a block".into(),
        "numstages" => "leave it off: there are no pipeline stages to choose".into(),
        "stream" => "leave it off: launches run in the order in which they are written, without streams".into(),
        "shared" | "sharedmem" | "sharedmemory" | "shmem" | "smem" => {
            "leave it off: the body of a kernel declares shared memory with its size, `shared s: [f32; 256]`".into()
        }
        "device" => "`on gpu(0) { … }` around the launch chooses the device".into(),
        _ => return None,
    })
}

/// Returns advice about a call with this number of arguments in NumPy or MATLAB.
fn foreign_count(callee: &str, count: usize) -> Option<String> {
    Some(match (callee, count) {
        ("round", 2) => "`round(x * 100.0) / 100.0` has two decimals; `\"{x:.2}\"` prints them".to_owned(),
        ("max" | "min", 3) => {
            format!("`{callee}(x, axis = 1)` is the result of each row, and `{callee}(x)` that of all elements")
        }
        _ => return None,
    })
}

impl Cx<'_> {
    /// Binds arguments to parameters. Reports unknown names and duplicate arguments. The caller checks the number of
    /// positional arguments.
    pub fn bind_arguments<'e>(
        &mut self,
        accepted: &Accepted<'_>,
        args: impl IntoIterator<Item = OptionallyNamed<'e>>,
    ) -> CallArguments<'e> {
        let mut bound = CallArguments {
            positional: vec![],
            by_param: vec![None; accepted.named_params.len()],
            surplus: None,
            wrong_name: false,
        };
        let takes_type = accepted.named_params.iter().any(|named| named.name == "type");
        let mut others: Vec<&ast::Name> = vec![];
        let mut named_position = false;
        for (name, value) in args {
            let Some(name) = name else {
                if takes_type
                    && let ast::ExprKind::Name(ty) = &value.kind
                    && self.names_type(ty)
                {
                    self.type_by_position(ty);
                    bound.wrong_name = true;
                    continue;
                }
                if bound.positional.len() == accepted.most {
                    bound.surplus = bound.surplus.or(Some(value.span));
                }
                let at = Some(bound.positional.len());
                bound.positional.push(value);
                if let Some(i) = accepted.named_params.iter().position(|named| named.position == at) {
                    self.fill(accepted, &mut bound, i, (value, value.span));
                }
                continue;
            };
            match accepted.named_params.iter().position(|named| named.name == name.text) {
                Some(i) => self.fill(accepted, &mut bound, i, (value, name.span)),
                None if accepted.any_name => {
                    if let Some(first) = others.iter().find(|other| other.text == name.text) {
                        self.given_twice(accepted, &name.text, name.span, first.span);
                        bound.wrong_name = true;
                    }
                    others.push(name);
                }
                // Only the first positional-only parameter that is passed by name is reported.
                None if accepted.entry.is_some_and(|entry| by_position(entry, &name.text)) => {
                    if !std::mem::replace(&mut named_position, true) {
                        self.by_its_position(accepted, name);
                    }
                    bound.wrong_name = true;
                }
                None => {
                    self.not_accepted(accepted, name, value);
                    bound.wrong_name = true;
                }
            }
        }
        bound
    }

    fn names_type(&mut self, name: &ast::Name) -> bool {
        matches!(self.lookup(&name.text), Some(ResolvedName::Type(_)))
    }

    /// Reports `zeros(3, i32)`.
    fn type_by_position(&mut self, ty: &ast::Name) {
        let before = Span { end: ty.span.start, ..ty.span };
        let d = Diagnostic::error("E0207", format!("the type `{}` is passed by name", ty.text))
            .at(ty.span, "a value was expected here")
            .fix(format!("write `type = {}`", ty.text), before, "type = ", Applicability::MachineApplicable);
        self.report(d);
    }

    /// Binds an argument to parameter `i`. Reports a second argument for the same parameter.
    fn fill<'e>(
        &mut self,
        accepted: &Accepted<'_>,
        bound: &mut CallArguments<'e>,
        i: usize,
        argument: (&'e ast::Expr, Span),
    ) {
        match bound.by_param.get_mut(i) {
            Some(slot @ None) => *slot = Some(argument),
            Some(Some((_, first))) => {
                let first = *first;
                self.given_twice(accepted, accepted.named_params[i].name, argument.1, first);
                bound.wrong_name = true;
            }
            None => {}
        }
    }

    fn given_twice(&mut self, accepted: &Accepted<'_>, name: &str, again: Span, first: Span) {
        let code = if accepted.fields_of.is_some() { "E0315" } else { "E0206" };
        let d = Diagnostic::error(code, format!("`{name}` is given twice"));
        self.report(d.at(again, "again here").because(first, "first here"));
    }

    fn by_its_position(&mut self, accepted: &Accepted<'_>, name: &ast::Name) {
        let title = format!("`{}` takes `{}` by position, not by name", accepted.callee, name.text);
        let d = Diagnostic::error("E0206", title).at(name.span, "leave the name off");
        self.report(match accepted.entry {
            Some(entry) => d.note(format!("`{}{}`", entry.name, entry.signature)),
            None => d,
        });
    }

    /// Reports an argument by a name that the callee does not have.
    fn not_accepted(&mut self, accepted: &Accepted<'_>, name: &ast::Name, value: &ast::Expr) {
        let names: Vec<&str> =
            accepted.named_params.iter().map(|named| named.name).filter(|name| !name.is_empty()).collect();
        match accepted.fields_of {
            Some(of) => self.unknown_field(name, of, names.into_iter()),
            None => self.unknown_argument((name, value), accepted, &names),
        }
    }

    fn unknown_argument(&mut self, argument: (&ast::Name, &ast::Expr), accepted: &Accepted<'_>, names: &[&str]) {
        let (name, value) = argument;
        let callee = accepted.callee;
        let mut d = Diagnostic::error("E0206", format!("`{callee}` has no argument called `{}`", name.text))
            .at(name.span, "unknown argument");
        match suggestions::nearest(&name.text, names.iter().copied()) {
            _ if names.contains(&"type") && name.text == "dtype" => {
                d = match crate::foreign_names::scalar_type(value) {
                    Some(clk) => {
                        let text = format!("type = {clk}");
                        let span = name.span.to(value.span);
                        d.fix(format!("write `{text}`"), span, text, Applicability::MachineApplicable)
                    }
                    None => d.fix("write `type`", name.span, "type", Applicability::MachineApplicable),
                };
            }
            _ if matches!(&*name.text, "dim" | "axes") && names.contains(&"axis") => {
                d = d.fix("write `axis`", name.span, "axis", Applicability::MaybeIncorrect);
            }
            _ if let Some(help) = foreign_argument(callee, &name.text, names)
                && builtin::find(callee).is_some() =>
            {
                d = d.help(help);
            }
            _ if let Some(help) = accepted.sig.and_then(|sig| without_axis(callee, &name.text, sig)) => {
                d = d.help(help);
            }
            None if accepted.is_launch
                && let Some(help) = launch_setting(callee, &name.text) =>
            {
                d = d.help(help)
            }
            Some(near) => {
                d = d.help(format!("did you mean `{near}`?"));
                d = d.fix(format!("write `{near}`"), name.span, near, Applicability::MaybeIncorrect);
            }
            None if !names.is_empty() => d = d.help(format!("it takes {} by name", list(names))),
            None => {}
        }
        self.report(d);
    }

    /// Reports named arguments of a callee that takes all arguments by position. Returns true if there are no named
    /// arguments.
    pub fn no_names(&mut self, args: &[ast::Arg], callee: &str) -> bool {
        !self.bind_arguments(&Accepted::new(callee, usize::MAX, vec![]), args_with_names(args)).wrong_name
    }

    /// Returns the positional arguments of a builtin. Reports an error and returns `None` if their number is not in the
    /// range.
    pub fn take_positional<'c>(
        &mut self,
        call: BuiltinCall<'c>,
        positions: RangeInclusive<usize>,
        named: &[NamedParam<'_>],
    ) -> Option<Vec<&'c ast::Expr>> {
        let entry = call.entry;
        let accepted = Accepted { entry: Some(entry), ..Accepted::new(entry.name, *positions.end(), named.to_vec()) };
        self.take_accepted(call, *positions.start(), &accepted)
    }

    pub fn take_accepted<'c>(
        &mut self,
        call: BuiltinCall<'c>,
        least: usize,
        accepted: &Accepted<'_>,
    ) -> Option<Vec<&'c ast::Expr>> {
        let bound = self.bind_arguments(accepted, args_with_names(call.args));
        // An error in a named argument probably caused the wrong number of positional arguments, so only that error is
        // reported.
        if bound.wrong_name {
            return None;
        }
        let (name, count_given) = (call.entry.name, bound.positional.len());
        if count_given >= least && bound.surplus.is_none() {
            return Some(bound.positional);
        }
        let expected = match accepted.most {
            most if least == most => count(least, "argument", "arguments"),
            usize::MAX => format!("at least {}", count(least, "argument", "arguments")),
            most => format!("{least} to {most} arguments"),
        };
        let verb = if count_given == 1 { "is" } else { "are" };
        let d = Diagnostic::error("E0304", format!("`{name}` takes {expected}, but {count_given} {verb} given"))
            .at(call.span, format!("{count_given} given"))
            .note(format!("`{name}{}`", call.entry.signature));
        let d = match foreign_count(name, count_given) {
            Some(help) => d.help(help),
            None => d,
        };
        // `atomic_add(bins, i, 1)` of Numba.
        let d = match &call.args {
            _ if name == "transpose" && count_given > 2 => {
                d.help("the axes are a tuple: `transpose(x, axes = (2, 0, 1))`")
            }
            _ if name == "einsum" && count_given > 3 => {
                d.help("contract two operands at a time, in the order that needs the fewest operations")
            }
            [array, index, ..] if name.starts_with("atomic_") && count_given == accepted.most + 1 => {
                let (array, index) = (array.value.span, index.value.span);
                let between = Span { start: array.end, end: index.start, ..array };
                let edits = vec![(between, "[".to_owned()), (index.after(), "]".to_owned())];
                d.fix_all("pass an element, `x[i]`", edits, Applicability::MaybeIncorrect)
            }
            _ => d,
        };
        self.report(d);
        None
    }
}
