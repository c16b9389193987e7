//! Tests gathers by positions and by masks, scatters, and sorts, against a simple reference implementation.

use super::*;
use crate::array::SliceSpec;
use crate::graph::context::ExecContext;
use crate::ops::GatherIndex;

impl Builder {
    /// Gathers by random positions along an axis. The array of positions may be deferred. Returns `None` if a position
    /// is out of bounds.
    pub(super) fn random_gather(
        &mut self,
        exec: &ExecContext,
        pool: &[ExpectedArray],
        x: &ExpectedArray,
    ) -> Option<(ExpectedArray, String)> {
        let axis = self.random.random_below(x.shape.len());
        let len = x.shape[axis];
        if x.items.len() > 4000 || x.items.is_empty() {
            return None;
        }
        let is_list = |known: &&ExpectedArray| {
            matches!(known.value, HostValue::Array(_)) && known.scalar().is_int() && known.items.len() < 800
        };
        let lists: Vec<&ExpectedArray> = pool.iter().filter(is_list).collect();
        let list = match self.random.random_below(3) {
            0 if !lists.is_empty() => lists[self.random.random_below(lists.len())].clone(),
            _ => self.positions(exec, len),
        };
        let mut picks = vec![GatherIndex::Spec(SliceSpec::ALL); axis];
        picks.push(GatherIndex::Array(array(&list.value).clone()));
        let gathered = ops::gather(exec, &x.value, &picks);
        let number = |item: &clk_scalar::ScalarValue| item.as_integer().expect("an integer");
        if list.items.iter().any(|item| !(0..len as i128).contains(&number(item))) {
            assert_eq!(gathered.expect_err("a position outside").code, "E0502", "{}", self.text);
            return None;
        }
        let inner: usize = x.shape[axis + 1..].iter().product();
        let outer: usize = x.shape[..axis].iter().product();
        let runs = (0..outer).flat_map(|row| list.items.iter().map(move |item| row * len + number(item) as usize));
        let items = runs.flat_map(|run| x.items[run * inner..(run + 1) * inner].iter().copied()).collect();
        let shape = [&x.shape[..axis], &list.shape, &x.shape[axis + 1..]].concat();
        let value = gathered.unwrap_or_else(|error| panic!("{}{error:?}", self.text));
        Some((ExpectedArray { value, shape, items }, format!("[{}{:?}] along {axis}", list.scalar(), list.shape)))
    }

    /// Returns random positions along an axis of this length. They have a random integer type and are sometimes
    /// deferred.
    fn positions(&mut self, exec: &ExecContext, len: usize) -> ExpectedArray {
        let scalar = self.random.pick(&[Scalar::I32, Scalar::I64, Scalar::U8, Scalar::I8, Scalar::U64, Scalar::U16]);
        let shape = self.random.pick(&[&[40][..], &[5], &[3, 30], &[0], &[]]).to_vec();
        let count = shape.iter().product::<usize>();
        let largest = len.min(if scalar.size() == 1 { 128 } else { 1 << 15 });
        let items =
            (0..count).map(|_| clk_scalar::ScalarValue::of(self.random.random_below(largest) as i64).to_type(scalar));
        let items: Vec<clk_scalar::ScalarValue> = items.collect();
        let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_bytes()[..scalar.size()].to_vec()).collect();
        let mut value = HostValue::Array(Array::from_bytes(scalar, &shape, &bytes).expect("memory"));
        if self.random.random_below(2) == 0 {
            value = ops::binary(exec, BinaryOp::BitOr, &value, &HostValue::Int(0)).expect("an operator");
        }
        ExpectedArray { value, shape, items }
    }

    /// Sorts the rows of an array.
    pub(super) fn random_sort(&mut self, exec: &ExecContext, x: &ExpectedArray) -> Option<(ExpectedArray, String)> {
        let row = *x.shape.last()?;
        if x.scalar() == Scalar::Bool || row == 0 {
            return None;
        }
        let rows = ops::SortOrder { axis: Some(x.shape.len() as i64 - 1), descending: false };
        let value = ops::sort(exec, &x.value, rows).expect("numbers");
        let mut items = x.items.clone();
        let rank = |item: &clk_scalar::ScalarValue| {
            let less = |a, b| dynamic::binary(BinaryOp::Lt, a, b).expect("numbers").is_true();
            let (negative, zero) =
                (item.bits >> (item.ty.size() * 8 - 1) & 1 == 1, clk_scalar::ScalarValue::zero(item.ty));
            (item.is_nan(), less(*item, zero), negative)
        };
        for row in items.chunks_mut(row) {
            row.sort_by(|a, b| {
                let less = |a: &clk_scalar::ScalarValue, b: &clk_scalar::ScalarValue| {
                    dynamic::binary(BinaryOp::Lt, *a, *b).expect("numbers").is_true()
                };
                match (rank(a).0, rank(b).0) {
                    (false, false) if less(a, b) => std::cmp::Ordering::Less,
                    (false, false) if less(b, a) => std::cmp::Ordering::Greater,
                    // -0 is sorted before 0.
                    (false, false) => rank(b).2.cmp(&rank(a).2),
                    (a, b) => a.cmp(&b),
                }
            });
        }
        Some((ExpectedArray { value, shape: x.shape.clone(), items }, "sort".to_string()))
    }
}

fn list(items: &[i64]) -> GatherIndex {
    GatherIndex::Array(Array::from_items(items).expect("positions"))
}

fn gather(exec: &ExecContext, x: &HostValue, picks: &[GatherIndex]) -> HostValue {
    ops::gather(exec, x, picks).expect("a selection")
}

#[test]
fn selections_are_fused_into_their_reader() {
    let x = numbers(5000);
    let at: Vec<i64> = (0..1000).map(|i| i * 7 % 5000).collect();
    let work = |exec: &ExecContext| {
        let picked = gather(exec, &x, &[list(&at)]);
        let sum = add(exec, &add(exec, &picked, &picked), &HostValue::Float(1.0));
        drop(picked);
        assert_eq!(array(&sum).items::<f32>().expect("numbers")[700], 2.0 * 4900.0 + 1.0);
    };
    // Two launches are the rounds of the reduction that checks that all positions are in bounds.
    assert_eq!(launches(work), 3);
}

#[test]
fn positions_are_checked_once() {
    let x = numbers(5000);
    let picks = [list(&(0..1000).collect::<Vec<i64>>())];
    let work = |exec: &ExecContext| {
        for _ in 0..4 {
            let sum = add(exec, &gather(exec, &x, &picks), &HostValue::Float(1.0));
            assert_eq!(array(&sum).items::<f32>().expect("numbers")[3], 4.0);
        }
    };
    assert_eq!(launches(work), 2 + 4);
}

/// Cached facts about an array of positions are discarded when the array is written.
#[test]
fn positions_that_change_are_checked_again() {
    let exec = &ExecContext::default();
    let x = numbers(100);
    let mut at = Array::from_items(&[5i64; 50]).expect("positions");
    assert_eq!(array(&gather(exec, &x, &[GatherIndex::Array(at.clone())])).items::<f32>().expect("numbers"), [5.0; 50]);
    at.items_mut::<i64>().expect("positions")[7] = 100;
    let error = ops::gather(exec, &x, &[GatherIndex::Array(at.clone())]).expect_err("a position outside");
    assert_eq!((error.code, error.title.as_str()), ("E0502", "the index 100 is out of range"));
    at.items_mut::<i64>().expect("positions")[7] = 99;
    let short = numbers(99);
    assert_eq!(array(&gather(exec, &x, &[GatherIndex::Array(at.clone())])).items::<f32>().expect("numbers")[7], 99.0);
    assert_eq!(ops::gather(exec, &short, &[GatherIndex::Array(at)]).expect_err("a shorter axis").code, "E0502");
}

#[test]
fn negative_positions_of_all_types_are_refused() {
    let exec = &ExecContext::default();
    let x = HostValue::Array(Array::zeros(Scalar::U8, &[70_000]).expect("zeros"));
    for scalar in [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64, Scalar::U64] {
        let mut items = vec![clk_scalar::ScalarValue::of(1i32).to_type(scalar); 100];
        items[33] = clk_scalar::ScalarValue::of(-1i64).to_type(scalar);
        let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_bytes()[..scalar.size()].to_vec()).collect();
        let at = Array::from_bytes(scalar, &[100], &bytes).expect("positions");
        let error = ops::gather(exec, &x, &[GatherIndex::Array(at)]).expect_err("a position outside");
        assert_eq!(error.code, "E0502", "{scalar}");
        assert!(error.notes.iter().any(|note| note.contains("33")), "{:?}", error.notes);
    }
}

/// A deferred gather returns the values that its source had when the gather was created.
#[test]
fn later_writes_do_not_change_selections() {
    let exec = &ExecContext::default();
    let x = numbers(5000);
    let HostValue::Array(mut x) = add(exec, &x, &HostValue::Float(0.0)) else { panic!("no array") };
    x.storage().expect("computed");
    let mut at = Array::from_items(&[7i64; 600]).expect("positions");
    let early = gather(exec, &HostValue::Array(x.clone()), &[GatherIndex::Array(at.clone())]);
    x.items_mut::<f32>().expect("numbers")[7] = -1.0;
    let after_write = gather(exec, &HostValue::Array(x.clone()), &[GatherIndex::Array(at.clone())]);
    at.items_mut::<i64>().expect("positions").fill(8);
    assert_eq!(array(&early).items::<f32>().expect("numbers"), [7.0; 600]);
    assert_eq!(array(&after_write).items::<f32>().expect("numbers"), [-1.0; 600]);
}

#[test]
fn vectors_and_structs_are_selected() {
    let exec = &ExecContext::default();
    use crate::array::RecordLayout;
    let fields = [("a".into(), ElementType::Scalar(Scalar::I32)), ("b".into(), ElementType::Scalar(Scalar::F64))];
    let record = ElementType::Record(std::sync::Arc::new(RecordLayout::new("Pair", fields)));
    let odd = [("a".into(), ElementType::Scalar(Scalar::U8)), ("b".into(), ElementType::Vector(Scalar::U8, 2))];
    let odd = ElementType::Record(std::sync::Arc::new(RecordLayout::new("Odd", odd)));
    for element in [record, odd, ElementType::Vector(Scalar::F32, 3), ElementType::Vector(Scalar::F16, 2)] {
        let size = element.size();
        let bytes: Vec<u8> = (0..3 * 40 * size).map(|i| (i * 37 % 251) as u8).collect();
        let x = Array::from_bytes(element.clone(), &[3, 40], &bytes).expect("an array");
        let at: Vec<i64> = (0..60).map(|i| i * 11 % 40).collect();
        let picks = [GatherIndex::Spec(SliceSpec::At(1)), list(&at)];
        let gathered = gather(exec, &HostValue::Array(x.clone()), &picks);
        assert!(array(&gathered).data().computed().is_none(), "{element}: deferred");
        let expected: Vec<u8> = at.iter().flat_map(|&i| bytes[(40 + i as usize) * size..][..size].to_vec()).collect();
        assert_eq!(array(&gathered).bytes().expect("bytes"), expected, "{element}");
        // Test a gather of a gather, and one with pairs of positions.
        let gathered_twice = gather(
            exec,
            &gather(exec, &HostValue::Array(x), &picks),
            &[list(&at.iter().map(|i| i + 20).collect::<Vec<_>>())],
        );
        let expected: Vec<u8> =
            at.iter().flat_map(|&i| bytes[(40 + at[i as usize + 20] as usize) * size..][..size].to_vec()).collect();
        assert_eq!(array(&gathered_twice).bytes().expect("bytes"), expected, "{element}");
    }
}

/// A scatter to one element per row needs neither a sort nor a scatter kernel if the row indices are a known `arange`
/// (iota). Its result is the same as with other row indices.
#[test]
fn one_element_of_each_row() {
    let exec = &ExecContext::default();
    let (n, columns) = (1500, 7);
    let x = ops::reshape(&add(exec, &numbers(n * columns), &HostValue::Float(-5000.0)), &[n as i64, columns as i64])
        .expect("rows");
    let Ok(HostValue::Array(mut known)) = ops::arange(&[HostValue::Int(n as i128)]) else { panic!("no rows") };
    let plain = Array::from_items(&(0..n as i32).collect::<Vec<i32>>()).expect("rows");
    let labels: Vec<i32> = (0..n).map(|i| (i * 7919 % columns) as i32).collect();
    let labels = Array::from_items(&labels).expect("labels");
    let pair = |rows: &Array, at: &Array| [GatherIndex::Array(rows.clone()), GatherIndex::Array(at.clone())];
    let (ours, theirs) = (gather(exec, &x, &pair(&known, &labels)), gather(exec, &x, &pair(&plain, &labels)));
    assert_eq!(array(&ours).bytes(), array(&theirs).bytes());
    let negative = ops::unary(
        exec,
        UnaryOp::Neg,
        &ops::binary(exec, BinaryOp::Mul, &ours, &HostValue::Float(0.0)).expect("zeros"),
    );
    for part in [ours, negative.expect("zeros of both signs")] {
        let sums = |rows: &Array| ops::scatter_add(exec, &part, &pair(rows, &labels), &[n, columns]).expect("sums");
        assert_eq!(array(&sums(&known)).bytes(), array(&sums(&plain)).bytes());
    }
    let sums = |exec: &ExecContext| {
        drop(array(&ops::scatter_add(exec, &theirs, &pair(&known, &labels), &[n, columns]).expect("sums")).bytes())
    };
    assert!(launches(sums) <= 3);
    let outside = ops::gather(exec, &x, &pair(&known, &Array::from_items(&vec![7i32; n]).expect("labels")));
    assert_eq!(outside.expect_err("a column outside").code, "E0502");
    known.items_mut::<i32>().expect("rows").swap(3, 4);
    let swapped = gather(exec, &x, &pair(&known, &labels));
    let (swapped, before) = (array(&swapped).items::<f32>().expect("numbers")[3], 4 * columns + 3 * 7919 % columns);
    assert_eq!(swapped, before as f32 - 5000.0, "rows that were written do not count any more");
}
