//! Compares the forward mode of random kernels of `clk_testing::generate` with reverse mode and with difference
//! quotients, in `f64` and with moderate numbers.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use clk_ir::def::*;
use clk_ir::verify;
use clk_runtime::LaunchExtents;
use clk_scalar::{Scalar, ScalarValue};
use clk_testing::setting;

use super::harness::{self, Problem, Smoothness, Stream, Verdict};
use super::sources;
use clk_testing::generate::{self, Argument};

fn double(scalar: Scalar) -> Scalar {
    if scalar.is_float() { Scalar::F64 } else { scalar }
}

fn double_ty(ty: &mut Ty) {
    *ty = ty.with_scalar(double(ty.scalar()));
}

fn double_layout(layout: &mut ElementLayout) {
    for leaf in &mut layout.leaves {
        double_ty(&mut leaf.ty);
    }
    *layout = match &layout.leaves[..] {
        [leaf] if leaf.path.is_empty() => ElementLayout::plain(leaf.ty),
        leaves => ElementLayout::from_leaves(leaves.iter().map(|leaf| (leaf.path.clone(), leaf.ty))),
    };
}

/// Converts the bits of a float to those of an `f64` of moderate size.
fn moderate(scalar: Scalar, bits: u64) -> u64 {
    let value = ScalarValue { ty: scalar, bits }.as_f64();
    if value.is_finite() && (1e-3..=4.0).contains(&value.abs()) {
        return value.to_bits();
    }
    let hash = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (((hash % 61) as f64 - 30.0) / 16.0 + 0.01).to_bits()
}

/// Replaces all float types of a program by `f64` and its constants by moderate ones.
fn f64_shadow(program: &generate::Program) -> Option<Problem> {
    let mut module = program.module.clone();
    without_views(&mut module);
    for param in &mut module.kernel.params {
        if let KernelParam::Value { ty, .. } = param {
            double_ty(ty);
        }
    }
    for (_, function) in module.functions.iter_mut() {
        function.params.iter_mut().chain(&mut function.results).for_each(double_ty);
        function.locals.iter_mut().for_each(|(_, local)| double_ty(&mut local.ty));
        for (_, memory) in function.memories.iter_mut() {
            let scalars: Vec<Scalar> =
                memory.layout.leaves.iter().flat_map(|leaf| vec![leaf.ty.scalar(); leaf.ty.lanes().into()]).collect();
            let new =
                |(bits, scalar): (&u64, &Scalar)| if scalar.is_float() { moderate(*scalar, *bits) } else { *bits };
            memory.values = memory.values.iter().zip(scalars.iter().cycle()).map(new).collect::<Vec<u64>>().into();
            double_layout(&mut memory.layout);
        }
        for (_, expr) in function.exprs.iter_mut() {
            if let (ExprKind::Const(bits), true) = (&mut expr.kind, expr.ty.scalar().is_float()) {
                *bits = moderate(expr.ty.scalar(), *bits);
            }
            double_ty(&mut expr.ty);
        }
    }
    without_bits(&mut module);
    if !verify::violations(&module).is_empty() {
        return None;
    }
    let mut stream = Stream(program.seed);
    let arguments = program
        .arguments
        .iter()
        .map(|argument| match argument {
            Argument::Value(values) => Argument::Value(
                values
                    .iter()
                    .map(|v| if v.ty.is_float() { ScalarValue::of(stream.next((-1.5, 1.5))) } else { *v })
                    .collect(),
            ),
            Argument::Array { layout, shape, bytes, write } => {
                let mut new = layout.clone();
                double_layout(&mut new);
                let mut argument = harness::zeros(&new, shape.clone(), *write);
                if let Argument::Array { bytes: to, .. } = &mut argument {
                    let elements = bytes.get().chunks(layout.size.max(1)).zip(to.get_mut().chunks_mut(new.size.max(1)));
                    for (from, to) in elements {
                        for (old, leaf) in layout.leaves.iter().zip(&new.leaves) {
                            if !leaf.ty.scalar().is_float() {
                                to[leaf.offset..][..leaf.ty.size()]
                                    .copy_from_slice(&from[old.offset..][..leaf.ty.size()]);
                            }
                        }
                    }
                }
                let floats: Vec<f64> = harness::floats(&argument).iter().map(|_| stream.next((-1.5, 1.5))).collect();
                harness::with_floats(&argument, &floats)
            }
        })
        .collect();
    Some(Problem {
        module,
        extents: program.extents,
        arguments,
        session: Arc::default(),
        text: None,
        smooth: Smoothness::No,
        is_derivative: false,
    })
}

/// Replaces bitcasts between float types by conversions: in `f64`, bitcasts would have no derivative.
fn without_views(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        let types: Vec<Ty> = function.exprs.iter().map(|(_, expr)| expr.ty).collect();
        let is_float = |ty: Ty| ty.scalar().is_float();
        for (id, expr) in function.exprs.iter_mut() {
            if let ExprKind::Bitcast(value) = expr.kind
                && let (from, to) = (types[value.index()], types[id.index()])
                && is_float(from)
                && is_float(to)
                && from != to
            {
                expr.kind = ExprKind::Convert(value);
            }
        }
    }
}

/// Replaces bitcasts whose sizes no longer match by conversions.
fn without_bits(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        let sizes: Vec<usize> = function.exprs.iter().map(|(_, expr)| expr.ty.scalar().size()).collect();
        for (id, expr) in function.exprs.iter_mut() {
            if let ExprKind::Bitcast(value) = expr.kind
                && sizes[value.index()] != sizes[id.index()]
            {
                expr.kind = ExprKind::Convert(value);
            }
        }
    }
}

fn threads(extents: LaunchExtents) -> u32 {
    match extents {
        LaunchExtents::Threads(n) => n.iter().product(),
        LaunchExtents::Grid { grid, block } => grid.iter().chain(&block).product(),
    }
}

/// Counts how often each outcome occurred, and collects the failures.
#[derive(Default)]
struct Tally {
    outcomes: BTreeMap<String, u64>,
    failures: Vec<String>,
}

impl Tally {
    fn add(&mut self, what: &str, seed: u64, check: impl FnOnce() -> Verdict) {
        let verdict = catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|_| Verdict::Wrong("a panic".into()));
        let outcome = match verdict {
            Verdict::Right(said) if said.contains("= 0.0000") => "right, without a derivative".into(),
            Verdict::Right(said) if said.contains("at kinks") => "right, kinks left out".into(),
            Verdict::Right(_) => "right".into(),
            Verdict::Left(why) => format!("left out: {why}"),
            Verdict::Refused { label, .. } => format!("refused: {label}"),
            Verdict::Wrong(why) => {
                let failure = format!("seed {seed}: {why}");
                println!("{what} {}", failure.get(..3000).unwrap_or(&failure));
                self.failures.push(failure);
                "wrong".into()
            }
        };
        *self.outcomes.entry(format!("{what}{outcome}")).or_default() += 1;
    }

    fn print_tally(&self) {
        for (outcome, number) in &self.outcomes {
            println!("{number:6} {outcome}");
        }
        let of =
            |word: &str| self.outcomes.iter().filter(|(what, _)| what.starts_with(word)).map(|(_, n)| n).sum::<u64>();
        let (right, refused) = (of("right"), of("refused"));
        println!("refused: {:.1} % of {}", 100.0 * refused as f64 / (right + refused).max(1) as f64, right + refused);
    }

    fn finish(self) {
        self.print_tally();
        let shown: Vec<&str> = self.failures.iter().map(|f| f.get(..6000).unwrap_or(f)).take(3).collect();
        assert!(self.failures.is_empty(), "{} failures\n{}", self.failures.len(), shown.join("\n\n"));
    }
}

/// Compares derivatives of kernels of `clk_testing::generate`.
pub fn compare() {
    let (first, count) = (setting("CLK_DERIVE_SEED", 0), setting("CLK_DERIVE_KERNELS", 300));
    let mut tally = Tally::default();
    for seed in first..first + count {
        let program = generate::program(seed);
        if threads(program.extents) > 300 {
            continue;
        }
        tally.add("", seed, || match f64_shadow(&program) {
            Some(problem) => harness::check(&problem),
            None => Verdict::Left("bits of floats".into()),
        });
    }
    tally.finish();
}

/// Compares derivatives of kernels of [`sources`]. For some kernels, also tests the printed source and second
/// derivatives.
pub fn compare_sources() {
    let (first, count) = (setting("CLK_DERIVE_SEED", 0), setting("CLK_DERIVE_KERNELS", 300));
    let mut tally = Tally::default();
    for seed in first..first + count {
        let program = sources::program(seed);
        if count == 1 {
            println!("{}", program.text);
        }
        let problem = match harness::problem(&program.text, program.extents, &program.arguments, (-1.5, 1.5)) {
            Ok(problem) => Problem { smooth: Smoothness::Mostly, ..problem },
            Err(why) => {
                tally.add("", seed, || Verdict::Wrong(format!("{why}\n{}", program.text)));
                continue;
            }
        };
        let printed = seed % 4 == 0;
        let checked = Problem { text: problem.text.clone().filter(|_| printed), ..problem.clone() };
        tally.add("", seed, || harness::check(&checked));
        if seed % 10 == 0 {
            let outcome = catch_unwind(AssertUnwindSafe(|| harness::derived(&problem)));
            for derived in outcome.unwrap_or_else(|_| Err("a panic".into())).unwrap_or_default() {
                tally.add("second derivative: ", seed, || harness::check(&derived));
            }
        }
        if (seed + 1 - first) % 5000 == 0 {
            tally.print_tally();
        }
    }
    tally.finish();
}
