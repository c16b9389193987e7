//! Radix sort on a GPU, with the kernels of `std.sort`. Input: an array of numbers. Output: the array with each row in
//! ascending order, bit-identical to the host's sort. Numbers are mapped to keys (unsigned integers with the same
//! order), which are sorted digit by digit. If numbers have at most 32 bits, all rows are sorted at once, by keys that
//! consist of the row's index and the number's key. An argsort moves positions together with their keys.

use std::ops::Range;

use crate::array::{Array, ElementType, byte_count};
use crate::graph::context::ExecContext;
use crate::graph::evaluate::{internal_error, to_extents};
use crate::graph::library_kernels::{self, LibraryArgument};
use crate::graph::residency::may_be_on_device;
use crate::problem::{HostResult, RuntimeError};
use clk_runtime::storage::Storage;
use clk_runtime::{Arg, LaunchExtents};
use clk_scalar::{Scalar, ScalarValue};

/// The constants of `std.sort`: number of values of a digit, threads per block, and sizes of the counting kernel.
const RADIX: usize = 256;
const THREADS: usize = 384;
const COUNT_THREADS: u32 = 512;
const PER_COUNT_BLOCK: usize = 8192;
const MAX_COUNT_BLOCKS: usize = 528;
const MAX_ELEMENTS: usize = 2_147_463_000;
/// Minimum number of elements for which uploading and sorting on a GPU is faster than sorting on the host.
const MIN_UPLOADED: usize = 1 << 20;

/// Parameters of the mapping from numbers to keys, as in `key_of` of `std.sort`.
#[derive(Clone, Copy)]
struct SortKeyForm {
    /// The unsigned integer type of the same size as the numbers.
    word: Scalar,
    kind: i32,
    sign: u64,
    negatives: u64,
}

impl SortKeyForm {
    fn for_type(scalar: Scalar) -> SortKeyForm {
        let word = match scalar.size() {
            1 => Scalar::U8,
            2 => Scalar::U16,
            4 => Scalar::U32,
            _ => Scalar::U64,
        };
        let sign = 1 << (scalar.size() * 8 - 1);
        let negatives = match scalar.is_float() {
            true => sign - 1 - ScalarValue::of(f64::INFINITY).to_type(scalar).bits,
            false => 0,
        };
        let form = if scalar.is_float() { 2 } else { i32::from(scalar.is_signed()) };
        SortKeyForm { word, kind: form, sign, negatives }
    }

    /// Returns the identity mapping for unsigned integers, which are their own keys.
    fn unsigned(word: Scalar) -> SortKeyForm {
        SortKeyForm { word, kind: 0, sign: 0, negatives: 0 }
    }

    fn args<'a>(self) -> impl Iterator<Item = Arg<'a>> {
        [i32_arg(self.kind)].into_iter().chain(self.signs())
    }

    fn signs<'a>(self) -> impl Iterator<Item = Arg<'a>> {
        [self.sign, self.negatives].map(|n| self.word(n)).into_iter()
    }

    fn word<'a>(self, n: u64) -> Arg<'a> {
        Arg::Value(vec![ScalarValue::of(n).to_type(self.word)])
    }
}

fn i32_arg<'a>(n: i32) -> Arg<'a> {
    Arg::Value(vec![ScalarValue::of(n)])
}

/// The data that the sort moves together with the keys.
#[derive(Clone, Copy)]
enum SortPayload<'a> {
    Nothing,
    /// The original position of each key.
    Positions,
    /// A value for each key, of this unsigned integer type.
    Values(&'a Storage, Scalar),
}

/// Returns whether a GPU sorts an array faster than the host. The time for an upload is included if necessary.
fn is_faster_on_gpu(context: &ExecContext, array: &Array) -> bool {
    may_be_on_device(context, array) || array.count() >= MIN_UPLOADED
}

/// Returns the array with its rows of length `row` sorted; `None` if the host should sort it.
pub(crate) fn sort_rows(context: &ExecContext, array: &Array, scalar: Scalar, row: usize) -> HostResult<Option<Array>> {
    let (count, form) = (array.count(), SortKeyForm::for_type(scalar));
    let rows = count.checked_div(row).unwrap_or(0);
    let is_supported = count > 1 && count <= MAX_ELEMENTS && (rows == 1 || scalar.size() <= 4);
    // `is_gpu` may initialize a device, so it is called only if necessary.
    if !is_supported || !is_faster_on_gpu(context, array) || !context.is_gpu() {
        return Ok(None);
    }
    let sort = SortKernels { context, element: ElementType::Scalar(scalar), shape: array.shape(), count };
    let input = Arg::Array { storage: array.storage()?, shape: to_extents(&[rows, row]) };
    let bits = form.word.size() * 8;
    let sorted = if rows == 1 {
        sort.radix_sort(array.storage()?, form, 0..bits, SortPayload::Nothing)?.0
    } else {
        let keys = sort.map_keys("row_keys", form, input, &[rows, row], Scalar::U64)?;
        let plain = SortKeyForm::unsigned(Scalar::U64);
        let keys = sort.radix_sort(&keys, plain, 0..bits, SortPayload::Nothing)?.0;
        let row_bits = (rows - 1).ilog2() as usize + 1;
        let keys = sort.radix_sort(&keys, plain, 32..32 + row_bits, SortPayload::Nothing)?.0;
        sort.map_keys(
            "keyed_rows",
            form,
            Arg::Array { storage: &keys, shape: to_extents(&[count]) },
            &[count],
            form.word,
        )?
    };
    Array::with_storage(ElementType::Scalar(scalar), array.shape(), sorted).map(Some)
}

/// Argsort: returns the positions of the elements of a 1-d array in ascending order of the elements. `None` if the host
/// should compute them.
pub(crate) fn sort_positions(
    context: &ExecContext,
    array: &Array,
    scalar: Scalar,
    row: usize,
) -> HostResult<Option<Array>> {
    let count = array.count();
    if row == count && count > 1 && is_faster_on_gpu(context, array) && context.is_gpu() {
        gpu_sort_positions(context, array, scalar, None)
    } else {
        Ok(None)
    }
}

/// Like [`sort_positions`], but always on the GPU of this context; `None` if there are too many elements. If all
/// elements are integers in `0..below`, higher digits are skipped.
pub(super) fn gpu_sort_positions(
    context: &ExecContext,
    array: &Array,
    scalar: Scalar,
    below: Option<usize>,
) -> HostResult<Option<Array>> {
    let (count, form) = (array.count(), SortKeyForm::for_type(scalar));
    if count > MAX_ELEMENTS {
        return Ok(None);
    }
    let sort = SortKernels { context, element: ElementType::Scalar(scalar), shape: array.shape(), count };
    let own = || to_extents(&[count]);
    let input = || Ok::<_, RuntimeError>(Arg::Array { storage: array.storage()?, shape: own() });
    let bits = below.map_or(usize::MAX, |below| (below.max(2) - 1).ilog2() as usize + 1);
    let word = if scalar.size() > 4 { Scalar::U64 } else { Scalar::U32 };
    let keys = match form.word == word && form.kind == 0 {
        true => None,
        false => Some(sort.map_keys("order_keys", form, input()?, &[count], word)?),
    };
    let keys = keys.as_ref().map_or_else(|| array.storage(), Ok)?;
    let (_, order) =
        sort.radix_sort(keys, SortKeyForm::unsigned(word), 0..bits.min(8 * scalar.size()), SortPayload::Positions)?;
    Array::with_storage(ElementType::Scalar(Scalar::I32), array.shape(), order).map(Some)
}

/// Sorts integer keys, and moves a value of 4 or 8 bytes together with each key. `None` if this is not supported, or if
/// the host should sort.
pub(crate) fn sort_pairs(context: &ExecContext, keys: &Array, values: &Array) -> HostResult<Option<(Array, Array)>> {
    let word = [Scalar::U32, Scalar::U64].into_iter().find(|word| word.size() == values.element().size());
    let integers = keys.scalar().filter(|scalar| scalar.is_int() && keys.element().lanes() == 1);
    let (Some(scalar), Some(word)) = (integers, word) else { return Ok(None) };
    let (count, form) = (keys.count(), SortKeyForm::for_type(scalar));
    let are_pairs = keys.rank() == 1 && values.shape() == keys.shape();
    let is_supported = are_pairs && count > 1 && count <= MAX_ELEMENTS;
    let is_faster = is_supported && (is_faster_on_gpu(context, keys) || may_be_on_device(context, values));
    if !is_faster || !context.is_gpu() {
        return Ok(None);
    }
    let sort = SortKernels { context, element: ElementType::Scalar(scalar), shape: keys.shape(), count };
    let moved = SortPayload::Values(values.storage()?, word);
    let (sorted, moved) = sort.radix_sort(keys.storage()?, form, 0..8 * scalar.size(), moved)?;
    let keys = Array::with_storage(ElementType::Scalar(scalar), keys.shape(), sorted)?;
    Ok(Some((keys, Array::with_storage(values.element().clone(), values.shape(), moved)?)))
}

struct SortKernels<'a> {
    context: &'a ExecContext,
    /// The type of the sorted elements. Only used in out-of-memory errors.
    element: ElementType,
    shape: &'a [usize],
    count: usize,
}

impl SortKernels<'_> {
    fn launch(
        &self,
        name: &'static str,
        given: &[LibraryArgument],
        space: LaunchExtents,
        args: &mut [Arg<'_>],
    ) -> HostResult<()> {
        let executable = library_kernels::library_kernel(self.context, name, given)?;
        library_kernels::launch(self.context, &*executable, space, args, &self.element, self.shape)
    }

    /// Runs a library kernel that maps each element of `input` to an element of the type `to`. The index space `space`
    /// has one thread per element.
    fn map_keys(
        &self,
        name: &'static str,
        form: SortKeyForm,
        input: Arg<'_>,
        space: &[usize],
        to: Scalar,
    ) -> HostResult<Storage> {
        let mut result = Storage::unset(byte_count(&ElementType::Scalar(to), &[self.count])?);
        let mut args = vec![input];
        args.extend(form.args());
        args.push(Arg::ArrayMut { storage: &mut result, shape: to_extents(space) });
        let mut threads = [1; 3];
        threads.iter_mut().zip(space).for_each(|(slot, &n)| *slot = n as u32);
        let mut arguments = vec![LibraryArgument::Type(form.word)];
        arguments.extend((name == "order_keys").then_some(LibraryArgument::Type(to)));
        self.launch(name, &arguments, LaunchExtents::Threads(threads), &mut args)?;
        drop(args);
        Ok(result)
    }

    /// Sorts numbers by these bits of their keys, beginning with the lowest digit, and moves the payload with them. The
    /// sort is stable.
    fn radix_sort(
        &self,
        numbers: &Storage,
        form: SortKeyForm,
        bits: Range<usize>,
        payload: SortPayload<'_>,
    ) -> HostResult<(Storage, Storage)> {
        let own = || to_extents(&[self.count]);
        let lows: Vec<usize> = bits.clone().step_by(8).collect();
        let passes = lows.len();
        let items = keys_per_thread(form.word, payload);
        let empty = Storage::zeros(0);
        let (first, word) = match payload {
            SortPayload::Values(values, word) => (values, word),
            SortPayload::Nothing | SortPayload::Positions => (&empty, Scalar::I32),
        };
        let blocks = self.count.div_ceil(THREADS * items);
        let count = self.count_smaller_digits(numbers, form, bits.start, passes)?;
        let mut block_states = Storage::zeros(passes * blocks * RADIX * 4);
        let (mut keys, mut carried) = (None, None);
        for (pass, &low) in lows.iter().enumerate() {
            let [from, to] = [0, passes - 1].map(|at| i32_arg(if pass == at { form.kind } else { 0 }));
            let (moves, payload_mode) = match (payload, pass) {
                (SortPayload::Nothing, _) => (0, 0),
                (SortPayload::Positions, 0) => (self.count, 2),
                _ => (self.count, 1),
            };
            let values = carried.as_ref().unwrap_or(first);
            let payload_len = if payload_mode == 1 { self.count } else { 0 };
            let mut next = Storage::unset(numbers.len());
            let mut moved = Storage::unset(moves * word.size());
            let mut args = vec![Arg::Array { storage: keys.as_ref().unwrap_or(numbers), shape: own() }];
            args.push(Arg::Array { storage: values, shape: to_extents(&[payload_len]) });
            args.extend([form.word(low as u64), i32_arg(pass as i32)]);
            args.push(Arg::Array { storage: &count, shape: to_extents(&[passes, RADIX]) });
            args.extend([from, to].into_iter().chain(form.signs()));
            args.push(Arg::ArrayMut { storage: &mut block_states, shape: to_extents(&[passes, blocks, RADIX]) });
            args.push(Arg::ArrayMut { storage: &mut next, shape: own() });
            args.push(Arg::ArrayMut { storage: &mut moved, shape: to_extents(&[moves]) });
            let grid = LaunchExtents::Grid { grid: [blocks as u32, 1, 1], block: [THREADS as u32, 1, 1] };
            let payload_mode = [
                LibraryArgument::Type(form.word),
                LibraryArgument::Type(word),
                LibraryArgument::Number(items as i32),
                LibraryArgument::Number(payload_mode),
            ];
            self.launch("sweep", &payload_mode, grid, &mut args)?;
            drop(args);
            (keys, carried) = (Some(next), Some(moved));
        }
        keys.zip(carried).ok_or_else(|| internal_error("a sort by no bits"))
    }

    /// Returns, for each digit position and each digit value, the number of keys with a smaller digit.
    fn count_smaller_digits(
        &self,
        numbers: &Storage,
        form: SortKeyForm,
        low: usize,
        passes: usize,
    ) -> HostResult<Storage> {
        let shape = || to_extents(&[passes, RADIX]);
        let mut count = Storage::zeros(passes * RADIX * 4);
        let mut args = vec![Arg::Array { storage: numbers, shape: to_extents(&[self.count]) }, form.word(low as u64)];
        args.extend(form.args());
        args.push(Arg::ArrayMut { storage: &mut count, shape: shape() });
        let blocks = self.count.div_ceil(PER_COUNT_BLOCK).clamp(1, MAX_COUNT_BLOCKS) as u32;
        let grid = LaunchExtents::Grid { grid: [blocks, 1, 1], block: [COUNT_THREADS, 1, 1] };
        self.launch(
            "counts",
            &[LibraryArgument::Type(form.word), LibraryArgument::Number(passes as i32)],
            grid,
            &mut args,
        )?;
        drop(args);
        let grid = LaunchExtents::Grid { grid: [passes as u32, 1, 1], block: [RADIX as u32, 1, 1] };
        self.launch("begins", &[], grid, &mut [Arg::ArrayMut { storage: &mut count, shape: shape() }])?;
        Ok(count)
    }
}

/// Returns the number of keys per thread. It is chosen such that the tiles of several blocks fit into shared memory.
fn keys_per_thread(word: Scalar, with: SortPayload<'_>) -> usize {
    match (word.size() > 4, !matches!(with, SortPayload::Nothing)) {
        (false, false) => 23,
        (false, true) => 15,
        (true, _) => 11,
    }
}
