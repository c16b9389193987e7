//! Generates random array expressions and computes their values independently, for comparison with the trees of `clk
//! why`.

use std::collections::BTreeMap;

use clk_testing::random::Random;

/// An array or a scalar (empty shape) of a program, with the text that computes it.
#[derive(Clone, Debug)]
pub struct Node {
    pub text: String,
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
    /// The operator, if the node is an elementwise operation on its operands.
    pub operation: Option<char>,
    /// The texts of the operands.
    pub of: Vec<String>,
}

pub fn combined(operation: char, parts: &[f32]) -> f32 {
    let truth = |is: bool| if is { 1.0 } else { 0.0 };
    match (operation, parts) {
        ('+', [a, b]) => a + b,
        ('-', [a, b]) => a - b,
        ('*', [a, b]) => a * b,
        ('/', [a, b]) => a / b,
        ('<', [a, b]) => truth(a < b),
        ('n', [a]) => -a,
        ('s', [c, a, b]) => {
            if *c == 1.0 {
                *a
            } else {
                *b
            }
        }
        _ => panic!("{operation} of {parts:?}"),
    }
}

/// Returns the position of the element of a broadcast operand from which an element of the result is computed.
fn spread(own: &[usize], shape: &[usize], index: &[usize]) -> usize {
    let skip = shape.len() - own.len();
    own.iter().zip(&index[skip..]).fold(0, |at, (extent, i)| at * extent + if *extent == 1 { 0 } else { *i })
}

pub fn index_of(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (to, extent) in index.iter_mut().zip(shape).rev() {
        *to = at % extent;
        at /= extent;
    }
    index
}

/// Returns an elementwise operation, broadcasting shapes aligned at the end.
fn each(operation: char, text: String, of: &[&Node]) -> Node {
    let shape =
        of.iter().map(|part| part.shape.clone()).max_by_key(|shape| (shape.len(), shape.iter().product::<usize>()));
    let shape = shape.unwrap_or_default();
    let count: usize = shape.iter().product();
    let value = |at: usize| {
        let index = index_of(at, &shape);
        let parts: Vec<f32> = of.iter().map(|part| part.values[spread(&part.shape, &shape, &index)]).collect();
        combined(operation, &parts)
    };
    let values = (0..count).map(value).collect();
    Node { text, values, shape, operation: Some(operation), of: of.iter().map(|part| part.text.clone()).collect() }
}

fn moved(text: String, of: &Node, shape: Vec<usize>, from: impl Fn(&[usize]) -> Vec<usize>) -> Node {
    let count: usize = shape.iter().product();
    let value = |at: usize| {
        let from = from(&index_of(at, &shape));
        of.values[from.iter().zip(&of.shape).fold(0, |at, (i, extent)| at * extent + i)]
    };
    let values = (0..count).map(value).collect();
    Node { text, values, shape, operation: None, of: vec![of.text.clone()] }
}

/// Creates an expression of the shape [3, 4], and adds it and its subexpressions to the nodes by text.
pub fn expression(random: &mut Random, depth: usize, leaves: &[Node], all: &mut BTreeMap<String, Node>) -> Node {
    let expression = match if depth == 0 { 0 } else { random.next_below(12) } {
        0 => leaves.iter().filter(|leaf| leaf.shape == [3, 4]).nth(random.next_below(2)).expect("a leaf").clone(),
        n @ 1..=5 => {
            let a = expression(random, depth - 1, leaves, all);
            let b = match random.next_below(3) {
                0 => leaves[random.next_below(leaves.len())].clone(),
                1 => {
                    let number = random.next_below(9) as f32 + 0.5;
                    Node {
                        text: format!("{number:?}"),
                        shape: vec![],
                        values: vec![number],
                        operation: None,
                        of: vec![],
                    }
                }
                _ => expression(random, depth - 1, leaves, all),
            };
            all.insert(b.text.clone(), b.clone());
            let operator = ['+', '-', '*', '/', '-'][n - 1];
            each(operator, format!("({} {operator} {})", a.text, b.text), &[&a, &b])
        }
        6 => {
            let a = expression(random, depth - 1, leaves, all);
            each('n', format!("(-{})", a.text), &[&a])
        }
        7 => {
            let [a, b, c] = [0; 3].map(|_| expression(random, depth - 1, leaves, all));
            let less = each('<', format!("({} < {})", a.text, b.text), &[&a, &b]);
            all.insert(less.text.clone(), less.clone());
            each('s', format!("select({}, {}, {})", less.text, b.text, c.text), &[&less, &b, &c])
        }
        8 => {
            let a = expression(random, depth - 1, leaves, all);
            moved(format!("flip({})", a.text), &a, vec![3, 4], |at| vec![2 - at[0], at[1]])
        }
        9 => {
            let a = expression(random, depth - 1, leaves, all);
            let turned = moved(format!("transpose({})", a.text), &a, vec![4, 3], |at| vec![at[1], at[0]]);
            all.insert(turned.text.clone(), turned.clone());
            moved(format!("reshape({}, 3, 4)", turned.text), &turned, vec![3, 4], |at| {
                index_of(at[0] * 4 + at[1], &[4, 3])
            })
        }
        10 => {
            let a = expression(random, depth - 1, leaves, all);
            let [x, y] = [0; 2].map(|_| random.next_below(3));
            let top = moved(format!("{}[{x}..{}]", a.text, x + 1), &a, vec![1, 4], |at| vec![x, at[1]]);
            let b = moved(format!("{}[.., {y}]", a.text), &a, vec![3], |at| vec![at[0], y]);
            let b =
                moved(format!("reshape({}, 3, 1)", b.text), &Node { shape: vec![3], ..b.clone() }, vec![3, 1], |at| {
                    vec![at[0]]
                });
            all.insert(top.text.clone(), top.clone());
            let under = format!("{}[.., {y}]", a.text);
            all.insert(under.clone(), moved(under, &a, vec![3], |at| vec![at[0], y]));
            all.insert(b.text.clone(), b.clone());
            let whole = leaves[0].clone();
            all.insert(whole.text.clone(), whole.clone());
            let sum = each('+', format!("({} + {})", whole.text, top.text), &[&whole, &top]);
            all.insert(sum.text.clone(), sum.clone());
            each('*', format!("({} * {})", sum.text, b.text), &[&sum, &b])
        }
        _ => {
            let a = expression(random, depth - 1, leaves, all);
            let best = |column: usize| (0..3).map(|row| a.values[row * 4 + column]).fold(f32::NEG_INFINITY, f32::max);
            let is_nan = a.values.iter().any(|value| value.is_nan());
            let top = Node {
                text: format!("max({}, axis = 0)", a.text),
                shape: vec![4],
                values: (0..4).map(best).collect(),
                operation: None,
                of: vec![a.text.clone()],
            };
            // Avoids a maximum of NaNs, whose value this test does not define.
            if is_nan {
                a.clone()
            } else {
                all.insert(top.text.clone(), top.clone());
                each('-', format!("({} - {})", a.text, top.text), &[&a, &top])
            }
        }
    };
    all.insert(expression.text.clone(), expression.clone());
    expression
}
