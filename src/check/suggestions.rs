//! Suggestions for unknown names: similar names, and alternatives to host-only operations in kernels.

/// Longest name that is compared, in bytes.
const LONGEST: usize = 80;

/// Returns the largest edit distance at which another name is similar to a word. For one or two letters it is 0,
/// because every short name has a small distance to them.
pub fn edit_limit(word: &str) -> usize {
    match word.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        _ => 2,
    }
}

/// Returns the candidate with the smallest edit distance, if it is close enough to be a typo.
pub(crate) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // The cost is the product of the lengths, so longer names are not compared. Names in real programs are shorter.
    if word.len() > LONGEST {
        return None;
    }
    let limit = edit_limit(word);
    // Two exchanged letters are more likely than a missing one: `sqtr` is `sqrt`, not `str`.
    let mut best: Option<((usize, usize), &str)> = None;
    for candidate in candidates {
        let missing = candidate.len().abs_diff(word.len());
        if missing > limit {
            continue;
        }
        let same_but_case = candidate.eq_ignore_ascii_case(word);
        let distance = if same_but_case { 0 } else { strsim::damerau_levenshtein(word, candidate) };
        if distance <= limit && best.is_none_or(|(least, _)| (distance, missing) < least) {
            best = Some(((distance, missing), candidate));
        }
    }
    best.map(|(_, name)| name)
}

/// Returns help for a host-only operation used in a kernel (a builtin is in backticks).
pub(crate) fn in_kernels(what: &str) -> &'static str {
    match what.trim_end_matches(" of a whole array").trim_matches('`') {
        "arange" | "linspace" | "indexing by an array" => {
            "`threads(i: N)` names a thread's index; with `grid(…) block(…)` it is `global_idx.x`, which stands for all of \
             `block_idx.x * B + arange(0, B)`"
        }
        "load" => "`x[i]` reads an element; a mask is an `if`: `if i < N { x[i] } else { 0.0 }`",
        "save" | "image" | "plot" | "scatter" | "bar" | "hist" | "heat" => {
            "a kernel writes its results to an `out` array: `out r: [f32; N]`; the script does the rest"
        }
        "zeros" | "ones" | "full" | "eye" => {
            "an array of one thread is declared as `var acc: [f32; 8] = 0.0`, one of a block as `shared s: [f32; 64]`, and \
             then `s = 0.0` sets it; results are written to an `out` array"
        }
        "sum" | "prod" | "mean" | "all" | "any" | "argmin" | "argmax" | "min" | "max" => {
            "a loop goes over the elements: `for k in 0..N { s += x[k] }`; the 32 threads of a warp add up with \
             `warp_reduce_add(v)`, those of a block with `atomic_add(total[0], v)` and `shared total: [f32; 1]`; `std.reduce` \
             has whole arrays"
        }
        "cumsum" => "`std.scan` has whole arrays, and `warp_inclusive` for a warp",
        "sort" => "`std.sort` has kernels that sort whole arrays, launched by the script",
        "random" | "random_normal" | "random_int" => {
            "`import std.random` has random numbers for threads: `var rng = random.stream(seed, u32(i))`, then \
             `random.uniform(rng)`"
        }
        "transpose" => "`x[j, i]` reads the element of the transposed array",
        "reshape" | "concat" | "stack" | "flip" => {
            "elements are moved by their indices: `r[i] = x[N - 1 - i]` reverses; whole arrays belong to the script"
        }
        "close" => "compare one element: `abs(a - b) < 1e-5`",
        "exit" => "`return` ends a thread; `assert(false, \"why\")` stops the launch with a fault",
        "read_text" => "pass the contents of the text as numbers, in parameters and arrays",
        "args" | "parse" => "pass the number as a parameter of the kernel",
        "time" => "`clk bench` and `time { … }` in the script measure a launch",
        "an operator on whole arrays" | "a conversion" | "a function applied to whole arrays" | "dot of arrays" => {
            "a kernel computes one element in each thread: `r[i] = x[i] + y[i]`"
        }
        "`@`" | "@" => {
            "a loop adds up the products: `for k in 0..K { s += a[i, k] * b[k, j] }`; `std.linalg` has kernels for it"
        }
        "a slice of an array" => "a kernel works on elements: `for k in a..b { … x[k] … }`",
        "a copy of an array whose extents are not constants" => {
            "arrays are `out` and `inout` parameters here, or declared with their size"
        }
        "text as a value" => "`print` and `assert` take text in kernels; a kernel keeps no text",
        _ => "do it in the script, and pass the result to the kernel",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        let names = ["saxpy", "matmul", "thread_idx"];
        assert_eq!(nearest("saxby", names.into_iter()), Some("saxpy"));
        assert_eq!(nearest("Saxpy", names.into_iter()), Some("saxpy"));
        assert_eq!(nearest("threadidx", names.into_iter()), Some("thread_idx"));
        assert_eq!(nearest("fft", names.into_iter()), None);
        assert_eq!(nearest("sqtr", ["str", "sqrt"].into_iter()), Some("sqrt"));
        assert_eq!(nearest("thread_count", names.into_iter()), None);
    }
}
