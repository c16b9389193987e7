//! Compares the text formats, Matrix Market and sounds with NumPy and SciPy, on random arrays of all types: each reads
//! the other's files. Without them (`CLK_PYTHON`, or else `python3`) the tests print that they are skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use clk_host::array::Array;
use clk_host::files::{decode, encode};
use clk_host::ops;
use clk_host::value::HostValue;
use clk_scalar::Scalar;
use clk_testing::exec;

use crate::files_numpy::{python, run};

fn scipy() -> Option<PathBuf> {
    let python = python()?;
    let has_scipy = Command::new(&python).args(["-c", "import scipy"]).output().is_ok_and(|out| out.status.success());
    if !has_scipy {
        println!("skipped: no scipy");
    }
    has_scipy.then_some(python)
}

fn load(folder: &Path, name: &str) -> HostValue {
    let bytes = std::fs::read(folder.join(name)).expect("a file");
    decode(name, &bytes).unwrap_or_else(|problem| panic!("{name}: {}", problem.title))
}

fn write(folder: &Path, name: &str, named: &[(Option<&str>, &HostValue)]) {
    let bytes = encode(name, named).unwrap_or_else(|problem| panic!("{name}: {}", problem.title));
    std::fs::write(folder.join(name), bytes).expect("written");
}

/// Asserts that two arrays have the same shape and the same elements after conversion to the type of `expected`. A NaN
/// equals a NaN.
#[track_caller]
fn assert_agree(name: &str, value: &HostValue, expected: &HostValue) {
    let HostValue::Array(array) = expected else { panic!("{name}: no array") };
    let value = &ops::convert(exec(), array.scalar().expect("scalars"), value).expect("numbers");
    let floats = |value: &HostValue| {
        let HostValue::Array(array) = ops::convert(exec(), Scalar::F64, value).expect("numbers") else {
            panic!("{name}: no array")
        };
        // Neither the sign of a zero nor the bits of a NaN matter.
        let items: Vec<u64> = array
            .items::<f64>()
            .expect("f64")
            .iter()
            .map(|x| if x.is_nan() { 1 } else { (x + 0.0).to_bits() })
            .collect();
        (array.shape().to_vec(), items)
    };
    assert!(floats(value) == floats(expected), "{name}: {value:?} is not {expected:?}");
}

/// Python code that defines random arrays `(name, array)` of all types of NumPy that Clk has. Integers and floats have
/// any magnitude, but integers of 64 bits are exact as `f64`.
const ARRAYS: &str = r#"
import json, os, numpy as np
rng = np.random.default_rng(17)
arrays = []
for t in ['bool', 'int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64', 'float16', 'float32', 'float64']:
    for i, shape in enumerate([(5,), (4, 3), (1, 4), (6, 1)]):
        dtype = np.dtype(t)
        bits = rng.integers(0, 256, size=int(np.prod(shape)) * dtype.itemsize, dtype=np.uint8).tobytes()
        a = np.frombuffer(bits, dtype=dtype).reshape(shape) if t != 'bool' else rng.random(shape) < 0.5
        if dtype.itemsize == 8 and dtype.kind in 'iu':
            a = (a >> dtype.type(11)) << dtype.type(3)
        if dtype.kind == 'f':
            a = np.where(np.isfinite(a), a, dtype.type(1.5))
        arrays.append((f'{t}-{i}', a))
"#;

#[test]
fn text_and_json_are_exchanged_with_numpy() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "{ARRAYS}
for name, a in arrays:
    np.save(name + '.npy', a)
    np.savetxt(name + '.txt', a, fmt='%d' if a.dtype.kind in 'biu' else '%.18e', header='a b', footer='end')
    np.savetxt(name + '-tabs.txt', a, fmt='%d' if a.dtype.kind in 'biu' else '%+25.17g', delimiter='\\t', newline='\\r\\n')
    json.dump(a.tolist(), open(name + '.json', 'w'), indent=1)
print(' '.join(name for name, _ in arrays))
"
    );
    let names = run(&python, folder.path(), &script);
    let mut check = String::from("import json, numpy as np\n");
    for name in names.split_whitespace() {
        let expected = load(folder.path(), &format!("{name}.npy"));
        let HostValue::Array(array) = &expected else { panic!("no array") };
        let dims: Vec<i64> = array.shape().iter().map(|&n| n as i64).collect();
        for file in [format!("{name}.txt"), format!("{name}-tabs.txt")] {
            // A column has one axis, as NumPy's `loadtxt` returns it.
            let loaded = ops::reshape(&load(folder.path(), &file), &dims).expect("the same number of elements");
            assert_agree(&file, &loaded, &expected);
        }
        let json = load(folder.path(), &format!("{name}.json"));
        assert_agree(name, &json, &expected);
        let is_whole = !matches!(array.scalar(), Some(scalar) if scalar.is_float());
        assert_eq!(matches!(&json, HostValue::Array(json) if json.scalar() == Some(Scalar::F64)), !is_whole, "{name}");
        write(folder.path(), &format!("{name}-clk.txt"), &[(None, &expected)]);
        write(folder.path(), &format!("{name}-clk.json"), &[(None, &expected)]);
        check += &format!(
            "a = np.load('{name}.npy')
t = np.loadtxt('{name}-clk.txt', ndmin=a.ndim)
assert t.shape == a.shape and (t.astype(a.dtype) == a).all(), ('{name}', t, a)
j = np.array(json.load(open('{name}-clk.json')))
assert j.shape == a.shape and (j.astype(a.dtype) == a).all(), ('{name}', j, a)
"
        );
    }
    run(&python, folder.path(), &check);
}

/// Returns the dense matrix of a sparse one as `f64`. Adds duplicates.
fn dense(table: &HostValue) -> HostValue {
    let part = |name: &str| match ops::named_field(exec(), table, name).expect("a field") {
        HostValue::Array(array) => array,
        _ => panic!("no array"),
    };
    let ints = |name: &str| part(name).items::<i32>().expect("i32").to_vec();
    let (starts, cols, shape) = (ints("starts"), ints("cols"), ints("shape"));
    let HostValue::Array(vals) = ops::convert(exec(), Scalar::F64, &HostValue::Array(part("vals"))).expect("numbers")
    else {
        panic!("no array")
    };
    let (height, width) = (shape[0] as usize, shape[1] as usize);
    let mut items = vec![0.0; height * width];
    for row in 0..height {
        for at in starts[row] as usize..starts[row + 1] as usize {
            items[row * width + cols[at] as usize] += vals.items::<f64>().expect("f64")[at];
        }
    }
    HostValue::Array(Array::from_shaped(&items, &[height, width]).expect("a matrix"))
}

#[test]
fn matrices_are_exchanged_with_scipy() {
    let Some(python) = scipy() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "{ARRAYS}
import scipy.io, scipy.sparse
sparse, dense = [], []
def add(name, a, **options):
    np.save(name + '.npy', a)
    scipy.io.mmwrite(name + '.mtx', a, **options)
    dense.append(name)
    s = scipy.sparse.coo_matrix(a * (rng.random(a.shape) < 0.4) if options.get('symmetry', 'general') == 'general' else a)
    s.eliminate_zeros()
    order = rng.permutation(s.nnz)
    s = scipy.sparse.coo_matrix((s.data[order], (s.row[order], s.col[order])), shape=s.shape)
    np.save('s' + name + '.npy', s.toarray())
    np.save('d' + name + '.npy', np.array(s.nnz))
    scipy.io.mmwrite('s' + name + '.mtx', s, **options)
    sparse.append('s' + name)
for name, a in arrays:
    # SciPy has no sparse matrices of 16-bit floats, and Matrix Market has no `bool`.
    if a.ndim != 2 or a.dtype == np.float16: continue
    if a.dtype == bool: a = a.astype(np.int32)
    add(name, a, symmetry='general')
for t in [np.int32, np.float32, np.float64]:
    a = rng.integers(-9, 9, (7, 7)).astype(t)
    add('symmetric-' + t.__name__, np.tril(a) + np.tril(a, -1).T, symmetry='symmetric')
    add('skew-' + t.__name__, np.tril(a, -1) - np.tril(a, -1).T, symmetry='skew-symmetric')
p = scipy.sparse.coo_matrix(rng.random((9, 5)) < 0.3)
np.save('spattern.npy', p.toarray().astype(float))
scipy.io.mmwrite('spattern.mtx', p, field='pattern')
sparse.append('spattern')
print(' '.join(sparse), '|', ' '.join(dense))
"
    );
    let names = run(&python, folder.path(), &script);
    let (sparse, arrays) = names.split_once('|').expect("two lists");
    let mut check = String::from("import numpy as np, scipy.io, scipy.sparse\n");
    for name in arrays.split_whitespace() {
        let expected = load(folder.path(), &format!("{name}.npy"));
        let loaded = load(folder.path(), &format!("{name}.mtx"));
        assert_agree(name, &loaded, &expected);
        write(folder.path(), &format!("{name}-clk.mtx"), &[(None, &expected)]);
        check += &format!(
            "a, m = np.load('{name}.npy'), scipy.io.mmread('{name}-clk.mtx')\nassert (m.astype(a.dtype) == a).all(), ('{name}', m, a)\n"
        );
    }
    for name in sparse.split_whitespace() {
        let loaded = load(folder.path(), &format!("{name}.mtx"));
        assert_agree(name, &dense(&loaded), &load(folder.path(), &format!("{name}.npy")));
        write(folder.path(), &format!("{name}-clk.mtx"), &[(None, &loaded)]);
        check += &format!(
            "a, m = np.load('{name}.npy'), scipy.io.mmread('{name}-clk.mtx')\nassert scipy.sparse.issparse(m) and (m.toarray().astype(a.dtype) == a).all(), '{name}'\n"
        );
    }
    assert!(sparse.split_whitespace().count() > 25 && arrays.split_whitespace().count() > 25);
    run(&python, folder.path(), &check);
}

#[test]
fn sounds_are_exchanged_with_scipy() {
    let Some(python) = scipy() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "{ARRAYS}
import scipy.io.wavfile
names = []
for name, a in arrays:
    if a.dtype.name not in ['uint8', 'int16', 'int32', 'int64', 'float32', 'float64']: continue
    # SciPy reads one channel as an array with one axis.
    a = a if a.ndim == 1 or a.shape[1] > 1 else a[:, 0]
    np.save(name + '.npy', a)
    scipy.io.wavfile.write(name + '.wav', 8000 + len(a), a)
    names.append(name)
print(' '.join(names))
"
    );
    let names = run(&python, folder.path(), &script);
    let mut check = String::from("import numpy as np, scipy.io.wavfile\n");
    for name in names.split_whitespace() {
        let expected = load(folder.path(), &format!("{name}.npy"));
        let sound = load(folder.path(), &format!("{name}.wav"));
        assert_eq!(ops::named_field(exec(), &sound, "samples").expect("samples"), expected, "{name}");
        let HostValue::Array(samples) = &expected else { panic!("no array") };
        let rate = HostValue::of(8000 + samples.shape()[0] as i32);
        assert_eq!(ops::named_field(exec(), &sound, "rate").expect("a rate"), rate);
        write(folder.path(), &format!("{name}-clk.wav"), &[(Some("samples"), &expected), (Some("rate"), &rate)]);
        check += &format!(
            "a, (rate, s) = np.load('{name}.npy'), scipy.io.wavfile.read('{name}-clk.wav')\nassert rate == 8000 + len(a) and s.dtype == a.dtype and (s == a).all(), '{name}'\n"
        );
    }
    assert_eq!(names.split_whitespace().count(), 24);
    run(&python, folder.path(), &check);
}
