//! Sorting rows of an array that a GPU has: in, numbers; out, the rows in ascending order, with the bits that the host's sort gives. The
//! kernels are those of `std.sort`: numbers become keys, unsigned integers with the same order, which are sorted digit by digit.
//! Rows of numbers of at most 32 bits are sorted together, by the row and then the key; a processor sorts by itself. Positions are
//! sorted by the keys of their numbers.

use crate::device::storage::Storage;
use crate::device::{Arg, Extents};
use crate::host::array::{Array, Element, MAX_EXTENT, byte_count};
use crate::host::graph::library::{self, Given};
use crate::host::graph::node::Rows;
use crate::host::graph::place::is_there;
use crate::host::graph::run::extents;
use crate::host::graph::scan::{Adds, level};
use crate::host::graph::site::Site;
use crate::host::problem::{Outcome, Problem};
use crate::lang::scalar::{Scalar, Value};

/// As in `std.sort`.
const RADIX: usize = 256;
const KEYS: usize = 4096;
const THREADS: u32 = 256;

/// How numbers become keys: see `key_of` in `std.sort`.
#[derive(Clone, Copy)]
struct Form {
    /// The unsigned integer of the same size.
    word: Scalar,
    form: i32,
    sign: u64,
    negatives: u64,
}

impl Form {
    fn of(scalar: Scalar) -> Form {
        let word = match scalar.size() {
            1 => Scalar::U8,
            2 => Scalar::U16,
            4 => Scalar::U32,
            _ => Scalar::U64,
        };
        let sign = 1 << (scalar.size() * 8 - 1);
        let negatives = match scalar.is_float() {
            true => sign - 1 - Value::of(f64::INFINITY).to_type(scalar).bits,
            false => 0,
        };
        let form = if scalar.is_float() { 2 } else { i32::from(scalar.is_signed()) };
        Form { word, form, sign, negatives }
    }

    fn args<'a>(self) -> impl Iterator<Item = Arg<'a>> {
        let word = |n: u64| Value::of(n).to_type(self.word);
        [Value::of(self.form), word(self.sign), word(self.negatives)].map(|value| Arg::Value(vec![value])).into_iter()
    }
}

/// Returns the array with its rows of this length sorted; `None` if the host is to do that.
pub(crate) fn sorted(array: &Array, scalar: Scalar, row: usize) -> Outcome<Option<Array>> {
    let (count, form) = (array.count(), Form::of(scalar));
    let rows = count.checked_div(row).unwrap_or(0);
    let fits = count > 1 && count < MAX_EXTENT - KEYS && (rows == 1 || scalar.size() <= 4);
    // A device is looked for only if it is needed.
    let site = if fits && is_there(array) { Site::current() } else { return Ok(None) };
    if !site.device().is_remote() {
        return Ok(None);
    }
    let sort = Sort { site: &site, element: Element::Scalar(scalar), shape: array.shape(), count };
    let input = Arg::Array { storage: array.storage()?, shape: extents(&[rows, row]) };
    let bits = form.word.size() * 8;
    let sorted = if rows == 1 {
        let input = Arg::Array { storage: array.storage()?, shape: extents(&[count]) };
        let keys = sort.each("keys", form, (input, &[count]), form.word)?;
        let keys = sort.by_digits(keys, form.word, 0..bits)?;
        sort.each("keyed", form, (Arg::Array { storage: &keys, shape: extents(&[count]) }, &[count]), form.word)?
    } else {
        let keys = sort.each("row_keys", form, (input, &[rows, row]), Scalar::U64)?;
        let keys = sort.by_digits(keys, Scalar::U64, 0..bits)?;
        let row_bits = (rows - 1).ilog2() as usize + 1;
        let keys = sort.by_digits(keys, Scalar::U64, 32..32 + row_bits)?;
        sort.each("keyed_rows", form, (Arg::Array { storage: &keys, shape: extents(&[count]) }, &[count]), form.word)?
    };
    Array::with_storage(Element::Scalar(scalar), array.shape(), sorted).map(Some)
}

/// Returns the positions of the elements of an array of one row, in ascending order; `None` if the host is to find them.
pub(crate) fn order(array: &Array, scalar: Scalar, row: usize) -> Outcome<Option<Array>> {
    let count = array.count();
    let site = if row == count && count > 1 && is_there(array) { Site::current() } else { return Ok(None) };
    if site.device().is_remote() { order_of(&site, array, scalar, None) } else { Ok(None) }
}

/// As [`order`], of any array, on the GPU of a site; `None` if there are too many elements. Fewer digits are looked at if all elements are
/// integers in `0..below`.
pub(super) fn order_of(site: &Site, array: &Array, scalar: Scalar, below: Option<usize>) -> Outcome<Option<Array>> {
    let (count, form) = (array.count(), Form::of(scalar));
    if count >= MAX_EXTENT - KEYS {
        return Ok(None);
    }
    let sort = Sort { site, element: Element::Scalar(scalar), shape: array.shape(), count };
    let own = || extents(&[count]);
    let input = || Ok::<_, Problem>(Arg::Array { storage: array.storage()?, shape: own() });
    // The key lies in the upper half, of 64 bits the lower part first.
    let bits = below.map_or(usize::MAX, |below| (below.max(2) - 1).ilog2() as usize + 1);
    let upper = 32..32 + bits.min(8 * scalar.size().min(4));
    let keys = sort.each("order_keys", form, (input()?, &[count]), Scalar::U64)?;
    let mut keys = sort.by_digits(keys, Scalar::U64, upper.clone())?;
    if scalar.size() == 8 {
        let mut args = vec![input()?];
        args.extend(form.args());
        args.push(Arg::ArrayMut { storage: &mut keys, shape: own() });
        sort.launch("upper_keys", Some(form.word), Extents::Threads([count as u32, 1, 1]), &mut args)?;
        drop(args);
        keys = sort.by_digits(keys, Scalar::U64, upper)?;
    }
    let mut order = Storage::unset(byte_count(&Element::Scalar(Scalar::I32), &[count])?);
    let mut args = vec![Arg::Array { storage: &keys, shape: own() }];
    args.push(Arg::ArrayMut { storage: &mut order, shape: own() });
    sort.launch("positions_of", None, Extents::Threads([count as u32, 1, 1]), &mut args)?;
    drop(args);
    Array::with_storage(Element::Scalar(Scalar::I32), array.shape(), order).map(Some)
}

struct Sort<'a> {
    site: &'a Site,
    /// What is sorted, for errors of memory.
    element: Element,
    shape: &'a [usize],
    count: usize,
}

impl Sort<'_> {
    fn launch(&self, name: &'static str, word: Option<Scalar>, space: Extents, args: &mut [Arg<'_>]) -> Outcome<()> {
        let given: Vec<Given> = word.map(Given::Type).into_iter().collect();
        let executable = library::kernel(self.site, name, &given)?;
        library::launch(self.site, &*executable, space, args, (&self.element, self.shape))
    }

    /// Applies a function of keys to each element.
    fn each(&self, name: &'static str, form: Form, of: (Arg<'_>, &[usize]), to: Scalar) -> Outcome<Storage> {
        let (input, space) = of;
        let mut result = Storage::unset(byte_count(&Element::Scalar(to), &[self.count])?);
        let mut args = vec![input];
        args.extend(form.args());
        args.push(Arg::ArrayMut { storage: &mut result, shape: extents(space) });
        let mut threads = [1; 3];
        threads.iter_mut().zip(space).for_each(|(slot, &n)| *slot = n as u32);
        self.launch(name, Some(form.word), Extents::Threads(threads), &mut args)?;
        drop(args);
        Ok(result)
    }

    /// Sorts keys by these bits, from the lowest digit on; keys with the same ones stay in order.
    fn by_digits(&self, keys: Storage, word: Scalar, bits: std::ops::Range<usize>) -> Outcome<Storage> {
        let blocks = self.count.div_ceil(KEYS);
        let grid = Extents::Grid { grid: [blocks as u32, 1, 1], block: [THREADS, 1, 1] };
        let mut keys = keys;
        for low in bits.step_by(8) {
            let shift = || Arg::Value(vec![Value::of(low as u64).to_type(word)]);
            let own = || extents(&[self.count]);
            let mut counts = Storage::unset(RADIX * blocks * 4);
            let mut args = vec![Arg::Array { storage: &keys, shape: own() }, shift()];
            args.push(Arg::ArrayMut { storage: &mut counts, shape: extents(&[RADIX, blocks]) });
            self.launch("digits", Some(word), grid, &mut args)?;
            drop(args);
            let counts = Array::with_storage(Element::Scalar(Scalar::I32), &[1, RADIX * blocks, 1], counts)?;
            let (rows, adds) =
                (Rows { outer: 1, len: RADIX * blocks, inner: 1 }, Adds { wide: Scalar::I32, result: Scalar::I32 });
            let starts = level(self.site, &counts, rows, adds, true)?;
            let mut moved = Storage::unset(keys.len());
            let mut args = vec![Arg::Array { storage: &keys, shape: own() }, shift()];
            args.push(Arg::Array { storage: starts.storage()?, shape: extents(&[RADIX, blocks]) });
            args.push(Arg::ArrayMut { storage: &mut moved, shape: own() });
            self.launch("scatter", Some(word), grid, &mut args)?;
            drop(args);
            keys = moved;
        }
        Ok(keys)
    }
}
