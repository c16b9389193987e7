//! Measurements for `time { }` and `bench`: warm-up, samples, median and spread.

use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::source::Span;
use crate::check::typed::{Block, Section};
use crate::device::device_diagnostic;
use crate::host::graph::Held;
use crate::host::value::{Timing, Value};

use super::bench::BenchResult;
use super::builtin::number;
use super::frame::Frame;
use super::machine::{Eval, Machine};

/// Sampling parameters: a time budget, and the minimum and maximum number of samples.
struct Plan {
    budget: Duration,
    least: usize,
    most: usize,
}

/// Runs a block once.
type Run<'r, M> = &'r mut dyn FnMut(&mut M, &mut Frame) -> Eval;

/// Maximum number of runs queued on a device before their times are read.
const QUEUED: usize = 16;

const TIME: Plan = Plan { budget: Duration::from_millis(200), least: 3, most: 1000 };
/// The samples of a block that exchanges values with other ranks: as many on each, whatever their clocks say.
const EXCHANGING: usize = 20;
const BENCH: Plan = Plan { budget: Duration::from_millis(1000), least: 5, most: 10_000 };

impl Machine<'_> {
    /// Evaluates `time { … }`.
    pub(crate) fn time(&mut self, frame: &mut Frame, block: &Block) -> Eval {
        let samples = self.samples(frame, &mut |machine, frame| machine.block(frame, block), block.span, &TIME)?;
        let result = BenchResult { samples, ..BenchResult::default() };
        let (min, max) = result.samples.iter().fold((f64::INFINITY, 0.0f64), |(a, b), &s| (a.min(s), b.max(s)));
        Ok(Value::Timing(Timing { median: result.median(), min, max, runs: result.samples.len() as u32 }))
    }

    pub(crate) fn bench(&mut self, section: &Section) -> Eval<BenchResult> {
        let mut frame = self.frame_of(&section.body);
        let run = &mut |machine: &mut Self, frame: &mut Frame| machine.whole(frame);
        let samples = self.samples(&mut frame, run, section.body.root.span, &BENCH)?;
        let mut result = BenchResult { samples, ..BenchResult::default() };
        for (name, rate) in &section.rates {
            let value = number(&self.eval(&mut frame, rate)?);
            match name.as_str() {
                "bytes" => result.bytes = value,
                "flops" => result.flops = value,
                _ => result.items = value,
            }
        }
        Ok(result)
    }

    /// Runs a section `runs` times; returns the seconds per run.
    pub(crate) fn repeat(&mut self, section: &Section, runs: u32) -> Eval<f64> {
        let mut frame = self.frame_of(&section.body);
        let begin = Instant::now();
        for _ in 0..runs {
            self.poll(section.body.root.span)?;
            self.held(&mut frame, &mut |machine, frame| machine.whole(frame), section.body.root.span)?;
        }
        self.finish(section.body.root.span)?;
        Ok(begin.elapsed().as_secs_f64() / f64::from(runs.max(1)))
    }

    /// Runs a block and computes what its expressions give, used or not.
    fn held(&mut self, frame: &mut Frame, run: Run<'_, Self>, span: Span) -> Eval<()> {
        let held = Held::begin();
        run(self, frame)?;
        held.finish().map_err(|problem| self.problem(problem, span))
    }

    /// Runs a block once for warm-up and then takes samples according to the plan.
    fn samples(&mut self, frame: &mut Frame, run: Run<'_, Self>, span: Span, plan: &Plan) -> Eval<Vec<f64>> {
        let before = self.interp.exchanges;
        self.held(frame, run, span)?;
        self.finish(span)?;
        let fixed = (self.interp.exchanges != before).then_some(EXCHANGING);
        let start = Instant::now();
        let mut samples = Vec::new();
        let goes_on = |taken: usize| match fixed {
            Some(all) => taken < all,
            None => taken < plan.least || (start.elapsed() < plan.budget && taken < plan.most),
        };
        while goes_on(samples.len()) {
            self.poll(span)?;
            // What several devices do has no clock of its own.
            let alone = self.interp.members.len() < 2;
            match alone && self.interp.options.device.is_remote() {
                true => self.remote_samples(frame, run, span, fixed, &mut samples)?,
                false => {
                    let begin = Instant::now();
                    self.held(frame, run, span)?;
                    if !alone {
                        self.finish(span)?;
                    }
                    samples.push(begin.elapsed().as_secs_f64());
                }
            }
        }
        samples.truncate(plan.most);
        Ok(samples)
    }

    /// Takes several samples with the device's clock. The runs are queued, so that the host's launch overhead overlaps with the
    /// previous run.
    fn remote_samples(
        &mut self,
        frame: &mut Frame,
        run: Run<'_, Self>,
        span: Span,
        fixed: Option<usize>,
        samples: &mut Vec<f64>,
    ) -> Eval<()> {
        let device = self.interp.options.device.clone();
        let mut marks = vec![device.mark()];
        let begin = Instant::now();
        let left = fixed.map_or(QUEUED, |all| QUEUED.min(all.saturating_sub(samples.len())));
        for _ in 0..left {
            self.held(frame, run, span)?;
            marks.push(device.mark());
            if fixed.is_none() && begin.elapsed() > Duration::from_millis(100) {
                break;
            }
        }
        self.finish(span)?;
        let (runs, elapsed) = (marks.len().max(2) - 1, begin.elapsed().as_secs_f64());
        for pair in marks.windows(2) {
            let taken = match pair {
                [Some(from), Some(to)] => to.since(&**from),
                _ => None,
            };
            // For a device without a clock, the mean over all runs.
            samples.push(taken.unwrap_or(elapsed / runs as f64));
        }
        Ok(())
    }

    /// Waits for the device, and those that have parts of arrays, so that pending work does not count toward the next measurement.
    fn finish(&mut self, span: Span) -> Eval<()> {
        let own = std::iter::once(&self.interp.options.device);
        let finished = own.chain(&self.interp.members).try_for_each(|device| device.finish());
        finished.map_err(|error| self.error(device_diagnostic(&error, span)))
    }
}
