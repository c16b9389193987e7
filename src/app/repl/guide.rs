//! The topics of `:help`: short lessons for writing a first program in the session. Lines indented by four spaces are
//! entries; a test runs them.

/// All topics and their texts.
const TOPICS: &[(&str, &str)] = &[("kernel", KERNEL), ("blocks", BLOCKS), ("arrays", ARRAYS)];

/// Names of the topics, for completion.
pub(crate) const NAMES: &[&str] = &["kernel", "blocks", "arrays"];

/// Returns the text of a topic.
pub(crate) fn find(topic: &str) -> Option<&'static str> {
    TOPICS.iter().find(|(name, _)| *name == topic).map(|(_, text)| *text)
}

const KERNEL: &str = "\
A kernel is a function that runs once for every element. Enter one, and call it:

    kernel scale(a: f32, x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = a * x[i] }
    let x = linspace(0.0, 1.0, 5)
    scale(2.0, x)

`N` is the length of the arrays, found from the arguments, and an integer in the body. `threads(i: N)` runs
the body for every `i` from 0 to N - 1. Arrays are read, those marked `out` are written; left off at the call,
an `out` array is made and is the value. With two indices:

    kernel mirrored(a: [f32; R, C], out b: [f32; R, C]) threads(r: R, c: C) {
        b[r, c] = a[r, C - 1 - c]
    }
    mirrored(reshape(linspace(0.0, 5.0, 6), 2, 3))

Enter a kernel again to replace it; an entry goes on over lines while brackets are open. A mistake names its
line and thread, `:explain` says more about the last one. `:info scale`, `:cuda scale` and `:time scale(2.0, x)`
look at a kernel. `:help blocks` is about threads that work together, `?sqrt` about a name.
";

const BLOCKS: &str = "\
`grid(…) block(…)` instead of `threads(…)` makes blocks of threads as CUDA has them. The threads of a block
share memory and wait for each other:

    kernel block_sums(x: [f32; N], out y: [f32; B]) grid(B) block(64) {
        shared s: [f32; 64]
        let t = thread_idx.x
        let i = global_idx.x
        s[t] = if i < N { x[i] } else { 0.0 }
        barrier()
        var half = 32
        while half > 0 {
            if t < half { s[t] += s[t + half] }
            barrier()
            half /= 2
        }
        if t == 0 { y[block_idx.x] = s[0] }
    }
    block_sums(ones(100), B = 2)

Such a kernel guards its indices (`i < N`), since the last block may be only half full. A dimension that no
argument has is given by name (`B = 2`). A forgotten `barrier()` is reported as a data race. Atomic operations
name a place: `atomic_add(y[0], 1.0)`. `:doc` lists all that kernels can call.
";

const ARRAYS: &str = "\
Around kernels everything is arrays, with the operators of NumPy:

    let a = random(3, 4)
    a * 2.0 + 1.0
    sum(a, axis = 0)
    a[0, ..]
    a @ transpose(a)
    print(\"mean {mean(a):.2}, largest {max(a):.2}\")
    fn halved(x: f32) -> f32 { x / 2.0 }
    halved(a[1, 2])

Values never alias: `let b = a` is a copy, made when one of them is changed. `var` may change, `let` may not.
There are no implicit conversions: `f32(n)` converts. `load(\"x.npy\")` and `save(\"x.npy\", a)` are for files,
`image`, `heat`, `plot` and `hist` draw, `import std.nn` brings a module (`:doc std.nn`). `:save FILE` writes
the session to a script.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_match_their_names() {
        assert!(TOPICS.iter().map(|(name, _)| name).eq(NAMES));
        for (name, text) in TOPICS {
            assert!(text.lines().all(|line| line.chars().count() <= 112), "{name}");
        }
    }
}
