//! Tests loaders with mutated files: for any bytes, a loader returns a value or an error, and a value round-trips
//! through saving. Runs for two seconds, or for `CLK_FUZZ_SECONDS`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clk_host::files::{decode, encode, open_archive};
use clk_host::format;
use clk_host::ops;
use clk_host::value::HostValue;
use clk_scalar::Scalar;
use clk_testing::random::Random;
use clk_testing::{exec, root, setting};

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let floats = ops::random(&[4, 3], 1, Scalar::F32).unwrap();
    let bytes = ops::random_int(&HostValue::of(0u8), &HostValue::of(255u8), &[6, 5, 3], 1).unwrap();
    let flags = ops::binary(exec(), clk_scalar::ops::BinaryOp::Lt, &floats, &HostValue::Float(0.5)).unwrap();
    let vectors = HostValue::Array(
        clk_host::array::Array::full(&ops::compose(Scalar::F16, 4, &[HostValue::Int(1)]).unwrap(), &[3]).unwrap(),
    );
    let several = [(Some("a"), &floats), (Some("b"), &bytes), (Some("c"), &vectors)];
    let mut seeds = vec![
        ("x.npz", encode("x.npz", &several).unwrap()),
        ("x.safetensors", encode("x.safetensors", &several).unwrap()),
        ("x.csv", b"a,b\n1,2\n3.5,-4e2\n".to_vec()),
        ("x.csv", "name,\"n, 1\",c\r\n\"A\"\"nn\",1,x\r\n# y\r\né,,\"\r\n\"\n".into()),
    ];
    seeds.extend([
        ("x.txt", b"# a b\n1 2\n 3.5\t-4e2 # c\n".to_vec()),
        ("x.mtx", b"%%MatrixMarket matrix coordinate real general\n% c\n3 4 3\n3 1 2.5\n1 4 -1\n3 2 7e1\n".to_vec()),
        ("x.mtx", b"%%MatrixMarket matrix coordinate integer symmetric\n3 3 2\n1 1 5\n3 1 2\n".to_vec()),
        ("x.mtx", b"%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n".to_vec()),
        ("x.json", b"{\"a\": [[1, 2], [3, 4.5]], \"b\": 7, \"c\": [\"x\"]}".to_vec()),
        ("x.json", b"[[[true], [false]]]".to_vec()),
        ("x.apng", encode("x.apng", &[(None, &bytes)]).unwrap()),
        ("x.wav", encode("x.wav", &[(Some("samples"), &floats), (Some("rate"), &HostValue::of(8000))]).unwrap()),
    ]);
    for name in ["color", "full_chroma", "progressive", "restarts", "gray"] {
        seeds.push(("x.jpg", std::fs::read(root().join(format!("tests/pictures/{name}.jpg"))).unwrap()));
    }
    seeds.push(("x.apng", std::fs::read(root().join("tests/pictures/parts.apng")).unwrap()));
    for value in [&floats, &bytes, &flags, &vectors] {
        seeds.push(("x.npy", encode("x.npy", &[(None, value)]).unwrap()));
        seeds.extend(encode("x.png", &[(None, value)]).ok().map(|bytes| ("x.png", bytes)));
        seeds.extend(encode("x.csv", &[(None, value)]).ok().map(|bytes| ("x.csv", bytes)));
    }
    seeds
}

/// Byte sequences that have a meaning in the file formats.
const DICTIONARY: &[&[u8]] = &[
    &[0xff; 4],
    &[0xff; 8],
    &[0; 4],
    &[0x7f, 0xff, 0xff, 0xff],
    b"PK\x01\x02",
    b"PK\x05\x06",
    b"<f8",
    b">i2",
    b"|O",
    b"|b1",
    b"True",
    b"(",
    b")",
    b"[",
    b"{",
    b"}",
    b"99999999999",
    b"-1",
    b"'",
    b"\\",
    b"\"",
    b"\n",
    b",",
    b"IDAT",
    b"PLTE",
    b"BF16",
    b"\"shape\":[",
    b"nan",
    b"1e999",
    b"2147483647 ",
    b" 0 ",
    b"-",
    b"symmetric",
    b"pattern",
    b"array",
    b"%",
    b"#",
    b"]",
    b"null",
    b"data",
    b"fmt ",
    b"fcTL",
    b"fdAT",
    &[0xff, 0xc0],
    &[0xff, 0xda],
    &[0xff, 0xd9],
];

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.next_below(4) {
        let at = random.next_below(bytes.len() + 1);
        match random.next_below(7) {
            0 => bytes.truncate(at),
            1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.next_below(8)),
            2 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.next_below(256) as u8),
            3 => {
                let word = DICTIONARY[random.next_below(DICTIONARY.len())];
                bytes.splice(at..at, word.iter().copied());
            }
            4 => {
                let word = DICTIONARY[random.next_below(DICTIONARY.len())];
                bytes.iter_mut().skip(at).zip(word).for_each(|(byte, new)| *byte = *new);
            }
            5 => {
                let end = (at + random.next_below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let end = (at + random.next_below(32)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = random.next_below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
        }
    }
}

/// Recomputes the chunk checksums of a mutated PNG file. Half of the mutants are repaired this way, since a wrong
/// checksum hides all other errors.
fn mend(name: &str, bytes: &mut [u8]) {
    if !matches!(name, "x.png" | "x.apng") {
        return;
    }
    let mut at = 8;
    while let Some(len) = bytes.get(at..at + 4).and_then(|len| len.try_into().ok()).map(u32::from_be_bytes) {
        let end = at.saturating_add(8).saturating_add(len as usize);
        let Some(chunk) = bytes.get(at + 4..end) else { return };
        let crc = crc32fast::hash(chunk).to_be_bytes();
        let Some(place) = bytes.get_mut(end..end + 4) else { return };
        place.copy_from_slice(&crc);
        at = end + 4;
    }
}

#[test]
fn loaders_survive_mutants() {
    let seconds = setting("CLK_FUZZ_SECONDS", 2);
    let seed = setting("CLK_FUZZ_SEED", 1);
    let mut random = Random::from_seed(seed);
    let seeds = seeds();
    let (mut runs, mut loaded) = (0u64, 0u64);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        let (name, bytes) = &seeds[random.next_below(seeds.len())];
        let mut mutant = bytes.clone();
        mutate(&mut mutant, &mut random);
        if random.next_below(2) == 0 {
            mend(name, &mut mutant);
        }
        let before = Instant::now();
        let result = decode(name, &mutant);
        // An archive that is read in parts has the same members.
        let in_parts = open_archive(name, Arc::new(mutant.clone()));
        match (&result, &in_parts) {
            (Ok(value), _) => {
                assert_eq!(in_parts.as_ref().unwrap_or_else(|problem| panic!("{name}: {}", problem.title)), value)
            }
            (Err(_), Ok(HostValue::Table(table))) => {
                let is_damaged =
                    |member: &HostValue| matches!(member, HostValue::Array(array) if array.bytes().is_err());
                assert!(
                    table.values().any(is_damaged) || !table.unreadable.is_empty(),
                    "{name}: an error of the whole archive is an error of a member: {mutant:?}"
                );
            }
            (Err(problem), Ok(_)) => panic!("{name}: {}", problem.title),
            (Err(_), Err(_)) => {}
        }
        // The limit only detects hangs; it is generous because the machine may be busy.
        assert!(before.elapsed() < Duration::from_secs(60), "{name}: {:?}", mutant);
        match result {
            Ok(value) => {
                loaded += 1;
                assert!(format::print(&value).unwrap().len() < 1 << 20);
                round_trip(name, &value);
            }
            Err(problem) => assert!(problem.code.starts_with("E07") || problem.code == "E0509", "{problem:?}"),
        }
        runs += 1;
    }
    println!("{runs} mutants, {loaded} of them loaded");
    assert!(runs > 100 && loaded > 0);
}

/// A loaded value can be saved and loaded again. (Text does not preserve the bits of a NaN, and a table without columns
/// has no file.)
fn round_trip(name: &str, value: &HostValue) {
    let Ok(bytes) = encode(name, &[(None, value)]) else { return };
    let decoded_again = decode(name, &bytes);
    match (&decoded_again, value) {
        // A table of strings is saved as the same CSV text again.
        (Ok(HostValue::Table(_)), HostValue::Table(_)) if name == "x.csv" => {
            let twice = decoded_again.map(|decoded_again| encode(name, &[(None, &decoded_again)]));
            assert_eq!(twice, Ok(Ok(bytes)));
        }
        _ if matches!(name, "x.csv" | "x.txt" | "x.mtx") => {}
        _ => assert_eq!(decoded_again.as_ref(), Ok(value)),
    }
}
