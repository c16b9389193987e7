//! Hand-written problems of the shapes that kernels have, with the verdict of each.

use std::time::Instant;

use clk_lang::base::linear::{Budget, Verdict, decide, recheck};

use crate::text;

#[test]
fn corpus() {
    let mut wrong = Vec::new();
    let mut times = Vec::new();
    for case in text::corpus(include_str!("corpus.txt")) {
        let start = Instant::now();
        let verdict = decide(&case.problem, &Budget::default());
        let time = start.elapsed();
        let (found, note) = match &verdict {
            Verdict::Empty(certificate) => {
                recheck(&case.problem, certificate)
                    .unwrap_or_else(|error| panic!("{}: {error}\n{certificate}", case.name));
                ("empty", format!("{:?}", certificate.size()))
            }
            Verdict::Point(point) => {
                assert_eq!(case.problem.holds(point), Some(true), "{}", case.name);
                let values = case.problem.variables.iter().zip(point).filter(|(name, _)| !name.contains(['(', '*']));
                ("point", values.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
            }
            Verdict::Unknown(reason) => ("unknown", reason.to_string()),
        };
        times.push(time);
        println!("{:7} {:>9.1?} {:45} {note}", found, time, case.name);
        if found != case.expected {
            wrong.push(format!("{}: {found}, not {} ({note})", case.name, case.expected));
        }
    }
    times.sort();
    println!(
        "{} problems, median {:?}, 99 % {:?}, most {:?}",
        times.len(),
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        times[times.len() - 1]
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
