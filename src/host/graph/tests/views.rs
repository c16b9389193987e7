//! Tests random programs of views, assignments to slices and operations against a simple reference implementation. All
//! values are read at the end, to check that the values of a view do not change when its source is written.

use std::sync::Arc;

use super::*;
use crate::array::SliceSpec;
use crate::ops::GatherIndex;

/// The state of a random program: its values, each with the elements that the reference computed.
pub(super) struct Fuzz {
    random: Random,
    pool: Vec<ExpectedArray>,
    text: String,
    /// A function that moves an array to another device, if some arrays are moved.
    moved: Option<fn(&HostValue) -> HostValue>,
}

/// A selection along an axis: its spec, the selected positions, and whether the result keeps the axis.
type AxisSelection = (SliceSpec, Vec<usize>, bool);

impl Fuzz {
    fn new(seed: u64) -> Fuzz {
        let mut random = Random(seed);
        let scalar = random.pick(&[Scalar::I32, Scalar::U8, Scalar::F32, Scalar::F64, Scalar::Bool, Scalar::I16]);
        let shapes: &[&[usize]] = &[
            &[700],
            &[30, 40],
            &[40, 30],
            &[1, 40],
            &[30, 1],
            &[5, 12, 40],
            &[40, 12, 5],
            &[3, 1, 40],
            &[2, 3, 9, 40],
        ];
        let leaf = |_| {
            let shape = random.pick(shapes).to_vec();
            let items: Vec<clk_scalar::ScalarValue> = (0..shape.iter().product::<usize>())
                .map(|_| clk_scalar::ScalarValue::of(random.random_below(200) as i32).to_type(scalar))
                .collect();
            let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_bytes()[..scalar.size()].to_vec()).collect();
            ExpectedArray {
                value: HostValue::Array(Array::from_bytes(scalar, &shape, &bytes).expect("memory")),
                shape,
                items,
            }
        };
        let pool = (0..3).map(leaf).collect();
        Fuzz { random, pool, text: format!("seed {seed}: {scalar}\n"), moved: None }
    }

    /// Creates a program whose arrays are sometimes moved to another device.
    pub(super) fn moved(seed: u64, moved: fn(&HostValue) -> HostValue) -> Fuzz {
        let mut fuzz = Fuzz::new(seed);
        fuzz.pool.iter_mut().for_each(|known| known.value = moved(&known.value));
        Fuzz { moved: Some(moved), ..fuzz }
    }

    fn some(&mut self) -> usize {
        self.random.random_below(self.pool.len())
    }

    fn pick_along(&mut self, len: usize) -> AxisSelection {
        let all = |start: i64, end: i64, step: Option<i64>, indices: Vec<usize>| {
            (SliceSpec::Range { start: Some(start), end: Some(end), inclusive: false, step }, indices, true)
        };
        match self.random.random_below(8) {
            0 if len > 0 => {
                let at = self.random.random_below(len);
                (SliceSpec::At(at as i64), vec![at], false)
            }
            1 | 2 => (SliceSpec::ALL, (0..len).collect(), true),
            3 => {
                let (start, step) = (self.random.random_below(len.min(3) + 1), 1 + self.random.random_below(3));
                all(start as i64, len as i64, Some(step as i64), (start..len).step_by(step).collect())
            }
            4 if len > 0 => {
                let (start, step) = (len - 1 - self.random.random_below(len.min(3)), 1 + self.random.random_below(3));
                all(start as i64, -1, Some(-(step as i64)), (0..=start).rev().step_by(step).collect())
            }
            _ => {
                let cut = self.random.random_below(len.min(3) + 1);
                let end = len - self.random.random_below((len - cut).min(3) + 1);
                all(cut as i64, end as i64, None, (cut..end).collect())
            }
        }
    }

    /// Returns random slice specs for an array, the row-major positions that they select, and the shape of the
    /// selection.
    fn picks(&mut self, shape: &[usize]) -> (Vec<SliceSpec>, Vec<usize>, Vec<usize>) {
        let mut picks: Vec<AxisSelection> = shape.iter().map(|&len| self.pick_along(len)).collect();
        if picks.iter().all(|(_, _, kept)| !kept) {
            // Ensure that the selection is not a single element.
            let len = shape.first().copied().unwrap_or(0);
            picks.iter_mut().take(1).for_each(|pick| *pick = (SliceSpec::ALL, (0..len).collect(), true));
        }
        let mut positions = vec![0];
        for ((_, indices, _), &len) in picks.iter().zip(shape) {
            positions = positions.iter().flat_map(|at| indices.iter().map(move |i| at * len + i)).collect();
        }
        let kept = picks.iter().filter(|(_, _, kept)| *kept).map(|(_, indices, _)| indices.len()).collect();
        (picks.into_iter().map(|(spec, _, _)| spec).collect(), positions, kept)
    }

    fn push(&mut self, text: String, value: HostValue, shape: Vec<usize>, items: Vec<clk_scalar::ScalarValue>) {
        self.text += &format!("{}: {text} -> {shape:?}\n", self.pool.len());
        self.pool.push(ExpectedArray { value, shape, items });
    }

    fn slice(&mut self, exec: &ExecContext) {
        let from = self.some();
        let shape = self.pool[from].shape.clone();
        let (specs, positions, kept) = self.picks(&shape);
        let known = &self.pool[from];
        let items = positions.iter().map(|&at| known.items[at]).collect();
        let value = ops::index(exec, &known.value, &specs).expect("a slice");
        self.push(format!("{from}{specs:?}"), value, kept, items);
    }

    fn rearrange(&mut self, exec: &ExecContext) {
        let from = self.some();
        let known = self.pool[from].clone();
        let (shape, rank) = (known.shape.clone(), known.shape.len());
        let at = |indices: &[usize]| indices.iter().zip(&shape).fold(0, |at, (i, len)| at * len + i);
        let elements = |result: &[usize], source: &dyn Fn(&[usize]) -> Vec<usize>| -> Vec<clk_scalar::ScalarValue> {
            let indices = |position: usize| {
                let mut rest = position;
                let mut all: Vec<usize> = result.iter().rev().map(|&len| (rest % len, rest /= len).0).collect();
                all.reverse();
                all
            };
            (0..result.iter().product()).map(|position| known.items[at(&source(&indices(position)))]).collect()
        };
        match self.random.random_below(3) {
            0 => {
                let turned: Vec<usize> = shape.iter().rev().copied().collect();
                let items = elements(&turned, &|indices| indices.iter().rev().copied().collect());
                let value = ops::transpose(exec, &known.value, None).expect("a transpose");
                self.push(format!("transpose {from}"), value, turned, items);
            }
            1 => {
                let axis = self.random.random_below(rank);
                let items = elements(&shape, &|indices| {
                    let mut indices = indices.to_vec();
                    indices[axis] = shape[axis] - 1 - indices[axis];
                    indices
                });
                let value = ops::flip(exec, &known.value, axis as i64).expect("a flip");
                self.push(format!("flip {from} along {axis}"), value, shape.clone(), items);
            }
            _ => {
                let mut other: Vec<usize> = match self.random.random_below(2) {
                    0 => vec![known.items.len()],
                    _ => vec![shape[0], known.items.len() / shape[0].max(1)],
                };
                other.insert(self.random.random_below(other.len() + 1), 1);
                if other.iter().product::<usize>() != known.items.len() {
                    return;
                }
                let dims: Vec<i64> = other.iter().map(|&n| n as i64).collect();
                let value = ops::reshape(&known.value, &dims).expect("another shape");
                self.push(format!("reshape {from}"), value, other, known.items.clone());
            }
        }
    }

    fn operation(&mut self, exec: &ExecContext) {
        let first = self.some();
        let fits = |known: &ExpectedArray| {
            let named = [("", self.pool[first].shape.as_slice()), ("", known.shape.as_slice())];
            known.scalar() == self.pool[first].scalar()
                && common_shape(&named).is_ok_and(|shape| shape.iter().product::<usize>() < 20_000)
        };
        let others: Vec<usize> = (0..self.pool.len()).filter(|&k| fits(&self.pool[k])).collect();
        if others.is_empty() {
            // The value is itself larger than the limit.
            return;
        }
        let second = self.random.pick(&others);
        let (a, b) = (self.pool[first].clone(), self.pool[second].clone());
        let op = match a.scalar() {
            Scalar::Bool => self.random.pick(&[BinaryOp::BitXor, BinaryOp::BitAnd]),
            _ => self.random.pick(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul]),
        };
        let value = ops::binary(exec, op, &a.value, &b.value).expect("an operator");
        let (shape, items) = reference(&[&a, &b], |v| dynamic::binary(op, v[0], v[1]));
        self.push(format!("{op:?} of {first} and {second}"), value, shape, items);
    }

    /// Bitcasts an array to another element type, of the same or a different size.
    fn bits(&mut self) {
        let from = self.some();
        let known = self.pool[from].clone();
        let (own, Some(last)) = (known.scalar().size(), known.shape.last().copied()) else { return };
        let size = self.random.pick(&[own, own, 1, 2, 4, 8]);
        let to = self.random.pick(types_of_size(size));
        let is_whole = (last * own).is_multiple_of(size) && last * own / size < 500;
        if known.scalar() == Scalar::Bool || !is_whole || known.items.iter().any(|item| item.is_nan()) {
            return;
        }
        let bytes: Vec<u8> = known.items.iter().flat_map(|item| item.to_bytes()[..own].to_vec()).collect();
        let items = bytes.chunks_exact(size).map(|item| clk_scalar::ScalarValue::from_bytes(to, item)).collect();
        let mut shape = known.shape.clone();
        shape.pop();
        shape.push(last * own / size);
        let value = match size == own {
            true => ops::bitcast(to, &known.value),
            false => ops::bitcast_array(ElementType::Scalar(to), array(&known.value)),
        };
        self.push(format!("bitcast of {from} to {to}"), value.expect("bits"), shape, items);
    }

    fn join(&mut self, exec: &ExecContext) {
        let first = self.some();
        let shape = self.pool[first].shape.clone();
        let axis = self.random.random_below(shape.len());
        let fits =
            |other: &[usize]| other.len() == shape.len() && (0..shape.len()).all(|k| k == axis || other[k] == shape[k]);
        let scalar = self.pool[first].scalar();
        let is_part = |k: &usize| self.pool[*k].scalar() == scalar && fits(&self.pool[*k].shape);
        let others: Vec<usize> = (0..self.pool.len()).filter(is_part).collect();
        let parts: Vec<usize> = (0..1 + self.random.random_below(3)).map(|_| self.random.pick(&others)).collect();
        let total = parts.iter().map(|&k| self.pool[k].shape[axis]).sum();
        let outer: usize = shape[..axis].iter().product();
        let inner: usize = shape[axis + 1..].iter().product();
        let run = |k: usize, row: usize| {
            let len = self.pool[k].shape[axis] * inner;
            self.pool[k].items[row * len..(row + 1) * len].to_vec()
        };
        let items: Vec<clk_scalar::ScalarValue> =
            (0..outer).flat_map(|row| parts.iter().flat_map(move |&k| run(k, row))).collect();
        if items.len() > 20_000 {
            return;
        }
        let values: Vec<HostValue> = parts.iter().map(|&k| self.pool[k].value.clone()).collect();
        let value = ops::concat(exec, &values, axis as i64).expect("one array");
        let mut whole = shape.clone();
        whole[axis] = total;
        self.push(format!("concat {parts:?} along {axis}"), value, whole, items);
        if parts.iter().all(|&k| self.pool[k].shape == shape) {
            let items: Vec<clk_scalar::ScalarValue> = parts.iter().flat_map(|&k| self.pool[k].items.clone()).collect();
            let value = ops::stack(exec, &values, 0).expect("one array");
            let stacked = [&[parts.len()], shape.as_slice()].concat();
            self.push(format!("stack {parts:?}"), value, stacked, items);
        }
    }

    /// Assigns a number, or a broadcast array that may depend on the same array, to a slice in place.
    fn assign(&mut self, exec: &ExecContext) {
        let target = self.some();
        let shape = self.pool[target].shape.clone();
        let (specs, positions, kept) = self.picks(&shape);
        let scalar = self.pool[target].scalar();
        let fits = |known: &ExpectedArray| {
            known.scalar() == scalar
                && known.shape.len() <= kept.len()
                && common_shape(&[("", kept.as_slice()), ("", known.shape.as_slice())]).is_ok_and(|all| all == kept)
        };
        let sources: Vec<usize> = (0..self.pool.len()).filter(|&k| fits(&self.pool[k])).collect();
        let own = ops::index(exec, &self.pool[target].value, &specs).expect("a slice");
        let own = ExpectedArray {
            value: own,
            shape: kept.clone(),
            items: positions.iter().map(|&at| self.pool[target].items[at]).collect(),
        };
        let number = clk_scalar::ScalarValue::of(self.random.random_below(100) as i32).to_type(scalar);
        let plain = ExpectedArray { value: HostValue::Scalar(number), shape: vec![], items: vec![number] };
        let source = match self.random.random_below(4) {
            0 => plain,
            1 => {
                // Assign a modified and reordered copy of the slice itself.
                let op = if scalar == Scalar::Bool { BinaryOp::BitXor } else { BinaryOp::Add };
                let value = ops::binary(exec, op, &own.value, &plain.value).expect("an operator");
                let (shape, items) = reference(&[&own, &plain], |v| dynamic::binary(op, v[0], v[1]));
                let value = ops::flip(exec, &value, 0).expect("a flip");
                let row = items.len() / shape[0].max(1);
                let items = items.chunks(row.max(1)).rev().flatten().copied().collect();
                ExpectedArray { value, shape, items }
            }
            _ if sources.is_empty() => return,
            _ => self.pool[self.random.pick(&sources)].clone(),
        };
        drop(own);
        let all = ExpectedArray { value: HostValue::Unit, shape: kept, items: vec![number; positions.len()] };
        let (_, items) = reference(&[&all, &source], |v| Ok(v[1]));
        self.text += &format!("{target}{specs:?} = {:?}\n", source.shape);
        // Usually other values share the bytes of the array, but sometimes none does.
        let mut array = match std::mem::replace(&mut self.pool[target].value, HostValue::Unit) {
            HostValue::Array(array) => array,
            other => panic!("{other:?}"),
        };
        ops::assign(exec, &mut array, &specs, &source.value).expect("an assignment");
        let known = &mut self.pool[target];
        known.value = HostValue::Array(array);
        for (at, item) in positions.into_iter().zip(items) {
            known.items[at] = item;
        }
    }

    /// Returns random indices (arrays, ranges and single positions, at least one array), the row-major positions of the
    /// elements that they select, and the shape of the result.
    fn random_tuples(&mut self, shape: &[usize]) -> (Vec<GatherIndex>, Vec<usize>, Vec<usize>) {
        let count = 1 + self.random.random_below(9);
        let mut kinds: Vec<usize> = shape.iter().map(|_| self.random.random_below(3)).collect();
        if !kinds.contains(&0) {
            kinds[0] = 0;
        }
        let (mut picks, mut kept) = (vec![], vec![]);
        // The position of each element, and the number of its tuple once an array has been reached.
        let mut elements: Vec<(usize, Option<usize>)> = vec![(0, None)];
        for (&kind, &len) in kinds.iter().zip(shape) {
            let own: Vec<usize> = (0..count).map(|_| self.random.random_below(len)).collect();
            let along = |(at, tuple): (usize, Option<usize>)| -> Vec<(usize, Option<usize>)> {
                match (kind, tuple) {
                    (0, Some(k)) => vec![(at * len + own[k], tuple)],
                    (0, None) => (0..count).map(|k| (at * len + own[k], Some(k))).collect(),
                    (1, _) => (0..len).map(|i| (at * len + i, tuple)).collect(),
                    _ => vec![(at * len + own[0], tuple)],
                }
            };
            let is_first = elements.iter().all(|(_, tuple)| tuple.is_none());
            elements = elements.into_iter().flat_map(along).collect();
            match kind {
                0 => {
                    kept.extend(Some(count).filter(|_| is_first));
                    let own: Vec<i64> = own.iter().map(|&at| at as i64).collect();
                    picks.push(GatherIndex::Array(Array::from_items(&own).expect("memory")));
                }
                1 => {
                    kept.push(len);
                    picks.push(GatherIndex::Spec(SliceSpec::ALL));
                }
                _ => picks.push(GatherIndex::Spec(SliceSpec::At(own[0] as i64))),
            }
        }
        (picks, elements.into_iter().map(|(at, _)| at).collect(), kept)
    }

    /// Reads or writes with an array of positions along an axis, with tuples of positions, also next to whole axes and
    /// single positions, or with a mask.
    fn by_arrays(&mut self, exec: &ExecContext) {
        let from = self.some();
        let known = self.pool[from].clone();
        let shape = known.shape.clone();
        if shape.contains(&0) {
            return;
        }
        let list = |items: &[i64]| GatherIndex::Array(Array::from_items(items).expect("memory"));
        let (picks, positions, kept): (Vec<GatherIndex>, Vec<usize>, Vec<usize>) = match self.random.random_below(4) {
            0 => {
                let axis = self.random.random_below(shape.len());
                let own: Vec<usize> =
                    (0..1 + self.random.random_below(20)).map(|_| self.random.random_below(shape[axis])).collect();
                let mut picks = vec![GatherIndex::Spec(SliceSpec::ALL); axis];
                picks.push(list(&own.iter().map(|&i| i as i64).collect::<Vec<_>>()));
                let mut kept = shape.clone();
                kept[axis] = own.len();
                let mut positions = vec![0];
                for (k, &len) in shape.iter().enumerate() {
                    let along = if k == axis { own.clone() } else { (0..len).collect() };
                    positions = positions.iter().flat_map(|at| along.iter().map(move |i| at * len + i)).collect();
                }
                (picks, positions, kept)
            }
            1 => {
                let count = self.random.random_below(60);
                let mut positions = vec![0; count];
                let mut picks = Vec::new();
                for &len in &shape {
                    let own: Vec<usize> = (0..count).map(|_| self.random.random_below(len)).collect();
                    positions.iter_mut().zip(&own).for_each(|(at, i)| *at = *at * len + i);
                    picks.push(list(&own.iter().map(|&i| i as i64).collect::<Vec<_>>()));
                }
                (picks, positions, vec![count])
            }
            2 => self.random_tuples(&shape),
            _ => {
                let holds: Vec<bool> = known.items.iter().map(|_| self.random.random_below(3) == 0).collect();
                let positions: Vec<usize> = (0..holds.len()).filter(|&at| holds[at]).collect();
                let bytes: Vec<u8> = holds.iter().map(|&holds| holds.into()).collect();
                let mask = Array::from_bytes(Scalar::Bool, &shape, &bytes).expect("memory");
                let kept = vec![positions.len()];
                (vec![GatherIndex::Array(mask)], positions, kept)
            }
        };
        let items: Vec<clk_scalar::ScalarValue> = positions.iter().map(|&at| known.items[at]).collect();
        let selected = ops::gather(exec, &known.value, &picks).expect("a selection");
        let scalar = known.scalar();
        let number = |random: &mut Random| clk_scalar::ScalarValue::of(random.random_below(100) as i32).to_type(scalar);
        drop(known);
        let how = self.random.random_below(4);
        if how == 0 {
            // If several values are assigned to one element, the last one wins.
            let given: Vec<clk_scalar::ScalarValue> = positions.iter().map(|_| number(&mut self.random)).collect();
            let bytes: Vec<u8> = given.iter().flat_map(|item| item.to_bytes()[..scalar.size()].to_vec()).collect();
            let mut rows = HostValue::Array(Array::from_bytes(scalar, &kept, &bytes).expect("memory"));
            if let Some(moved) = &mut self.moved {
                rows = moved(&rows);
            }
            let HostValue::Array(array) = &mut self.pool[from].value else { return };
            ops::scatter(exec, array, &picks, &rows).expect("an assignment");
            positions.iter().zip(&given).for_each(|(&at, item)| self.pool[from].items[at] = *item);
            self.text += &format!("{from}{picks:?} = {given:?}\n");
        } else if how == 1 {
            let number = number(&mut self.random);
            let HostValue::Array(array) = &mut self.pool[from].value else { return };
            ops::scatter(exec, array, &picks, &HostValue::Scalar(number)).expect("an assignment");
            positions.iter().for_each(|&at| self.pool[from].items[at] = number);
            self.text += &format!("{from}{picks:?} = {number}\n");
        }
        self.push(format!("{from}{picks:?}"), selected, kept, items);
    }

    pub(super) fn run(mut self, exec: &ExecContext, steps: usize) {
        for _ in 0..steps {
            match self.random.random_below(20) {
                0..=3 => self.slice(exec),
                18 | 19 => self.bits(),
                4..=6 => self.rearrange(exec),
                7..=9 => self.operation(exec),
                10 => self.join(exec),
                11..=13 => self.assign(exec),
                14 => {
                    let at = self.some();
                    self.pool[at].check(&self.text);
                }
                15 | 16 => self.by_arrays(exec),
                _ if self.pool.len() > 4 => {
                    // After this line of the text, indices refer to the pool without this value.
                    let at = self.some();
                    self.text += &format!("without {at}\n");
                    self.pool.remove(at);
                }
                _ => {}
            }
        }
        while !self.pool.is_empty() {
            let at = self.some();
            self.pool.remove(at).check(&self.text);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of kernels")]
fn random_views_agree() {
    on_each(2, |exec, seed| Fuzz::new(seed).run(exec, 25));
}

fn index(exec: &ExecContext, value: &HostValue, specs: &[SliceSpec]) -> HostValue {
    ops::index(exec, value, specs).expect("a slice")
}

fn span(start: i64, end: i64) -> SliceSpec {
    SliceSpec::Range { start: Some(start), end: Some(end), inclusive: false, step: None }
}

#[test]
fn slices_and_transposes_are_read_without_copies() {
    let x = ops::reshape(&numbers(50 * 50), &[50, 50]).expect("a table");
    let work = |exec: &ExecContext| {
        let inner = index(exec, &x, &[span(1, 50), span(0, 49)]);
        let turned = ops::transpose(exec, &x, None).expect("a transpose");
        let sum = add(exec, &inner, &index(exec, &turned, &[span(0, 49), span(1, 50)]));
        let sum = array(&sum);
        assert_eq!(sum.shape(), [49, 49]);
        assert_eq!(sum.items::<f32>().expect("numbers")[49 * 3 + 5], (4 * 50 + 5) as f32 + (6 * 50 + 3) as f32);
    };
    assert_eq!(launches(work), 1);
}

#[test]
fn only_viewed_elements_are_computed() {
    let x = numbers(5000);
    let work = |exec: &ExecContext| {
        let sum = add(exec, &x, &x);
        let part = add(exec, &index(exec, &sum, &[span(100, 1000)]), &HostValue::Float(1.0));
        drop(sum);
        assert_eq!(array(&part).items::<f32>().expect("numbers")[7], 215.0);
        // Test shifted views of a sum that is stored once.
        let sum = add(exec, &x, &x);
        let step = ops::binary(
            exec,
            BinaryOp::Sub,
            &index(exec, &sum, &[span(1, 5000)]),
            &index(exec, &sum, &[span(0, 4999)]),
        );
        assert_eq!(array(&step.expect("a difference")).items::<f32>().expect("numbers")[4000], 2.0);
    };
    assert_eq!(launches(work), 3);
}

#[test]
fn sliced_operands_are_computed_in_the_reader() {
    let x = numbers(5000);
    let work = |exec: &ExecContext| {
        let HostValue::Array(mut y) = numbers(6000) else { panic!("no array") };
        let before = HostValue::Array(y.clone());
        ops::assign(exec, &mut y, &[span(500, 5500)], &add(exec, &x, &x)).expect("an assignment");
        let y = HostValue::Array(y);
        assert_eq!(array(&y).items::<f32>().expect("numbers")[499..503], [499.0, 0.0, 2.0, 4.0]);
        assert_eq!(array(&before).items::<f32>().expect("numbers")[500], 500.0);
        let joined = ops::concat(exec, &[x.clone(), add(exec, &x, &x)], 0).expect("one array");
        assert_eq!(array(&joined).items::<f32>().expect("numbers")[4999..5002], [4999.0, 0.0, 2.0]);
    };
    assert_eq!(launches(work), 3);
}

#[test]
fn small_views_do_not_copy_their_array() {
    let exec = &ExecContext::default();
    let HostValue::Array(mut x) = numbers(100_000) else { panic!("no array") };
    let row = index(exec, &HostValue::Array(x.clone()), &[span(10, 1010)]);
    let place = x.bytes().expect("numbers").as_ptr();
    ops::assign(exec, &mut x, &[span(0, 50_000)], &HostValue::Float(-1.0)).expect("an assignment");
    assert_eq!(x.bytes().expect("numbers").as_ptr(), place);
    assert_eq!(array(&row).items::<f32>().expect("numbers")[..2], [10.0, 11.0]);
    let most = index(exec, &HostValue::Array(x.clone()), &[span(0, 99_000)]);
    ops::assign(exec, &mut x, &[span(0, 2)], &HostValue::Float(5.0)).expect("an assignment");
    assert_eq!(x.bytes().expect("numbers").as_ptr(), place, "a view smaller than the array");
    assert_eq!(array(&most).items::<f32>().expect("numbers")[..2], [-1.0, -1.0]);
    assert_eq!(x.items::<f32>().expect("numbers")[..3], [5.0, 5.0, -1.0]);
}

#[test]
fn components_of_vectors_are_views() {
    let bytes: Vec<u8> = (0..3000).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let points =
        HostValue::Array(Array::from_bytes(ElementType::Vector(Scalar::F32, 3), &[1000], &bytes).expect("points"));
    let work = |exec: &ExecContext| {
        let x = ops::swizzle(exec, &points, &[0]).expect("a component");
        let z = ops::swizzle(exec, &index(exec, &points, &[span(0, 1000)]), &[2]).expect("a component");
        let sum = add(exec, &x, &z);
        assert_eq!(array(&sum).items::<f32>().expect("numbers")[..3], [2.0, 8.0, 14.0]);
        let turned = ops::flip(exec, &points, 0).expect("a flip");
        assert_eq!(array(&turned).items::<f32>().expect("numbers")[..3], [2997.0, 2998.0, 2999.0]);
    };
    assert_eq!(launches(work), 1);
}

#[test]
fn interrupted_views_can_be_read_again() {
    let exec = &ExecContext::default();
    use clk_base::stop::{StopFlag, until_stopped};
    let flag = StopFlag::new(true.into());
    // The view is copied on the host, and the copy is interrupted at its start or in the middle.
    let x = ops::reshape(&numbers(600 * 600), &[600, 600]).expect("a table");
    let turned = ops::transpose(exec, &x, None).expect("a transpose");
    assert!(until_stopped(&flag, || array(&turned).bytes().is_ok()).is_err());
    assert_eq!(array(&turned).items::<f32>().expect("numbers")[..2], [0.0, 600.0]);
    // The view is computed by a kernel.
    let part = index(exec, &add(exec, &x, &x), &[span(1, 500)]);
    assert!(until_stopped(&flag, || array(&part).bytes().is_ok()).is_err());
    assert_eq!(array(&part).items::<f32>().expect("numbers")[..2], [1200.0, 1202.0]);
    // The view is copied because its source is written. Even if that is interrupted, the view keeps its values.
    let HostValue::Array(mut y) = x else { panic!("no array") };
    let row = index(exec, &HostValue::Array(y.clone()), &[span(0, 300)]);
    let write = |y: &mut Array| ops::assign(exec, y, &[span(0, 600)], &HostValue::Float(-1.0)).is_ok();
    assert!(until_stopped(&flag, || write(&mut y)).is_err());
    assert_eq!(array(&row).items::<f32>().expect("numbers")[..2], [0.0, 1.0]);
}

#[test]
fn threads_may_read_one_view() {
    let exec = &ExecContext::default();
    let x = ops::reshape(&numbers(300 * 300), &[300, 300]).expect("a table");
    let HostValue::Array(mut y) = add(exec, &x, &x) else { panic!("no array") };
    y.bytes().expect("computed");
    let turned = ops::transpose(exec, &x, None).expect("a transpose");
    let settled = index(exec, &HostValue::Array(y.clone()), &[span(0, 200)]);
    ops::assign(exec, &mut y, &[span(0, 300)], &HostValue::Float(-1.0)).expect("an assignment");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert_eq!(array(&turned).items::<f32>().expect("numbers")[..2], [0.0, 300.0]);
                assert_eq!(array(&settled).items::<f32>().expect("numbers")[..2], [0.0, 2.0]);
            });
        }
    });
}

#[test]
fn small_views_do_not_keep_their_array_alive() {
    let exec = &ExecContext::default();
    let x = numbers(100_000);
    let others = |x: &HostValue| Arc::strong_count(array(x).data()) - 1;
    let row = index(exec, &x, &[span(10, 1010)]);
    let sum = add(exec, &row, &row);
    assert_eq!(others(&x), 0, "a small part is copied");
    let most = index(exec, &x, &[span(10, 90_010)]);
    assert_eq!(others(&x), 1, "a large part is not");
    assert_eq!(array(&sum).items::<f32>().expect("numbers")[..2], [20.0, 22.0]);
    assert_eq!(array(&most).items::<f32>().expect("numbers")[..2], [10.0, 11.0]);
}

#[test]
#[cfg_attr(miri, ignore = "large arrays")]
fn views_keep_few_bytes_of_deferred_arrays() {
    let exec = &ExecContext::default();
    let large = |exec: &ExecContext| {
        let x = HostValue::Array(Array::unplaced(Scalar::F32, &[1 << 25]).expect("zeros"));
        index(exec, &add(exec, &x, &x), &[span(100, 500)])
    };
    let mut all = large(exec);
    let mut computed = 0;
    for _ in 0..8 {
        let sum = add(exec, &all, &large(exec));
        computed += usize::from(array(&all).data().computed().is_some());
        all = sum;
    }
    assert!((2..8).contains(&computed), "{computed} of 8 sums are computed, though each keeps 128 MiB more");
    assert_eq!(array(&all).items::<f32>().expect("numbers")[..2], [0.0, 0.0]);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of kernels")]
fn nested_views_are_flattened() {
    let exec = &ExecContext::default();
    let mut x = ops::reshape(&numbers(600), &[20, 30]).expect("a table");
    for _ in 0..1500 {
        // The reshape prevents the composition of the views.
        let turned = ops::flip(exec, &x, 0).expect("a flip");
        x = ops::flip(exec, &ops::reshape(&turned, &[30, 20]).expect("another shape"), 1).expect("a flip");
        x = ops::reshape(&add(exec, &x, &HostValue::Float(1.0)), &[20, 30]).expect("another shape");
    }
    assert!(array(&x).items::<f32>().expect("numbers").contains(&1500.0));
}
