//! Files: what is written reads back, and what is wrong with a file is said exactly.

use std::sync::Arc;

use clk_lang::host::array::{Array, Element, RecordLayout};
use clk_lang::host::files::{decode, encode};
use clk_lang::host::ops;
use clk_lang::host::problem::Problem;
use clk_lang::host::value::Value;
use clk_lang::lang::scalar::Scalar;

/// An array with every bit pattern that a counter gives; `bool` alternates.
fn sample(scalar: Scalar, shape: &[usize]) -> Value {
    let counts = ops::arange(&[Value::of(shape.iter().product::<usize>() as i64)]).unwrap();
    let counts = match scalar {
        Scalar::Bool => ops::binary(clk_lang::lang::ops::BinaryOp::Rem, &counts, &Value::Int(2)).unwrap(),
        _ => counts,
    };
    let dims: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
    ops::reshape(&ops::convert(scalar, &counts).unwrap(), &dims).unwrap()
}

#[track_caller]
fn field(table: &Value, name: &str) -> Value {
    ops::named_field(table, name).unwrap()
}

fn failure(name: &str, bytes: &[u8]) -> Problem {
    decode(name, bytes).unwrap_err()
}

#[test]
fn every_type_round_trips() {
    for scalar in Scalar::ALL {
        for shape in [vec![5], vec![2, 3], vec![2, 1, 3], vec![0], vec![3, 0]] {
            let x = sample(scalar, &shape);
            let both = [(Some("x"), &x), (Some("y"), &x)];
            let tensors = decode("t.safetensors", &encode("t.safetensors", &both).unwrap()).unwrap();
            assert_eq!((field(&tensors, "x"), field(&tensors, "y")), (x.clone(), x.clone()));
            if scalar == Scalar::Bf16 {
                assert_eq!(encode("x.npy", &[(None, &x)]).unwrap_err().title, "a .npy file cannot hold bf16");
                continue;
            }
            assert_eq!(decode("x.npy", &encode("x.npy", &[(None, &x)]).unwrap()).unwrap(), x);
            let archive = decode("x.NPZ", &encode("x.npz", &both).unwrap()).unwrap();
            assert_eq!((field(&archive, "x"), field(&archive, "y")), (x.clone(), x));
        }
    }
    let number = Value::of(2.5f64);
    assert_eq!(decode("n.npy", &encode("n.npy", &[(None, &number)]).unwrap()).unwrap(), number);
    let table = decode("t.npz", &encode("t.npz", &[(None, &number)]).unwrap()).unwrap();
    assert_eq!(field(&table, "arr_0"), number);
    assert_eq!(decode("t.npz", &encode("t.npz", &[(None, &table)]).unwrap()).unwrap(), table);
}

#[test]
fn structs_round_trip_in_npy() {
    let inner = RecordLayout::new(
        "record",
        [("a".into(), Element::Scalar(Scalar::U8)), ("b".into(), Element::Scalar(Scalar::F64))],
    );
    let layout = RecordLayout::new(
        "record",
        [
            ("flag".into(), Element::Scalar(Scalar::Bool)),
            ("pos".into(), Element::Vector(Scalar::F32, 3)),
            ("inner".into(), Element::Record(Arc::new(inner))),
        ],
    );
    let mut array = Array::zeros(Element::Record(Arc::new(layout)), &[2]).unwrap();
    let pos = ops::compose(Scalar::F32, 3, &[Value::Int(1), Value::Int(2), Value::Int(3)]).unwrap();
    ops::assign_field(&mut array, &[1], &[1], &pos).unwrap();
    ops::assign_field(&mut array, &[1], &[2, 1], &Value::Float(0.5)).unwrap();
    let array = Value::Array(array);
    let bytes = encode("x.npy", &[(None, &array)]).unwrap();
    assert!(bytes.windows(12).any(|w| w == b"'<f4', (3,))"));
    assert_eq!(decode("x.npy", &bytes).unwrap(), array);
    assert_eq!(encode("x.csv", &[(None, &array)]).unwrap_err().help, ["save its fields one by one: `flag = x.flag`"]);
}

#[test]
fn pictures_round_trip() {
    for shape in [vec![3, 4], vec![3, 4, 2], vec![3, 4, 3], vec![3, 4, 4]] {
        for scalar in [Scalar::U8, Scalar::U16] {
            let x = sample(scalar, &shape);
            assert_eq!(decode("p.png", &encode("p.png", &[(None, &x)]).unwrap()).unwrap(), x);
        }
    }
    let floats = ops::linspace(&Value::Float(-0.5), &Value::Float(1.5), 5).unwrap();
    let grey = ops::reshape(&floats, &[1, 5]).unwrap();
    let Value::Array(levels) = decode("p.png", &encode("p.png", &[(None, &grey)]).unwrap()).unwrap() else { panic!() };
    assert_eq!(levels.items::<u8>().unwrap(), [0, 0, 128, 255, 255]);
    let planes = sample(Scalar::U8, &[3, 8, 9]);
    let problem = encode("p.png", &[(None, &planes)]).unwrap_err();
    assert_eq!((problem.code, problem.help[0].as_str()), ("E0716", "the colours have to be the last axis"));
}

#[test]
fn tables_of_text() {
    let load = |text: &str| decode("t.csv", text.as_bytes());
    let matrix = load("1,2.5\n# note\n-3e2, nan\n").unwrap();
    let Value::Array(array) = &matrix else { panic!() };
    assert_eq!((array.shape(), &array.items::<f64>().unwrap()[..3]), (&[2, 2][..], &[1.0, 2.5, -300.0][..]));
    assert_eq!(load("1\n2\n").unwrap().type_name(), "[f64; 2]");
    assert_eq!(load("\u{feff}1;2\r\n3;4").unwrap().type_name(), "[f64; 2, 2]");
    let named = load("time,\"my speed\"\n0,1\n1,\n").unwrap();
    assert_eq!(field(&named, "time"), Value::Array(Array::from_items(&[0.0f64, 1.0]).unwrap()));
    assert_eq!(load("").unwrap().type_name(), "[f64; 0, 0]");
    let wrong = |text: &str| load(text).unwrap_err().title;
    assert_eq!(wrong("a,b\n1,x\n"), "`t.csv`, line 2, column 2 (b): \"x\" is not a number");
    assert_eq!(wrong("1,2\n3\n"), "line 2 of `t.csv` has 1 fields, and the first line has 2");
    assert_eq!(wrong("a,a\n1,2\n"), "`t.csv` has two columns called `a`");
    assert_eq!(decode("t.csv", b"1,2\n\xff\xfe").unwrap_err().notes, ["line 2 is not text"]);
    let x = sample(Scalar::F32, &[2, 2]);
    assert_eq!(encode("t.csv", &[(None, &x)]).unwrap(), b"0.0,1.0\n2.0,3.0\n");
    let (a, b) = (sample(Scalar::I32, &[2]), sample(Scalar::Bool, &[2]));
    assert_eq!(encode("t.csv", &[(Some("a"), &a), (Some("b"), &b)]).unwrap(), b"a,b\n0,0\n1,1\n");
    assert_eq!(encode("t.csv", &[(Some("a"), &a), (Some("x"), &x)]).unwrap_err().code, "E0715");
}

/// A .npy file of version 1 with this header.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn npy_files_of_others_are_read() {
    let big = npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2,)}", &[0, 1, 255, 254]);
    assert_eq!(decode("x.npy", &big).unwrap(), Value::Array(Array::from_items(&[1i16, -2]).unwrap()));
    let columns = npy("{'shape': (2, 3), 'descr': '|u1', 'fortran_order': True}", &[1, 2, 3, 4, 5, 6]);
    assert_eq!(
        decode("x.npy", &columns).unwrap(),
        Value::Array(Array::from_shaped(&[1u8, 3, 5, 2, 4, 6], &[2, 3]).unwrap())
    );
    let bools = npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", &[0, 7]);
    assert_eq!(decode("x.npy", &bools).unwrap(), Value::Array(Array::from_items(&[false, true]).unwrap()));
    let padded = npy(
        "{'descr': [('a', '|u1'), ('', '|V3'), ('b', '>u4')], 'fortran_order': False, 'shape': (1,)}",
        &[9, 0, 0, 0, 0, 0, 1, 2],
    );
    let record = decode("x.npy", &padded).unwrap();
    assert_eq!(field(&record, "b"), Value::Array(Array::from_items(&[258u32]).unwrap()));
}

#[test]
fn damage_is_named() {
    let title = |header: &str, data: &[u8]| failure("x.npy", &npy(header, data)).title;
    assert_eq!(
        title("{'descr': '<f4', 'fortran_order': False, 'shape': (1000,)}", &[0; 1200]),
        "`x.npy` is damaged: its header promises 4000 bytes of data, and 1200 bytes follow"
    );
    assert_eq!(
        title(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2000000000, 2000000000, 2000000000, 2000000000, 2000000000)}",
            &[]
        ),
        "`x.npy` is damaged: the size of its array is beyond all bounds"
    );
    assert_eq!(
        title("{'descr': '<f4', 'fortran_order': False, 'shape': (3000000000,)}", &[]),
        "`x.npy` holds an array with 3000000000 elements along axis 0"
    );
    assert_eq!(
        title("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", &[0]),
        "`x.npy` holds Python objects (pickled), which Clk does not run"
    );
    assert_eq!(
        title("{'descr': '<c8', 'fortran_order': False, 'shape': (0,)}", &[]),
        "`x.npy` holds complex numbers, which Clk has no type for"
    );
    assert_eq!(
        title("{'descr': '<f4', 'shape': (0,)}", &[]),
        "`x.npy` is damaged: its header does not give `fortran_order`"
    );
    assert_eq!(title("gibberish", &[]), "`x.npy` is damaged: its header is not a Python dictionary");
    assert_eq!(
        failure("x.npy", b"\x93NUMPY\x01\x00\xff").title,
        "`x.npy` is damaged: it ends inside its header, after 9 bytes"
    );
    assert_eq!(failure("x.npy", b"").title, "`x.npy` is damaged: it is empty");
    assert_eq!(failure("a/x.png", b"\xff\xd8\xff\xe0").title, "`a/x.png` is a JPEG picture, not a .png file");
    let renamed = failure("x.csv", &npy("", &[]));
    assert_eq!(renamed.help, ["give it a name that ends in `.npy`"]);
    assert_eq!(failure("x.jpg", b"").code, "E0710");
    assert_eq!(failure("a.b/x", b"").title, "the name `a.b/x` does not say which format the file has");
}

#[test]
fn archives_are_checked() {
    let x = sample(Scalar::I32, &[100]);
    let whole = encode("x.npz", &[(Some("x"), &x)]).unwrap();
    let cut = failure("x.npz", &whole[..whole.len() - 30]).title;
    assert_eq!(cut, "`x.npz` is damaged: it has no directory at its end, so it was cut off or is no zip archive");
    let mut flipped = whole.clone();
    flipped[200] ^= 1;
    assert_eq!(
        failure("x.npz", &flipped).title,
        "`x.npz` is damaged: the checksum of its entry `x.npy` does not match its bytes"
    );
    let tensors = encode("x.safetensors", &[(Some("x"), &x)]).unwrap();
    let cut = failure("x.safetensors", &tensors[..100]).title;
    assert_eq!(
        cut,
        "`x.safetensors` is damaged: the tensors that its header lists do not fill the file of 100 bytes exactly"
    );
    let picture = encode("x.png", &[(None, &sample(Scalar::U8, &[40, 40]))]).unwrap();
    assert_eq!(failure("x.png", &picture[..60]).title, "`x.png` is damaged: it ends early, after 60 bytes");
}

/// A picture of 50000 by 50000 pixels in 70 bytes: its header is right, and so is its checksum.
#[test]
fn bombs_are_refused_before_anything_is_allocated() {
    let mut png = encode("x.png", &[(None, &sample(Scalar::U8, &[1, 1]))]).unwrap();
    png[16..24].copy_from_slice(&[0, 0, 0xc3, 0x50, 0, 0, 0xc3, 0x50]);
    let crc = crc32fast::hash(&png[12..29]);
    png[29..33].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(failure("x.png", &png).code, "E0711");
    // An entry that claims to unpack to 4 GB.
    let mut npz = encode("x.npz", &[(Some("x"), &sample(Scalar::U8, &[1]))]).unwrap();
    let directory = npz.len() - 22 - 46 - 5;
    npz[directory + 10] = 8;
    npz[directory + 24..directory + 28].copy_from_slice(&0xfff0_0000u32.to_le_bytes());
    let title = failure("x.npz", &npz).title;
    assert!(title.contains("does not unpack from 129 bytes to the 4293918720 bytes it promises"), "{title}");
}
