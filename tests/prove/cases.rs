//! The cases of `tests/prove/cases`: kernels with what is true of them. Its README describes the format.

use clk_lang::prove::{Property, Verdict, examine};

use super::{compiled, files, kernels};

/// What is true of a kernel, by its name.
struct Truth {
    kernel: String,
    /// The properties that do not hold, or that are not asked for; `true` if the case asks for it.
    except: Vec<(Property, bool)>,
}

fn truths(text: &str) -> Vec<Truth> {
    let (mut all, mut open) = (vec![], None);
    for line in text.lines() {
        if let Some(case) = line.strip_prefix("//= ") {
            let (_, truth) = case.rsplit_once(": ").expect("a case and what is true of it");
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
            let except = open.take().unwrap_or_else(|| panic!("nothing is said of `{kernel}`"));
            all.push(Truth { kernel, except });
        }
    }
    all
}

/// No verdict is wrong, and few cases are undecided.
#[test]
fn verdicts_of_cases() {
    let asked = [Property::InBounds, Property::RaceFree, Property::Barriers];
    let (mut cases, mut open) = ([0, 0], vec![]);
    for path in files("tests/prove/cases") {
        let text = std::fs::read_to_string(&path).expect("a source");
        let session = compiled("cases.clk", &text).unwrap_or_else(|| panic!("{} has errors", path.display()));
        let found = kernels(&session);
        for truth in truths(&text) {
            let (id, name) = found.iter().find(|(_, name)| *name == truth.kernel).expect("the kernel");
            let report = examine(&session.program, *id);
            let fails = truth.except.iter().any(|(_, asked)| *asked);
            let mut decided = true;
            for property in asked {
                let verdict = report.verdict(property).expect("a verdict");
                let (is_proved, is_refuted) =
                    (matches!(verdict, Verdict::Proved { .. }), matches!(verdict, Verdict::Refuted { .. }));
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

/// Cases that need not be decided.
const MOST_UNDECIDED: usize = 15;
