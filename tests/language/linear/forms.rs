//! Tests affine forms (linear combinations of variables plus a constant) and formulas: text round-trips, helpers have
//! the documented meaning, and arithmetic fails on overflow.

use clk_base::linear::{AffineForm, Formula, LinearProblem, Var};

use super::random::{Shape, form, formula};
use clk_testing::random::Random;

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
fn printed_formulas_parse_back() {
    let names: Vec<String> = ["i", "N"].map(String::from).to_vec();
    let sum = AffineForm::new(-4, [(Var(1), -2), (Var(0), 1), (Var(2), 3)]).expect("small");
    assert_eq!(sum.display(&names).to_string(), "i - 2*N + 3*x2 - 4");
    for extreme in [i128::MIN, i128::MAX, 0] {
        let form = AffineForm::new(extreme, [(Var(3), extreme)]).expect("one term");
        assert_eq!(AffineForm::parse(&form.to_string()), Some(form));
    }
    for seed in 0..500 {
        let form = form(&mut Random::from_seed(seed), 5, &SHAPE);
        assert_eq!(AffineForm::parse(&form.to_string()), Some(form));
    }
    for text in ["x", "2x1", "1*", "a", "x1*2", "99999999999999999999999999999999999999999"] {
        assert_eq!(AffineForm::parse(text), None, "{text}");
    }
}

#[test]
fn negations_complement_formulas() {
    for seed in 0..500 {
        let mut random = Random::from_seed(seed);
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
    let mut problem = LinearProblem::default();
    let [x, q, r] = ["x", "q", "r"].map(|name| problem.add_variable(name));
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
fn operations_have_the_values_that_they_name() {
    let product = |x: &Var, y: &Var| Some(Var(3 + 3 * x.0 + y.0));
    for seed in 0..500 {
        let mut random = Random::from_seed(seed);
        let [a, b] = [(); 2].map(|()| form(&mut random, 3, &SHAPE));
        let point: Vec<i128> = (0..3).map(|_| random.range(-9, 9)).collect();
        // The product of variables x and y is variable 3 + 3 * x + y.
        let products = point.iter().flat_map(|x| point.iter().map(move |y| x * y));
        let all: Vec<i128> = point.iter().copied().chain(products).collect();
        let value = |form: Option<AffineForm>| form.expect("small").eval(&all).expect("small");
        let (p, q) = (value(Some(a.clone())), value(Some(b.clone())));
        assert_eq!(value(a.add(&b)), p + q);
        assert_eq!(value(a.sub(&b)), p - q);
        assert_eq!(value(a.multiply(&b, product)), p * q);
        assert_eq!(a.multiply(&b, |_, _| None).is_some(), a.terms().is_empty() || b.terms().is_empty());
        let replaced = a.eval(&[q, point[1], point[2]]).expect("small");
        assert_eq!(value(a.substitute(&Var(0), &b)), replaced);
        let by = |&var: &Var| Some(if var == Var(0) { b.clone() } else { var.into() });
        assert_eq!(value(a.substitute_all(by)), replaced);
    }
}

#[test]
fn arithmetic_overflow_is_detected() {
    let largest = AffineForm::new(i128::MAX, [(Var(0), i128::MAX)]).expect("one term");
    assert_eq!(largest.add(&largest), None);
    assert_eq!(largest.scale(-1).and_then(|form| form.sub(&largest)), None);
    assert_eq!(largest.scale(2), None);
    assert_eq!(largest.offset(1), None);
    assert_eq!(largest.eval(&[1]), None);
    assert_eq!(largest.eval(&[]), None);
    assert_eq!(largest.sub(&largest), Some(AffineForm::from(0)));
    assert_eq!(AffineForm::new(0, [(Var(0), i128::MIN)]).expect("one term").content(), None);
    assert_eq!(Formula::lt(&AffineForm::from(i128::MAX), &AffineForm::from(i128::MIN)), None);
}

#[test]
fn products_are_named_once() {
    let mut problem = LinearProblem::default();
    let [x, y] = ["x", "y"].map(|name| problem.add_variable(name));
    let product = problem.product(x, y);
    assert_eq!(problem.product(y, x), product);
    assert_eq!(problem.variables, ["x", "y", "x*y"]);
    assert_eq!(problem.holds(&[2, 3, 6]), Some(true));
    assert_eq!(problem.holds(&[2, 3, 5]), Some(false));
}
