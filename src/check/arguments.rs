//! Binding of arguments to parameters, for builtins, functions, kernels, conversions and struct literals.
//!
//! Input: the parameters of a callee, and the arguments as written. Output: the argument of each parameter. An argument without a
//! parameter, and a second argument for the same parameter, are errors; no argument is dropped.

use std::ops::RangeInclusive;

use crate::base::diag::{Applicability, Diagnostic};
use crate::base::source::Span;
use crate::check::access::list;
use crate::check::builtin_call::BuiltinCall;
use crate::check::cx::Cx;
use crate::check::make::count;
use crate::check::suggest;
use crate::check::typed::Type;
use crate::lang::builtin::Entry;
use crate::syntax::ast;

/// A parameter that can be given by name, and its position if it can be given by position too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'p> {
    pub name: &'p str,
    pub position: Option<usize>,
}

/// A parameter that is given by name only.
pub(crate) const fn by_name(name: &str) -> Named<'_> {
    Named { name, position: None }
}

/// A parameter that is given by name or by position.
pub(crate) const fn at(name: &str, position: usize) -> Named<'_> {
    Named { name, position: Some(position) }
}

/// What a callee accepts.
pub(crate) struct Accepted<'p> {
    pub callee: &'p str,
    /// The largest number of arguments by position.
    pub most: usize,
    pub named: Vec<Named<'p>>,
    /// Whether arguments by any other name are accepted, as by `save`.
    pub any_name: bool,
    /// The signature of a builtin, which names parameters that are given by position only.
    pub entry: Option<&'static Entry>,
    /// The struct type whose fields the arguments are.
    pub fields_of: Option<&'p Type>,
}

impl<'p> Accepted<'p> {
    pub fn new(callee: &'p str, most: usize, named: Vec<Named<'p>>) -> Accepted<'p> {
        Accepted { callee, most, named, any_name: false, entry: None, fields_of: None }
    }
}

/// The arguments of a call by parameter.
pub(crate) struct Arguments<'e> {
    /// In the order of their positions.
    pub positional: Vec<&'e ast::Expr>,
    /// By parameter of `Accepted::named`, whether by name or by position.
    pub named: Vec<Option<(&'e ast::Expr, Span)>>,
    /// The first argument by position for which there is no parameter.
    pub surplus: Option<Span>,
    /// Whether an argument by name was wrong, which was reported.
    pub wrong_name: bool,
}

/// A name, if the argument has one, and its value.
pub(crate) type Given<'e> = (Option<&'e ast::Name>, &'e ast::Expr);

pub(crate) fn given(args: &[ast::Arg]) -> impl Iterator<Item = Given<'_>> {
    args.iter().map(|arg| (arg.name.as_ref(), &arg.value))
}

/// Whether a builtin has a parameter of this name that is given by position only: `x: T` or `type`, but not `axis = 0`.
fn by_position(entry: &Entry, name: &str) -> bool {
    let inside = entry.signature.split_once('(').map_or("", |(_, rest)| rest);
    let inside = inside.split_once(") ->").map_or(inside, |(inside, _)| inside);
    let rests = inside.split(',').filter_map(|param| param.trim().trim_end_matches(')').strip_prefix(name));
    // A parameter with the default `all` is given by name: `among`.
    rests.into_iter().any(|rest| rest.is_empty() || rest.starts_with(':') && !rest.ends_with("= all"))
}

impl Cx<'_> {
    /// Binds arguments to parameters. Reports unknown names and parameters that are given twice. The caller checks the number of
    /// arguments by position, since it knows the missing parameters.
    pub fn bind_arguments<'e>(
        &mut self,
        accepted: &Accepted<'_>,
        args: impl IntoIterator<Item = Given<'e>>,
    ) -> Arguments<'e> {
        let mut bound =
            Arguments { positional: vec![], named: vec![None; accepted.named.len()], surplus: None, wrong_name: false };
        let mut others: Vec<&ast::Name> = vec![];
        let mut named_position = false;
        for (name, value) in args {
            let Some(name) = name else {
                if bound.positional.len() == accepted.most {
                    bound.surplus = bound.surplus.or(Some(value.span));
                }
                let at = Some(bound.positional.len());
                bound.positional.push(value);
                if let Some(i) = accepted.named.iter().position(|named| named.position == at) {
                    self.fill(accepted, &mut bound, i, (value, value.span));
                }
                continue;
            };
            match accepted.named.iter().position(|named| named.name == name.text) {
                Some(i) => self.fill(accepted, &mut bound, i, (value, name.span)),
                None if accepted.any_name => {
                    if let Some(first) = others.iter().find(|other| other.text == name.text) {
                        self.given_twice(accepted, &name.text, name.span, first.span);
                        bound.wrong_name = true;
                    }
                    others.push(name);
                }
                // The first name of a parameter that has a position only stands for the others.
                None if accepted.entry.is_some_and(|entry| by_position(entry, &name.text)) => {
                    if !std::mem::replace(&mut named_position, true) {
                        self.by_its_position(accepted, name);
                    }
                    bound.wrong_name = true;
                }
                None => {
                    self.not_accepted(accepted, name);
                    bound.wrong_name = true;
                }
            }
        }
        bound
    }

    /// Gives a parameter its argument, unless it has one.
    fn fill<'e>(
        &mut self,
        accepted: &Accepted<'_>,
        bound: &mut Arguments<'e>,
        i: usize,
        argument: (&'e ast::Expr, Span),
    ) {
        match bound.named.get_mut(i) {
            Some(slot @ None) => *slot = Some(argument),
            Some(Some((_, first))) => {
                let first = *first;
                self.given_twice(accepted, accepted.named[i].name, argument.1, first);
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
        let title = format!("`{}` takes `{}` by its position, not by name", accepted.callee, name.text);
        let d = Diagnostic::error("E0206", title).at(name.span, "leave the name off");
        self.report(match accepted.entry {
            Some(entry) => d.note(format!("`{}{}`", entry.name, entry.signature)),
            None => d,
        });
    }

    /// Reports an argument by a name that the callee does not have.
    fn not_accepted(&mut self, accepted: &Accepted<'_>, name: &ast::Name) {
        let names: Vec<&str> = accepted.named.iter().map(|named| named.name).filter(|name| !name.is_empty()).collect();
        match accepted.fields_of {
            Some(of) => self.unknown_field(name, of, names.into_iter()),
            None => self.unknown_argument(name, accepted.callee, &names),
        }
    }

    pub fn unknown_argument(&mut self, name: &ast::Name, callee: &str, names: &[&str]) {
        let mut d = Diagnostic::error("E0206", format!("`{callee}` has no argument called `{}`", name.text))
            .at(name.span, "unknown argument");
        match suggest::nearest(&name.text, names.iter().copied()) {
            _ if matches!(&*name.text, "keepdims" | "keepdim" | "keep_dims" | "keep") && names.contains(&"axis") => {
                d = d.help(format!("`reshape` brings an axis back: `reshape({callee}(x, axis = 1), -1, 1)`"));
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

    /// Reports the arguments by name of a callee that takes all by position. Returns whether there are none.
    pub fn no_names(&mut self, args: &[ast::Arg], callee: &str) -> bool {
        !self.bind_arguments(&Accepted::new(callee, usize::MAX, vec![]), given(args)).wrong_name
    }

    /// Returns the arguments of a builtin that are given by position, if their number is in range. None after a report.
    pub fn take<'c>(
        &mut self,
        call: BuiltinCall<'c>,
        positions: RangeInclusive<usize>,
        named: &[Named<'_>],
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
        let bound = self.bind_arguments(accepted, given(call.args));
        // An argument by a wrong name explains the number of the others.
        if bound.wrong_name {
            return None;
        }
        let (name, found) = (call.entry.name, bound.positional.len());
        if found >= least && bound.surplus.is_none() {
            return Some(bound.positional);
        }
        let wanted = match accepted.most {
            most if least == most => count(least, "argument", "arguments"),
            usize::MAX => format!("at least {}", count(least, "argument", "arguments")),
            most => format!("{least} to {most} arguments"),
        };
        let verb = if found == 1 { "is" } else { "are" };
        let d = Diagnostic::error("E0304", format!("`{name}` takes {wanted}, but {found} {verb} given"))
            .at(call.span, format!("{found} given"))
            .note(format!("`{name}{}`", call.entry.signature));
        self.report(d);
        None
    }
}
