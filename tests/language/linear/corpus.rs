//! Tests hand-written problems that are like those of kernels, each with its verdict.

use std::time::Instant;

use clk_base::linear::{SolverBudget, SolverVerdict, decide, recheck};

use super::text;

#[test]
fn corpus() {
    let mut wrong = Vec::new();
    let mut times = Vec::new();
    for case in text::corpus(include_str!("../../linear/corpus.txt")) {
        let start = Instant::now();
        let verdict = decide(&case.problem, &SolverBudget::default());
        let time = start.elapsed();
        let (verdict_name, note) = match &verdict {
            SolverVerdict::Empty(certificate) => {
                recheck(&case.problem, certificate)
                    .unwrap_or_else(|error| panic!("{}: {error}\n{certificate}", case.name));
                ("empty", format!("{:?}", certificate.size()))
            }
            SolverVerdict::Point(point) => {
                assert_eq!(case.problem.holds(point), Some(true), "{}", case.name);
                let values = case.problem.variables.iter().zip(point).filter(|(name, _)| !name.contains(['(', '*']));
                ("point", values.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
            }
            SolverVerdict::Unknown(reason) => ("unknown", reason.to_string()),
        };
        times.push(time);
        println!("{:7} {:>9.1?} {:45} {note}", verdict_name, time, case.name);
        if verdict_name != case.expected {
            wrong.push(format!("{}: {verdict_name}, not {} ({note})", case.name, case.expected));
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
