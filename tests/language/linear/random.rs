//! Generates random problems from seeds: the same seed gives the same problem.

use clk_base::linear::{AffineForm, Formula, LinearProblem, Var};
use clk_testing::random::Random;

/// Limits for the sizes and numbers in random problems, and probabilities in percent.
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

pub fn form(random: &mut Random, variables: usize, shape: &Shape) -> AffineForm {
    let count = random.range(1, shape.terms);
    let terms: Vec<(Var, i128)> = (0..count)
        .map(|_| (Var(random.range(0, variables as i128 - 1) as u32), random.pick(shape.coefficients)))
        .collect();
    let constant = random.range(-shape.constants, shape.constants);
    // The coefficients of one variable may overflow when they are added.
    AffineForm::new(constant, terms).unwrap_or_else(|| AffineForm::from(constant))
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

/// Returns a problem whose variables have no bounds, and the number of its variables that are not products.
pub fn problem(random: &mut Random, shape: &Shape) -> (LinearProblem, usize) {
    let mut problem = LinearProblem::default();
    let variables = random.range(1, shape.variables) as usize;
    for index in 0..variables {
        problem.add_variable(format!("v{index}"));
    }
    for _ in 0..random.range(0, shape.products) {
        // A factor may itself be a product.
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

/// Returns a problem like those that arise from two threads of a kernel: bounded thread ids, unbounded sizes, an
/// equality of two addresses, guards, and case distinctions.
pub fn kernel(random: &mut Random, products: bool) -> LinearProblem {
    let mut problem = LinearProblem::default();
    let ids = random.range(2, 7);
    let sizes: Vec<Var> = (0..random.range(1, 3)).map(|index| problem.add_variable(format!("n{index}"))).collect();
    for size in &sizes {
        let least = random.pick(&[0, 0, 0, 1, -5]);
        let fact = Formula::ge(&AffineForm::from(*size), &AffineForm::from(least)).expect("small");
        problem.facts.extend(random.chance(90).then_some(fact));
    }
    let mut threads: Vec<Vec<Var>> = Vec::new();
    let bounds: Vec<i128> = (0..ids).map(|_| random.pick(&[2, 3, 8, 16, 32, 33, 100, 256, 1024])).collect();
    for thread in 0..2 {
        threads.push((0..ids).map(|index| problem.add_variable(format!("t{thread}_{index}"))).collect());
    }
    // An id has the same bound in both threads.
    let kinds: Vec<i128> = (0..ids).map(|_| random.range(0, 9)).collect();
    let size = random.pick(&sizes);
    for (thread, &id) in threads.iter().flat_map(|ids| ids.iter().enumerate()) {
        let low = AffineForm::from(0);
        let high = match kinds[thread] {
            0..6 => AffineForm::from(bounds[thread]),
            6..8 => AffineForm::from(size),
            _ => continue,
        };
        problem.facts.push(Formula::within(&low, &AffineForm::from(id), &high).expect("small"));
    }
    let strides: Vec<i128> = (0..ids).map(|_| random.pick(&[0, 1, 1, 2, 8, 16, 32, 33, 100, 255, 256, -1])).collect();
    let offsets = [random.range(-2, 2), random.range(-2, 2)];
    let mut addresses = Vec::new();
    for (ids, offset) in threads.iter().zip(offsets) {
        let terms = ids.iter().copied().zip(strides.iter().copied());
        let mut address = AffineForm::new(offset, terms).expect("small");
        if products {
            let product = problem.product(ids[0], sizes[0]);
            address = address.add(&AffineForm::from(product)).expect("small");
        }
        addresses.push(address);
    }
    problem.facts.push(Formula::eq(&addresses[0], &addresses[1]).expect("small"));
    divisions(random, &mut problem, &threads);
    if random.chance(80) {
        let differ = |(a, b): (&Var, &Var)| Formula::ne(&AffineForm::from(*a), &AffineForm::from(*b)).expect("small");
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

/// Adds a division for each of two threads, and the fact that two of the quotients and remainders are equal, or that
/// they differ.
fn divisions(random: &mut Random, problem: &mut LinearProblem, threads: &[Vec<Var>]) {
    if random.chance(50) {
        return;
    }
    let at = random.range(0, threads[0].len() as i128 - 1) as usize;
    let divisor = random.pick(&[2, 3, 4, 7, 16, 32]);
    let mut results = Vec::new();
    for ids in threads {
        let (quotient, remainder) = (problem.add_variable("q"), problem.add_variable("r"));
        let sum = AffineForm::from(ids[at]).add(&AffineForm::from(ids[0])).expect("small");
        problem.facts.push(Formula::division(&sum, divisor, quotient, remainder).expect("small"));
        results.push(if random.chance(50) { quotient } else { remainder });
    }
    let (a, b) = (AffineForm::from(results[0]), AffineForm::from(results[1]));
    problem.facts.push(if random.chance(50) { Formula::eq(&a, &b) } else { Formula::ne(&a, &b) }.expect("small"));
}
