//! Converts kernels of Triton that compute one element from the elements at the same place: the offsets of a block
//! become the index of a thread. Other kernels of Triton are not translated.

use super::tree::{
    ForeignArgument, ForeignExpr, ForeignFunction, ForeignStmt, StmtShape, Subscript, rewrite_statements,
};
use clk_scalar::foreign_names;
use std::collections::HashMap;

/// Returns whether a function uses Triton's language.
pub(super) fn is_triton(function: &ForeignFunction) -> bool {
    let mut found = false;
    for stmt in &function.body {
        stmt.visit(&mut |inner| found |= inner.expressions().iter().any(|e| e.uses("tl")));
    }
    found
}

/// Rewrites a kernel of Triton as one of CUDA, with an element in the place of each block.
pub(super) fn per_element(function: &ForeignFunction) -> Option<ForeignFunction> {
    let mut converter = TritonConverter::default();
    let mut body = Vec::new();
    for stmt in &function.body {
        body.extend(converter.statement(stmt)?);
    }
    let offsets = converter.offsets?;
    let index = ["i", "j", "k"].into_iter().find(|name| !body.iter().any(|stmt| stmt.uses(name)))?;
    let params = function.params.iter().filter(|param| !param.is_const);
    let names: Vec<(String, String)> = params
        .clone()
        .map(|param| {
            let short = param.name.strip_suffix("_ptr").unwrap_or(&param.name);
            let is_free = !short.is_empty() && !body.iter().any(|stmt| declares(stmt, short));
            (param.name.clone(), if is_free { short.to_owned() } else { param.name.clone() })
        })
        .collect();
    let mut body = rewrite_statements(body, &mut |e| match &e {
        ForeignExpr::Name(name) if *name == offsets => ForeignExpr::name(index),
        ForeignExpr::Name(name) => match names.iter().find(|(old, _)| old == name) {
            Some((_, new)) => ForeignExpr::name(new),
            None => e,
        },
        _ => e,
    });
    // What is left must not need blocks.
    let is_left = body.iter().any(|stmt| {
        let is_program = converter.programs.iter().any(|name| stmt.uses(name));
        is_program || stmt.expressions().iter().any(|e| e.contains(needs_block))
    });
    if is_left || body.is_empty() {
        return None;
    }
    let bound = converter.bound?;
    let bound = names.iter().fold(bound, |bound, (old, new)| bound.substitute(old, &ForeignExpr::name(new)));
    let guard = ForeignExpr::binary("<", ForeignExpr::name(index), bound);
    body = vec![ForeignStmt::new(StmtShape::If(vec![(guard, body)], vec![]))];
    let global = ForeignExpr::Field(Box::new(ForeignExpr::name("global_idx")), "x".to_owned());
    body.insert(0, ForeignStmt::new(StmtShape::Bind("let", index.to_owned(), Some(global))));
    let params = params.zip(&names).map(|(param, (_, new))| {
        let mut param = param.clone();
        param.name = new.clone();
        param
    });
    Some(ForeignFunction { params: params.collect(), body, ..function.clone() })
}

/// Returns whether an expression calls a function of Triton that has no equivalent for a single element.
fn needs_block(e: &ForeignExpr) -> bool {
    let ForeignExpr::Call(callee, _) = e else { return false };
    let path = callee.path().filter(|path| path.starts_with("tl."));
    path.is_some_and(|path| foreign_names::find(&path).is_none_or(|row| row.replacement(&path).is_none()))
}

fn declares(stmt: &ForeignStmt, name: &str) -> bool {
    matches!(&stmt.shape, StmtShape::Assign(places, ..) if places.iter().any(|place| place.is_name(name)))
}

#[derive(Default)]
struct TritonConverter {
    /// Names of program numbers.
    programs: Vec<String>,
    /// Names of multiples of the block's size.
    starts: HashMap<String, ForeignExpr>,
    /// The name of the offsets of the block's elements.
    offsets: Option<String>,
    /// Names of the mask, whose bound is `bound`.
    masks: Vec<String>,
    bound: Option<ForeignExpr>,
}

impl TritonConverter {
    /// Converts a statement; those that define offsets and masks are dropped.
    fn statement(&mut self, stmt: &ForeignStmt) -> Option<Option<ForeignStmt>> {
        let shape = match &stmt.shape {
            StmtShape::Nothing => return Some(None),
            StmtShape::Assign(places, "", value) => {
                let [ForeignExpr::Name(name)] = &places[..] else { return None };
                let value = self.starts.iter().fold(value.clone(), |value, (old, new)| value.substitute(old, new));
                if call_of(&value, "program_id").is_some() {
                    self.programs.push(name.clone());
                    return Some(None);
                }
                if self.is_offsets(&value) {
                    self.offsets.get_or_insert(name.clone());
                    return (self.offsets.as_ref() == Some(name)).then_some(None);
                }
                let is_start = matches!(&value, ForeignExpr::Binary("*", a, b)
                    if self.programs.iter().any(|program| a.is_name(program) || b.is_name(program)));
                if is_start {
                    self.starts.insert(name.clone(), value);
                    return Some(None);
                }
                if self.note_mask(&value) {
                    self.masks.push(name.clone());
                    return Some(None);
                }
                StmtShape::Assign(places.clone(), "", self.loads(value)?)
            }
            StmtShape::Value(e) => {
                let args = call_of(e, "store")?;
                self.check_mask(args)?;
                let place = self.element(&args.first()?.value)?;
                StmtShape::Assign(vec![place], "", self.loads(args.get(1)?.value.clone())?)
            }
            _ => return None,
        };
        Some(Some(ForeignStmt { shape, ..stmt.clone() }))
    }

    /// Returns whether an expression is `pid * BLOCK + tl.arange(0, BLOCK)`.
    fn is_offsets(&self, e: &ForeignExpr) -> bool {
        let ForeignExpr::Binary("+", a, b) = e else { return false };
        let is_product = |e: &ForeignExpr| match e {
            ForeignExpr::Binary("*", a, b) => [a, b].iter().any(|part| match &***part {
                ForeignExpr::Name(name) => self.programs.contains(name),
                other => call_of(other, "program_id").is_some(),
            }),
            _ => false,
        };
        let is_range = |e: &ForeignExpr| call_of(e, "arange").is_some();
        is_product(a) && is_range(b) || is_product(b) && is_range(a)
    }

    /// Notes the bound of a mask `offsets < n`.
    fn note_mask(&mut self, e: &ForeignExpr) -> bool {
        let ForeignExpr::Binary("<", index, bound) = e else { return false };
        let is_own = self.offsets.as_ref().is_some_and(|offsets| index.is_name(offsets));
        let is_same = self.bound.as_ref().is_none_or(|known| known == &**bound);
        if is_own && is_same {
            self.bound = Some((**bound).clone());
        }
        is_own && is_same
    }

    /// Checks that the mask of a load or store is the bound of the offsets.
    fn check_mask(&mut self, args: &[ForeignArgument]) -> Option<()> {
        let Some(mask) = args.iter().find(|arg| arg.name.as_deref() == Some("mask")) else { return Some(()) };
        let is_known = matches!(&mask.value, ForeignExpr::Name(name) if self.masks.contains(name));
        (is_known || self.note_mask(&mask.value)).then_some(())
    }

    /// Returns the element `x[i]` of a pointer `x + offsets`.
    fn element(&self, pointer: &ForeignExpr) -> Option<ForeignExpr> {
        let ForeignExpr::Binary("+", base, offsets) = pointer else { return None };
        let is_own = self.offsets.as_ref().is_some_and(|known| offsets.is_name(known));
        let is_array = matches!(**base, ForeignExpr::Name(_));
        (is_own && is_array).then(|| ForeignExpr::Index(base.clone(), vec![Subscript::Element((**offsets).clone())]))
    }

    /// Replaces loads by elements.
    fn loads(&mut self, e: ForeignExpr) -> Option<ForeignExpr> {
        let mut is_known = true;
        let converted = e.rewrite(&mut |e| {
            let Some(args) = call_of(&e, "load") else { return e };
            let element = args.first().and_then(|arg| self.element(&arg.value));
            match element.filter(|_| self.check_mask(args).is_some()) {
                Some(element) => element,
                None => {
                    is_known = false;
                    e
                }
            }
        });
        is_known.then_some(converted)
    }
}

/// Returns the arguments of a call of a function of Triton.
fn call_of<'e>(e: &'e ForeignExpr, name: &str) -> Option<&'e [ForeignArgument]> {
    match e {
        ForeignExpr::Call(callee, args) if callee.path().as_deref() == Some(&format!("tl.{name}")) => Some(args),
        _ => None,
    }
}
