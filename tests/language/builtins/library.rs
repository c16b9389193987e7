//! Compares the standard library with equivalent builtins: bit for bit, for all types of numbers, with NaN, infinities,
//! -0 and the limits of integers. A library function may refuse a result only if it does not fit the type of the
//! elements.
//!
//! `CLK_RANDOM_PROGRAMS=1000 CLK_RANDOM_SEED=7 cargo test --test language builtins::library` tries more, and other,
//! arrays.

use std::sync::Arc;

use clk_compile::{NoFiles, Session, library};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_host::value::HostValue;
use clk_runtime::Control;
use clk_scalar::Scalar;
use clk_sim::Simulator;
use clk_testing::setting;

use clk_testing::random::Random;
use clk_testing::world::CapturedOutput;

/// The element types for which a function and a builtin are compared.
#[derive(Clone, Copy, PartialEq)]
enum Types {
    Numbers,
    Floats,
    Only(Scalar),
}

use Types::{Floats, Numbers, Only};

/// Each entry: a library function, a call of it, an equivalent expression with a builtin, and the element types. In the
/// calls, `x` and `w` are arrays of one length, `m` and `n` are matrices whose product exists, `T` is the type of their
/// elements, and `k` is the number of columns of `m`.
const PAIRS: &[(&str, &str, &str, Types)] = &[
    ("linalg.inner", "linalg.inner(x, w)", "dot(x, w)", Numbers),
    ("linalg.matmul", "linalg.matmul(m, n)", "m @ n", Only(Scalar::F32)),
    ("linalg.matmul_tiled", "linalg.matmul_tiled(m, n)", "m @ n", Numbers),
    ("linalg.matvec", "linalg.matvec(m, x[..k])", "m @ x[..k]", Numbers),
    ("linalg.norm1", "linalg.norm1(x)", "sum(abs(x))", Floats),
    ("linalg.norm_max", "linalg.norm_max(x)", "max(abs(x))", Floats),
    ("linalg.transposed", "linalg.transposed(m)", "transpose(m)", Numbers),
    ("nn.embedding", "nn.embedding(m, [1, 0, 1])", "m[[1, 0, 1]]", Only(Scalar::F32)),
    ("nn.linear", "nn.linear(m, n, n[0])", "m @ n + n[0]", Only(Scalar::F32)),
    ("nn.relu", "nn.relu(x)", "max(x, 0.0)", Floats),
    ("reduce.average", "reduce.average(x)", "mean(x)", Floats),
    ("reduce.maximum", "reduce.maximum(x)", "max(x)", Numbers),
    ("reduce.minimum", "reduce.minimum(x)", "min(x)", Numbers),
    ("reduce.position_of_max", "reduce.position_of_max(x)", "argmax(x)", Numbers),
    ("reduce.product", "reduce.product(x)", "prod(x)", Numbers),
    ("reduce.row_max", "reduce.row_max(m)", "max(m, axis = 1)", Numbers),
    ("reduce.row_means", "reduce.row_means(m)", "mean(m, axis = 1)", Floats),
    ("reduce.row_sums", "reduce.row_sums(m)", "sum(m, axis = 1)", Numbers),
    ("reduce.total", "reduce.total(x)", "sum(x)", Numbers),
    ("scan.exclusive", "scan.exclusive(x)[1..]", "cumsum(x[..len(x) - 1])", Numbers),
    ("scan.inclusive", "scan.inclusive(x)", "cumsum(x)", Numbers),
    ("sort.bitonic", "sort.bitonic(x)", "sort(x)", Numbers),
    ("sort.order", "sort.order(x)", "argsort(x)", Numbers),
    ("sort.pairs", "sort.pairs(x, w)", "sort(x, w)", Numbers),
    ("sort.radix", "sort.radix(x)", "sort(x)", Only(Scalar::U32)),
];

/// Library functions without an equivalent builtin.
#[rustfmt::skip]
const ALONE: &[&str] = &[
    "arrays.bincount", "arrays.bincount_weighted", "arrays.count_nonzero", "arrays.diff", "arrays.diff_along", "arrays.digitize",
    "arrays.interp", "arrays.median", "arrays.median_along", "arrays.meshgrid", "arrays.nanargmax", "arrays.nanargmin",
    "arrays.nancumsum", "arrays.nanmax", "arrays.nanmax_along", "arrays.nanmean", "arrays.nanmean_along", "arrays.nanmedian",
    "arrays.nanmin", "arrays.nanmin_along", "arrays.nanprod", "arrays.nanquantile", "arrays.nanstd", "arrays.nansum",
    "arrays.nanvar", "arrays.outer", "arrays.pad", "arrays.pad_along", "arrays.pad_edge", "arrays.pad_edge_along",
    "arrays.pad_matrix", "arrays.pad_reflect", "arrays.pad_reflect_along", "arrays.pad_wrap", "arrays.pad_wrap_along",
    "arrays.percentile", "arrays.percentile_along", "arrays.quantile", "arrays.quantile_along", "arrays.quantiles",
    "arrays.repeat", "arrays.repeat_along", "arrays.repeat_each", "arrays.roll", "arrays.roll_along", "arrays.searchsorted",
    "arrays.tile", "arrays.tile_along", "arrays.without_nan",
    "complex.angle", "complex.conjugate", "complex.exponential", "complex.logarithm", "complex.magnitude", "complex.over",
    "complex.polar", "complex.root", "complex.text", "complex.times",
    "factorizations.flipped",
    "fft.complex", "fft.convolve", "fft.convolve2", "fft.fft", "fft.fft2", "fft.fft3", "fft.fft_along", "fft.fft_rows",
    "fft.frequencies", "fft.ifft", "fft.ifft_along", "fft.irfft", "fft.irfft_rows", "fft.product", "fft.rfft", "fft.rfft_rows",
    "histogram.of_bytes", "histogram.of_range", "histogram.of_values",
    "image.at", "image.box_blur", "image.gaussian_blur", "image.grey", "image.resize", "image.sobel",
    "jacobi.sorted_order",
    "linalg.cholesky", "linalg.cholesky_batch", "linalg.cond", "linalg.conjugate_gradients", "linalg.det", "linalg.det_batch",
    "linalg.eigh", "linalg.eigh_batch", "linalg.frobenius", "linalg.inv", "linalg.inv_batch", "linalg.lstsq", "linalg.lu",
    "linalg.lu_batch", "linalg.norm", "linalg.qr", "linalg.qr_batch", "linalg.slogdet", "linalg.slogdet_batch", "linalg.solve",
    "linalg.solve_batch", "linalg.solve_columns", "linalg.solve_lower", "linalg.solve_lower_batch", "linalg.solve_upper",
    "linalg.solve_upper_batch", "linalg.spectral", "linalg.svd", "linalg.svd_batch", "linalg.svdvals",
    "math.beta", "math.bessel_j0", "math.degrees", "math.gcd", "math.lerp", "math.normal_cdf", "math.pow_mod", "math.radians",
    "math.sinc", "math.smoothstep",
    "nn.attention", "nn.conv2d", "nn.cross_entropy", "nn.gelu", "nn.glorot", "nn.he", "nn.layernorm", "nn.leaky_relu", "nn.log_softmax",
    "nn.max_pool", "nn.mean_pool", "nn.self_attention", "nn.sigmoid", "nn.silu", "nn.softmax", "nn.swapped",
    "optim.lbfgs", "optim.momentum",
    "products.sum_of_parts",
    "random.below", "random.binomial", "random.binomials", "random.bits", "random.choice", "random.exponential",
    "random.exponentials", "random.gamma", "random.gammas", "random.normal", "random.permutation", "random.poisson",
    "random.poissons", "random.shuffle", "random.stream", "random.uniform",
    "reduce.segment_sums", "reduce.segments", "reduce.tiles", "reduce.warp_combine",
    "scan.cummax", "scan.cummax_along", "scan.cummin", "scan.cummin_along", "scan.cumprod", "scan.cumprod_along", "scan.scan",
    "scan.scan_along", "scan.segmented", "scan.warp_inclusive",
    "sort.top", "sort.unique",
    "sparse.from_dense", "sparse.matvec", "sparse.matvec_short",
    "transforms.unit_root",
];

#[test]
fn every_function_of_the_library_is_compared_or_has_no_builtin() {
    let mut listed: Vec<&str> = PAIRS.iter().map(|pair| pair.0).chain(ALONE.iter().copied()).collect();
    for (module, text) in library::MODULES {
        for member in library::members(module) {
            let is_function = ["fn", "kernel"].iter().any(|keyword| {
                let start = format!("\n{keyword} {}", member.name);
                text.match_indices(&start).any(|(at, _)| text[at + start.len()..].starts_with(['(', '<']))
            });
            let name = format!("{module}.{}", member.name);
            if is_function {
                let at = listed.iter().position(|listed| *listed == name);
                let at = at.unwrap_or_else(|| panic!("`{name}` is neither in PAIRS nor in ALONE"));
                listed.swap_remove(at);
            }
        }
    }
    assert!(listed.is_empty(), "{listed:?} are listed twice, or not in the library");
}

/// A session that runs one entry at a time.
struct EntrySession {
    session: Session,
    interpreter: Interpreter,
}

impl EntrySession {
    fn new() -> EntrySession {
        let control = Control { workers: 1, ..Control::default() };
        let device = Arc::new(Simulator::default());
        let interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
        EntrySession { session: Session::default(), interpreter }
    }

    /// Returns the value of an entry, or the title of its error.
    fn run(&mut self, text: &str) -> Result<HostValue, String> {
        let outcome = self.session.add("library.clk", text, &NoFiles);
        assert!(!outcome.failed(), "{text} is not accepted: {:?}", outcome.diagnostics);
        let mut last = HostValue::Unit;
        for chunk in outcome.chunks {
            match self.interpreter.run_chunk(&self.session, chunk, &mut CapturedOutput::default()) {
                Ok(value) => last = value.unwrap_or(last),
                Err(error) => return Err(format!("{}: {}", error.code, error.title)),
            }
        }
        Ok(last)
    }
}

/// Converts the numbers of a value to integers; floats are represented by their bits.
fn numbers(value: &HostValue) -> Vec<i128> {
    let number =
        |n: clk_scalar::ScalarValue| if n.ty.is_int() { n.as_integer().expect("an integer") } else { n.bits.into() };
    match value {
        HostValue::Tuple(parts) => parts.iter().flat_map(numbers).collect(),
        HostValue::Scalar(n) => vec![number(*n)],
        HostValue::Array(array) => {
            let scalar = array.scalar().expect("numbers");
            let chunks = array.bytes().expect("its bytes").chunks_exact(scalar.size());
            chunks.map(|bytes| number(clk_scalar::ScalarValue::from_bytes(scalar, bytes))).collect()
        }
        other => panic!("{other:?} are no numbers"),
    }
}

/// Returns the bits of edge cases of a type.
fn special(scalar: Scalar) -> Vec<u64> {
    if !scalar.is_float() {
        let top = 1u64 << (scalar.bits() - 1);
        return vec![0, 1, 2, top - 1, top, top + 1, top.wrapping_neg().wrapping_sub(1), u64::MAX, u64::MAX - 1];
    }
    let number = |x: f64| clk_scalar::ScalarValue::of(x).to_type(scalar).bits;
    let sign = 1u64 << (scalar.bits() - 1);
    let nan = number(f64::NAN);
    let infinity = number(f64::INFINITY);
    vec![
        0,
        sign,
        number(1.0),
        number(-1.0),
        number(0.1),
        number(1000.0),
        nan,
        nan | sign,
        nan | 5,
        infinity,
        infinity | sign,
        infinity - 1,
        (infinity - 1) | sign,
        1,
        1 | sign,
    ]
}

/// Returns an expression for an array with these bits.
fn array(scalar: Scalar, bits: &[u64]) -> String {
    let unsigned = format!("u{}", scalar.bits());
    let mask = u64::MAX >> (64 - scalar.bits());
    let items: Vec<String> = bits.iter().map(|bits| format!("{}{unsigned}", bits & mask)).collect();
    if items.is_empty() {
        format!("zeros(0, type = {scalar})")
    } else {
        format!("bitcast({scalar}, [{}])", items.join(", "))
    }
}

/// Returns the bits of random numbers: small ones whose sums fit, arbitrary ones, or a mix with edge cases.
fn bits(random: &mut Random, scalar: Scalar, len: usize) -> Vec<u64> {
    let (kind, special) = (random.next_below(4), special(scalar));
    let small = |random: &mut Random| {
        let n = random.next_below(5) as f64 - if scalar.is_signed() || scalar.is_float() { 2.0 } else { 0.0 };
        clk_scalar::ScalarValue::of(n).to_type(scalar).bits
    };
    let one = |_| match kind {
        0 => small(random),
        1 if scalar.is_float() => {
            clk_scalar::ScalarValue::of(random.next_below(1000) as f64 / 7.0 - 70.0).to_type(scalar).bits
        }
        1 => random.word(),
        2 => special[random.next_below(special.len())],
        _ if random.next_below(6) == 0 => special[random.next_below(special.len())],
        _ => small(random),
    };
    (0..len).map(one).collect()
}

#[test]
fn the_library_follows_the_builtins() {
    let count = setting("CLK_RANDOM_PROGRAMS", 6);
    let seed = setting("CLK_RANDOM_SEED", 1_u64);
    let (mut compared, mut refused) = (0, 0);
    for scalar in Scalar::ALL.into_iter().filter(|scalar| *scalar != Scalar::Bool) {
        let mut running = EntrySession::new();
        let modules: Vec<String> = library::MODULES.iter().map(|(name, _)| format!("import std.{name}")).collect();
        running.run(&modules.join("\n")).expect("imports");
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ scalar.bits() as u64 | 1);
        for round in 0..count {
            let len = [1, 2, 33, 100, 7, 1][round as usize % 6] + random.next_below(3);
            let (rows, inner, columns) = (2 + random.next_below(3), len.min(5), 1 + random.next_below(4));
            let mut array = |len| array(scalar, &bits(&mut random, scalar, len));
            let text = format!(
                "let x = {}\nlet w = {}\nlet m = reshape({}, {rows}, {inner})\nlet n = reshape({}, {inner}, {columns})\nlet k = {inner}",
                array(len),
                array(len),
                array(rows * inner),
                array(inner * columns)
            );
            running.run(&text).expect("arrays");
            for (name, call, builtin, types) in PAIRS {
                let has_type = match types {
                    Numbers => true,
                    Floats => scalar.is_float(),
                    Only(own) => *own == scalar,
                };
                if !has_type {
                    continue;
                }
                let (own, expected) = (running.run(call), running.run(builtin));
                let in_range = |n: &i128| clk_scalar::ScalarValue::from_integer(scalar, *n).is_some();
                match (&own, &expected) {
                    (Ok(own), Ok(expected)) => {
                        assert_eq!(numbers(own), numbers(expected), "{name} of {scalar}, seed {seed}:\n{text}");
                        compared += 1;
                    }
                    (Err(_), Err(_)) => refused += 1,
                    (Err(_), Ok(expected)) if scalar.is_int() && !numbers(expected).iter().all(in_range) => {
                        refused += 1
                    }
                    _ => panic!("{name} of {scalar}, seed {seed}: {own:?}, and the builtin {expected:?}:\n{text}"),
                }
            }
        }
    }
    println!("{compared} results compared, {refused} refused");
    assert!(compared > refused && refused > 0, "{compared} compared, {refused} refused");
}

/// Sums over segments of integers are exact, or an error if they do not fit the type.
#[test]
fn sums_of_segments_do_not_wrap() {
    let mut random = Random(7);
    for scalar in [Scalar::I8, Scalar::U8, Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64] {
        let mut running = EntrySession::new();
        running.run("import std.reduce\nimport std.scan").expect("imports");
        let mut refused = 0;
        for _ in 0..12 {
            let own = bits(&mut random, scalar, 12);
            let cut = [random.next_below(5), 5 + random.next_below(7)];
            running.run(&format!("let x = {}", array(scalar, &own))).expect("an array");
            let of = |range: std::ops::Range<usize>| -> i128 {
                own[range]
                    .iter()
                    .map(|&bits| clk_scalar::ScalarValue {
                        ty: scalar,
                        bits: bits & (u64::MAX >> (64 - scalar.bits())),
                    })
                    .map(|n| n.as_integer().expect("an integer"))
                    .sum()
            };
            let sums = [of(0..cut[0]), of(cut[0]..cut[1]), of(cut[1]..12)];
            let sums_fit = sums.iter().all(|sum| clk_scalar::ScalarValue::from_integer(scalar, *sum).is_some());
            let sum_result = running.run(&format!("reduce.segment_sums([0, {}, {}, 12], x)", cut[0], cut[1]));
            assert_eq!(
                sum_result.as_ref().ok().map(numbers),
                sums_fit.then(|| sums.to_vec()),
                "{scalar} {own:?}: {sum_result:?}"
            );
            refused += usize::from(!sums_fit);
            // A segmented scan succeeds exactly if each of its prefix sums fits the type.
            let mut head = vec![0; 12];
            cut.iter().filter(|&&at| at < 12).for_each(|&at| head[at] = 1);
            let prefix_result = running.run(&format!("scan.segmented(x, {head:?})"));
            let prefixes: Vec<i128> = (0..12)
                .map(|at| of((0..=at).rev().find(|&start| start == 0 || head[start] == 1).unwrap_or(0)..at + 1))
                .collect();
            let prefixes_fit = prefixes.iter().all(|sum| clk_scalar::ScalarValue::from_integer(scalar, *sum).is_some());
            assert_eq!(
                prefix_result.as_ref().ok().map(numbers),
                prefixes_fit.then_some(prefixes),
                "{scalar} {own:?}: {prefix_result:?}"
            );
        }
        assert!(refused > 0, "{scalar}");
    }
}
