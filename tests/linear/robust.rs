//! Certificates that were changed, and numbers at the ends of their types.

use clk_lang::base::linear::{
    Budget, Certificate, End, Formula, Line, Linear, Node, Problem, Var, Verdict, decide, recheck,
};

use crate::random::{Random, Shape, kernel, problem};
use crate::text;

/// The nodes of a certificate, the root first.
fn nodes<'a>(node: &'a mut Node, all: &mut Vec<&'a mut Vec<Line>>) {
    all.push(&mut node.lines);
    match &mut node.end {
        End::Contradiction => {}
        End::Choice { cases, .. } => cases.iter_mut().for_each(|case| nodes(case, all)),
        End::Split { cases, .. } => cases.iter_mut().for_each(|case| nodes(case, all)),
    }
}

/// Changes one line at random; whether there was one.
fn change_line(random: &mut Random, certificate: &mut Certificate) -> bool {
    let mut all = Vec::new();
    nodes(&mut certificate.root, &mut all);
    let mut lines: Vec<&mut Line> = all.into_iter().flatten().collect();
    if lines.is_empty() {
        return false;
    }
    let at = random.range(0, lines.len() as i128 - 1) as usize;
    match &mut *lines[at] {
        Line::Same(a, _) => a.0 += 1,
        Line::Product(a, b) => {
            let factor = if random.chance(50) { a } else { b };
            *factor = random.range(0, 20) as usize;
        }
        Line::Combination { terms, divisor } => {
            let term = random.range(0, terms.len() as i128 - 1) as usize;
            match random.range(0, 5) {
                // A contradiction may be halved; a rounded line may not.
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

/// Drops a case or changes what is split, at the first split; whether there is one.
fn change_cases(random: &mut Random, node: &mut Node) -> bool {
    match &mut node.end {
        End::Contradiction => false,
        End::Choice { cases, .. } if cases.is_empty() => false,
        End::Choice { choice, cases } => {
            match random.range(0, 2) {
                0 => _ = cases.pop(),
                1 => *choice += 1000,
                _ => cases.push(cases[0].clone()),
            }
            true
        }
        End::Split { cases, .. } => change_cases(random, &mut cases[0]),
    }
}

/// The formula with weaker inequalities.
fn weaker(formula: &Formula, by: i128) -> Formula {
    let all = |parts: &[Formula]| parts.iter().map(|part| weaker(part, by)).collect();
    match formula {
        Formula::Atom(clk_lang::base::linear::Atom::NonNegative(form)) => {
            Formula::non_negative(form.offset(by).expect("small"))
        }
        Formula::Atom(atom) => Formula::Atom(atom.clone()),
        Formula::And(parts) => Formula::And(all(parts)),
        Formula::Or(parts) => Formula::Or(all(parts)),
    }
}

/// The problem made weaker until it has a point.
fn satisfiable(problem: &Problem) -> Option<Problem> {
    [1, 2, 5, 20, 300].into_iter().find_map(|by| {
        let facts = problem.facts.iter().map(|fact| weaker(fact, by)).collect();
        let weaker = Problem { facts, ..problem.clone() };
        matches!(decide(&weaker, &Budget::default()), Verdict::Point(_)).then_some(weaker)
    })
}

#[test]
fn changed_certificates_are_rejected() {
    let mut problems: Vec<Problem> =
        text::corpus(include_str!("corpus.txt")).into_iter().map(|case| case.problem).collect();
    problems.extend((0..80).map(|seed| kernel(&mut Random(seed), seed % 2 == 0)));
    let (mut changed, mut accepted, mut cases, mut foreign) = (0, 0, 0, 0);
    for (seed, problem) in problems.iter().enumerate() {
        let Verdict::Empty(certificate) = decide(problem, &Budget::default()) else { continue };
        let with_point = satisfiable(problem);
        if let Some(other) = &with_point {
            assert!(recheck(other, &certificate).is_err(), "accepted for a problem with a point:\n{certificate}");
            foreign += 1;
        }
        let mut random = Random(seed as u64);
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
    // Some changes leave a proof: an equality without solutions times anything, or a weaker line that still contradicts.
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
    assert!(recheck(&Problem::default(), &beyond).is_err());
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
        let mut random = Random(seed);
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
        match decide(&problem, &Budget { cases: 60, exchanges: 500 }) {
            Verdict::Empty(certificate) => {
                counts[0] += 1;
                recheck(&problem, &certificate).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{certificate}"));
                assert_eq!(Certificate::parse(&certificate.to_string()), Ok(certificate));
            }
            Verdict::Point(point) => {
                counts[1] += 1;
                assert_eq!(problem.holds(&point), Some(true), "seed {seed}");
            }
            Verdict::Unknown(_) => counts[2] += 1,
        }
    }
    println!("{} empty, {} points, {} unknown", counts[0], counts[1], counts[2]);
    assert!(counts[0] > 100 && counts[1] > 50);
}

#[test]
fn foreign_variables_are_refused() {
    let mut problem = Problem::default();
    problem.variable("x");
    problem.facts.push(Formula::non_negative(Linear::from(Var(1))));
    assert!(matches!(decide(&problem, &Budget::default()), Verdict::Unknown(_)));
    assert!(recheck(&problem, &Certificate::parse("!").expect("readable")).is_err());
}
