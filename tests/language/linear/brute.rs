//! Compares verdicts with a brute-force search of small boxes, and rechecks every certificate.
//!
//! `CLK_RANDOM_PROGRAMS` names the number of random problems of each test.

use clk_base::linear::{
    AffineForm, Certificate, Formula, LinearProblem, SolverBudget, SolverVerdict, UnknownReason, Var, decide, recheck,
};
use clk_testing::setting;

use super::random::{Shape, problem};
use clk_testing::random::Random;

/// Returns whether any point satisfies the problem. The first `free` variables range from `low` to `high`, and the
/// other variables are products of them.
fn search(problem: &LinearProblem, free: usize, low: i128, high: i128) -> bool {
    let mut point = vec![low; problem.variables.len()];
    loop {
        for &(p, x, y) in &problem.products {
            point[p.index()] = point[x.index()] * point[y.index()];
        }
        if problem.holds(&point).expect("small numbers") {
            return true;
        }
        let Some(at) = (0..free).find(|&at| point[at] < high) else { return false };
        point[..at].fill(low);
        point[at] += 1;
    }
}

fn check(seed: u64, shape: &Shape, low: i128, high: i128) -> &'static str {
    let mut random = Random::from_seed(seed);
    let (mut problem, free) = problem(&mut random, shape);
    for index in 0..free {
        let var = AffineForm::from(Var(index as u32));
        problem.facts.push(Formula::ge(&var, &AffineForm::from(low)).expect("small"));
        problem.facts.push(Formula::le(&var, &AffineForm::from(high)).expect("small"));
    }
    let expected = search(&problem, free, low, high);
    match decide(&problem, &SolverBudget::default()) {
        SolverVerdict::Empty(certificate) => {
            assert!(!expected, "seed {seed}: refuted, but has a point: {problem:?}");
            let text = certificate.to_string();
            if let Err(error) = recheck(&problem, &certificate) {
                panic!("seed {seed}: {error}\n{text}\n{problem:?}");
            }
            assert_eq!(Certificate::parse(&text).as_ref(), Ok(&certificate), "seed {seed}\n{text}");
            "empty"
        }
        SolverVerdict::Point(point) => {
            assert_eq!(problem.holds(&point), Some(true), "seed {seed}: {point:?}");
            assert!(expected);
            "point"
        }
        SolverVerdict::Unknown(reason) => {
            assert_ne!(reason, UnknownReason::Unproved, "seed {seed}: {problem:?}");
            "unknown"
        }
    }
}

fn run(shape: &Shape, low: i128, high: i128) {
    let count = setting("CLK_RANDOM_PROGRAMS", 500);
    let mut counts = std::collections::BTreeMap::new();
    for seed in 0..count {
        *counts.entry(check(seed, shape, low, high)).or_insert(0) += 1;
    }
    println!("{counts:?}");
    let unknown = counts.get("unknown").copied().unwrap_or(0);
    assert!(unknown * 100 <= count, "too many unknown: {counts:?}");
    assert!(counts["empty"] * 10 >= count && counts["point"] * 10 >= count, "some verdict does not occur: {counts:?}");
}

const SMALL: &[i128] = &[-3, -2, -1, 1, 2, 3];
const LARGE: &[i128] = &[-35, -21, -15, -12, -10, -8, -6, 6, 8, 9, 10, 14, 15, 22, 33];

const INEQUALITIES: Shape = Shape {
    variables: 4,
    facts: 7,
    terms: 3,
    coefficients: SMALL,
    constants: 8,
    equalities: 10,
    choices: 0,
    products: 0,
};

#[test]
fn inequalities() {
    run(&INEQUALITIES, -3, 3);
}

#[test]
fn disjunctions() {
    run(&Shape { equalities: 30, choices: 60, ..INEQUALITIES }, -3, 3);
}

#[test]
fn large_common_divisors() {
    let shape = Shape {
        variables: 4,
        facts: 4,
        terms: 4,
        coefficients: LARGE,
        constants: 30,
        equalities: 40,
        choices: 30,
        products: 0,
    };
    run(&shape, -4, 4);
}

#[test]
fn products() {
    run(&Shape { facts: 6, equalities: 20, choices: 20, products: 3, ..INEQUALITIES }, -3, 3);
}
