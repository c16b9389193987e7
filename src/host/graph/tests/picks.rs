//! Selections by arrays of positions and by masks, assignments to them, and sorts, beside the most obvious code.

use super::*;
use crate::host::array::SliceSpec;
use crate::host::ops::Pick;

impl Builder {
    /// Selects by positions along an axis: those of an array of integers that others may compute, if all are inside.
    pub(super) fn picked(&mut self, pool: &[Known], x: &Known) -> Option<(Known, String)> {
        let axis = self.random.below(x.shape.len());
        let len = x.shape[axis];
        if x.items.len() > 4000 || x.items.is_empty() {
            return None;
        }
        let is_list = |known: &&Known| {
            matches!(known.value, Value::Array(_)) && known.scalar().is_int() && known.items.len() < 800
        };
        let lists: Vec<&Known> = pool.iter().filter(is_list).collect();
        let list = match self.random.below(3) {
            0 if !lists.is_empty() => lists[self.random.below(lists.len())].clone(),
            _ => self.positions(len),
        };
        let mut picks = vec![Pick::Spec(SliceSpec::ALL); axis];
        picks.push(Pick::Array(array(&list.value).clone()));
        let found = ops::gather(&x.value, &picks);
        let number = |item: &scalar::Value| item.as_integer().expect("an integer");
        if list.items.iter().any(|item| !(0..len as i128).contains(&number(item))) {
            assert_eq!(found.expect_err("a position outside").code, "E0502", "{}", self.text);
            return None;
        }
        let inner: usize = x.shape[axis + 1..].iter().product();
        let outer: usize = x.shape[..axis].iter().product();
        let runs = (0..outer).flat_map(|row| list.items.iter().map(move |item| row * len + number(item) as usize));
        let items = runs.flat_map(|run| x.items[run * inner..(run + 1) * inner].iter().copied()).collect();
        let shape = [&x.shape[..axis], &list.shape, &x.shape[axis + 1..]].concat();
        let value = found.unwrap_or_else(|error| panic!("{}{error:?}", self.text));
        Some((Known { value, shape, items }, format!("[{}{:?}] along {axis}", list.scalar(), list.shape)))
    }

    /// Returns positions along an axis of this length, of a random type, deferred or not.
    fn positions(&mut self, len: usize) -> Known {
        let scalar = self.random.pick(&[Scalar::I32, Scalar::I64, Scalar::U8, Scalar::I8, Scalar::U64, Scalar::U16]);
        let shape = self.random.pick(&[&[40][..], &[5], &[3, 30], &[0], &[]]).to_vec();
        let count = shape.iter().product::<usize>();
        let largest = len.min(if scalar.size() == 1 { 128 } else { 1 << 15 });
        let items = (0..count).map(|_| scalar::Value::of(self.random.below(largest) as i64).to_type(scalar));
        let items: Vec<scalar::Value> = items.collect();
        let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_bytes()[..scalar.size()].to_vec()).collect();
        let mut value = Value::Array(Array::from_bytes(scalar, &shape, &bytes).expect("memory"));
        if self.random.below(2) == 0 {
            value = ops::binary(BinaryOp::BitOr, &value, &Value::Int(0)).expect("an operator");
        }
        Known { value, shape, items }
    }

    /// Sorts the rows.
    pub(super) fn sorted(&mut self, x: &Known) -> Option<(Known, String)> {
        let row = *x.shape.last()?;
        if x.scalar() == Scalar::Bool || row == 0 {
            return None;
        }
        let value = ops::sort(&x.value).expect("numbers");
        let mut items = x.items.clone();
        let rank = |item: &scalar::Value| {
            let less = |a, b| dynamic::binary(BinaryOp::Lt, a, b).expect("numbers").is_true();
            let (negative, zero) = (item.bits >> (item.ty.size() * 8 - 1) & 1 == 1, scalar::Value::zero(item.ty));
            (item.is_nan(), less(*item, zero), negative)
        };
        for row in items.chunks_mut(row) {
            row.sort_by(|a, b| {
                let less = |a: &scalar::Value, b: &scalar::Value| {
                    dynamic::binary(BinaryOp::Lt, *a, *b).expect("numbers").is_true()
                };
                match (rank(a).0, rank(b).0) {
                    (false, false) if less(a, b) => std::cmp::Ordering::Less,
                    (false, false) if less(b, a) => std::cmp::Ordering::Greater,
                    // -0 before 0.
                    (false, false) => rank(b).2.cmp(&rank(a).2),
                    (a, b) => a.cmp(&b),
                }
            });
        }
        Some((Known { value, shape: x.shape.clone(), items }, "sort".to_string()))
    }
}

fn list(items: &[i64]) -> Pick {
    Pick::Array(Array::from_items(items).expect("positions"))
}

fn gather(x: &Value, picks: &[Pick]) -> Value {
    ops::gather(x, picks).expect("a selection")
}

#[test]
fn a_selection_is_part_of_the_kernel_that_reads_it() {
    let x = numbers(5000);
    let at: Vec<i64> = (0..1000).map(|i| i * 7 % 5000).collect();
    let work = || {
        let picked = gather(&x, &[list(&at)]);
        let sum = add(&add(&picked, &picked), &Value::Float(1.0));
        drop(picked);
        assert_eq!(array(&sum).items::<f32>().expect("numbers")[700], 2.0 * 4900.0 + 1.0);
    };
    // Two rounds find that all positions are inside.
    assert_eq!(launches(work), 3);
}

#[test]
fn positions_are_checked_once() {
    let x = numbers(5000);
    let picks = [list(&(0..1000).collect::<Vec<i64>>())];
    let work = || {
        for _ in 0..4 {
            let sum = add(&gather(&x, &picks), &Value::Float(1.0));
            assert_eq!(array(&sum).items::<f32>().expect("numbers")[3], 4.0);
        }
    };
    assert_eq!(launches(work), 2 + 4);
}

/// What is known of positions does not outlive them.
#[test]
fn positions_that_change_are_checked_again() {
    let x = numbers(100);
    let mut at = Array::from_items(&[5i64; 50]).expect("positions");
    assert_eq!(array(&gather(&x, &[Pick::Array(at.clone())])).items::<f32>().expect("numbers"), [5.0; 50]);
    at.items_mut::<i64>().expect("positions")[7] = 100;
    let error = ops::gather(&x, &[Pick::Array(at.clone())]).expect_err("a position outside");
    assert_eq!((error.code, error.title.as_str()), ("E0502", "the index 100 is out of range"));
    at.items_mut::<i64>().expect("positions")[7] = 99;
    let short = numbers(99);
    assert_eq!(array(&gather(&x, &[Pick::Array(at.clone())])).items::<f32>().expect("numbers")[7], 99.0);
    assert_eq!(ops::gather(&short, &[Pick::Array(at)]).expect_err("a shorter axis").code, "E0502");
}

#[test]
fn negative_positions_of_all_types_are_refused() {
    let x = Value::Array(Array::zeros(Scalar::U8, &[70_000]).expect("zeros"));
    for scalar in [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64, Scalar::U64] {
        let mut items = vec![scalar::Value::of(1i32).to_type(scalar); 100];
        items[33] = scalar::Value::of(-1i64).to_type(scalar);
        let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_bytes()[..scalar.size()].to_vec()).collect();
        let at = Array::from_bytes(scalar, &[100], &bytes).expect("positions");
        let error = ops::gather(&x, &[Pick::Array(at)]).expect_err("a position outside");
        assert_eq!(error.code, "E0502", "{scalar}");
        assert!(error.notes.iter().any(|note| note.contains("33")), "{:?}", error.notes);
    }
}

/// A deferred selection shows what the array had.
#[test]
fn later_writes_do_not_show() {
    let x = numbers(5000);
    let Value::Array(mut x) = add(&x, &Value::Float(0.0)) else { panic!("no array") };
    x.storage().expect("computed");
    let mut at = Array::from_items(&[7i64; 600]).expect("positions");
    let early = gather(&Value::Array(x.clone()), &[Pick::Array(at.clone())]);
    x.items_mut::<f32>().expect("numbers")[7] = -1.0;
    let late = gather(&Value::Array(x.clone()), &[Pick::Array(at.clone())]);
    at.items_mut::<i64>().expect("positions").fill(8);
    assert_eq!(array(&early).items::<f32>().expect("numbers"), [7.0; 600]);
    assert_eq!(array(&late).items::<f32>().expect("numbers"), [-1.0; 600]);
}

#[test]
fn vectors_and_structs_are_selected() {
    use crate::host::array::RecordLayout;
    let fields = [("a".into(), Element::Scalar(Scalar::I32)), ("b".into(), Element::Scalar(Scalar::F64))];
    let record = Element::Record(std::sync::Arc::new(RecordLayout::new("Pair", fields)));
    let odd = [("a".into(), Element::Scalar(Scalar::U8)), ("b".into(), Element::Vector(Scalar::U8, 2))];
    let odd = Element::Record(std::sync::Arc::new(RecordLayout::new("Odd", odd)));
    for element in [record, odd, Element::Vector(Scalar::F32, 3), Element::Vector(Scalar::F16, 2)] {
        let size = element.size();
        let bytes: Vec<u8> = (0..3 * 40 * size).map(|i| (i * 37 % 251) as u8).collect();
        let x = Array::from_bytes(element.clone(), &[3, 40], &bytes).expect("an array");
        let at: Vec<i64> = (0..60).map(|i| i * 11 % 40).collect();
        let picks = [Pick::Spec(SliceSpec::At(1)), list(&at)];
        let found = gather(&Value::Array(x.clone()), &picks);
        assert!(array(&found).data().computed().is_none(), "{element}: deferred");
        let expected: Vec<u8> = at.iter().flat_map(|&i| bytes[(40 + i as usize) * size..][..size].to_vec()).collect();
        assert_eq!(array(&found).bytes().expect("bytes"), expected, "{element}");
        // Twice, and as pairs.
        let again = gather(&gather(&Value::Array(x), &picks), &[list(&at.iter().map(|i| i + 20).collect::<Vec<_>>())]);
        let expected: Vec<u8> =
            at.iter().flat_map(|&i| bytes[(40 + at[i as usize + 20] as usize) * size..][..size].to_vec()).collect();
        assert_eq!(array(&again).bytes().expect("bytes"), expected, "{element}");
    }
}

/// Rows that count are indices, and what one position in each row takes part in is neither sorted nor written: with the same result as
/// for rows that nobody knows.
#[test]
fn one_element_of_each_row() {
    let (n, columns) = (1500, 7);
    let x =
        ops::reshape(&add(&numbers(n * columns), &Value::Float(-5000.0)), &[n as i64, columns as i64]).expect("rows");
    let Ok(Value::Array(mut known)) = ops::arange(&[Value::Int(n as i128)]) else { panic!("no rows") };
    let plain = Array::from_items(&(0..n as i32).collect::<Vec<i32>>()).expect("rows");
    let labels: Vec<i32> = (0..n).map(|i| (i * 7919 % columns) as i32).collect();
    let labels = Array::from_items(&labels).expect("labels");
    let pair = |rows: &Array, at: &Array| [Pick::Array(rows.clone()), Pick::Array(at.clone())];
    let (ours, theirs) = (gather(&x, &pair(&known, &labels)), gather(&x, &pair(&plain, &labels)));
    assert_eq!(array(&ours).bytes(), array(&theirs).bytes());
    let negative = ops::unary(UnaryOp::Neg, &ops::binary(BinaryOp::Mul, &ours, &Value::Float(0.0)).expect("zeros"));
    for part in [ours, negative.expect("zeros of both signs")] {
        let sums = |rows: &Array| ops::collect(&part, &pair(rows, &labels), &[n, columns]).expect("sums");
        assert_eq!(array(&sums(&known)).bytes(), array(&sums(&plain)).bytes());
    }
    let sums = || drop(array(&ops::collect(&theirs, &pair(&known, &labels), &[n, columns]).expect("sums")).bytes());
    assert!(launches(sums) <= 3);
    let outside = ops::gather(&x, &pair(&known, &Array::from_items(&vec![7i32; n]).expect("labels")));
    assert_eq!(outside.expect_err("a column outside").code, "E0502");
    known.items_mut::<i32>().expect("rows").swap(3, 4);
    let swapped = gather(&x, &pair(&known, &labels));
    let (swapped, before) = (array(&swapped).items::<f32>().expect("numbers")[3], 4 * columns + 3 * 7919 % columns);
    assert_eq!(swapped, before as f32 - 5000.0, "rows that were written do not count any more");
}
