//! The call of a builtin that is being checked: its table entry, arguments and spans.

use smol_str::SmolStr;

use crate::build::make;
use crate::typed::*;
use clk_base::source::Span;
use clk_scalar::builtin::BuiltinEntry;
use clk_syntax::ast;

/// A builtin call being checked.
#[derive(Clone, Copy)]
pub(crate) struct BuiltinCall<'c> {
    pub entry: &'static BuiltinEntry,
    pub args: &'c [ast::Arg],
    pub at: Span,
    pub span: Span,
}

impl<'c> BuiltinCall<'c> {
    pub fn positional(&self) -> impl Iterator<Item = &'c ast::Expr> + use<'c> {
        self.args.iter().filter(|a| a.name.is_none()).map(|a| &a.value)
    }

    pub fn named_arg(&self, name: &str) -> Option<&'c ast::Expr> {
        self.args.iter().find(|a| a.name.as_ref().is_some_and(|n| n.text == name)).map(|a| &a.value)
    }

    pub fn make(&self, args: Vec<Expr>, ty: Type) -> Expr {
        self.make_named(args, vec![], ty)
    }

    pub fn make_named(&self, args: Vec<Expr>, named: Vec<(SmolStr, Expr)>, ty: Type) -> Expr {
        make(ExprKind::Builtin { builtin: self.entry.builtin, args, named }, ty, self.span)
    }
}
