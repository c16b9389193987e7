//! Tests file formats: values round-trip, and errors in files are reported precisely.

use std::sync::Arc;

use clk_host::array::{Array, ElementType, RecordLayout};
use clk_host::files::{decode, encode};
use clk_host::ops;
use clk_host::problem::RuntimeError;
use clk_host::value::HostValue;
use clk_scalar::Scalar;
use clk_testing::exec;

/// Returns an array with the elements 0, 1, 2, and so on; those of `bool` alternate.
fn sample(scalar: Scalar, shape: &[usize]) -> HostValue {
    let counts = ops::arange(&[HostValue::of(shape.iter().product::<usize>() as i64)]).unwrap();
    let counts = match scalar {
        Scalar::Bool => ops::binary(exec(), clk_scalar::ops::BinaryOp::Rem, &counts, &HostValue::Int(2)).unwrap(),
        _ => counts,
    };
    let dims: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
    ops::reshape(&ops::convert(exec(), scalar, &counts).unwrap(), &dims).unwrap()
}

#[track_caller]
fn field(table: &HostValue, name: &str) -> HostValue {
    ops::named_field(exec(), table, name).unwrap()
}

fn failure(name: &str, bytes: &[u8]) -> RuntimeError {
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
    let number = HostValue::of(2.5f64);
    assert_eq!(decode("n.npy", &encode("n.npy", &[(None, &number)]).unwrap()).unwrap(), number);
    let table = decode("t.npz", &encode("t.npz", &[(None, &number)]).unwrap()).unwrap();
    assert_eq!(field(&table, "arr_0"), number);
    assert_eq!(decode("t.npz", &encode("t.npz", &[(None, &table)]).unwrap()).unwrap(), table);
}

#[test]
fn structs_round_trip_in_npy() {
    let inner = RecordLayout::new(
        "record",
        [("a".into(), ElementType::Scalar(Scalar::U8)), ("b".into(), ElementType::Scalar(Scalar::F64))],
    );
    let layout = RecordLayout::new(
        "record",
        [
            ("flag".into(), ElementType::Scalar(Scalar::Bool)),
            ("pos".into(), ElementType::Vector(Scalar::F32, 3)),
            ("inner".into(), ElementType::Record(Arc::new(inner))),
        ],
    );
    let mut array = Array::zeros(ElementType::Record(Arc::new(layout)), &[2]).unwrap();
    let pos = ops::compose(Scalar::F32, 3, &[HostValue::Int(1), HostValue::Int(2), HostValue::Int(3)]).unwrap();
    ops::assign_field(&mut array, &[1], &[1], &pos).unwrap();
    ops::assign_field(&mut array, &[1], &[2, 1], &HostValue::Float(0.5)).unwrap();
    let array = HostValue::Array(array);
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
    let floats = ops::linspace(&HostValue::Float(-0.5), &HostValue::Float(1.5), 5).unwrap();
    let grey = ops::reshape(&floats, &[1, 5]).unwrap();
    let HostValue::Array(levels) = decode("p.png", &encode("p.png", &[(None, &grey)]).unwrap()).unwrap() else {
        panic!()
    };
    assert_eq!(levels.items::<u8>().unwrap(), [0, 0, 128, 255, 255]);
    let planes = sample(Scalar::U8, &[3, 8, 9]);
    let problem = encode("p.png", &[(None, &planes)]).unwrap_err();
    assert_eq!((problem.code, problem.help[0].as_str()), ("E0716", "the colors have to be the last axis"));
}

#[test]
fn tables_of_text() {
    let load = |text: &str| decode("t.csv", text.as_bytes());
    let matrix = load("1,2.5\n# note\n-3e2, nan\n").unwrap();
    let HostValue::Array(array) = &matrix else { panic!() };
    assert_eq!((array.shape(), &array.items::<f64>().unwrap()[..3]), (&[2, 2][..], &[1.0, 2.5, -300.0][..]));
    assert_eq!(load("1\n2\n").unwrap().type_name(), "[f64; 2]");
    assert_eq!(load("\u{feff}1;2\r\n3;4").unwrap().type_name(), "[f64; 2, 2]");
    let table = load("time,\"my speed\"\n0,1\n1,\n").unwrap();
    assert_eq!(field(&table, "time"), HostValue::Array(Array::from_items(&[0.0f64, 1.0]).unwrap()));
    assert_eq!(load("").unwrap().type_name(), "[f64; 0, 0]");
    let wrong = |text: &str| load(text).unwrap_err().title;
    assert_eq!(wrong("1,2\n1,x\n"), "`t.csv`, line 2, column 2: \"x\" is not a number");
    assert_eq!(wrong("1,2\n3\n"), "line 2 of `t.csv` has 1 fields, and the first line has 2");
    assert_eq!(wrong("a,a\n1,2\n"), "`t.csv` has two columns called `a`");
    assert_eq!(decode("t.csv", b"1,2\n\xff\xfe").unwrap_err().notes, ["line 2 is not text"]);
    let x = sample(Scalar::F32, &[2, 2]);
    assert_eq!(encode("t.csv", &[(None, &x)]).unwrap(), b"0.0,1.0\n2.0,3.0\n");
    let (a, b) = (sample(Scalar::I32, &[2]), sample(Scalar::Bool, &[2]));
    assert_eq!(encode("t.csv", &[(Some("a"), &a), (Some("b"), &b)]).unwrap(), b"a,b\n0,0\n1,1\n");
    assert_eq!(encode("t.csv", &[(Some("a"), &a), (Some("x"), &x)]).unwrap_err().code, "E0715");
}

/// Returns a .npy file of version 1 with this header.
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
    assert_eq!(decode("x.npy", &big).unwrap(), HostValue::Array(Array::from_items(&[1i16, -2]).unwrap()));
    let columns = npy("{'shape': (2, 3), 'descr': '|u1', 'fortran_order': True}", &[1, 2, 3, 4, 5, 6]);
    assert_eq!(
        decode("x.npy", &columns).unwrap(),
        HostValue::Array(Array::from_shaped(&[1u8, 3, 5, 2, 4, 6], &[2, 3]).unwrap())
    );
    let bools = npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", &[0, 7]);
    assert_eq!(decode("x.npy", &bools).unwrap(), HostValue::Array(Array::from_items(&[false, true]).unwrap()));
    let padded = npy(
        "{'descr': [('a', '|u1'), ('', '|V3'), ('b', '>u4')], 'fortran_order': False, 'shape': (1,)}",
        &[9, 0, 0, 0, 0, 0, 1, 2],
    );
    let record = decode("x.npy", &padded).unwrap();
    assert_eq!(field(&record, "b"), HostValue::Array(Array::from_items(&[258u32]).unwrap()));
}

#[test]
fn damaged_files_are_reported() {
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
    assert_eq!(failure("x.gif", b"").code, "E0710");
    assert_eq!(failure("a.b/x", b"").title, "the name `a.b/x` does not say which format the file has");
}

#[test]
fn archives_are_checked() {
    let x = sample(Scalar::I32, &[100]);
    let whole = encode("x.npz", &[(Some("x"), &x)]).unwrap();
    let cut = failure("x.npz", &whole[..whole.len() - 30]).title;
    assert_eq!(cut, "`x.npz` is damaged: it has no directory at its end, so it was cut off or is not a zip archive");
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

/// A file of 70 bytes, with a valid header and checksum, claims to be an image of 50000 by 50000 pixels.
#[test]
fn decompression_bombs_are_refused_before_allocation() {
    let mut png = encode("x.png", &[(None, &sample(Scalar::U8, &[1, 1]))]).unwrap();
    png[16..24].copy_from_slice(&[0, 0, 0xc3, 0x50, 0, 0, 0xc3, 0x50]);
    let crc = crc32fast::hash(&png[12..29]);
    png[29..33].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(failure("x.png", &png).code, "E0711");
    // An archive member that claims to unpack to 4 GB.
    let mut npz = encode("x.npz", &[(Some("x"), &sample(Scalar::U8, &[1]))]).unwrap();
    let directory = npz.len() - 22 - 46 - 5;
    npz[directory + 10] = 8;
    npz[directory + 24..directory + 28].copy_from_slice(&0xfff0_0000u32.to_le_bytes());
    let title = failure("x.npz", &npz).title;
    assert!(title.contains("does not unpack from 129 bytes to the 4293918720 bytes it promises"), "{title}");
}

/// Returns the strings of a column.
fn words(table: &HostValue, name: &str) -> Vec<String> {
    match field(table, name) {
        HostValue::Strings(texts) => texts.iter().map(|text| text.to_string()).collect(),
        other => panic!("texts were expected, not {}", other.type_name()),
    }
}

#[test]
fn columns_of_text_and_numbers() {
    let load = |text: &str| decode("t.csv", text.as_bytes()).unwrap();
    let people = load("\u{feff}name, age ,note\r\n Ann ,31,\"a, \"\"b\"\"\r\nc\"\r\n\r\n\"Zoe\",,  \r\n");
    assert_eq!(ops::keys(&people).unwrap(), HostValue::Strings(["name", "age", "note"].map(Into::into).into()));
    assert_eq!(
        (words(&people, "name"), words(&people, "note")),
        (vec!["Ann".into(), "Zoe".into()], vec!["a, \"b\"\r\nc".into(), String::new()])
    );
    let HostValue::Array(ages) = field(&people, "age") else { panic!() };
    assert!(ages.items::<f64>().unwrap()[0] == 31.0 && ages.items::<f64>().unwrap()[1].is_nan());
    // A column is text if it contains a word, quotes, or digits that conversion to a number would lose.
    let kinds = load("a;b;c;d;e\n1;\"1\";n/a;12345678901234567;0x10\n2;2;3;1;1\n");
    let text: Vec<bool> =
        ["a", "b", "c", "d", "e"].map(|name| matches!(field(&kinds, name), HostValue::Strings(_))).into();
    assert_eq!(text, [false, true, true, true, true]);
    assert_eq!(
        (words(&kinds, "d")[0].as_str(), words(&kinds, "b")),
        ("12345678901234567", vec!["1".into(), "2".into()])
    );
    let exact = load("a\n9007199254740992\n-9007199254740993.0\n1e300\n");
    assert!(matches!(field(&exact, "a"), HostValue::Array(_)), "an even integer, and what is no integer");
    // Line breaks of every kind, a last line without a line break, empty lines, and commas, semicolons or tabs as
    // separators.
    for text in
        ["a,b\n1,x\n", "a,b\r1,x", "a,b\r\n1,x\r\n", "a\tb\n1\tx\n", "\"a\";b\n1;x", "\n\n a , b \n\n1, x\n  \n"]
    {
        let table = load(text);
        assert_eq!(
            (words(&table, "b"), field(&table, "a")),
            (vec!["x".into()], HostValue::Array(Array::from_items(&[1.0f64]).unwrap())),
            "{text:?}"
        );
    }
    assert_eq!(words(&load("\"a,1\";b\n\"x;y\";2\n"), "a,1"), ["x;y"], "a comma in quotes separates nothing");
    assert_eq!(
        (words(&load("a\n\"\"\n\"\"\"\"\n"), "a"), ops::len(&field(&load("a,b\n"), "a")).unwrap()),
        (vec![String::new(), "\"".into()], HostValue::of(0))
    );
    // Quoted fields are text: they are column names in the first line, and string values below it.
    let quoted = load("\"1\",2\n3,\"4\"\n");
    assert_eq!(ops::keys(&quoted).unwrap(), HostValue::Strings(["1", "2"].map(Into::into).into()));
    assert_eq!(field(&quoted, "1"), HostValue::Array(Array::from_items(&[3.0f64]).unwrap()));
    assert_eq!(words(&quoted, "2"), ["4"]);
    assert_eq!(words(&load("\"\"\n\"5\"\n"), ""), ["5"]);
    assert_eq!(load("1,\n3,4\n").type_name(), "[f64; 2, 2]");
    // In a table without rows, a column with a quoted name is text, and other columns are numbers.
    let none = load("a,\"b\"\n");
    assert_eq!((field(&none, "a").type_name(), words(&none, "b").len()), ("[f64; 0]".into(), 0));
    let wrong = |text: &str| decode("t.csv", text.as_bytes()).unwrap_err().title;
    assert_eq!(wrong("a,b\n1,2\n\n3\n"), "line 4 of `t.csv` has 1 fields, and the first line has 2");
    assert_eq!(wrong("a,b\n1,\"x\ny\",3\n"), "line 2 of `t.csv` has 3 fields, and the first line has 2");
    assert_eq!(wrong("a,b\n1,\"x\n2,3\n"), "line 2 of `t.csv` has a quote that is not closed");
    assert_eq!(wrong("a,b\n1,\"x\r\ny\"z\n"), "line 3 of `t.csv` continues after a closing quote");
    assert_eq!(wrong("1,2\n3,x\n"), "`t.csv`, line 2, column 2: \"x\" is not a number");
    assert_eq!(wrong("1,2\n3,\"4\"\n"), "`t.csv`, line 2, column 2: \"4\" is in quotes, so it is text");
}

#[test]
fn columns_of_text_are_saved_and_read_back() {
    let texts = |items: &[&str]| HostValue::Strings(items.iter().map(|&item| item.into()).collect());
    let hard = texts(&[
        "",
        "1",
        "007",
        " a ",
        "a,b",
        "\"",
        "a\"\"b",
        "line\nline",
        "\r\n",
        "#x",
        "é漢🎈",
        "nan",
        "\t",
        "\u{feff}",
        ";",
    ]);
    let counts = sample(Scalar::F64, &[15]);
    let columns = [(Some("#hard, \"name\""), &hard), (Some("n"), &counts), (Some("1"), &counts), (Some("1.5 "), &hard)];
    let bytes = encode("t.csv", &columns).unwrap();
    let table = decode("t.csv", &bytes).unwrap();
    for (name, value) in columns {
        assert_eq!(&field(&table, name.unwrap()), value, "{name:?}");
    }
    // The table itself round-trips.
    assert_eq!(encode("t.csv", &[(None, &table)]).unwrap(), bytes);
    let refused = |name: &str, columns: &[(Option<&str>, &HostValue)]| encode(name, columns).unwrap_err();
    assert_eq!(refused("t.npz", &columns).title, "a .npz file holds no text");
    assert_eq!(refused("t.npy", &[(None, &hard)]).code, "E0715");
    assert_eq!(refused("t.csv", &[(None, &hard)]).help, ["give it one: `save(\"names.csv\", name = names)`"]);
    // Tables without rows, and tables whose column names are numbers or empty.
    let (no_texts, no_numbers) = (texts(&[]), sample(Scalar::F64, &[0]));
    let digits = texts(&["1", "2.5"]);
    let halves = sample(Scalar::F64, &[2]);
    for columns in [
        vec![(Some("a"), &no_texts), (Some("b"), &no_numbers), (Some("c d"), &no_texts), (Some("7"), &no_numbers)],
        vec![(Some("1"), &no_texts), (Some("2"), &no_texts)],
        vec![(Some("1"), &digits), (Some("2"), &digits)],
        vec![(Some("1"), &halves), (Some("nan"), &digits)],
        vec![(Some("1"), &halves), (Some("-2"), &halves)],
        vec![(Some(""), &halves)],
        vec![(Some(""), &digits), (Some("column_1"), &halves)],
    ] {
        let bytes = encode("t.csv", &columns).unwrap();
        let table = decode("t.csv", &bytes).unwrap();
        for (name, value) in columns {
            assert_eq!(&field(&table, name.unwrap()), value, "{}", String::from_utf8_lossy(&bytes));
        }
    }
    for name in ["a b", "", "1"] {
        assert_eq!(
            refused("t.csv", &[(Some(name), &no_numbers)]).title,
            format!("a .csv file can't have a column of no numbers called `{name}`")
        );
    }
    assert_eq!(refused("t.csv", &[(Some("a"), &hard), (Some("b"), &texts(&["x"]))]).notes, ["the first column has 15"]);
}

/// A table of arbitrary strings round-trips.
#[test]
fn tables_round_trip() {
    use clk_testing::random::Random;
    let mut random = Random(5);
    let alphabet = ["a", "1", "\"", ",", ";", "\t", "\n", "\r", " ", "#", "é", ".", "-", "漢", "\u{0}"];
    for _ in 0..3000 {
        let mut word = || -> String { (0..random.next_below(5)).map(|_| random.pick(&alphabet)).collect() };
        let texts: Vec<Vec<String>> = (0..3).map(|_| vec![word(), word(), word()]).collect();
        let names = [word() + "x", word() + "y", word() + "z"];
        let rows = random.next_below(4);
        let numbers: Vec<f64> = (0..rows).map(|row| row as f64 / 4.0).collect();
        let columns: Vec<HostValue> = texts
            .iter()
            .map(|texts| match random.next_below(3) {
                0 => HostValue::Array(Array::from_items(&numbers).unwrap()),
                _ => HostValue::Strings(texts[..rows].iter().map(|text| text.as_str().into()).collect()),
            })
            .collect();
        let named_columns: Vec<(Option<&str>, &HostValue)> =
            names.iter().map(|name| Some(name.as_str())).zip(&columns).collect();
        let Ok(bytes) = encode("t.csv", &named_columns) else {
            assert!(rows == 0);
            continue;
        };
        let table = decode("t.csv", &bytes).unwrap_or_else(|problem| panic!("{problem:?}: {named_columns:?}"));
        for (name, column) in &named_columns {
            assert_eq!(&&field(&table, name.unwrap()), column, "{}", String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn tables_are_shown_as_tables() {
    let shown = |text: &str| clk_host::format::print(&decode("t.csv", text.as_bytes()).unwrap()).unwrap();
    assert_eq!(
        shown("name,age,id\nAnn,31,\"1\"\n\"Bob\nB\",7.25,\"2\"\n"),
        "name     age  id\nstr      f64  str\nAnn     31.0  1\nBob\\nB  7.25  2"
    );
    let many: String = (0..100).map(|i| format!("{i},t{i}\n")).collect();
    let many = shown(&format!("n,t\n{many}"));
    assert_eq!(
        (many.lines().nth(2), many.lines().nth(7), many.lines().last()),
        (Some(" 0.0  t0"), Some(" ...  ..."), Some("100 rows"))
    );
    let names: Vec<String> = (0..40).map(|i| format!("column{i}")).collect();
    let wide = shown(&format!("{}\n{}\n", names.join(","), ["1"; 40].join(",")));
    assert!(wide.lines().all(|line| line.chars().count() <= 75), "{wide}");
    assert_eq!(wide.lines().last(), Some("and 32 more columns: column8 to column39"));
}

/// Lines that begin with `#` are comments if they precede all other lines or are among lines of numbers. Otherwise they
/// are data, or the file is rejected as ambiguous.
#[test]
fn table_comments_are_distinguished_from_data() {
    let load = |text: &str| decode("t.csv", text.as_bytes());
    let matrix = |text: &str| {
        let HostValue::Array(array) = load(text).unwrap_or_else(|problem| panic!("{text:?}: {problem:?}")) else {
            panic!("no array: {text:?}")
        };
        (array.shape().to_vec(), array.items::<f64>().expect("numbers").to_vec())
    };
    let shown = |text: &str| {
        let table = load(text).unwrap_or_else(|problem| panic!("{text:?}: {problem:?}"));
        clk_host::format::print(&table).expect("a table")
    };
    // Comments.
    for text in [
        "# note\n1,2\n3,4\n",
        "#note\n1,2\n3,4\n",
        "#note, and more, and more\n1,2\n3,4\n",
        "# x,y\n1,2\n3,4\n",
        "#!x,y\n##x,y\n#\n\n  # x\n1,2\n3,4\n",
        "1,2\n# 3,3\n3,4\n#end\n",
        "# \"an open quote\n1;2\n3;4\n",
        "# x y\n1 2\n3 4\n",
        "#x y\n1 2\n3 4\n",
    ] {
        assert_eq!(matrix(text), (vec![2, 2], vec![1.0, 2.0, 3.0, 4.0]), "{text:?}");
    }
    assert_eq!(matrix("# only a comment, and nothing else\n"), (vec![0, 0], vec![]));
    let lines = |text: &str| shown(text).lines().skip(2).map(|line| line.trim().to_string()).collect::<Vec<_>>();
    assert_eq!(lines("# a note\nname,n\nAnn,2\n"), ["Ann   2.0"]);
    // Data.
    assert_eq!(lines("color,n\n#ff0000,2\n#00ff00,3\n"), ["#ff0000  2.0", "#00ff00  3.0"]);
    assert_eq!(lines("color\n# red\n#00ff00\n"), ["# red", "#00ff00"]);
    assert_eq!(lines("\"#color\",n\n#1,2\n"), ["#1      2.0"]);
    assert_eq!(lines("n,color\n2,#ff0000\n"), ["2.0  #ff0000"]);
    // In these files, the line may be a comment or data, so the file is rejected.
    for text in [
        "#ff0000,2\n#00ff00,3\n",
        "#ff0000,2\nred,3\n",
        "#ff0000,2\n1,3\n",
        "#ff0000\n",
        "#ff0000\nred\n",
        "# of items,fruit\n3,apple\n",
        "#x;y\n1;2\n",
        "\n\n#x\ty\n1\t2\n",
        "1,2\n#ff0000,2\n",
        "1\n#2\n",
    ] {
        let problem = load(text).expect_err(text);
        assert_eq!(problem.code, "E0714", "{text:?}");
        assert!(
            problem.title.ends_with("begins with `#`, and may be a comment or data"),
            "{text:?}: {}",
            problem.title
        );
    }
    assert!(load("\n#ff0000,2\n").expect_err("either").title.starts_with("line 2 "));
    let problem = load("a,b\n1,2\n# a note\n3,4\n").expect_err("too few fields");
    assert_eq!(problem.title, "line 3 of `t.csv` has 1 fields, and the first line has 2");
    assert_eq!(problem.help, ["comments must come before the line of names"]);
}

/// Blanks may separate the columns of a file that contains only numbers. If a file may have one column or several, it
/// is rejected.
#[test]
fn blanks_separate_columns_of_numbers() {
    let load = |text: &str| decode("t.csv", text.as_bytes());
    let matrix = |text: &str| {
        let HostValue::Array(array) = load(text).unwrap_or_else(|problem| panic!("{text:?}: {problem:?}")) else {
            panic!("no array: {text:?}")
        };
        (array.shape().to_vec(), array.items::<f64>().expect("numbers").to_vec())
    };
    for text in ["1 2\n3 4\n", " 1.0e+00  2\n   3 4  \n", "1 \t 2\n3\t4\n\n", "1 2\r\n3 4", "# a b\n1 2\n# c\n3 4"] {
        assert_eq!(matrix(text), (vec![2, 2], vec![1.0, 2.0, 3.0, 4.0]), "{text:?}");
    }
    assert_eq!(matrix("1\n2\n"), (vec![2], vec![1.0, 2.0]));
    let (shape, rows) = matrix("nan -inf 1e3\n");
    assert!(shape == [1, 3] && rows[0].is_nan() && rows[1..] == [f64::NEG_INFINITY, 1e3]);
    let wrong = |text: &str| {
        let problem = load(text).expect_err(text);
        assert_eq!(problem.code, "E0714", "{text:?}");
        problem.title
    };
    assert_eq!(wrong("1 2\n3 4 5\n"), "line 2 of `t.csv` has 3 fields, and the first line has 2");
    assert_eq!(wrong("1 2\n3 x\n"), "`t.csv`, line 2, column 2: \"x\" is not a number");
    let names = "line 1 of `t.csv` may be one column whose name has blanks, or several columns between blanks";
    assert_eq!(wrong("first last\nAnn Smith\n"), names);
    assert_eq!(wrong("name age\nAnn 31\n"), names);
    let expected = "line 2 of `t.csv` has several numbers between blanks, and the first line names one column";
    assert_eq!(wrong("x y\n1 2\n"), expected);
    assert_eq!(wrong("x\n1 2\n"), expected);
    assert_eq!(wrong("1 2,3\n4,5\n"), "line 1 of `t.csv` has several numbers between blanks in a field");
    assert_eq!(wrong("# a\n1 2\t3\n"), "line 2 of `t.csv` has several numbers between blanks in a field");
    assert_eq!(wrong("1,5;2,5\n3,5;4\n"), "line 1 of `t.csv` has numbers with decimal commas");
    // Quotes, or lines with different numbers of words, show that the file has only one column.
    for text in ["\"first last\"\nAnn Smith\n", "name\nAnn Smith\n", "full name of all\nAnn Smith\n", "x\n\"1 2\"\n"] {
        let HostValue::Table(table) = load(text).unwrap_or_else(|problem| panic!("{text:?}: {problem:?}")) else {
            panic!("no table: {text:?}")
        };
        assert!(table.len() == 1 && matches!(&table[0], HostValue::Strings(texts) if texts.len() == 1), "{text:?}");
    }
}

/// An archive member of an unsupported type causes an error only when it is read; the message names the member.
#[test]
fn unreadable_members_of_archives_are_skipped() {
    use clk_host::ops;
    let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[8,12]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(&[0, 0, 128, 63, 0, 0, 0, 64, 1, 2, 3, 4]);
    let table = decode("m.safetensors", &bytes).expect("the other tensor");
    let a = ops::named_field(exec(), &table, "a").expect("a tensor of `f32`");
    assert_eq!(clk_host::format::print(&a).expect("numbers"), "[1. 2.]");
    let problem = ops::named_field(exec(), &table, "b").expect_err("a tensor of F8");
    assert_eq!((problem.code, problem.title.contains("`b` of type F8_E4M3")), ("E0713", true), "{}", problem.title);
    assert_eq!(clk_host::format::print(&ops::keys(&table).expect("names")).expect("texts"), "[\"a\"]");
    assert!(clk_host::format::print(&table).expect("a table").ends_with("\nb: unreadable"));
    let problem = encode("copy.npz", &[(None, &table)]).expect_err("a member is missing");
    assert_eq!(problem.title, "the member `b` of this table cannot be saved");
    // An archive without a readable member is rejected, and so is a damaged archive.
    let json_header =
        header.replace(r#""a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"#, "").replace("[8,12]", "[0,4]");
    let mut bytes = (json_header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(json_header.as_bytes());
    bytes.extend_from_slice(&[1, 2, 3, 4]);
    assert_eq!(decode("m.safetensors", &bytes).expect_err("nothing is readable").code, "E0713");
    bytes.pop();
    assert_eq!(decode("m.safetensors", &bytes).expect_err("it is cut off").code, "E0711");
}
