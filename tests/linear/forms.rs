//! Forms and formulas: text that reads back, helpers that mean what they say, arithmetic that ends at its limits.

use clk_lang::base::linear::{Formula, Linear, Problem, Var};

use crate::random::{Random, Shape, form, formula};

const SHAPE: Shape = Shape {
    variables: 3,
    facts: 4,
    terms: 4,
    coefficients: &[-12, -3, -1, 1, 2, 7],
    constants: 20,
    equalities: 30,
    choices: 60,
    products: 0,
};

#[test]
fn text_reads_back() {
    let names: Vec<String> = ["i", "N"].map(String::from).to_vec();
    let sum = Linear::new(-4, [(Var(1), -2), (Var(0), 1), (Var(2), 3)]).expect("small");
    assert_eq!(sum.display(&names).to_string(), "i - 2*N + 3*x2 - 4");
    for extreme in [i128::MIN, i128::MAX, 0] {
        let form = Linear::new(extreme, [(Var(3), extreme)]).expect("one term");
        assert_eq!(Linear::parse(&form.to_string()), Some(form));
    }
    for seed in 0..500 {
        let form = form(&mut Random(seed), 5, &SHAPE);
        assert_eq!(Linear::parse(&form.to_string()), Some(form));
    }
    for text in ["x", "2x1", "1*", "a", "x1*2", "99999999999999999999999999999999999999999"] {
        assert_eq!(Linear::parse(text), None, "{text}");
    }
}

#[test]
fn negations_hold_where_formulas_do_not() {
    for seed in 0..500 {
        let mut random = Random(seed);
        let formula = formula(&mut random, 3, &SHAPE, 3);
        let negation = formula.not().expect("small");
        for _ in 0..20 {
            let point: Vec<i128> = (0..3).map(|_| random.range(-9, 9)).collect();
            assert_eq!(formula.holds(&point).map(|holds| !holds), negation.holds(&point));
        }
    }
}

#[test]
fn divisions_are_euclidean() {
    let mut problem = Problem::default();
    let [x, q, r] = ["x", "q", "r"].map(|name| problem.variable(name));
    for divisor in [1, 2, 7] {
        let division = Formula::division(&x.into(), divisor, q, r).expect("small");
        let divides = Formula::divides(divisor, &x.into(), q).expect("small");
        let divides_not = Formula::divides_not(divisor, &x.into(), q).expect("small");
        for value in -20i128..20 {
            let (quotient, remainder) = (value.div_euclid(divisor), value.rem_euclid(divisor));
            assert_eq!(division.holds(&[value, quotient, remainder]), Some(true));
            assert_eq!(division.holds(&[value, quotient - 1, remainder + divisor]), Some(false));
            let some = |formula: &Formula| (-30..30).any(|quotient| formula.holds(&[value, quotient, 0]) == Some(true));
            assert_eq!(some(&divides), remainder == 0);
            assert_eq!(some(&divides_not), remainder != 0);
        }
    }
}

#[test]
fn arithmetic_ends_at_its_limits() {
    let largest = Linear::new(i128::MAX, [(Var(0), i128::MAX)]).expect("one term");
    assert_eq!(largest.add(&largest), None);
    assert_eq!(largest.scale(-1).and_then(|form| form.sub(&largest)), None);
    assert_eq!(largest.scale(2), None);
    assert_eq!(largest.offset(1), None);
    assert_eq!(largest.eval(&[1]), None);
    assert_eq!(largest.eval(&[]), None);
    assert_eq!(largest.sub(&largest), Some(Linear::from(0)));
    assert_eq!(Linear::new(0, [(Var(0), i128::MIN)]).expect("one term").content(), None);
    assert_eq!(Formula::lt(&Linear::from(i128::MAX), &Linear::from(i128::MIN)), None);
}

#[test]
fn a_product_is_named_once() {
    let mut problem = Problem::default();
    let [x, y] = ["x", "y"].map(|name| problem.variable(name));
    let product = problem.product(x, y);
    assert_eq!(problem.product(y, x), product);
    assert_eq!(problem.variables, ["x", "y", "x*y"]);
    assert_eq!(problem.holds(&[2, 3, 6]), Some(true));
    assert_eq!(problem.holds(&[2, 3, 5]), Some(false));
}
