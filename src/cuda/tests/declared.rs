//! Tests of accesses that are in bounds for all launches that match the signature. Other launches use a variant with
//! guards.

use super::*;
use crate::kernel::KernelVariants;
use clk_ir::DeclaredLaunches as Signature;
use clk_ir::footprint::SymbolicLaunch;
use clk_ir::footprint::formula::*;
use clk_ir::footprint::vars::VarRole;
use clk_runtime::SignaturePromise;
use clk_runtime::launch_facts::ArgFacts;

/// Returns the kernel `y[i] = x[i + d]`. Its signature requires `d` from 0 to 8 and an `x` that is 8 elements longer
/// than `y`, and contains no promises.
fn declared() -> PreparedKernel {
    use clk_base::linear::AffineForm;
    let mut prepared = shifted(Access::Out, true);
    let mut symbols = SymbolicLaunch::default();
    let mut fresh = |name: &str, role, high| symbols.variables.fresh(name, role, 0, high);
    let (n, d, i) =
        (fresh("N", VarRole::Launch, 1 << 29), fresh("d", VarRole::Launch, 8), fresh("i", VarRole::Thread, 1 << 29));
    let next: AffineForm = variable(i).plus(&number(1));
    symbols.variables.add_fact(i, at_most(&next, &variable(n)));
    symbols.params.insert(0, variable(d));
    symbols.extents.insert((1, 0), variable(n).plus(&number(8)));
    symbols.extents.insert((2, 0), variable(n));
    symbols.indices.push(variable(i));
    prepared.declared_launches = Some(Signature::new(symbols));
    prepared
}

#[test]
fn launches_outside_the_signature_are_guarded() {
    let (gpu, ..) = gpu(shifted(Access::Out, true), 1 << 20, copy);
    let kernel = KernelVariants::new(gpu.context.clone(), Arc::new(declared()), None);
    let (x, mut y) = (storage(&[0.0; 13]), storage(&[0.0; 5]));
    let args = &[
        Arg::Value(vec![ScalarValue::of(3)]),
        Arg::Array { storage: &x, shape: vec![13] },
        Arg::ArrayMut { storage: &mut y, shape: vec![5] },
    ];
    let guards = |declared| {
        let facts = ArgFacts { args, extents: LaunchExtents::Threads([5, 1, 1]), declared };
        let plan = kernel.plan(&facts).unwrap_or_else(|_| panic!("a plan")).expect("something to run");
        plan.variant.kernel.guarded().len()
    };
    let launch = |largest| Some(SignaturePromise { largest, promises: false });
    assert_eq!([guards(launch(13)), guards(None), guards(launch(13))], [0, 1, 0]);
    assert_eq!([guards(launch(1 << 29)), guards(launch((1 << 29) + 1))], [0, 1]);
    assert!(!kernel.depends_on_promises());
}
