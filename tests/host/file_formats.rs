//! Tests text files of numbers, Matrix Market, JSON, sound, JPEG and animations, and archives that are read in parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clk_base::file_error::FileError;
use clk_host::array::Array;
use clk_host::files::{ByteSource, decode, encode, open_archive};
use clk_host::format;
use clk_host::ops;
use clk_host::problem::RuntimeError;
use clk_host::value::HostValue;
use clk_scalar::Scalar;
use clk_testing::random::Random;
use clk_testing::{exec, root};

fn load(name: &str, text: &str) -> HostValue {
    decode(name, text.as_bytes()).unwrap_or_else(|problem| panic!("{}", problem.title))
}

#[track_caller]
fn refused(name: &str, text: &str) -> RuntimeError {
    decode(name, text.as_bytes()).expect_err("refused")
}

fn save(name: &str, value: &HostValue) -> String {
    String::from_utf8(encode(name, &[(None, value)]).expect("saved")).expect("text")
}

#[track_caller]
fn field(table: &HostValue, name: &str) -> HostValue {
    ops::named_field(exec(), table, name).expect("a field")
}

fn show(value: &HostValue) -> String {
    format::print(value).expect("text")
}

fn array(value: &HostValue) -> &Array {
    match value {
        HostValue::Array(array) => array,
        other => panic!("{} is not an array", other.type_name()),
    }
}

/// Returns an array with random bits, except that floats are finite.
fn random_array(scalar: Scalar, shape: &[usize], random: &mut Random) -> HostValue {
    let mut array = Array::zeros(scalar, shape).expect("an array");
    let size = scalar.size();
    for element in array.bytes_mut().expect("bytes").chunks_exact_mut(size) {
        loop {
            let bits = match (scalar, random.chance(50)) {
                (Scalar::Bool, _) => random.word() % 2,
                // Small integers and random bits.
                (scalar, true) if !scalar.is_float() => random.word() % 4,
                _ => random.word(),
            };
            element.copy_from_slice(&bits.to_le_bytes()[..size]);
            if clk_scalar::ScalarValue::from_bytes(scalar, element).as_f64().is_finite() {
                break;
            }
        }
    }
    HostValue::Array(array)
}

/// Returns whether two arrays have the same elements after conversion to a type.
fn agree(scalar: Scalar, loaded: &HostValue, expected: &HostValue) -> bool {
    ops::convert(exec(), scalar, loaded).is_ok_and(|loaded| &loaded == expected)
}

/// Text formats store the values of all types exactly. They are read as `f64`, or as integers of 64 bits.
#[test]
fn random_arrays_of_all_types_round_trip_as_text() {
    let mut random = Random::from_seed(3);
    for scalar in Scalar::ALL {
        for shape in [&[7][..], &[4, 3], &[1, 5], &[6, 1], &[2, 3, 2]] {
            let x = random_array(scalar, shape, &mut random);
            for name in ["x.txt", "x.mtx", "x.json"] {
                if !matches!((name, shape.len()), ("x.json", _) | ("x.txt", 1 | 2) | ("x.mtx", 2)) {
                    assert_eq!(encode(name, &[(None, &x)]).expect_err("too many axes").code, "E0715");
                    continue;
                }
                let text = save(name, &x);
                match decode(name, text.as_bytes()) {
                    // `f64` does not have all integers of 64 bits.
                    Err(problem) => assert!(
                        matches!(scalar, Scalar::I64 | Scalar::U64)
                            && (name == "x.txt" && problem.title.contains("no `f64` is exactly")),
                        "{name}: {scalar}: {}",
                        problem.title
                    ),
                    Ok(loaded) => {
                        let loaded = match (name, shape) {
                            // A column of a text file is an array with one axis.
                            ("x.txt", [rows, 1]) => ops::reshape(&loaded, &[*rows as i64, 1]).expect("a column"),
                            _ => loaded,
                        };
                        assert!(agree(scalar, &loaded, &x), "{name}, {scalar}:\n{text}\n{}", show(&loaded));
                    }
                }
            }
        }
    }
}

#[test]
fn text_files_of_numbers() {
    let text = "# time value\n0.5 1\n\n  2\t-4e2 # note\n3 nan#end\n";
    assert_eq!(show(&load("t.txt", text)), "[[   0.5    1. ]\n [   2.  -400. ]\n [   3.     nan]]");
    assert_eq!(show(&load("t.TXT", "1\r\n2\r\n")), "[1. 2.]");
    assert_eq!(load("t.txt", "1 2\n").type_name(), "[f64; 1, 2]");
    for empty in ["", "# nothing\n", "\n\n"] {
        assert_eq!(load("t.txt", empty).type_name(), "[f64; 0, 0]");
    }
    assert_eq!(refused("t.txt", "1 2\n3\n").title, "line 2 of `t.txt` has 1 fields, and the first line has 2");
    let names = refused("t.txt", "x y\n1 2\n");
    assert_eq!(names.title, "`t.txt`, line 1, column 1: \"x\" is not a number");
    assert_eq!(names.help, ["begin a line of names or comments with `#`"]);
    let commas = refused("t.txt", "1, 2\n");
    assert_eq!(commas.help, ["if commas or semicolons separate its columns, it is a .csv file: rename it"]);
    assert_eq!(refused("t.txt", "9007199254740993\n").code, "E0714");
    let x = ops::reshape(&ops::arange(&[HostValue::Int(4)]).expect("4"), &[2, 2]).expect("2 by 2");
    assert_eq!(save("t.txt", &x), "0 1\n2 3\n");
    let two = encode("t.txt", &[(Some("a"), &x), (Some("b"), &x)]).expect_err("two arrays");
    assert_eq!(two.title, "a .txt file holds one array, not 2");
}

/// Returns the dense matrix of a sparse one. Adds duplicates.
fn dense(table: &HostValue) -> Vec<Vec<f64>> {
    let ints = |name: &str| array(&field(table, name)).items::<i32>().expect("i32").to_vec();
    let (starts, cols, shape) = (ints("starts"), ints("cols"), ints("shape"));
    let vals = ops::convert(exec(), Scalar::F64, &field(table, "vals")).expect("numbers");
    let vals = array(&vals).items::<f64>().expect("f64").to_vec();
    assert_eq!((starts.len(), starts[0]), (shape[0] as usize + 1, 0));
    assert_eq!((cols.len(), starts[starts.len() - 1] as usize), (vals.len(), vals.len()));
    let mut rows = vec![vec![0.0; shape[1] as usize]; shape[0] as usize];
    for (row, range) in starts.windows(2).enumerate() {
        let range = range[0] as usize..range[1] as usize;
        assert!(cols[range.clone()].is_sorted(), "the columns of row {row} ascend");
        range.for_each(|at| rows[row][cols[at] as usize] += vals[at]);
    }
    rows
}

const SPARSE: &str =
    "%%MatrixMarket matrix coordinate real general\n% a comment\n\n3 4 5\n3 1 2.5\n1 4 -1\n1 2 7e1\n3 1 1\n1 1 0\n";

#[test]
fn sparse_matrices() {
    let a = load("a.mtx", SPARSE);
    assert_eq!(show(&ops::keys(&a).expect("names")), "[\"starts\", \"cols\", \"vals\", \"shape\"]");
    assert_eq!(show(&field(&a, "starts")), "[0 3 3 5]");
    assert_eq!(show(&field(&a, "cols")), "[0 1 3 0 0]");
    assert_eq!(show(&field(&a, "vals")), "[ 0.  70.  -1.   2.5  1. ]");
    assert_eq!(show(&field(&a, "shape")), "[3 4]");
    assert_eq!(field(&a, "vals").type_name(), "[f64; 5]");
    let saved = save("a.mtx", &a);
    assert_eq!(
        saved,
        "%%MatrixMarket matrix coordinate real general\n3 4 5\n1 1 0.0\n1 2 70.0\n1 4 -1.0\n3 1 2.5\n3 1 1.0\n"
    );
    assert_eq!(load("a.mtx", &saved), a);

    let symmetric = load("a.mtx", "%%MatrixMarket matrix coordinate integer symmetric\n3 3 3\n1 1 5\n3 1 2\n3 2 -4\n");
    assert_eq!(field(&symmetric, "vals").type_name(), "[i64; 5]");
    assert_eq!(dense(&symmetric), [[5.0, 0.0, 2.0], [0.0, 0.0, -4.0], [2.0, -4.0, 0.0]]);
    let skew = load("a.mtx", "%%MatrixMarket MATRIX Coordinate Real Skew-Symmetric\n2 2 1\n2 1 3\n");
    assert_eq!(dense(&skew), [[0.0, -3.0], [3.0, 0.0]]);
    let pattern = load("a.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n1 1\n2 1\n");
    assert_eq!(dense(&pattern), [[1.0, 1.0], [1.0, 0.0]]);
    let empty = load("a.mtx", "%%MatrixMarket matrix coordinate real general\n2 0 0\n");
    assert_eq!(show(&field(&empty, "starts")), "[0 0 0]");
    assert_eq!(load("a.mtx", &save("a.mtx", &empty)), empty);
}

#[test]
fn dense_matrices() {
    let general = "%%MatrixMarket matrix array integer general\n2 3\n1\n2\n3\n4\n5\n6\n";
    let a = load("a.mtx", general);
    assert_eq!((a.type_name().as_str(), show(&a).as_str()), ("[i64; 2, 3]", "[[1 3 5]\n [2 4 6]]"));
    assert_eq!(save("a.mtx", &a), general);
    let symmetric = load("a.mtx", "%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n3\n");
    assert_eq!(show(&symmetric), "[[1. 2.]\n [2. 3.]]");
    let skew = load("a.mtx", "%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n");
    assert_eq!(show(&skew), "[[ 0. -1. -2.]\n [ 1.  0. -3.]\n [ 2.  3.  0.]]");
}

#[test]
fn invalid_matrices_are_refused() {
    let coordinate =
        |kind: &str, rest: &str| refused("a.mtx", &format!("%%MatrixMarket matrix coordinate {kind}\n{rest}")).title;
    assert_eq!(coordinate("real general", ""), "`a.mtx` is damaged: it has no line with the size of the matrix");
    assert_eq!(coordinate("real general", "2 2\n"), "line 2 of `a.mtx` is not the 3 sizes of a matrix");
    assert_eq!(
        coordinate("real general", "2 2 2\n1 1 1\n"),
        "`a.mtx` is damaged: its header promises 2 entries, and 1 follow"
    );
    assert_eq!(
        coordinate("real general", "2 2 1\n1 3 1\n"),
        "line 3 of `a.mtx` has the index \"3\", which is not from 1 to 2"
    );
    assert_eq!(
        coordinate("real general", "2 2 1\n0 1 1\n"),
        "line 3 of `a.mtx` has the index \"0\", which is not from 1 to 2"
    );
    assert_eq!(coordinate("real general", "2 2 1\n1 1 x\n"), "line 3 of `a.mtx` has no f64: \"x\"");
    assert_eq!(coordinate("real general", "2 2 1\n1 1\n"), "line 3 of `a.mtx` has no value");
    let inexact = refused("a.mtx", "%%MatrixMarket matrix array real general\n1 1\n9007199254740993\n");
    assert_eq!(inexact.title, "line 3 of `a.mtx` has no f64: \"9007199254740993\"");
    assert_eq!(inexact.notes, ["no `f64` is exactly this integer"]);
    assert_eq!(coordinate("integer general", "2 2 1\n1 1 1.5\n"), "line 3 of `a.mtx` has no i64: \"1.5\"");
    assert_eq!(
        coordinate("real general", "1 1 1\n1 1 1\n1 1 1\n"),
        "line 4 of `a.mtx` follows the 1 entries of the matrix"
    );
    assert_eq!(
        coordinate("real general", "1 1 1\n1 1 1 1\n"),
        "line 3 of `a.mtx` has more words than an entry of this matrix"
    );
    assert_eq!(
        coordinate("pattern general", "1 1 1\n1 1 1\n"),
        "line 3 of `a.mtx` has a value, and a pattern has none"
    );
    assert_eq!(
        coordinate("real skew-symmetric", "2 2 1\n2 2 1\n"),
        "line 3 of `a.mtx` is on the diagonal, and the matrix is skew-symmetric"
    );
    assert_eq!(
        coordinate("real symmetric", "2 3 0\n"),
        "`a.mtx` is damaged: it holds a symmetric matrix of 2 rows and 3 columns"
    );
    let both = refused("a.mtx", "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 2 1\n2 1 1\n");
    assert_eq!(
        both.notes,
        ["lines 3 and 4 list both halves of a symmetric matrix, of which one follows from the other"]
    );
    let integer = "%%MatrixMarket matrix coordinate integer skew-symmetric\n2 2 1\n2 1 -9223372036854775808\n";
    assert_eq!(refused("a.mtx", integer).title, "line 3 of `a.mtx` has a value without a negative");
    assert_eq!(coordinate("complex general", "1 1 0\n"), "`a.mtx` holds complex numbers, which Clk has no type for");
    assert_eq!(
        refused("a.mtx", "1 1 0\n").title,
        "`a.mtx` is damaged: its first line is not the header of a Matrix Market file"
    );
    // Sizes in a header are no reason to allocate memory.
    for sizes in ["2147483647 1 0", "2147483647 2147483647 2147483647"] {
        assert_eq!(
            refused("a.mtx", &format!("%%MatrixMarket matrix coordinate real general\n{sizes}\n")).code,
            "E0713"
        );
    }
    let array = refused("a.mtx", "%%MatrixMarket matrix array real symmetric\n2000000000 2000000000\n");
    assert_eq!(array.code, "E0711", "{}", array.title);
}

#[test]
fn only_matrices_are_saved_as_such() {
    let ints = |items: &[i32]| HostValue::Array(Array::from_items(items).expect("an array"));
    let vals = HostValue::Array(Array::from_items(&[1.5f32, 2.5]).expect("an array"));
    let (starts, cols, shape) = (ints(&[0, 1, 2]), ints(&[1, 0]), ints(&[2, 2]));
    let save = |starts: &HostValue, cols: &HostValue, shape: &HostValue| {
        let named = [(Some("vals"), &vals), (Some("starts"), starts), (Some("cols"), cols), (Some("shape"), shape)];
        encode("a.mtx", &named).map(|bytes| String::from_utf8(bytes).expect("text")).map_err(|problem| problem.title)
    };
    let text = save(&starts, &cols, &shape).expect("a matrix");
    assert_eq!(text, "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 1.5\n2 1 2.5\n");
    for (starts, cols, shape, reason) in [
        (&ints(&[0, 2]), &cols, &shape, "`starts` has 2 elements, and `shape` has 2 rows"),
        (&ints(&[0, 2, 1]), &cols, &shape, "`starts` does not ascend from 0 to the 2 values"),
        (&ints(&[1, 1, 2]), &cols, &shape, "`starts` does not ascend from 0 to the 2 values"),
        (&starts, &ints(&[1, 2]), &shape, "the column 2 is not from 0 to 1"),
        (&starts, &ints(&[-1, 0]), &shape, "the column -1 is not from 0 to 1"),
        (&starts, &ints(&[1]), &shape, "`cols` has 1 elements, and `vals` has 2"),
        (&starts, &cols, &ints(&[2]), "`shape` has 1 elements, not 2"),
        (&starts, &cols, &ints(&[2, -1]), "`shape` has a number of columns that is not from 0 to 2⁶³ - 1"),
    ] {
        assert_eq!(save(starts, cols, shape), Err(format!("this is not a sparse matrix: {reason}")));
    }
    assert!(save(&vals, &cols, &shape).is_err_and(|title| title.contains("1-d array of integers, not [f32; 2]")));
    assert_eq!(encode("a.mtx", &[(None, &vals)]).expect_err("one axis").code, "E0715");
}

#[test]
fn json_arrays() {
    for (text, ty, shown) in [
        ("[1, 2, -3]", "[i64; 3]", "[ 1  2 -3]"),
        (" [ [1,2] , [3,4.5] ]\n", "[f64; 2, 2]", "[[1.  2. ]\n [3.  4.5]]"),
        ("[18446744073709551615, 0]", "[u64; 2]", "[18446744073709551615                    0]"),
        ("[true, false]", "[bool; 2]", "[ true false]"),
        ("[]", "[f64; 0]", "[]"),
        ("[[], []]", "[f64; 2, 0]", "[]"),
        ("[\"a\", \"b\\u0301\\n\"]", "[str; 2]", "[\"a\", \"b\\u{301}\\n\"]"),
        ("1e3", "f64", "1000.0"),
        ("true", "bool", "true"),
    ] {
        let value = load("x.json", text);
        assert_eq!((value.type_name().as_str(), show(&value).as_str()), (ty, shown), "{text}");
    }
    let table = load("x.json", "{\"a\": [1.5], \"n\": 3, \"names\": [\"x\"]}");
    assert_eq!(field(&table, "n"), HostValue::of(3i64));
    assert_eq!(field(&table, "names").type_name(), "[str; 1]");
    let copy = save("x.json", &table);
    assert_eq!(copy, "{\"a\": [1.5],\n \"n\": 3,\n \"names\": [\"x\"]}\n");
    assert_eq!(load("x.json", &copy), table);
    let cube = ops::reshape(&ops::arange(&[HostValue::Int(8)]).expect("8"), &[2, 2, 2]).expect("a cube");
    assert_eq!(save("x.json", &cube), "[[[0, 1],\n[2, 3]],\n[[4, 5],\n[6, 7]]]\n");
}

#[test]
fn invalid_json_is_refused() {
    for (text, title) in [
        ("[1,\n[2]]", "line 2 of `x.json` has an array among elements"),
        ("[[1],\n2]", "line 2 of `x.json` has an element among arrays"),
        ("[[1, 2],\n[3]]", "line 2 of `x.json` has an array of 1 elements, and the first one at this depth has 2"),
        ("[1, true]", "line 1 of `x.json` has an element of another type than the elements before it"),
        ("[1, null]", "line 1 of `x.json` has a `null`"),
        ("[{}]", "line 1 of `x.json` has an object in place of an array or a number"),
        ("[1e999]", "line 1 of `x.json` has the number 1e999, too large for an `f64`"),
        ("[18446744073709551616]", "line 1 of `x.json` has the integer 18446744073709551616, too large for 64 bits"),
        (
            "[-1, 18446744073709551615]",
            "line 1 of `x.json` has an array with negative integers and integers beyond an `i64`",
        ),
        (
            "[9007199254740993, 0.5]",
            "line 1 of `x.json` belongs to an array of `f64`, and no `f64` is exactly 9007199254740993",
        ),
        (
            "[0.5, 9007199254740993]",
            "line 1 of `x.json` belongs to an array of `f64`, and no `f64` is exactly 9007199254740993",
        ),
        ("{\"a\": 1, \"a\": 2}", "line 1 of `x.json` has a second member called \"a\""),
        ("{\"a\": {}}", "line 1 of `x.json` has an object in place of an array or a number"),
        ("[[\"a\"]]", "line 1 of `x.json` has a text that is not in an array with one axis"),
    ] {
        let problem = refused("x.json", text);
        assert_eq!((problem.code, problem.title.as_str()), ("E0714", title), "{text}");
    }
    for text in ["[1,]", "[1 2]", "", "[", "{\"a\"", "[01]", "[.5]"] {
        let problem = refused("x.json", text);
        assert!(matches!(problem.code, "E0711" | "E0714"), "{text}: {}", problem.title);
    }
    assert!(refused("x.json", "[1, NaN]").notes[0].contains("neither NaN nor infinities"));
    let deep = refused("x.json", &"[".repeat(100_000));
    assert_eq!(deep.code, "E0714");
    let closed = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(refused("x.json", &closed).title, "line 1 of `x.json` has an array with more than 32 axes");
    let infinite = HostValue::Array(Array::from_items(&[1.0, f64::INFINITY]).expect("an array"));
    assert_eq!(encode("x.json", &[(None, &infinite)]).expect_err("an infinity").title, "JSON has no inf");
}

#[test]
fn sounds_round_trip() {
    let mut random = Random::from_seed(5);
    let rate = HostValue::of(44_100i32);
    let silence = random_array(Scalar::U8, &[4], &mut random);
    let named = [(Some("samples"), &silence), (Some("rate"), &HostValue::of(true))];
    assert_eq!(encode("s.wav", &named).expect_err("a wrong rate").code, "E0715");
    for scalar in Scalar::ALL {
        for shape in [&[5][..], &[4, 2], &[0]] {
            let x = random_array(scalar, shape, &mut random);
            let saved = encode("s.wav", &[(Some("samples"), &x), (Some("rate"), &rate)]);
            let has_format =
                matches!(scalar, Scalar::U8 | Scalar::I16 | Scalar::I32 | Scalar::I64 | Scalar::F32 | Scalar::F64);
            if !has_format {
                assert_eq!(saved.expect_err("no such samples").code, "E0715");
                continue;
            }
            let sound = decode("s.wav", &saved.expect("saved")).expect("loaded");
            assert_eq!((field(&sound, "samples"), field(&sound, "rate")), (x.clone(), rate.clone()), "{scalar}");
            assert_eq!(decode("s.wav", &encode("s.wav", &[(None, &sound)]).expect("saved")).expect("loaded"), sound);
        }
    }
}

/// Returns a .wav file with these chunks.
fn wav(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut bytes = b"RIFF\0\0\0\0WAVE".to_vec();
    for (name, content) in chunks {
        bytes.extend_from_slice(*name);
        bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(2), 0);
    }
    bytes
}

#[test]
fn sounds_of_others() {
    // 24 bits, after a chunk of an odd length.
    let packed = [1, 0, 1, 0, 0x40, 0x1f, 0, 0, 0, 0, 0, 0, 3, 0, 24, 0];
    let sound = decode("s.wav", &wav(&[(b"LIST", b"odd"), (b"fmt ", &packed), (b"data", &[1, 2, 3, 0, 0, 0x80])]));
    let sound = sound.expect("loaded");
    assert_eq!(show(&field(&sound, "samples")), format!("[{:>11} -2147483648]", 0x0302_0100));
    assert_eq!(field(&sound, "rate"), HostValue::of(8000i32));
    let wrong = |chunks: &[(&[u8; 4], &[u8])]| decode("s.wav", &wav(chunks)).expect_err("refused").title;
    assert_eq!(wrong(&[]), "`s.wav` is damaged: it has no `data` chunk");
    assert_eq!(wrong(&[(b"data", &[])]), "`s.wav` is damaged: it has no `fmt` chunk before its samples");
    let mut law = packed;
    law[0] = 6;
    assert!(wrong(&[(b"fmt ", &law), (b"data", &[])]).contains("compressed sound (of the format 0x6)"));
    assert!(wrong(&[(b"fmt ", &packed), (b"data", &[1])]).contains("end inside of one"));
    let mut whole = wav(&[(b"fmt ", &packed), (b"data", &[1, 2, 3])]);
    whole.truncate(whole.len() - 2);
    assert!(decode("s.wav", &whole).expect_err("cut off").title.contains("promises 3 bytes of samples, and 2 follow"));
    let mut unfinished = wav(&[(b"fmt ", &packed), (b"data", &[])]);
    assert_eq!(show(&field(&decode("s.wav", &unfinished).expect("no samples"), "samples")), "[]");
    unfinished.extend_from_slice(&[1, 2, 3]);
    assert!(decode("s.wav", &unfinished).expect_err("no length").title.contains("promises 0 bytes of samples, and 3"));
    let mut none = packed;
    none[2] = 0;
    assert!(wrong(&[(b"fmt ", &none), (b"data", &[])]).contains("0 channels"));
}

fn picture(name: &str) -> Vec<u8> {
    std::fs::read(root().join("tests/pictures").join(name)).expect("a picture")
}

/// JPEG decoders may round differently, so the pixels are compared with libjpeg's within a tolerance.
#[test]
fn jpeg_pictures_agree_with_libjpeg() {
    for name in ["color", "full_chroma", "progressive", "restarts", "gray"] {
        let bytes = picture(&format!("{name}.jpg"));
        let jpeg = decode("p.jpg", &bytes).expect("a JPEG picture");
        let png = decode("p.png", &picture(&format!("{name}.png"))).expect("a PNG picture");
        assert_eq!(jpeg.type_name(), png.type_name(), "{name}");
        let (jpeg, png) = (array(&jpeg).items::<u8>().expect("u8"), array(&png).items::<u8>().expect("u8"));
        let most = jpeg.iter().zip(png).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(most <= Some(4), "{name}: the pixels differ by {most:?}");
        // A part of a picture is no picture.
        for len in [4, 20, bytes.len() / 2, bytes.len() - 20] {
            assert_eq!(decode("p.jpeg", &bytes[..len]).expect_err("cut off").code, "E0711", "{name}, {len} bytes");
        }
    }
    let mut wide = picture("gray.jpg");
    let frame = wide.windows(2).position(|two| two == [0xff, 0xc0]).expect("a frame header");
    wide[frame + 5..frame + 9].copy_from_slice(&[0xff; 4]);
    assert!(decode("p.jpg", &wide).expect_err("too large").title.contains("promises 65535 by 65535 pixels"));
    let saved = encode("p.jpg", &[(None, &load("x.txt", "1 2\n"))]).expect_err("not written");
    assert_eq!((saved.code, saved.title.as_str()), ("E0715", "Clk writes no JPEG pictures"));
}

#[test]
fn animations_round_trip() {
    let mut random = Random::from_seed(7);
    for scalar in [Scalar::U8, Scalar::U16] {
        for shape in [&[3, 4, 5][..], &[1, 4, 5], &[2, 4, 5, 2], &[2, 4, 5, 3], &[3, 2, 1, 4]] {
            let frames = random_array(scalar, shape, &mut random);
            let bytes = encode("x.apng", &[(None, &frames)]).expect("saved");
            assert_eq!(decode("x.apng", &bytes).expect("loaded"), frames);
            let named = [(Some("frames"), &frames), (Some("delay"), &HostValue::of(0.25f32))];
            let bytes = encode("x.png", &named).expect("saved");
            let again = decode("x.apng", &bytes).expect("loaded");
            assert_eq!(again, frames);
            // A `fcTL` chunk has the delay as a fraction.
            assert!(bytes.windows(4).any(|four| four == [0, 250, 3, 232]), "250 of 1000 ms");
            if shape.len() == 4 {
                let png = encode("x.png", &[(None, &frames)]).expect("saved");
                assert_eq!(decode("x.png", &png).expect("loaded"), frames);
            }
        }
    }
    let floats = ops::random(&[2, 3, 3, 3], 1, Scalar::F32).expect("floats");
    let bytes = encode("x.png", &[(None, &floats)]).expect("saved");
    assert_eq!(decode("x.png", &bytes).expect("loaded").type_name(), "[u8; 2, 3, 3, 3]");
    let one = encode("x.png", &[(None, &random_array(Scalar::U8, &[4, 5], &mut random))]).expect("saved");
    assert_eq!(decode("x.apng", &one).expect("loaded").type_name(), "[u8; 1, 4, 5]");
    for (shape, delay) in [(&[3][..], 0.1), (&[0, 2, 2], 0.1), (&[2, 0, 2], 0.1), (&[2, 2, 2], 0.0), (&[2, 2, 2], 99.0)]
    {
        let frames = HostValue::Array(Array::zeros(Scalar::U8, shape).expect("an array"));
        let named = [(Some("frames"), &frames), (Some("delay"), &HostValue::of(delay))];
        assert_eq!(encode("x.apng", &named).expect_err("no animation").code, "E0716", "{shape:?}");
    }
}

/// The frames of this animation are parts of a picture, with each way to blend and to dispose.
#[test]
fn parts_of_frames_are_composed() {
    let loaded = decode("x.apng", &picture("parts.apng")).expect("an animation");
    let expected = decode("x.npy", &picture("parts.npy")).expect("an array");
    assert_eq!(loaded.type_name(), expected.type_name());
    let (loaded, expected) = (array(&loaded).items::<u8>().expect("u8"), array(&expected).items::<u8>().expect("u8"));
    let most = loaded.iter().zip(expected).map(|(a, b)| a.abs_diff(*b)).max();
    assert!(most <= Some(1), "the pixels differ by {most:?}");
}

/// The bytes of a file, and the number of bytes that were read.
struct CountedFile {
    bytes: Vec<u8>,
    read: AtomicU64,
}

impl CountedFile {
    fn new(bytes: Vec<u8>) -> Arc<CountedFile> {
        Arc::new(CountedFile { bytes, read: AtomicU64::new(0) })
    }

    /// Returns the number of bytes that were read since the last call.
    fn take_count(&self) -> u64 {
        self.read.swap(0, Ordering::Relaxed)
    }
}

impl ByteSource for CountedFile {
    fn byte_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        self.read.fetch_add(into.len() as u64, Ordering::Relaxed);
        self.bytes.as_slice().read_at(offset, into)
    }
}

#[test]
fn members_of_archives_are_read_one_at_a_time() {
    let mut random = Random::from_seed(9);
    let large = random_array(Scalar::F32, &[1000, 1000], &mut random);
    let small = random_array(Scalar::I16, &[1000], &mut random);
    let members = [(Some("large"), &large), (Some("small"), &small)];
    for name in ["x.npz", "x.safetensors"] {
        let file = CountedFile::new(encode(name, &members).expect("saved"));
        let table = open_archive(name, file.clone()).expect("opened");
        // The end of a .npz file, where its directory is, may have a comment of 64 KiB.
        let opened = file.take_count();
        assert!(opened < 80_000, "{name}: {opened} bytes to open");
        assert_eq!(show(&ops::keys(&table).expect("names")).len(), "[\"large\", \"small\"]".len());
        assert_eq!(field(&table, "large").type_name(), "[f32; 1000, 1000]");
        assert!(show(&table).contains("large: [f32; 1000, 1000]"));
        assert_eq!(file.take_count(), 0, "{name}: types are known");
        assert_eq!(field(&table, "small"), small);
        let read = file.take_count();
        assert!((2000..4000).contains(&read), "{name}: {read} bytes for 2000 bytes");
        assert_eq!(field(&table, "small"), small);
        assert_eq!(file.take_count(), 0, "{name}: a member is read once");
        assert_eq!(field(&table, "large"), large);
        let read = file.take_count();
        assert!((4_000_000..4_002_000).contains(&read), "{name}: {read} bytes for 4000000 bytes");
        assert_eq!(Arc::strong_count(&file), 1, "{name}: no member needs the file");
        assert_eq!(decode(name, &encode(name, &[(None, &table)]).expect("saved")).expect("loaded"), table);
    }
}

/// For an archive of any content, members that are read when they are used equal those that are read at once.
#[test]
fn archives_in_parts_equal_whole_ones() {
    let mut random = Random::from_seed(11);
    let arrays: Vec<HostValue> = Scalar::ALL
        .into_iter()
        .flat_map(|scalar| [(scalar, vec![3, 2]), (scalar, vec![]), (scalar, vec![0, 4])])
        .map(|(scalar, shape)| random_array(scalar, &shape, &mut random))
        .collect();
    let names: Vec<String> = (0..arrays.len()).map(|i| format!("name{i}")).collect();
    for name in ["x.npz", "x.safetensors"] {
        let is_storable = |value: &HostValue| name != "x.npz" || array(value).scalar() != Some(Scalar::Bf16);
        let members: Vec<(Option<&str>, &HostValue)> =
            names.iter().map(|name| Some(name.as_str())).zip(&arrays).filter(|(_, value)| is_storable(value)).collect();
        let bytes = encode(name, &members).expect("saved");
        let whole = decode(name, &bytes).expect("loaded");
        assert_eq!(open_archive(name, CountedFile::new(bytes)).expect("opened"), whole);
    }
}

#[test]
fn damaged_members_are_reported_where_they_are_used() {
    let mut random = Random::from_seed(13);
    let x = random_array(Scalar::F32, &[100], &mut random);
    let mut bytes = encode("x.npz", &[(Some("a"), &x), (Some("b"), &x)]).expect("saved");
    bytes[200] ^= 1;
    let table = open_archive("x.npz", CountedFile::new(bytes.clone())).expect("opened");
    assert_eq!(field(&table, "b"), x);
    let damaged = field(&table, "a");
    for _ in 0..2 {
        let problem = array(&damaged).bytes().expect_err("a wrong checksum");
        assert_eq!(problem.title, "`x.npz` is damaged: the checksum of its entry `a.npy` does not match its bytes");
    }
    assert_eq!(decode("x.npz", &bytes).expect_err("read at once").code, "E0711");
    // The directory and the headers are checked when the archive is opened.
    let cut = bytes[..bytes.len() - 30].to_vec();
    assert_eq!(open_archive("x.npz", CountedFile::new(cut)).expect_err("cut off").code, "E0711");
    let tensors = encode("x.safetensors", &[(Some("a"), &x)]).expect("saved");
    let cut = tensors[..tensors.len() - 1].to_vec();
    assert_eq!(open_archive("x.safetensors", CountedFile::new(cut)).expect_err("cut off").code, "E0711");
    let picture = encode("x.png", &[(None, &random_array(Scalar::U8, &[2, 2], &mut random))]).expect("saved");
    assert_eq!(open_archive("x.npz", CountedFile::new(picture)).expect_err("a picture").code, "E0712");
}
