//! Mutated files: for any bytes, a loader returns a value or an error, and a value round-trips through saving. Runs for two
//! seconds, or for `CLK_FUZZ_SECONDS`.

use std::time::{Duration, Instant};

use clk_lang::host::files::{decode, encode};
use clk_lang::host::format;
use clk_lang::host::ops;
use clk_lang::host::value::Value;
use clk_lang::lang::philox::Philox;
use clk_lang::lang::scalar::Scalar;

/// A stream of random numbers.
struct Random {
    stream: Philox,
    at: u64,
}

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.at += 1;
        self.stream.below(self.at, bound.max(1) as u64) as usize
    }
}

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let floats = ops::random(&[4, 3], 1, Scalar::F32).unwrap();
    let bytes = ops::random_int(&Value::of(0u8), &Value::of(255u8), &[6, 5, 3], 1).unwrap();
    let flags = ops::binary(clk_lang::lang::ops::BinaryOp::Lt, &floats, &Value::Float(0.5)).unwrap();
    let vectors = Value::Array(
        clk_lang::host::array::Array::full(&ops::compose(Scalar::F16, 4, &[Value::Int(1)]).unwrap(), &[3]).unwrap(),
    );
    let several = [(Some("a"), &floats), (Some("b"), &bytes), (Some("c"), &vectors)];
    let mut seeds = vec![
        ("x.npz", encode("x.npz", &several).unwrap()),
        ("x.safetensors", encode("x.safetensors", &several).unwrap()),
        ("x.csv", b"a,b\n1,2\n3.5,-4e2\n".to_vec()),
        ("x.csv", "name,\"n, 1\",c\r\n\"A\"\"nn\",1,x\r\n# y\r\né,,\"\r\n\"\n".into()),
    ];
    for value in [&floats, &bytes, &flags, &vectors] {
        seeds.push(("x.npy", encode("x.npy", &[(None, value)]).unwrap()));
        seeds.extend(encode("x.png", &[(None, value)]).ok().map(|bytes| ("x.png", bytes)));
        seeds.extend(encode("x.csv", &[(None, value)]).ok().map(|bytes| ("x.csv", bytes)));
    }
    seeds
}

/// Byte sequences that have a meaning in the formats.
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
];

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(7) {
            0 => bytes.truncate(at),
            1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
            2 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.below(256) as u8),
            3 => {
                let word = DICTIONARY[random.below(DICTIONARY.len())];
                bytes.splice(at..at, word.iter().copied());
            }
            4 => {
                let word = DICTIONARY[random.below(DICTIONARY.len())];
                bytes.iter_mut().skip(at).zip(word).for_each(|(byte, new)| *byte = *new);
            }
            5 => {
                let end = (at + random.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let end = (at + random.below(32)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
        }
    }
}

/// Recomputes the checksums of half of the mutants, since a wrong one would hide all other errors.
fn mend(name: &str, bytes: &mut [u8]) {
    if name != "x.png" {
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
    let seconds = std::env::var("CLK_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(2);
    let seed = std::env::var("CLK_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut random = Random { stream: Philox::new(seed), at: 0 };
    let seeds = seeds();
    let (mut runs, mut loaded) = (0u64, 0u64);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        let (name, bytes) = &seeds[random.below(seeds.len())];
        let mut mutant = bytes.clone();
        mutate(&mut mutant, &mut random);
        if random.below(2) == 0 {
            mend(name, &mut mutant);
        }
        let before = Instant::now();
        let result = decode(name, &mutant);
        // Detects a hang, not slowness: the machine may be busy.
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

/// A loaded value can be saved and loaded again. (Text does not preserve the bits of a NaN, and a table without columns has
/// no file.)
fn round_trip(name: &str, value: &Value) {
    let Ok(bytes) = encode(name, &[(None, value)]) else { return };
    let again = decode(name, &bytes);
    match (&again, value) {
        // A table of strings is written as the same text again.
        (Ok(Value::Table(_)), Value::Table(_)) if name == "x.csv" => {
            let twice = again.map(|again| encode(name, &[(None, &again)]));
            assert_eq!(twice, Ok(Ok(bytes)));
        }
        _ if name == "x.csv" => {}
        _ => assert_eq!(again.as_ref(), Ok(value)),
    }
}
