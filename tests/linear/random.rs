//! Random problems from seeds: the same seed is the same problem.

use clk_lang::base::linear::{Formula, Linear, Problem, Var};

/// A small generator of random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub fn range(&mut self, low: i128, high: i128) -> i128 {
        low + (self.next() as i128).rem_euclid(high - low + 1)
    }

    pub fn chance(&mut self, percent: i128) -> bool {
        self.range(0, 99) < percent
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.range(0, from.len() as i128 - 1) as usize].clone()
    }
}

/// What random problems are like.
#[derive(Clone, Copy)]
pub struct Shape {
    pub variables: i128,
    pub facts: i128,
    pub terms: i128,
    pub coefficients: &'static [i128],
    pub constants: i128,
    pub equalities: i128,
    pub choices: i128,
    pub products: i128,
}

pub fn form(random: &mut Random, variables: usize, shape: &Shape) -> Linear {
    let count = random.range(1, shape.terms);
    let terms: Vec<(Var, i128)> = (0..count)
        .map(|_| (Var(random.range(0, variables as i128 - 1) as u32), random.pick(shape.coefficients)))
        .collect();
    let constant = random.range(-shape.constants, shape.constants);
    // Terms of one variable may add up beyond the numbers that there are.
    Linear::new(constant, terms).unwrap_or_else(|| Linear::from(constant))
}

pub fn formula(random: &mut Random, variables: usize, shape: &Shape, depth: u32) -> Formula {
    let roll = random.range(0, 99);
    if depth > 0 && roll < shape.choices {
        let parts = (0..random.range(1, 3)).map(|_| formula(random, variables, shape, depth - 1)).collect();
        return if random.chance(70) { Formula::Or(parts) } else { Formula::And(parts) };
    }
    let form = form(random, variables, shape);
    if random.chance(shape.equalities) { Formula::zero(form) } else { Formula::non_negative(form) }
}

/// A problem without bounds, and the variables that are no products.
pub fn problem(random: &mut Random, shape: &Shape) -> (Problem, usize) {
    let mut problem = Problem::default();
    let variables = random.range(1, shape.variables) as usize;
    for index in 0..variables {
        problem.variable(format!("v{index}"));
    }
    for _ in 0..random.range(0, shape.products) {
        // A factor may be a product itself.
        let pick = |random: &mut Random| Var(random.range(0, problem.variables.len() as i128 - 1) as u32);
        let (x, y) = (pick(random), pick(random));
        problem.product(x, y);
    }
    let all = problem.variables.len();
    for _ in 0..random.range(1, shape.facts) {
        let fact = formula(random, all, shape, 2);
        problem.facts.push(fact);
    }
    (problem, variables)
}

/// A problem as two threads of a kernel make it: bounded ids, unbounded sizes, an address equality, guards, cases.
pub fn kernel(random: &mut Random, products: bool) -> Problem {
    let mut problem = Problem::default();
    let ids = random.range(2, 7);
    let sizes: Vec<Var> = (0..random.range(1, 3)).map(|index| problem.variable(format!("n{index}"))).collect();
    for size in &sizes {
        let least = random.pick(&[0, 0, 0, 1, -5]);
        let fact = Formula::ge(&Linear::from(*size), &Linear::from(least)).expect("small");
        problem.facts.extend(random.chance(90).then_some(fact));
    }
    let mut threads: Vec<Vec<Var>> = Vec::new();
    let bounds: Vec<i128> = (0..ids).map(|_| random.pick(&[2, 3, 8, 16, 32, 33, 100, 256, 1024])).collect();
    for thread in 0..2 {
        threads.push((0..ids).map(|index| problem.variable(format!("t{thread}_{index}"))).collect());
    }
    // How each id is bounded is drawn once and holds for both threads.
    let kinds: Vec<i128> = (0..ids).map(|_| random.range(0, 9)).collect();
    let size = random.pick(&sizes);
    for (thread, &id) in threads.iter().flat_map(|ids| ids.iter().enumerate()) {
        let low = Linear::from(0);
        let high = match kinds[thread] {
            0..6 => Linear::from(bounds[thread]),
            6..8 => Linear::from(size),
            _ => continue,
        };
        problem.facts.push(Formula::within(&low, &Linear::from(id), &high).expect("small"));
    }
    let strides: Vec<i128> = (0..ids).map(|_| random.pick(&[0, 1, 1, 2, 8, 16, 32, 33, 100, 255, 256, -1])).collect();
    let offsets = [random.range(-2, 2), random.range(-2, 2)];
    let mut addresses = Vec::new();
    for (ids, offset) in threads.iter().zip(offsets) {
        let terms = ids.iter().copied().zip(strides.iter().copied());
        let mut address = Linear::new(offset, terms).expect("small");
        if products {
            let product = problem.product(ids[0], sizes[0]);
            address = address.add(&Linear::from(product)).expect("small");
        }
        addresses.push(address);
    }
    problem.facts.push(Formula::eq(&addresses[0], &addresses[1]).expect("small"));
    divisions(random, &mut problem, &threads);
    if random.chance(80) {
        let differ = |(a, b): (&Var, &Var)| Formula::ne(&Linear::from(*a), &Linear::from(*b)).expect("small");
        problem.facts.push(Formula::Or(threads[0].iter().zip(&threads[1]).map(differ).collect()));
    }
    let shape = Shape {
        variables: 0,
        facts: 0,
        terms: 3,
        coefficients: &[-4, -2, -1, -1, 1, 1, 2, 4, 16],
        constants: 40,
        equalities: 15,
        choices: 50,
        products: 0,
    };
    let all = problem.variables.len();
    for _ in 0..random.range(0, 5) {
        let fact = formula(random, all, &shape, 2);
        problem.facts.push(fact);
    }
    problem
}

/// A quotient and remainder of both threads, which are the same or not.
fn divisions(random: &mut Random, problem: &mut Problem, threads: &[Vec<Var>]) {
    if random.chance(50) {
        return;
    }
    let at = random.range(0, threads[0].len() as i128 - 1) as usize;
    let divisor = random.pick(&[2, 3, 4, 7, 16, 32]);
    let mut results = Vec::new();
    for ids in threads {
        let (quotient, remainder) = (problem.variable("q"), problem.variable("r"));
        let sum = Linear::from(ids[at]).add(&Linear::from(ids[0])).expect("small");
        problem.facts.push(Formula::division(&sum, divisor, quotient, remainder).expect("small"));
        results.push(if random.chance(50) { quotient } else { remainder });
    }
    let (a, b) = (Linear::from(results[0]), Linear::from(results[1]));
    problem.facts.push(if random.chance(50) { Formula::eq(&a, &b) } else { Formula::ne(&a, &b) }.expect("small"));
}
