//! Measurements for `time { }` and `bench`: warm-up and sampling.

use std::time::Duration;

use crate::value::{HostValue, Timing};
use clk_base::clock::Instant;
use clk_base::source::Span;
use clk_check::typed::{Block, TestSection};

use super::bench::BenchResult;
use super::builtin::as_f64;
use super::context::{Eval, EvalContext};
use super::frame::HostFrame;

/// Sampling parameters: a time budget, and the minimum and maximum number of samples.
struct SamplingPlan {
    budget: Duration,
    min_samples: usize,
    max_samples: usize,
}

/// Runs a block once.
type BlockRunner<'r, M> = &'r mut dyn FnMut(&mut M, &mut HostFrame) -> Eval;

/// Maximum number of runs that are queued on a device before their timestamps are read.
const MAX_QUEUED: usize = 16;

const TIME_PLAN: SamplingPlan = SamplingPlan { budget: Duration::from_millis(200), min_samples: 3, max_samples: 1000 };
/// Number of samples of a block with collectives. It is fixed, because all ranks must run the block equally often.
const COLLECTIVE_SAMPLES: usize = 20;
const BENCH_PLAN: SamplingPlan =
    SamplingPlan { budget: Duration::from_millis(1000), min_samples: 5, max_samples: 10_000 };

impl EvalContext<'_> {
    /// Evaluates `time { … }`.
    pub(crate) fn eval_time(&mut self, frame: &mut HostFrame, block: &Block) -> Eval {
        let samples =
            self.take_samples(frame, &mut |machine, frame| machine.eval_block(frame, block), block.span, &TIME_PLAN)?;
        let result = BenchResult { samples, ..BenchResult::default() };
        let (min, max) = result.samples.iter().fold((f64::INFINITY, 0.0f64), |(a, b), &s| (a.min(s), b.max(s)));
        Ok(HostValue::Timing(Timing { median: result.median(), min, max, runs: result.samples.len() as u32 }))
    }

    pub(crate) fn run_bench_section(&mut self, section: &TestSection) -> Eval<BenchResult> {
        let mut frame = self.compile_body(&section.body);
        let run = &mut |machine: &mut Self, frame: &mut HostFrame| machine.run_frame(frame);
        let samples = self.take_samples(&mut frame, run, section.body.root.span, &BENCH_PLAN)?;
        let mut result = BenchResult { samples, ..BenchResult::default() };
        for (name, rate) in &section.rates {
            let value = as_f64(&self.eval(&mut frame, rate)?);
            match name.as_str() {
                "bytes" => result.bytes = value,
                "flops" => result.flops = value,
                _ => result.items = value,
            }
        }
        Ok(result)
    }

    /// Runs a `bench` block `runs` times. Returns the mean time in seconds.
    pub(crate) fn repeat_section(&mut self, section: &TestSection, runs: u32) -> Eval<f64> {
        let mut frame = self.compile_body(&section.body);
        let begin = Instant::now();
        for _ in 0..runs {
            self.check_stop(section.body.root.span)?;
            self.run_and_force(&mut frame, &mut |machine, frame| machine.run_frame(frame), section.body.root.span)?;
        }
        self.finish_devices(section.body.root.span)?;
        Ok(begin.elapsed().as_secs_f64() / f64::from(runs.max(1)))
    }

    /// Runs a block and computes all its deferred results, even if the script does not use them.
    fn run_and_force(&mut self, frame: &mut HostFrame, run: BlockRunner<'_, Self>, span: Span) -> Eval<()> {
        let collector = self.exec.begin_collecting();
        run(self, frame)?;
        collector.finish().map_err(|problem| self.problem(problem, span))
    }

    /// Runs a block once for warm-up and then takes samples according to the plan.
    fn take_samples(
        &mut self,
        frame: &mut HostFrame,
        run: BlockRunner<'_, Self>,
        span: Span,
        plan: &SamplingPlan,
    ) -> Eval<Vec<f64>> {
        let before = self.interp.ranks.call_count;
        self.run_and_force(frame, run, span)?;
        self.finish_devices(span)?;
        let fixed = (self.interp.ranks.call_count != before).then_some(COLLECTIVE_SAMPLES);
        let start = Instant::now();
        let mut samples = Vec::new();
        let goes_on = |count: usize| match fixed {
            Some(all) => count < all,
            None => count < plan.min_samples || (start.elapsed() < plan.budget && count < plan.max_samples),
        };
        while goes_on(samples.len()) {
            self.check_stop(span)?;
            // If several devices have shards, the host's clock measures the time.
            let on_one_device = self.interp.device_pool.shards.len() < 2;
            match on_one_device && self.interp.options.device.capabilities().asynchronous {
                true => self.take_device_samples(frame, run, span, fixed, &mut samples)?,
                false => {
                    let begin = Instant::now();
                    self.run_and_force(frame, run, span)?;
                    if !on_one_device {
                        self.finish_devices(span)?;
                    }
                    samples.push(begin.elapsed().as_secs_f64());
                }
            }
        }
        samples.truncate(plan.max_samples);
        Ok(samples)
    }

    /// Takes several samples with the device's clock. The runs are queued, so that the host's launch overhead overlaps
    /// with the previous run.
    fn take_device_samples(
        &mut self,
        frame: &mut HostFrame,
        run: BlockRunner<'_, Self>,
        span: Span,
        fixed: Option<usize>,
        samples: &mut Vec<f64>,
    ) -> Eval<()> {
        let device = self.interp.options.device.clone();
        let mut marks = vec![device.record_timestamp()];
        let begin = Instant::now();
        let left = fixed.map_or(MAX_QUEUED, |all| MAX_QUEUED.min(all.saturating_sub(samples.len())));
        for _ in 0..left {
            self.run_and_force(frame, run, span)?;
            marks.push(device.record_timestamp());
            if fixed.is_none() && begin.elapsed() > Duration::from_millis(100) {
                break;
            }
        }
        self.finish_devices(span)?;
        let (runs, elapsed) = (marks.len().max(2) - 1, begin.elapsed().as_secs_f64());
        for pair in marks.windows(2) {
            let seconds = match pair {
                [Some(from), Some(to)] => to.seconds_since(&**from),
                _ => None,
            };
            // Without a clock of the device, each sample is the mean over all runs.
            samples.push(seconds.unwrap_or(elapsed / runs as f64));
        }
        Ok(())
    }

    /// Waits for the current device and all devices with shards, so that pending work does not count toward the next
    /// measurement.
    fn finish_devices(&mut self, span: Span) -> Eval<()> {
        let own = std::iter::once(&self.interp.options.device);
        let finished = own.chain(&self.interp.device_pool.shards).try_for_each(|device| device.finish());
        finished.map_err(|error| self.device_error(&error, span))
    }
}
