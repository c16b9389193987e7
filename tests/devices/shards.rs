//! Tests sharded arrays on several virtual devices: programs and launches with 1 to 8 shards give the same bits as on
//! one device, or are refused with a reason.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clk_base::diag::Diagnostic;
use clk_compile::{NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_host::value::HostValue;
use clk_ir::Checks;
use clk_runtime::Control;
use clk_testing::random::Random;
use clk_testing::setting;
use clk_testing::world::CapturedOutput;
use clk_testing::world::SimulatorNode;

thread_local! {
    static NODE: Arc<SimulatorNode> = Arc::new(SimulatorNode::new(8));
}

struct RunOutput {
    values: Vec<(String, HostValue)>,
    interpreter: Interpreter,
    error: Option<Box<Diagnostic>>,
    paper: String,
}

fn run(text: &str) -> RunOutput {
    run_with(text, Checks::default())
}

fn run_with(text: &str, checks: Checks) -> RunOutput {
    let node = NODE.with(Arc::clone);
    let control = Control { workers: 1, checks, ..Control::default() };
    let options = ScriptOptions { args: vec![], control, seed: None, device: node.0[0].clone() };
    let mut interpreter = Interpreter::new(options);
    interpreter.device_pool.available = Some(node);
    let (mut session, mut paper) = (Session::default(), CapturedOutput::default());
    let outcome = session.add("entry", text, &NoFiles);
    assert!(!outcome.failed(), "{text}\n{:#?}", outcome.diagnostics);
    let mut error = None;
    for chunk in outcome.chunks {
        if error.is_none() {
            error = interpreter.run_chunk(&session, chunk, &mut paper).err();
        }
    }
    let globals = session.program.globals.iter().zip(&interpreter.globals);
    let values = globals.filter_map(|((_, global), value)| Some((global.name.to_string(), value.clone()?))).collect();
    RunOutput { values, interpreter, error, paper: paper.0 }
}

/// Returns the source with arrays in the given number of shards.
fn with_parts(text: &str, parts: usize) -> String {
    text.replace("PARTS", &parts.to_string())
}

fn without(text: &str) -> String {
    let mut plain = String::new();
    for line in text.lines() {
        // `shard(x, gpus(PARTS), …)` is always the entire right side of `=`.
        match line.split_once("= shard(") {
            Some((left, right)) => writeln!(plain, "{left}= {}", right.split_once(',').unwrap().0).unwrap(),
            None => writeln!(plain, "{line}").unwrap(),
        }
    }
    plain
}

fn same(a: &HostValue, b: &HostValue) -> bool {
    match (a, b) {
        (HostValue::Array(a), HostValue::Array(b)) => a == b,
        (HostValue::Scalar(a), HostValue::Scalar(b)) => a == b,
        (a, b) => format!("{a:?}") == format!("{b:?}"),
    }
}

/// Compares a program with and without sharded arrays; returns the code of the error that ends the sharded run, if any.
fn compare(text: &str, parts: usize) -> Option<&'static str> {
    let (plain, cut) = (run(&without(text)), run(&with_parts(text, parts)));
    let code = |ran: &RunOutput| ran.error.as_ref().map(|error| error.code);
    let refused = matches!(code(&cut), Some("E0741" | "E0742" | "E0743"));
    if !refused {
        assert_eq!(code(&plain), code(&cut), "{parts} parts of\n{text}\n{:#?}\n{:#?}", plain.error, cut.error);
    }
    for (name, value) in &cut.values {
        let Some((_, other)) = plain.values.iter().find(|(of, _)| of == name) else { continue };
        let is_last = refused || code(&plain).is_some();
        assert!(is_last || same(value, other), "`{name}` in {parts} parts of\n{text}\n{value:?}\n{other:?}");
    }
    code(&cut)
}

/// Returns the number of random programs and the first seed.
fn amount(default: usize) -> (u64, usize) {
    (setting("CLK_RANDOM_SEED", 1), setting("CLK_RANDOM_PROGRAMS", default))
}

#[derive(Clone)]
struct ArrayVariable {
    name: String,
    shape: Vec<usize>,
    ty: &'static str,
}

/// Writes a random program that computes with arrays.
struct ProgramWriter {
    random: Random,
    text: String,
    all: Vec<ArrayVariable>,
}

impl ProgramWriter {
    fn new(seed: u64) -> ProgramWriter {
        let mut random = Random::from_seed(seed);
        (0..4).for_each(|_| _ = random.word());
        ProgramWriter { random, text: String::new(), all: vec![] }
    }

    fn name(&self) -> String {
        format!("v{}", self.all.len())
    }

    fn add(&mut self, right: &str, shape: &[usize], ty: &'static str) {
        let name = self.name();
        writeln!(self.text, "var {name} = {right}").unwrap();
        self.all.push(ArrayVariable { name, shape: shape.to_vec(), ty });
    }

    fn pick(&mut self) -> ArrayVariable {
        let at = self.random.next_below(self.all.len());
        self.all[at].clone()
    }

    fn cut(&mut self, of: &ArrayVariable) {
        if of.shape.is_empty() {
            return;
        }
        let (axis, halo) = (self.random.next_below(of.shape.len()), self.random.next_below(4));
        let granule = match self.random.next_below(3) {
            0 => format!(", granule = {}", 1 + self.random.next_below(5)),
            _ => String::new(),
        };
        let right = format!("shard({}, gpus(PARTS), axis = {axis}, halo = {halo}{granule})", of.name);
        self.add(&right, &of.shape, of.ty);
    }

    fn start(&mut self) {
        let (n, m) = (1 + self.random.next_below(14), 1 + self.random.next_below(9));
        for shape in [vec![n, m], vec![n, m], vec![m], vec![n, 1]] {
            let dims = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            let seed = self.random.next_below(1000);
            match self.random.next_below(3) {
                0 => self.add(&format!("random_int(-4, 5, {dims}, seed = {seed})"), &shape, "i32"),
                1 => self.add(&format!("random({dims}, seed = {seed}) - 0.5"), &shape, "f32"),
                _ => self.add(&format!("random({dims}, seed = {seed}, type = f64)"), &shape, "f64"),
            }
            let last = self.all[self.all.len() - 1].clone();
            if self.random.next_below(4) > 0 {
                self.cut(&last);
            }
        }
    }

    fn same_type(&mut self, ty: &str) -> ArrayVariable {
        let all: Vec<ArrayVariable> = self.all.iter().filter(|known| known.ty == ty).cloned().collect();
        all[self.random.next_below(all.len())].clone()
    }

    fn step(&mut self) {
        let x = self.pick();
        let ArrayVariable { name, shape, ty } = x.clone();
        let rank = shape.len();
        match self.random.next_below(16) {
            0..=3 => {
                let y = self.same_type(ty);
                let Some(joint) = broadcast(&shape, &y.shape) else { return };
                let op = match ty {
                    "bool" => self.random.pick(&["&", "|", "==", "!="]),
                    "i32" => self.random.pick(&["+", "-", "*", "/", "%", "<", "=="]),
                    _ => self.random.pick(&["+", "-", "*", "/", "<", "=="]),
                };
                let of = if matches!(op, "<" | "==" | "!=") { "bool" } else { ty };
                self.add(&format!("{name} {op} {}", y.name), &joint, of);
            }
            4 => match ty {
                "bool" => self.add(&format!("i32({name})"), &shape, "i32"),
                "i32" => self.add(&format!("f32({name}) * 0.37"), &shape, "f32"),
                "f32" => self.add(&format!("sqrt(abs({name}))"), &shape, "f32"),
                _ => self.add(&format!("f32({name} + 1.0)"), &shape, "f32"),
            },
            5 if rank > 0 && ty != "bool" => {
                let y = self.same_type(ty);
                let Some(joint) = broadcast(&shape, &y.shape) else { return };
                let two = format!("{name}, {}", y.name);
                let right = if self.random.next_below(2) == 0 {
                    format!("max({two})")
                } else {
                    format!("select({name} > {}, {two})", y.name)
                };
                self.add(&right, &joint, ty);
            }
            6 | 7 if rank > 0 => {
                let function = match ty {
                    "bool" => self.random.pick(&["all", "any"]),
                    "i32" => self.random.pick(&["sum", "min", "max", "argmin", "prod"]),
                    _ => self.random.pick(&["sum", "min", "max", "argmax", "mean"]),
                };
                let of = if function.starts_with("arg") { "i32" } else { ty };
                match self.random.next_below(rank + 1) {
                    axis if axis < rank => {
                        let mut left = shape.clone();
                        left.remove(axis);
                        self.add(&format!("{function}({name}, axis = {axis})"), &left, of);
                    }
                    _ => self.add(&format!("{function}({name})"), &[], of),
                }
            }
            8 if rank == 2 => self.add(&format!("transpose({name})"), &[shape[1], shape[0]], ty),
            9 if rank == 2 && ty != "bool" => {
                let is_suitable = |known: &&ArrayVariable| known.ty == ty && known.shape.first() == shape.last();
                let all: Vec<ArrayVariable> = self.all.iter().filter(is_suitable).cloned().collect();
                if all.is_empty() {
                    return;
                }
                let y = all[self.random.next_below(all.len())].clone();
                let joint = [&shape[..1], &y.shape[1..]].concat();
                self.add(&format!("{name} @ {}", y.name), &joint, ty);
            }
            10 if rank > 0 => self.slice(&x),
            11 if rank > 0 => {
                let axis = self.random.next_below(rank);
                match self.random.next_below(3) {
                    0 => self.add(&format!("flip({name}, axis = {axis})"), &shape, ty),
                    1 if ty != "bool" => self.add(&format!("cumsum({name}, axis = {axis})"), &shape, ty),
                    _ => self.add(&format!("gather({name})"), &shape, ty),
                }
            }
            12 | 13 if rank > 0 => self.assign(&x),
            14 => self.cut(&x),
            _ => self.add(&name, &shape, ty),
        }
    }

    /// Returns a random slice of an axis: its text and its length; `None` if it removes the axis.
    fn range(&mut self, len: usize) -> (String, Option<usize>) {
        match self.random.next_below(4) {
            0 => (self.random.next_below(len).to_string(), None),
            1 => ("..".into(), Some(len)),
            2 => {
                let start = self.random.next_below(len);
                let end = start + 1 + self.random.next_below(len - start);
                (format!("{start}..{end}"), Some(end - start))
            }
            _ => (".. step 2".into(), Some(len.div_ceil(2))),
        }
    }

    fn part(&mut self, shape: &[usize]) -> (String, Vec<usize>) {
        let ranges: Vec<_> = shape.iter().map(|&len| self.range(len)).collect();
        let text = ranges.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(", ");
        (text, ranges.into_iter().filter_map(|(_, len)| len).collect())
    }

    fn slice(&mut self, of: &ArrayVariable) {
        if of.shape.contains(&0) {
            return;
        }
        let (text, shape) = self.part(&of.shape);
        self.add(&format!("{}[{text}]", of.name), &shape, of.ty);
    }

    fn assign(&mut self, to: &ArrayVariable) {
        if to.shape.contains(&0) {
            return;
        }
        let (text, shape) = self.part(&to.shape);
        let is_suitable =
            |known: &&ArrayVariable| known.ty == to.ty && broadcast(&known.shape, &shape).as_ref() == Some(&shape);
        let all: Vec<ArrayVariable> = self.all.iter().filter(is_suitable).cloned().collect();
        let value = match all.is_empty() || self.random.next_below(3) == 0 {
            true => match to.ty {
                "bool" => "true".to_string(),
                "i32" => "3".to_string(),
                _ => "0.75".to_string(),
            },
            false => all[self.random.next_below(all.len())].name.clone(),
        };
        writeln!(self.text, "{}[{text}] = {value}", to.name).unwrap();
    }
}

fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
    (0..rank)
        .map(|axis| match (at(a, axis), at(b, axis)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

#[test]
fn random_programs_match_the_bits_of_one_device() {
    let (seed, count) = amount(300);
    let (mut failed, mut ended) = (0, 0);
    for seed in seed..seed + count as u64 {
        let mut maker = ProgramWriter::new(seed);
        maker.start();
        for _ in 0..4 + maker.random.next_below(10) {
            maker.step();
        }
        let parts = 1 + maker.random.next_below(8);
        match compare(&maker.text, parts) {
            None => ended += 1,
            Some(_) => failed += 1,
        }
    }
    println!("{count} programs: {ended} ended, {failed} with an error on both sides");
    assert!(ended > count / 2, "{ended} of {count}");
}

/// Returns an index expression for a read: `index` with an offset, clamped or wrapped to stay in bounds.
fn read(random: &mut Random, index: &str, extent: &str, most: usize) -> String {
    let shift = random.next_below(2 * most + 1) as i64 - most as i64;
    match random.next_below(5) {
        0 => index.to_string(),
        1 => format!("clamp({index} + {shift}, 0, {extent} - 1)").replace("+ -", "- "),
        2 => format!("max(min({index} + {shift}, {extent} - 1), 0)").replace("+ -", "- "),
        3 => format!("({index} + {extent} + {shift}) % {extent}").replace("+ -", "- "),
        _ => format!("max({index} - 1, 0)"),
    }
}

#[test]
fn random_launches_match_the_bits_of_one_device_or_are_refused() {
    let (seed, count) = amount(200);
    let (mut ran, mut refused) = (0, 0);
    for seed in seed..seed + count as u64 {
        let mut random = ProgramWriter::new(seed ^ 0x5eed).random;
        let (n, m) = (1 + random.next_below(20), 1 + random.next_below(20));
        let most = random.next_below(4);
        let (a, b) = (read(&mut random, "i", "N", most), read(&mut random, "j", "M", most));
        let (c, d) = (read(&mut random, "i", "N", most), read(&mut random, "j", "M", most));
        let place = random.pick(&["y[i, j]", "y[i, j]", "y[i, j]", "y[N - 1 - i, j]", "y[i, M - 1 - j]"]).to_string();
        let condition = match random.next_below(3) {
            0 => "if i > 0 && j > 0 { VALUE } else { x[i, j] }",
            1 => "if i < N - 1 && z[i, j] > 0.5 { VALUE } else { f32(N) }",
            _ => "VALUE",
        };
        let value = condition.replace("VALUE", &format!("x[{a}, {b}] * 0.5 + z[{c}, {d}] + f32(i * 3 + j)"));
        let (axis, halo) = (random.next_below(2), random.next_below(4));
        let z = if random.next_below(3) == 0 { "z".to_string() } else { "sz".to_string() };
        let text = format!(
            "kernel step(x: [f32; N, M], z: [f32; N, M], out y: [f32; N, M]) threads(i: N, j: M) {{ {place} = {value} }}
let x = random({n}, {m}, seed = 1)
let z = random({n}, {m}, seed = 2)
let sz = shard(z, gpus(PARTS), axis = {axis}, halo = {halo})
var sx = shard(x, gpus(PARTS), axis = {axis}, halo = {halo})
for _ in 0..3 {{ sx = step(sx, {z}) * 0.5 }}
let total = sum(sx)
"
        );
        let parts = 1 + random.next_below(8);
        match compare(&text, parts) {
            None => ran += 1,
            Some("E0741" | "E0742") => refused += 1,
            // The kernel faults in both runs.
            Some("E0601") => {}
            Some(other) => panic!("{other}:\n{text}"),
        }
    }
    println!("{count} launches: {ran} ran, {refused} were refused");
    assert!(ran > count / 4 && refused > 0, "{ran} ran and {refused} were refused of {count}");
}

/// Returns the error of a program with four shards: its code, title, the text at the second label, and the first help.
fn refusal(kernel: &str, script: &str) -> (String, Vec<String>) {
    let ran = run(&format!("{kernel}\n{script}"));
    let error = ran.error.expect("an error");
    let labels = error.labels.iter().skip(1).map(|label| label.text.clone());
    (format!("{}: {}", error.code, error.title), labels.chain(error.help.iter().cloned()).collect())
}

#[test]
fn reads_outside_the_shard_suggest_a_halo() {
    let kernel = "kernel far(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[max(i - 3, 0)] }";
    let (title, texts) = refusal(kernel, "let y = far(shard(random(40), gpus(4), halo = 1))");
    assert_eq!(title, "E0741: a launch of `far` cannot be cut: a read of `x` may leave its part");
    assert_eq!(
        texts[0],
        "in part 1, the index along axis 0 may be outside: a part has its own rows and 1 on each side"
    );
    assert_eq!(texts[1], "a halo would do: `shard(x, …, halo = 3)`");
    assert!(run(&format!("{kernel}\nlet y = far(shard(random(40), gpus(4), halo = 3))")).error.is_none());
}

#[test]
fn reads_that_no_halo_covers_are_explained() {
    let kernel = "kernel all(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] + x[0] }";
    let (title, texts) = refusal(kernel, "let y = all(shard(random(40), gpus(4), halo = 1))");
    assert_eq!(title, "E0741: a launch of `all` cannot be cut: a read of `x` may leave its part");
    assert_eq!(texts[1], "no halo is large enough; if each part needs all of it, pass `gather(x)`");
    let kernel = "kernel at(x: [f32; N], p: [i32; N], out y: [f32; N]) threads(i: N) { y[i] = x[p[i]] }";
    let (title, texts) = refusal(kernel, "let y = at(shard(random(40), gpus(4)), arange(40))");
    assert_eq!(title, "E0741: a launch of `at` cannot be cut: a read of `x` may leave its part");
    assert_eq!(texts[1], "the index depends on a value read from memory");
}

#[test]
fn writes_outside_the_shard_are_refused() {
    let kernel =
        "kernel back(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i]\n if i > 0 { y[i - 1] = 0.0 } }";
    let (title, texts) = refusal(kernel, "let y = back(shard(random(40), gpus(4), halo = 1))");
    assert_eq!(title, "E0741: a launch of `back` cannot be cut: a write of `y` may leave its part");
    assert_eq!(
        texts[0],
        "in part 1, the index along axis 0 may be outside: a part may only write the rows that it owns"
    );
    assert_eq!(texts[1], "have each thread write its own row");
}

#[test]
fn other_launches_are_refused_with_the_reason() {
    let whole = "kernel set(x: [f32; N], inout y: [f32; N]) threads(i: N) { y[i] = x[i] }";
    let script = "var y = zeros(40)\nset(shard(random(40), gpus(4)), y)";
    let (title, texts) = refusal(whole, script);
    assert_eq!(title, "E0742: a launch of `set` cannot be cut: `y`, which is not sharded, is written");
    assert_eq!(texts[1], "shard `y` in the same way, or leave the argument out");
    let sum = "kernel add(x: [f32; N], inout y: [f32; 1]) threads(i: N) { atomic_add(y[0], x[i]) }";
    let (title, _) = refusal(sum, "var y = zeros(1)\nadd(shard(random(40), gpus(4)), y)");
    assert_eq!(title, "E0742: a launch of `add` cannot be cut: `y`, which is not sharded, is written");
    let other = "kernel row(x: [f32; N, M], out y: [f32; M]) threads(j: M) { y[j] = x[0, j] }";
    let (title, _) = refusal(other, "let y = row(shard(random(40, 3), gpus(4)))");
    assert!(title.starts_with("E0742: a launch of `row` cannot be cut"), "{title}");
}

#[test]
fn blocks_across_a_shard_boundary_suggest_a_granule() {
    let kernel = "kernel half(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 16)) block(16) {
    let i = global_idx.x
    if i < N { y[i] = 0.5 * x[i] }
}";
    let (title, texts) = refusal(kernel, "let y = half(shard(random(72), gpus(4)))");
    assert_eq!(title, "E0743: a launch of `half` cannot be cut: a block spans the boundary between two parts");
    assert_eq!(texts[0], "a block writes 16 rows of `y`, which is cut at row 18");
    assert_eq!(texts[1], "cut at multiples of that: `shard(y, …, granule = 16)`");
    let fixed = format!("{kernel}\nlet x = random(72)\nlet s = shard(x, gpus(PARTS), granule = 16)\nlet y = half(s)\n");
    (1..=8).for_each(|parts| assert_eq!(compare(&fixed, parts), None));
}

#[test]
fn tile_kernels_are_sharded() {
    let kernel = "kernel blur(x: [f32; H, W], out y: [f32; H, W]) grid(ceil_div(W, 8), ceil_div(H, 4)) block(8, 4) {
    shared t: [f32; 6, 10]
    let (r, c) = (block_idx.y * block_dim.y - 1, block_idx.x * block_dim.x - 1)
    for k in 0..2 {
        let at = k * 32 + thread_idx.y * 8 + thread_idx.x
        if at < 60 { t[at / 10, at % 10] = x[clamp(r + at / 10, 0, H - 1), clamp(c + at % 10, 0, W - 1)] }
    }
    barrier()
    let (i, j) = (global_idx.y, global_idx.x)
    if i < H && j < W { y[i, j] = 0.5 * t[thread_idx.y + 1, thread_idx.x + 1] + t[thread_idx.y, thread_idx.x + 2] }
    if grid_dim.y == 0 { y[i, j] = 0.0 }
}";
    for axis in [0, 1] {
        let granule = [4, 8][axis];
        let text = format!(
            "{kernel}\nlet x = random(37, 29)\nvar s = shard(x, gpus(PARTS), axis = {axis}, halo = 9, granule = {granule})
for _ in 0..3 {{ s = blur(s) }}\n"
        );
        (1..=4).for_each(|parts| assert_eq!(compare(&text, parts), None, "axis {axis}, {parts} parts"));
    }
}

#[test]
fn all_kernel_forms_are_sharded() {
    let forms = [
        // Indices of the types `i64` and `u32`.
        "kernel k(x: [f32; N, M], out y: [f32; N, M]) threads(i: N, j: M) { let at = i64(i)\n y[at, u32(j)] = x[at, j] + f32(N * 10 + M) }
var s = shard(x, gpus(PARTS))
s = k(k(s))",
        // Constant extents, and a computed one.
        "kernel k(x: [f32; 24, M], out y: [f32; 24, 2 * M]) threads(i: 24, j: M) { y[i, 2 * j] = x[i, j]\n y[i, 2 * j + 1] = f32(shape(x, 0)) }
let s = shard(x, gpus(PARTS))
let r = k(s)",
        // The array is sharded along its second axis, and a loop runs along the first one.
        "kernel k(x: [f32; N, M], out y: [f32; M]) threads(j: M) { var sum = 0.0\n for i in 0..N { sum += x[i, j] * f32(i) }\n y[j] = sum }
let s = shard(x, gpus(PARTS), axis = 1)
let r = k(s)",
        // Transposed.
        "kernel k(x: [f32; N, M], out y: [f32; M, N]) threads(i: N, j: M) { y[j, i] = x[i, j] }
let s = shard(x, gpus(PARTS))
let r = k(k(s))",
        // Arrays of different lengths, each with its own shard boundaries.
        "kernel k(x: [f32; N, M], inout y: [f32; N / 2]) threads(i: N / 2) { y[i] += x[2 * i, 0] + x[2 * i + 1, 1] }
let s = shard(x, gpus(PARTS), granule = 2)
let z = zeros(12)
var r = shard(z, gpus(PARTS), granule = 1)
k(s, r)",
        // Several threads per row add integers in place.
        "kernel k(x: [f32; N, M], inout y: [i32; N]) threads(i: N, j: M) { atomic_add(y[i], i32(x[i, j] * 10.0)) }
let s = shard(x, gpus(PARTS))
let z = zeros(24, type = i32)
var r = shard(z, gpus(PARTS))
k(s, r)",
        // A kernel that reads elements that it has written, in a loop that ends early.
        "kernel k(inout x: [f32; N, M]) threads(i: N) { for j in 1..M { if x[i, j] > 0.9 { break }\n x[i, j] = x[i, j] + x[i, j - 1] } }
var s = shard(x, gpus(PARTS), halo = 1)
k(s)
k(s)",
        // A kernel with scalar parameters, and a function that it calls.
        "fn twice(v: f32) -> f32 { v + v }
kernel k(x: [f32; N, M], a: i32, b: f32, out y: [f32; N, M]) threads(i: N, j: M) { y[i, j] = twice(x[max(i - a, 0), j]) * b }
var s = shard(x, gpus(PARTS), halo = 2)
for a in 0..3 { s = k(s, a, 0.5) }",
        // Three axes, partitioned along the middle one.
        "kernel k(x: [f32; A, B, C], out y: [f32; A, B, C]) threads(a: A, b: B, c: C) { y[a, b, c] = x[a, max(b - 1, 0), c] + x[a, min(b + 1, B - 1), c] }
let c = reshape(x, 3, 16, 5)
var s = shard(c, gpus(PARTS), axis = 1, halo = 1)
for _ in 0..3 { s = k(s) }",
        // Two results with different numbers of axes.
        "kernel k(x: [f32; N, M], out y: [f32; N, M], out z: [f32; N]) threads(i: N) { var most = x[i, 0]\n for j in 0..M { most = max(most, x[i, j])\n y[i, j] = most }\n z[i] = most }
let s = shard(x, gpus(PARTS))
let (r, q) = k(s)",
    ];
    for form in forms {
        let (kernels, script) = form.split_at(form.rfind("}\nvar").or(form.rfind("}\nlet")).unwrap() + 2);
        for parts in 1..=6 {
            let text = format!("{kernels}let x = random(24, 10, seed = 3)\n{script}\n");
            assert_eq!(compare(&text, parts), None, "{parts} parts of\n{text}");
        }
    }
}

#[test]
fn sharded_sums_keep_the_order_of_unsharded_sums() {
    for (shape, cut) in
        [("5000", ""), ("70, 300", ""), ("400, 3, 7", ""), ("1, 900, 4", ", axis = 1"), ("9000, 2", ", halo = 3")]
    {
        for of in ["f32", "f16", "f64"] {
            let text = format!(
                "let x = {of}(random({shape}, seed = 5) - 0.5)
let s = shard(x, gpus(PARTS){cut})
let (total, mean, least, most, product) = (sum(s), mean(s), min(s), max(s), prod(s * {of}(0.5) + {of}(1.0)))
let along = sum(s * s, axis = {})
",
                i32::from(!cut.is_empty() && cut.contains("axis"))
            );
            for parts in [1, 2, 3, 5, 8] {
                assert_eq!(compare(&text, parts), None);
                let counts = run(&with_parts(&text, parts)).interpreter.device_pool.shard_counters;
                assert_eq!(counts.gathers.load(Ordering::Relaxed), 0, "no array is gathered: {text}");
            }
        }
    }
}

#[test]
fn elementwise_functions_are_sharded() {
    let text = "struct P { a: f32, b: i32 }
fn collatz(n: i32) -> i32 { var (m, k) = (n, 0)\n while m > 1 { m = if m % 2 == 0 { m / 2 } else { 3 * m + 1 }\n k += 1 }\n k }
fn mix(p: P, w: f32) -> P { var s = p.a\n for k in 0..p.b { s = s * 0.5 + w }\n P { a: s, b: p.b + 1 } }
let n = random_int(1, 100, 17, 5, seed = 3)
let s = shard(n, gpus(PARTS), halo = 1)
let steps = collatz(s)
let more = steps + s
let ps = [P { a: 1.0, b: 2 }, P { a: 3.0, b: 4 }, P { a: 5.0, b: 6 }]
let t = shard(ps, gpus(PARTS))
let w = random(3, seed = 1)
let q = mix(t, w)
let r = mix(q, 0.5)
";
    (1..=5).for_each(|parts| assert_eq!(compare(text, parts), None));
    let prints = "fn say(n: i32) -> i32 { print(n)\n n }
let n = arange(6)
let s = shard(n, gpus(3), halo = 1)
let m = say(s)
";
    assert_eq!(run(prints).paper, "0\n1\n2\n3\n4\n5\n");
    let counts = run(&with_parts(text, 4)).interpreter.device_pool.shard_counters;
    assert_eq!(counts.gathers.load(Ordering::Relaxed), 0, "nothing is put together");
}

#[test]
fn tile_products_are_sharded() {
    let text = "kernel product(a: [f16; M, K], b: [f16; K, N], out c: [f32; M, N]) grid(ceil_div(N, 32), ceil_div(M, 32)) block(128) {
    let (i, j) = (block_idx.y * 32, block_idx.x * 32)
    shared sum: [f32; 32, 32]
    sum = 0.0
    for k in 0..K step 16 { sum = mma(sum, a[i..i + 32, k..k + 16], b[k..k + 16, j..j + 32]) }
    c[i..i + 32, j..j + 32] = sum
}
let a = f16(random(160, 48) - 0.5)
let b = f16(random(48, 64) - 0.5)
let s = shard(a, gpus(PARTS), granule = 32)
let c = product(s, b)
";
    (1..=5).for_each(|parts| assert_eq!(compare(text, parts), None, "{parts} parts"));
}

#[test]
fn halos_are_exchanged_when_they_are_stale() {
    let text =
        "kernel step(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[max(i - 1, 0)] + x[min(i + 1, N - 1)] }
var x = shard(random(64), gpus(4), halo = 1)
for _ in 0..5 { x = step(x) }
x[3..40] = 1.0
let y = step(x * 2.0)
let z = gather(step(y))
";
    let ran = run(text);
    assert!(ran.error.is_none(), "{:?}", ran.error);
    let plain = run(&text.replace("shard(random(64), gpus(4), halo = 1)", "random(64)"));
    let z = |ran: &RunOutput| ran.values.iter().find(|(name, _)| name == "z").unwrap().1.clone();
    assert!(same(&z(&ran), &z(&plain)));
    let counts = &ran.interpreter.device_pool.shard_counters;
    // The first launch finds its halos up to date. The next four launches, the product and the last launch each need an
    // exchange of halos. Each exchange copies six strips.
    assert_eq!(counts.exchanges.load(Ordering::Relaxed), 6 * 6);
    assert_eq!(counts.gathers.load(Ordering::Relaxed), 0, "no array is gathered");
    assert_eq!(counts.launches.load(Ordering::Relaxed), 7);
}

#[test]
fn sharded_arrays_have_value_semantics() {
    let text = "kernel add(inout x: [i32; N]) threads(i: N) { x[i] += i }
let start = arange(20)
var a = shard(start, gpus(PARTS))
let b = a
add(a)
let c = a
a[7] = 100
a[2..9] = c[3..10]
add(a)
print(b[7], c[7], a[7], sum(a), sum(b))
";
    (1..=8).for_each(|parts| assert_eq!(compare(text, parts), None));
    assert_eq!(run(&with_parts(text, 3)).paper, "7 14 23 584 190\n");
}

#[test]
fn arrays_of_structs_and_vectors_are_sharded() {
    let text = "struct Body { at: f32x3, mass: f32 }
kernel move(b: [Body; N], out c: [Body; N]) threads(i: N) {
    var own = b[i]
    own.at = own.at + b[min(i + 1, N - 1)].at * 0.5
    own.mass = own.mass + 1.0
    c[i] = own
}
let at = bitcast(f32x4, random(68))
var b = [Body { at: f32x3(0.0, 1.0, 2.0), mass: 1.0 }, Body { at: f32x3(2.0, 1.0, 3.0), mass: 4.0 }, Body { at: f32x3(5.0), mass: 2.0 }]
var s = shard(b, gpus(PARTS), halo = 1)
for _ in 0..3 { s = move(s) }
let v = shard(at, gpus(PARTS))
let w = v * 2.0 + v
let m = sum(w)
";
    (1..=5).for_each(|parts| assert_eq!(compare(text, parts), None));
}

#[test]
fn checked_sharded_runs_report_nothing() {
    let text = "kernel step(x: [f32; N, M], out y: [f32; N, M]) threads(i: N, j: M) {
    y[i, j] = x[max(i - 1, 0), j] + x[min(i + 1, N - 1), j]
}
let start = random(12, 7)
var x = shard(start, gpus(4), halo = 2)
for _ in 0..3 { x = step(x) }
let y = gather(step(x))
";
    let checks = Checks { memory: true, arithmetic: true, nan: true };
    let (mut ran, plain) = (run_with(text, checks), run(&without(text)));
    assert!(ran.error.is_none(), "{:?}", ran.error);
    assert_eq!(ran.interpreter.take_warnings(), []);
    let y = |ran: &RunOutput| ran.values.iter().find(|(name, _)| name == "y").unwrap().1.clone();
    assert!(same(&y(&ran), &y(&plain)));
    // The report of a fault names the shard.
    let faulty = text.replace("x[max(i - 1, 0), j]", "x[i, j + i / 9]");
    let error = run_with(&faulty, checks).error.expect("an error");
    assert_eq!(error.code, "E0601");
    assert_eq!(
        error.notes.last().map(String::as_str),
        Some("these indices are relative to part 3, which begins with index 0 at 9, `x` at row 7, `y` at row 7")
    );
}

#[test]
fn sharded_derivatives_match_one_device() {
    let text = "kernel square(w: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = w[i] * w[max(i - 1, 0)] }
fn loss(w: [f32; N]) -> f32 { sum(square(w) * 2.0 + w) }
let w = random(20, seed = 4)
let s = shard(w, gpus(PARTS), halo = 1)
let value = loss(s)
let slope = grad(loss)(s)
";
    (1..=4).for_each(|parts| assert_eq!(compare(text, parts), None));
}

#[test]
fn missing_devices_are_named() {
    let ran = run("let x = gpus(9)");
    let error = ran.error.expect("an error");
    assert_eq!((error.code, error.title.as_str()), ("E0740", "there is no device number 8"));
    assert!(error.help[0].contains("--device sim:9"), "{:?}", error.help);
    for (text, title) in [
        ("gpus(0)", "there cannot be 0 devices"),
        ("shard(zeros(3), gpus(2), halo = -1)", "`halo` cannot be -1"),
        ("shard(zeros(3), gpus(2), granule = 0)", "`granule` cannot be 0"),
        ("shard(zeros(3), [-1, 0])", "devices are numbered from 0"),
        ("shard(zeros(3), gpus(2), axis = parse(i32, \"1\"))", "`shard` along axis 1, which the array does not have"),
    ] {
        assert_eq!(run(&format!("let x = {text}")).error.expect("an error").title, title);
    }
}
