//! Tests the cases in `tests/prove/cases`: kernels with known properties. The README there describes the format.

use clk_prove::{ProofVerdict, Property, prove_kernel};

use super::{compiled, files, kernels};

/// A kernel, by name, and its known properties.
struct Truth {
    kernel: String,
    /// The exceptions: properties that do not hold and must be refuted (`true`), and properties with any verdict
    /// (`false`). All other properties hold.
    except: Vec<(Property, bool)>,
}

fn truths(text: &str) -> Vec<Truth> {
    let (mut all, mut open) = (vec![], None);
    for line in text.lines() {
        if let Some(case) = line.strip_prefix("//= ") {
            let (_, truth) = case.rsplit_once(": ").expect("a case and its known properties");
            let except = truth.split(", ").filter(|what| *what != "hold").map(|what| {
                let (name, which) = what.split_once(' ').expect("a property and a word");
                let property = match name {
                    "bounds" => Property::InBounds,
                    "races" => Property::RaceFree,
                    "barriers" => Property::Barriers,
                    _ => panic!("`{name}` is no property"),
                };
                assert!(["fail", "any"].contains(&which), "`{which}`");
                (property, which == "fail")
            });
            open = Some(except.collect::<Vec<_>>());
        } else if let Some(rest) = line.strip_prefix("kernel ") {
            let kernel = rest.split(['(', '[']).next().unwrap_or_default().trim().to_string();
            let except = open.take().unwrap_or_else(|| panic!("no expectation for `{kernel}`"));
            all.push(Truth { kernel, except });
        }
    }
    all
}

/// No verdict contradicts a known property, and few cases are undecided.
#[test]
fn verdicts_of_cases() {
    let properties = [Property::InBounds, Property::RaceFree, Property::Barriers];
    let (mut cases, mut open) = ([0, 0], vec![]);
    for path in files("tests/prove/cases") {
        let text = std::fs::read_to_string(&path).expect("a source");
        let session = compiled("cases.clk", &text).unwrap_or_else(|| panic!("{} has errors", path.display()));
        let session_kernels = kernels(&session);
        for truth in truths(&text) {
            let (id, name) = session_kernels.iter().find(|(_, name)| *name == truth.kernel).expect("the kernel");
            let report = prove_kernel(&session.program, *id);
            let fails = truth.except.iter().any(|(_, properties)| *properties);
            let mut decided = true;
            for property in properties {
                let verdict = report.verdict(property).expect("a verdict");
                let (is_proved, is_refuted) =
                    (matches!(verdict, ProofVerdict::Proved { .. }), matches!(verdict, ProofVerdict::Refuted { .. }));
                match truth.except.iter().find(|(except, _)| *except == property) {
                    None => {
                        assert!(!is_refuted, "{property:?} holds for `{name}`, and is refuted");
                        decided &= is_proved || fails;
                    }
                    Some((_, true)) => {
                        assert!(!is_proved, "{property:?} does not hold for `{name}`, and is proved");
                        decided &= is_refuted;
                    }
                    Some((_, false)) => {}
                }
            }
            cases[usize::from(fails)] += 1;
            open.extend((!decided).then(|| name.clone()));
        }
    }
    println!("{cases:?} right and faulty cases, undecided: {}", open.join(", "));
    assert_eq!(cases, [60, 60]);
    assert!(open.len() <= MOST_UNDECIDED, "{} cases are undecided: {}", open.len(), open.join(", "));
}

/// Largest number of cases that may stay undecided.
const MOST_UNDECIDED: usize = 15;
