//! Cooperation of threads in random kernels: they exchange numbers through shared memory and warp operations.

use super::{Form, ProgramWriter};

impl ProgramWriter {
    pub(super) fn thread_exchange(&mut self, depth: usize) {
        match self.form {
            Form::Blocks { block, .. } => match self.random.next_below(6) {
                0 | 1 => self.exchange(depth, block),
                2 => self.tree(depth, block),
                3 => self.shared_sums(depth),
                _ => self.warp(depth),
            },
            Form::Tiles { h, w } => {
                let (name, value) = (self.name("s"), self.bounded(2));
                self.write_line(depth, &format!("{name}[ty, tx] = {value}"));
                self.write_line(depth, "barrier()");
                let read = [
                    format!("{name}[ty, {w} - 1 - tx]"),
                    format!("{name}[(ty + 1) % {h}, tx]"),
                    format!("{name}[0, tx] * {name}[ty, 0]"),
                ];
                let read = self.pick(&read);
                let own = self.name("v");
                self.write_line(depth, &format!("let {own} = {read}"));
                self.values.push(own);
                self.write_line(depth, "barrier()");
                self.shared(&format!("{name}: [f64; {h}, {w}]"));
            }
            _ => {}
        }
    }

    /// Declares a shared array at the start of the kernel.
    fn shared(&mut self, declaration: &str) {
        self.text.insert_str(0, &format!("    shared {declaration}\n"));
    }

    fn exchange(&mut self, depth: usize, block: usize) {
        let (name, value) = (self.name("s"), self.bounded(2));
        self.write_line(depth, &format!("{name}[t] = {value}"));
        if self.one_in(3) {
            let value = self.bounded(1);
            self.write_line(depth, &format!("{name}[t] *= {value}"));
        }
        self.write_line(depth, "barrier()");
        let own = self.name("v");
        let by = self.random.next_below(block);
        let read = match self.random.next_below(5) {
            0 => format!("{name}[{block} - 1 - t]"),
            1 => format!("{name}[(t + {by}) % {block}]"),
            2 => format!("{name}[{by}] * {name}[t]"),
            3 => format!("{name}[abs(({}) % {block})]", self.integer(false)),
            _ => format!("(if t > 0 {{ {name}[t - 1] }} else {{ {name}[t] * 0.5 }})"),
        };
        self.write_line(depth, &format!("let {own} = {read}"));
        if self.one_in(3) {
            let (sum, k) = (self.name("v"), self.name("k"));
            self.write_line(depth, &format!("var {sum} = 0.1f64"));
            let part = match self.one_in(2) {
                true => format!("{sum} += {name}[{k}] * {own}"),
                false => format!("{sum} = tanh({sum} * {name}[{k}] + {own})"),
            };
            self.write_line(depth, &format!("for {k} in 0..{block} {{ {part} }}"));
            self.variables.push(sum);
        }
        self.values.push(own);
        self.write_line(depth, "barrier()");
        self.shared(&format!("{name}: [f64; {block}]"));
    }

    /// Writes a tree reduction.
    fn tree(&mut self, depth: usize, block: usize) {
        let (name, value, half, sum) = (self.name("s"), self.bounded(2), self.name("k"), self.name("v"));
        let with = ["@ = @ + #", "@ = @ * 0.5 + # * @", "@ = max(@, #)", "@ += tanh(#)"][self.random.next_below(4)];
        let with = with.replace('@', &format!("{name}[t]")).replace('#', &format!("{name}[t + {half}]"));
        self.write_line(depth, &format!("{name}[t] = {value}"));
        self.write_line(depth, "barrier()");
        self.write_line(depth, &format!("var {half} = {}", block.next_power_of_two() / 2));
        self.write_line(depth, &format!("while {half} > 0 {{"));
        self.write_line(depth + 1, &format!("if t < {half} && t + {half} < {block} {{ {with} }}"));
        self.write_line(depth + 1, "barrier()");
        self.write_line(depth + 1, &format!("{half} /= 2"));
        self.write_line(depth, "}");
        self.write_line(depth, &format!("let {sum} = {name}[0]"));
        self.write_line(depth, "barrier()");
        self.values.push(sum);
        self.shared(&format!("{name}: [f64; {block}]"));
    }

    fn shared_sums(&mut self, depth: usize) {
        let (name, value, sum) = (self.name("s"), self.bounded(2), self.name("v"));
        let (to, from) = (self.integer(false), self.integer(false));
        self.write_line(depth, &format!("if t < 2 {{ {name}[t] = 0.0 }}"));
        self.write_line(depth, "barrier()");
        self.write_line(depth, &format!("atomic_add({name}[({to}) & 1], {value})"));
        self.write_line(depth, "barrier()");
        self.write_line(depth, &format!("let {sum} = tanh({name}[({from}) & 1])"));
        self.write_line(depth, "barrier()");
        self.values.push(sum);
        self.shared(&format!("{name}: [f64; 2]"));
    }

    fn warp(&mut self, depth: usize) {
        let (value, name) = (self.bounded(2), self.name("v"));
        let by = self.random.next_below(20);
        let operation = match self.random.next_below(14) {
            0 | 1 => format!("shuffle_xor({value}, {by})"),
            2 | 3 => format!("shuffle_up({value}, {by})"),
            4 | 5 => format!("shuffle_down({value}, {by})"),
            6 | 7 => format!("shuffle({value}, 0)"),
            8..=10 => format!("tanh(warp_reduce_add({value}))"),
            11 => format!("warp_reduce_max({value})"),
            12 => format!("warp_reduce_min({value})"),
            _ => format!("shuffle({value}, 1 - (t & 1))"),
        };
        self.write_line(depth, &format!("let {name} = {operation}"));
        self.values.push(name);
    }
}
