//! Sorting rows of an array that a GPU has: in, numbers; out, the rows in ascending order, with the bits that the host's sort gives. The
//! kernels are those of `std.sort`: numbers become keys, unsigned integers with the same order, which are sorted digit by digit.
//! Rows of numbers of at most 32 bits are sorted together, by the row and then the key; a processor sorts by itself. Positions are
//! sorted by the keys of their numbers.

use std::ops::Range;

use crate::device::storage::Storage;
use crate::device::{Arg, Extents};
use crate::host::array::{Array, Element, byte_count};
use crate::host::graph::library::{self, Given};
use crate::host::graph::place::is_there;
use crate::host::graph::run::{broken, extents};
use crate::host::graph::site::Site;
use crate::host::problem::{Outcome, Problem};
use crate::lang::scalar::{Scalar, Value};

/// As in `std.sort`.
const RADIX: usize = 256;
const THREADS: usize = 384;
const COUNTING: u32 = 512;
const COUNTED: usize = 8192;
const COUNTERS: usize = 528;
const LARGEST: usize = 2_147_463_000;
/// So many elements are copied to a GPU and sorted there in less time than the host sorts them.
const MANY: usize = 1 << 20;

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

    /// As unsigned integers of this type, which stay as they are.
    fn none(word: Scalar) -> Form {
        Form { word, form: 0, sign: 0, negatives: 0 }
    }

    fn args<'a>(self) -> impl Iterator<Item = Arg<'a>> {
        [number(self.form)].into_iter().chain(self.signs())
    }

    fn signs<'a>(self) -> impl Iterator<Item = Arg<'a>> {
        [self.sign, self.negatives].map(|n| self.word(n)).into_iter()
    }

    fn word<'a>(self, n: u64) -> Arg<'a> {
        Arg::Value(vec![Value::of(n).to_type(self.word)])
    }
}

fn number<'a>(n: i32) -> Arg<'a> {
    Arg::Value(vec![Value::of(n)])
}

/// What moves with the keys.
#[derive(Clone, Copy)]
enum Moved<'a> {
    Nothing,
    /// Where each key was.
    Positions,
    /// A value for each key, words of this type.
    Values(&'a Storage, Scalar),
}

/// Whether a GPU sorts an array in less time than the host, which may have to copy it there.
fn pays(array: &Array) -> bool {
    is_there(array) || array.count() >= MANY
}

/// Returns the array with its rows of this length sorted; `None` if the host is to do that.
pub(crate) fn sorted(array: &Array, scalar: Scalar, row: usize) -> Outcome<Option<Array>> {
    let (count, form) = (array.count(), Form::of(scalar));
    let rows = count.checked_div(row).unwrap_or(0);
    let fits = count > 1 && count <= LARGEST && (rows == 1 || scalar.size() <= 4);
    // A device is looked for only if it is needed.
    let site = if fits && pays(array) { Site::current() } else { return Ok(None) };
    if !site.is_gpu() {
        return Ok(None);
    }
    let sort = Sort { site: &site, element: Element::Scalar(scalar), shape: array.shape(), count };
    let input = Arg::Array { storage: array.storage()?, shape: extents(&[rows, row]) };
    let bits = form.word.size() * 8;
    let sorted = if rows == 1 {
        sort.by_digits(array.storage()?, form, 0..bits, Moved::Nothing)?.0
    } else {
        let keys = sort.each("row_keys", form, (input, &[rows, row]), Scalar::U64)?;
        let plain = Form::none(Scalar::U64);
        let keys = sort.by_digits(&keys, plain, 0..bits, Moved::Nothing)?.0;
        let row_bits = (rows - 1).ilog2() as usize + 1;
        let keys = sort.by_digits(&keys, plain, 32..32 + row_bits, Moved::Nothing)?.0;
        sort.each("keyed_rows", form, (Arg::Array { storage: &keys, shape: extents(&[count]) }, &[count]), form.word)?
    };
    Array::with_storage(Element::Scalar(scalar), array.shape(), sorted).map(Some)
}

/// Returns the positions of the elements of an array of one row, in ascending order; `None` if the host is to find them.
pub(crate) fn order(array: &Array, scalar: Scalar, row: usize) -> Outcome<Option<Array>> {
    let count = array.count();
    let site = if row == count && count > 1 && pays(array) { Site::current() } else { return Ok(None) };
    if site.is_gpu() { order_of(&site, array, scalar, None) } else { Ok(None) }
}

/// As [`order`], of any array, on the GPU of a site; `None` if there are too many elements. Fewer digits are looked at if all elements are
/// integers in `0..below`.
pub(super) fn order_of(site: &Site, array: &Array, scalar: Scalar, below: Option<usize>) -> Outcome<Option<Array>> {
    let (count, form) = (array.count(), Form::of(scalar));
    if count > LARGEST {
        return Ok(None);
    }
    let sort = Sort { site, element: Element::Scalar(scalar), shape: array.shape(), count };
    let own = || extents(&[count]);
    let input = || Ok::<_, Problem>(Arg::Array { storage: array.storage()?, shape: own() });
    let bits = below.map_or(usize::MAX, |below| (below.max(2) - 1).ilog2() as usize + 1);
    let word = if scalar.size() > 4 { Scalar::U64 } else { Scalar::U32 };
    let keys = match form.word == word && form.form == 0 {
        true => None,
        false => Some(sort.each("order_keys", form, (input()?, &[count]), word)?),
    };
    let keys = keys.as_ref().map_or_else(|| array.storage(), Ok)?;
    let (_, order) = sort.by_digits(keys, Form::none(word), 0..bits.min(8 * scalar.size()), Moved::Positions)?;
    Array::with_storage(Element::Scalar(Scalar::I32), array.shape(), order).map(Some)
}

/// Returns integers in ascending order, and values of 4 or 8 bytes, one for each, in the same order; `None` if that is better done otherwise.
pub(crate) fn pairs(keys: &Array, values: &Array) -> Outcome<Option<(Array, Array)>> {
    let word = [Scalar::U32, Scalar::U64].into_iter().find(|word| word.size() == values.element().size());
    let integers = keys.scalar().filter(|scalar| scalar.is_int() && keys.element().lanes() == 1);
    let (Some(scalar), Some(word)) = (integers, word) else { return Ok(None) };
    let (count, form) = (keys.count(), Form::of(scalar));
    let are_pairs = keys.rank() == 1 && values.shape() == keys.shape();
    let site = if are_pairs && count > 1 && count <= LARGEST && (pays(keys) || is_there(values)) {
        Site::current()
    } else {
        return Ok(None);
    };
    if !site.is_gpu() {
        return Ok(None);
    }
    let sort = Sort { site: &site, element: Element::Scalar(scalar), shape: keys.shape(), count };
    let moved = Moved::Values(values.storage()?, word);
    let (sorted, moved) = sort.by_digits(keys.storage()?, form, 0..8 * scalar.size(), moved)?;
    let keys = Array::with_storage(Element::Scalar(scalar), keys.shape(), sorted)?;
    Ok(Some((keys, Array::with_storage(values.element().clone(), values.shape(), moved)?)))
}

struct Sort<'a> {
    site: &'a Site,
    /// What is sorted, for errors of memory.
    element: Element,
    shape: &'a [usize],
    count: usize,
}

impl Sort<'_> {
    fn launch(&self, name: &'static str, given: &[Given], space: Extents, args: &mut [Arg<'_>]) -> Outcome<()> {
        let executable = library::kernel(self.site, name, given)?;
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
        let mut given = vec![Given::Type(form.word)];
        given.extend((name == "order_keys").then_some(Given::Type(to)));
        self.launch(name, &given, Extents::Threads(threads), &mut args)?;
        drop(args);
        Ok(result)
    }

    /// Returns numbers sorted by these bits of their keys, from the lowest digit on, and what moves with them. Numbers with the same digits
    /// stay in order.
    fn by_digits(
        &self,
        numbers: &Storage,
        form: Form,
        bits: Range<usize>,
        with: Moved<'_>,
    ) -> Outcome<(Storage, Storage)> {
        let own = || extents(&[self.count]);
        let lows: Vec<usize> = bits.clone().step_by(8).collect();
        let passes = lows.len();
        let items = items(form.word, with);
        let none = Storage::zeros(0);
        let (first, word) = match with {
            Moved::Values(values, word) => (values, word),
            Moved::Nothing | Moved::Positions => (&none, Scalar::I32),
        };
        let blocks = self.count.div_ceil(THREADS * items);
        let count = self.counts(numbers, form, bits.start, passes)?;
        let mut told = Storage::zeros(passes * blocks * RADIX * 4);
        let (mut keys, mut carried) = (None, None);
        for (pass, &low) in lows.iter().enumerate() {
            let [from, to] = [0, passes - 1].map(|at| number(if pass == at { form.form } else { 0 }));
            let (moves, given) = match (with, pass) {
                (Moved::Nothing, _) => (0, 0),
                (Moved::Positions, 0) => (self.count, 2),
                _ => (self.count, 1),
            };
            let values = carried.as_ref().unwrap_or(first);
            let have = if given == 1 { self.count } else { 0 };
            let mut next = Storage::unset(numbers.len());
            let mut moved = Storage::unset(moves * word.size());
            let mut args = vec![Arg::Array { storage: keys.as_ref().unwrap_or(numbers), shape: own() }];
            args.push(Arg::Array { storage: values, shape: extents(&[have]) });
            args.extend([form.word(low as u64), number(pass as i32)]);
            args.push(Arg::Array { storage: &count, shape: extents(&[passes, RADIX]) });
            args.extend([from, to].into_iter().chain(form.signs()));
            args.push(Arg::ArrayMut { storage: &mut told, shape: extents(&[passes, blocks, RADIX]) });
            args.push(Arg::ArrayMut { storage: &mut next, shape: own() });
            args.push(Arg::ArrayMut { storage: &mut moved, shape: extents(&[moves]) });
            let grid = Extents::Grid { grid: [blocks as u32, 1, 1], block: [THREADS as u32, 1, 1] };
            let given = [Given::Type(form.word), Given::Type(word), Given::Number(items as i32), Given::Number(given)];
            self.launch("sweep", &given, grid, &mut args)?;
            drop(args);
            (keys, carried) = (Some(next), Some(moved));
        }
        keys.zip(carried).ok_or_else(|| broken("a sort by no bits"))
    }

    /// Returns the number of keys with smaller digits than each, for each digit from a bit on.
    fn counts(&self, numbers: &Storage, form: Form, low: usize, passes: usize) -> Outcome<Storage> {
        let shape = || extents(&[passes, RADIX]);
        let mut count = Storage::zeros(passes * RADIX * 4);
        let mut args = vec![Arg::Array { storage: numbers, shape: extents(&[self.count]) }, form.word(low as u64)];
        args.extend(form.args());
        args.push(Arg::ArrayMut { storage: &mut count, shape: shape() });
        let blocks = self.count.div_ceil(COUNTED).clamp(1, COUNTERS) as u32;
        let grid = Extents::Grid { grid: [blocks, 1, 1], block: [COUNTING, 1, 1] };
        self.launch("counts", &[Given::Type(form.word), Given::Number(passes as i32)], grid, &mut args)?;
        drop(args);
        let grid = Extents::Grid { grid: [passes as u32, 1, 1], block: [RADIX as u32, 1, 1] };
        self.launch("begins", &[], grid, &mut [Arg::ArrayMut { storage: &mut count, shape: shape() }])?;
        Ok(count)
    }
}

/// Returns the number of keys of a thread, for tiles of which several fit into shared memory.
fn items(word: Scalar, with: Moved<'_>) -> usize {
    match (word.size() > 4, !matches!(with, Moved::Nothing)) {
        (false, false) => 23,
        (false, true) => 15,
        (true, _) => 11,
    }
}
