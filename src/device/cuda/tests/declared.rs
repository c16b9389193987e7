//! Launches with and without guards of what is proved of launches that a signature describes.

use super::*;
use crate::device::Declared;
use crate::device::cuda::kernel::Kernel;
use crate::device::cuda::plan::Facts;
use crate::ir::Declared as Signature;
use crate::ir::footprint::Given;
use crate::ir::footprint::form::*;
use crate::ir::footprint::space::Role;

/// Returns `y[i] = x[i + d]` for launches with `d` from 0 to 8 and `x` longer than `y` by 8, and of no promises.
fn declared() -> Prepared {
    use crate::base::linear::Linear;
    let mut prepared = shifted(Access::Out, true);
    let mut given = Given::default();
    let mut fresh = |name: &str, role, high| given.variables.fresh(name, role, 0, high);
    let (n, d, i) = (fresh("N", Role::Launch, 1 << 29), fresh("d", Role::Launch, 8), fresh("i", Role::Thread, 1 << 29));
    let next: Linear = variable(i).plus(&number(1));
    given.variables.learn(i, at_most(&next, &variable(n)));
    given.params.insert(0, variable(d));
    given.extents.insert((1, 0), variable(n).plus(&number(8)));
    given.extents.insert((2, 0), variable(n));
    given.indices.push(variable(i));
    prepared.declared = Some(Signature::new(given));
    prepared
}

#[test]
fn launches_that_no_signature_describes_are_guarded() {
    let (gpu, ..) = gpu(shifted(Access::Out, true), 1 << 20, copy);
    let kernel = Kernel::new(gpu.context.clone(), Arc::new(declared()), None);
    let (x, mut y) = (storage(&[0.0; 13]), storage(&[0.0; 5]));
    let args = &[
        Arg::Value(vec![Value::of(3)]),
        Arg::Array { storage: &x, shape: vec![13] },
        Arg::ArrayMut { storage: &mut y, shape: vec![5] },
    ];
    let guards = |declared| {
        let facts = Facts { args, extents: Extents::Threads([5, 1, 1]), declared };
        let plan = kernel.plan(&facts).unwrap_or_else(|_| panic!("a plan")).expect("something to run");
        plan.variant.kernel.guarded().len()
    };
    let launch = |largest| Some(Declared { largest, promises: false });
    assert_eq!([guards(launch(13)), guards(None), guards(launch(13))], [0, 1, 0]);
    assert_eq!([guards(launch(1 << 29)), guards(launch((1 << 29) + 1))], [0, 1]);
    assert!(!kernel.rests_on_promises());
}
