//! A cache of launch plans: the decisions of a back end about a launch, such as the variant of the code and the
//! geometry. A plan is valid for launches with the same facts.

use std::sync::{Mutex, PoisonError};

use super::launch_facts::ArgFacts;
use super::{Arg, LaunchExtents};
use clk_scalar::ScalarValue;

/// Number of plans that are cached for each kernel.
const MAX_PLANS: usize = 4;

/// The plans of a kernel's recent launches, most recent first.
pub struct PlanCache<P>(Mutex<Vec<CachedPlan<P>>>);

/// A plan, and the facts of the launches for which it is valid.
struct CachedPlan<P> {
    extents: LaunchExtents,
    has_proved_bounds: bool,
    /// Whether the launch matches the kernel's signature.
    has_signature: bool,
    /// The shapes of all arrays, concatenated. This is unambiguous, because the ranks of a kernel's arrays are fixed.
    shapes: Vec<u32>,
    /// The values of parameters, if the plan depends on them.
    values: Option<Vec<ScalarValue>>,
    plan: P,
}

impl<P> Default for PlanCache<P> {
    fn default() -> PlanCache<P> {
        PlanCache(Mutex::default())
    }
}

impl<P: Clone> PlanCache<P> {
    /// Returns the plan for a launch. `has_proved_bounds` is the result of
    /// [`has_proved_bounds`](crate::launch_facts::has_proved_bounds) for it.
    pub fn get(&self, facts: &ArgFacts<'_, '_>, has_proved_bounds: bool) -> Option<P> {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = plans.iter().position(|plan| plan.is_for(facts, has_proved_bounds))?;
        // Move the plan to the front: the list is sorted by last use, most recent first.
        plans[..=at].rotate_right(1);
        Some(plans[0].plan.clone())
    }

    /// Adds the plan for a launch. `depends_on_values`: the plan is valid only for the same values of parameters.
    pub fn insert(&self, facts: &ArgFacts<'_, '_>, has_proved_bounds: bool, depends_on_values: bool, plan: P) {
        let cached = CachedPlan {
            extents: facts.extents,
            has_proved_bounds,
            has_signature: facts.declared.is_some(),
            shapes: shapes(facts).collect(),
            values: depends_on_values.then(|| values(facts).collect()),
            plan,
        };
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.truncate(MAX_PLANS - 1);
        plans.insert(0, cached);
    }
}

impl<P> CachedPlan<P> {
    fn is_for(&self, facts: &ArgFacts<'_, '_>, has_proved_bounds: bool) -> bool {
        self.extents == facts.extents
            && self.has_proved_bounds == has_proved_bounds
            && self.has_signature == facts.declared.is_some()
            && shapes(facts).eq(self.shapes.iter().copied())
            && self.values.as_ref().is_none_or(|known| has_values(facts, known))
    }
}

fn shapes<'a>(facts: &'a ArgFacts<'_, '_>) -> impl Iterator<Item = u32> + 'a {
    facts.args.iter().filter_map(Arg::shape).flatten().copied()
}

fn values<'a>(facts: &'a ArgFacts<'_, '_>) -> impl Iterator<Item = ScalarValue> + 'a {
    facts.args.iter().filter_map(|arg| if let Arg::Value(values) = arg { values.first().copied() } else { None })
}

fn has_values(facts: &ArgFacts<'_, '_>, known: &[ScalarValue]) -> bool {
    let mut known = known.iter();
    values(facts).all(|v| known.next().is_some_and(|k| k.ty == v.ty && k.bits == v.bits)) && known.next().is_none()
}
