//! Tests the solver with corrupted certificates, and with numbers at the limits of their types.

use clk_base::linear::{
    AffineForm, Certificate, CertificateEnd, CertificateNode, DerivedLine, Formula, LinearProblem, SolverBudget,
    SolverVerdict, Var, decide, recheck,
};

use super::random::{Shape, kernel, problem};
use super::text;
use clk_testing::random::Random;

/// Collects the proof steps of each node of a certificate, beginning with the root.
fn nodes<'a>(node: &'a mut CertificateNode, all: &mut Vec<&'a mut Vec<DerivedLine>>) {
    all.push(&mut node.lines);
    match &mut node.end {
        CertificateEnd::Contradiction => {}
        CertificateEnd::Choice { cases, .. } => cases.iter_mut().for_each(|case| nodes(case, all)),
        CertificateEnd::Split { cases, .. } => cases.iter_mut().for_each(|case| nodes(case, all)),
    }
}

/// Changes a random proof step of the certificate; returns whether it has any.
fn change_line(random: &mut Random, certificate: &mut Certificate) -> bool {
    let mut all = Vec::new();
    nodes(&mut certificate.root, &mut all);
    let mut lines: Vec<&mut DerivedLine> = all.into_iter().flatten().collect();
    if lines.is_empty() {
        return false;
    }
    let at = random.range(0, lines.len() as i128 - 1) as usize;
    match &mut *lines[at] {
        DerivedLine::Same(a, _) => a.0 += 1,
        DerivedLine::Product(a, b) => {
            let factor = if random.chance(50) { a } else { b };
            *factor = random.range(0, 20) as usize;
        }
        DerivedLine::Combination { terms, divisor } => {
            let term = random.range(0, terms.len() as i128 - 1) as usize;
            match random.range(0, 5) {
                // Another divisor may leave a contradiction valid, but not an inequality that is rounded after the
                // division.
                0 => *divisor = if *divisor == 1 { 0 } else { *divisor + 1 },
                1 => *divisor = -*divisor,
                2 => terms[term].0 = random.range(0, 20) as usize,
                3 => terms[term].1 = -terms[term].1,
                4 => terms[term].1 += random.pick(&[-1, 1, 7]),
                _ => _ = terms.remove(term),
            }
        }
    }
    true
}

/// Drops or duplicates a case of the first case distinction, or changes the fact that it distinguishes. Returns whether
/// the certificate has a case distinction.
fn change_cases(random: &mut Random, node: &mut CertificateNode) -> bool {
    match &mut node.end {
        CertificateEnd::Contradiction => false,
        CertificateEnd::Choice { cases, .. } if cases.is_empty() => false,
        CertificateEnd::Choice { choice, cases } => {
            match random.range(0, 2) {
                0 => _ = cases.pop(),
                1 => *choice += 1000,
                _ => cases.push(cases[0].clone()),
            }
            true
        }
        CertificateEnd::Split { cases, .. } => change_cases(random, &mut cases[0]),
    }
}

/// Returns the formula with each inequality weakened by `by`.
fn weaker(formula: &Formula, by: i128) -> Formula {
    let all = |parts: &[Formula]| parts.iter().map(|part| weaker(part, by)).collect();
    match formula {
        Formula::Atom(clk_base::linear::Atom::NonNegative(form)) => {
            Formula::non_negative(form.offset(by).expect("small"))
        }
        Formula::Atom(atom) => Formula::Atom(atom.clone()),
        Formula::And(parts) => Formula::And(all(parts)),
        Formula::Or(parts) => Formula::Or(all(parts)),
    }
}

/// Weakens the problem until it has a solution.
fn satisfiable(problem: &LinearProblem) -> Option<LinearProblem> {
    [1, 2, 5, 20, 300].into_iter().find_map(|by| {
        let facts = problem.facts.iter().map(|fact| weaker(fact, by)).collect();
        let weaker = LinearProblem { facts, ..problem.clone() };
        matches!(decide(&weaker, &SolverBudget::default()), SolverVerdict::Point(_)).then_some(weaker)
    })
}

#[test]
fn changed_certificates_are_rejected() {
    let mut problems: Vec<LinearProblem> =
        text::corpus(include_str!("../../linear/corpus.txt")).into_iter().map(|case| case.problem).collect();
    problems.extend((0..80).map(|seed| kernel(&mut Random::from_seed(seed), seed % 2 == 0)));
    let (mut changed, mut accepted, mut cases, mut foreign) = (0, 0, 0, 0);
    for (seed, problem) in problems.iter().enumerate() {
        let SolverVerdict::Empty(certificate) = decide(problem, &SolverBudget::default()) else { continue };
        let with_point = satisfiable(problem);
        if let Some(other) = &with_point {
            assert!(recheck(other, &certificate).is_err(), "accepted for a problem with a point:\n{certificate}");
            foreign += 1;
        }
        let mut random = Random::from_seed(seed as u64);
        for _ in 0..20 {
            let mut mutant = certificate.clone();
            if !change_line(&mut random, &mut mutant) || mutant == certificate {
                continue;
            }
            changed += 1;
            accepted += usize::from(recheck(problem, &mutant).is_ok());
            if let Some(other) = &with_point {
                assert!(recheck(other, &mutant).is_err(), "accepted for a problem with a point:\n{mutant}");
            }
            let mut mutant = certificate.clone();
            if change_cases(&mut random, &mut mutant.root) {
                cases += 1;
                assert!(recheck(problem, &mutant).is_err(), "a case is missing:\n{mutant}");
            }
        }
    }
    println!(
        "{changed} changed lines, {accepted} still proofs; {cases} changed cases, none a proof; {foreign} other problems"
    );
    assert!(changed > 1000 && cases > 500 && foreign > 40);
    // Some changes keep the proof valid: a multiple of an unsolvable equality, or a weaker inequality that is still a
    // contradiction.
    assert!(accepted * 10 < changed);
}

#[test]
fn unreadable_certificates_are_refused() {
    for text in [
        "",
        "= 1*0",
        "! !",
        "or 0 of 2\n!",
        "split 3 : y\n!\n!",
        "= 1*\n!",
        "= a*1\n!",
        ". 1\n!",
        "or 0 of 99999999999999999999\n!",
    ] {
        assert!(Certificate::parse(text).is_err(), "{text}");
    }
    let deep = "split 0 : x0\n".repeat(100_000);
    assert!(Certificate::parse(&deep).is_err());
    let beyond = Certificate::parse("= 1*7 / 0\n!").expect("readable");
    assert!(recheck(&LinearProblem::default(), &beyond).is_err());
}

#[test]
fn numbers_at_the_ends_of_their_types() {
    const EXTREME: &[i128] = &[
        i128::MIN,
        i128::MIN + 1,
        i128::MAX,
        i64::MIN as i128,
        i64::MAX as i128,
        i64::MAX as i128 - 1,
        1 << 62,
        (1 << 31) - 1,
        -(1 << 31),
        1_000_000_007,
        998_244_353,
        -1,
        1,
        2,
        -3,
    ];
    let mut counts = [0; 3];
    for seed in 0..600 {
        let mut random = Random::from_seed(seed);
        let coefficients = if random.chance(50) { EXTREME } else { &EXTREME[3..] };
        let shape = Shape {
            variables: 5,
            facts: 6,
            terms: 4,
            coefficients,
            constants: 1 << 62,
            equalities: 40,
            choices: 30,
            products: 2,
        };
        let (problem, _) = problem(&mut random, &shape);
        match decide(&problem, &SolverBudget { cases: 60, exchanges: 500 }) {
            SolverVerdict::Empty(certificate) => {
                counts[0] += 1;
                recheck(&problem, &certificate).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{certificate}"));
                assert_eq!(Certificate::parse(&certificate.to_string()), Ok(certificate));
            }
            SolverVerdict::Point(point) => {
                counts[1] += 1;
                assert_eq!(problem.holds(&point), Some(true), "seed {seed}");
            }
            SolverVerdict::Unknown(_) => counts[2] += 1,
        }
    }
    println!("{} empty, {} points, {} unknown", counts[0], counts[1], counts[2]);
    assert!(counts[0] > 100 && counts[1] > 50);
}

#[test]
fn foreign_variables_are_refused() {
    let mut problem = LinearProblem::default();
    problem.add_variable("x");
    problem.facts.push(Formula::non_negative(AffineForm::from(Var(1))));
    assert!(matches!(decide(&problem, &SolverBudget::default()), SolverVerdict::Unknown(_)));
    assert!(recheck(&problem, &Certificate::parse("!").expect("readable")).is_err());
}
