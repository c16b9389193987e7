//! Compares Clk with NumPy: each reads the other's files, and both print arrays the same way. Without a Python that has
//! NumPy (`CLK_PYTHON`, or else `python3`) the tests print that they are skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use clk_host::files::{decode, encode};
use clk_host::format;
use clk_host::ops;
use clk_host::value::HostValue;
use clk_scalar::Scalar;
use clk_testing::exec;

pub(crate) fn python() -> Option<PathBuf> {
    let python = PathBuf::from(std::env::var("CLK_PYTHON").unwrap_or("python3".into()));
    let has_numpy = Command::new(&python).args(["-c", "import numpy"]).output().is_ok_and(|out| out.status.success());
    if !has_numpy {
        println!("skipped: no numpy");
    }
    has_numpy.then_some(python)
}

#[track_caller]
pub(crate) fn run(python: &Path, folder: &Path, script: &str) -> String {
    let out = Command::new(python).current_dir(folder).args(["-c", script]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn numpy_reads_written_files() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let save = |name: &str, bytes: Vec<u8>| std::fs::write(folder.path().join(name), bytes).unwrap();
    let counts = ops::reshape(&ops::arange(&[HostValue::Int(24)]).unwrap(), &[2, 3, 4]).unwrap();
    let mut script = String::from("import numpy as np\nx = np.arange(24).reshape(2, 3, 4)\n");
    let mut arrays = Vec::new();
    for scalar in Scalar::ALL.into_iter().filter(|s| *s != Scalar::Bf16) {
        let typed = ops::convert(exec(), scalar, &counts).unwrap();
        save(&format!("{scalar}.npy"), encode("x.npy", &[(None, &typed)]).unwrap());
        let numpy = scalar.name().replace('i', "int").replace('u', "uint").replace("f", "float");
        let code = if scalar == Scalar::Bool { "bool".to_string() } else { numpy.replace("uintint", "uint") };
        script += &format!(
            "a = np.load('{scalar}.npy'); assert a.dtype == np.dtype('{code}'), a.dtype; assert (a == x.astype('{code}')).all()\n"
        );
        script += &format!("z = np.load('all.npz')['{scalar}']; assert z.dtype == a.dtype and (z == a).all()\n");
        arrays.push((scalar.name(), typed));
    }
    let members: Vec<(Option<&str>, &HostValue)> = arrays.iter().map(|(name, value)| (Some(*name), value)).collect();
    save("all.npz", encode("all.npz", &members).unwrap());
    let floats = ops::random(&[5, 3], 3, Scalar::F32).unwrap();
    save("x.csv", encode("x.csv", &[(None, &floats)]).unwrap());
    save("x.npy", encode("x.npy", &[(None, &floats)]).unwrap());
    script +=
        "assert (np.loadtxt('x.csv', delimiter=',', dtype=np.float32) == np.load('x.npy')).all()\nprint('well')\n";
    assert_eq!(run(&python, folder.path(), &script).trim(), "well");
}

#[test]
fn files_of_numpy_are_read() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
import numpy as np
x = (np.arange(24) * 5 - 7).reshape(2, 3, 4)
names = []
for t in ['bool', 'int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64', 'float16', 'float32', 'float64']:
    a = x.astype(t)
    forms = {'c': a, 'f': np.asfortranarray(a), 'b': a.astype(a.dtype.newbyteorder('>')), 't': a.transpose(), 's': a[0, 1, 2], 'e': a[:0]}
    for form, b in forms.items():
        np.save(f'{t}-{form}.npy', b)
        np.save(f'{t}-{form}-plain.npy', np.ascontiguousarray(b.astype(t)) if form != 's' else b.astype(t))
        names.append(f'{t}-{form}')
    np.savez(f'{t}.npz', a=a, b=a[0])
    np.savez_compressed(f'{t}-packed.npz', a=a, b=a[0])
s = np.zeros(3, dtype=np.dtype([('flag', '?'), ('pos', '<f4', (3,)), ('id', '>i8')], align=True))
s['id'] = [1, 2, 3]; s['pos'][1] = [4, 5, 6]
np.save('struct.npy', s)
print(' '.join(names))
"#;
    let names = run(&python, folder.path(), script);
    let load = |name: &str| decode(name, &std::fs::read(folder.path().join(name)).unwrap()).unwrap();
    for name in names.split_whitespace() {
        assert_eq!(load(&format!("{name}.npy")), load(&format!("{name}-plain.npy")), "{name}");
    }
    let int = load("int32-c.npy");
    let expected = ops::arange(&[HostValue::Int(-7), HostValue::Int(113), HostValue::Int(5)]).unwrap();
    assert_eq!(int, ops::reshape(&expected, &[2, 3, 4]).unwrap());
    for scalar in ["int32", "float64", "bool"] {
        assert_eq!(load(&format!("{scalar}.npz")), load(&format!("{scalar}-packed.npz")));
    }
    let structs = load("struct.npy");
    assert_eq!(
        ops::named_field(exec(), &structs, "id").unwrap(),
        ops::arange(&[HostValue::of(1i64), HostValue::of(4i64)]).unwrap()
    );
    let pos = ops::named_field(exec(), &structs, "pos").unwrap();
    assert_eq!(format::print(&pos).unwrap(), "[(0., 0., 0.) (4., 5., 6.) (0., 0., 0.)]");
}

/// Clk and NumPy print random arrays of many types, shapes and magnitudes the same way.
#[test]
fn arrays_print_like_numpy() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
import numpy as np
rng = np.random.default_rng(5)
shapes = [(1,), (7,), (40,), (3, 4), (2, 3, 4), (1001,), (40, 40), (2, 600), (10, 11, 12), (0,), (2, 2, 2, 2), (30, 3, 20)]
n = 0
for shape in shapes:
    for t in ['int32', 'uint8', 'int64', 'float16', 'float32', 'float64']:
        for kind in range(6):
            if t.startswith('float'):
                a = rng.standard_normal(shape)
                if kind == 1: a = np.round(a * 4) / 4
                if kind == 2: a = a * 10.0 ** rng.integers(-3, 4)
                if kind == 3: a = np.where(rng.random(shape) < 0.3, [np.nan, np.inf, -np.inf][rng.integers(3)], a)
                if kind == 4: a = a * 1e-7 if t != 'float16' else a * 1e-4
                if kind == 5: a = np.round(a * 100)
                a = a.astype(t)
            else:
                a = rng.integers(0, 10 ** (kind + 1) if t != 'uint8' else 255, shape).astype(t)
                if kind % 2 and t != 'uint8': a -= a.dtype.type(50)
            np.save(f'{n}.npy', a)
            open(f'{n}.txt', 'w').write(str(a))
            n += 1
print(n)
"#;
    let count: usize = run(&python, folder.path(), script).trim().parse().unwrap();
    let mut different = Vec::new();
    for n in 0..count {
        let array = decode("x.npy", &std::fs::read(folder.path().join(format!("{n}.npy"))).unwrap()).unwrap();
        let expected = std::fs::read_to_string(folder.path().join(format!("{n}.txt"))).unwrap();
        let printed = format::print(&array).unwrap();
        if printed != expected {
            different.push(format!("{}:\n{printed}\nNumPy:\n{expected}", array.type_name()));
        }
    }
    assert!(different.is_empty(), "{} of {count}; the first is {}", different.len(), different[0]);
}

/// Clk reads the text files that NumPy writes in various formats, and NumPy reads a .csv file that Clk writes.
#[test]
fn text_files_are_exchanged() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
import numpy as np
x = np.arange(12).reshape(4, 3) * 1.25 - 3
x[1, 1] = np.nan; x[2, 0] = -np.inf
np.savetxt('plain.csv', x)
np.savetxt('named.csv', x, header='a b c\nsecond line', footer='the end')
np.savetxt('aligned.csv', x, fmt='%12.6f')
np.savetxt('tabs.csv', x, delimiter='\t')
np.savetxt('commas.csv', x, delimiter=',', header='a,b,c')
np.savetxt('semicolons.csv', x, delimiter=';', newline='\r\n')
np.savetxt('column.csv', x[:, 2])
np.savetxt('sharp.csv', x, header='a b c', comments='#')
np.save('x.npy', x)
"#;
    run(&python, folder.path(), script);
    let load = |name: &str| decode(name, &std::fs::read(folder.path().join(name)).unwrap()).unwrap();
    let bits = |value: &HostValue| {
        let HostValue::Array(array) = value else { panic!("no array") };
        (array.shape().to_vec(), array.items::<f64>().unwrap().iter().map(|x| x.to_bits() << 1).collect::<Vec<_>>())
    };
    let x = load("x.npy");
    for name in ["plain.csv", "named.csv", "aligned.csv", "tabs.csv", "commas.csv", "semicolons.csv", "sharp.csv"] {
        assert_eq!(bits(&load(name)), bits(&x), "{name}");
    }
    assert_eq!(bits(&load("column.csv")).0, [4]);
    let back = encode("back.csv", &[(None, &x)]).unwrap();
    std::fs::write(folder.path().join("back.csv"), back).unwrap();
    let script = "import numpy as np\nassert np.array_equal(np.loadtxt('back.csv', delimiter=','), np.load('x.npy'), equal_nan=True)";
    run(&python, folder.path(), script);
}

/// Clk and NumPy exchange arrays whose field names contain quotes, backslashes and non-ASCII letters. In an archive
/// with members that Clk cannot read, Clk reads the others.
#[test]
fn names_and_unreadable_members_are_exchanged() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let names = ["it's", "a \"b\"", "back\\\\slash", "\\\\d", "caf\u{e9}", "\u{6f22}", "tab\\t", "plain"];
    let fields: Vec<String> = names.iter().map(|name| format!("('{}', '<f4')", name.replace('\'', "\\'"))).collect();
    let script = format!(
        r#"
import numpy as np, io
for i, field in enumerate([{}]):
    np.save(f'field{{i}}.npy', np.array([(1.5,), (2.5,)], dtype=[field]))
np.savez('mixed.npz', data=np.arange(3.0), format=np.array(b'csr'), shape=np.array([3, 4]), z=np.ones(2, complex))
"#,
        fields.join(", ")
    );
    run(&python, folder.path(), &script);
    let mut check = String::from("import numpy as np\n");
    for i in 0..names.len() {
        let name = format!("field{i}.npy");
        let read = decode(&name, &std::fs::read(folder.path().join(&name)).unwrap()).unwrap();
        std::fs::write(folder.path().join(format!("back{i}.npy")), encode("x.npy", &[(None, &read)]).unwrap()).unwrap();
        check += &format!(
            "a, b = np.load('field{i}.npy'), np.load('back{i}.npy'); assert a.dtype == b.dtype and (a == b).all(), (a.dtype, b.dtype)\n"
        );
    }
    run(&python, folder.path(), &check);
    let mixed = decode("mixed.npz", &std::fs::read(folder.path().join("mixed.npz")).unwrap()).unwrap();
    assert_eq!(format::print(&ops::named_field(exec(), &mixed, "shape").unwrap()).unwrap(), "[3 4]");
    for (name, says) in [("format", "holds text"), ("z", "holds complex numbers")] {
        let problem = ops::named_field(exec(), &mixed, name).unwrap_err();
        assert!(problem.title.contains(&format!("`{name}.npy` in it")), "{}", problem.title);
        assert!(problem.title.contains(says), "{}", problem.title);
    }
    assert_eq!(ops::len(&mixed).unwrap(), HostValue::of(2i32));
}
