//! Statements of random CUDA kernels.

use super::generator::CppType::*;
use super::generator::{Generator, VariableKind};

impl Generator {
    pub fn block(&mut self, head: &str, count: usize) {
        self.open(head);
        for _ in 0..count {
            self.statement();
        }
        self.close("");
    }

    pub fn some(&mut self) -> usize {
        1 + self.below(3)
    }

    pub fn statement(&mut self) {
        if self.budget == 0 {
            return self.assignment();
        }
        self.budget -= 1;
        self.full();
        match self.below(35) {
            0..=3 => self.declaration(),
            4 => self.array_declaration(),
            5 => self.record_declaration(),
            6 => self.alias_declaration(),
            7..=9 => {
                let condition = self.condition(2);
                let count = self.some();
                self.block(&format!("if ({condition})"), count);
                if self.one_in(2) {
                    let count = self.some();
                    self.block("else", count);
                }
            }
            10 | 11 => self.for_loop(),
            12 => self.while_loop(),
            13 => self.switch(),
            14 if self.in_loop => {
                let condition = self.condition(2);
                let jump = self.random.pick(&["break", "continue"]);
                self.line(&format!("if ({condition}) {jump};"));
            }
            15 if self.one_in(2) => {
                let condition = self.condition(2);
                let value = match self.result {
                    Some(ty) => format!(" {}", self.value(ty, 2)),
                    None => String::new(),
                };
                self.line(&format!("if ({condition}) return{value};"));
            }
            16 => {
                let count = self.some();
                self.block("", count);
            }
            17 => self.pointer_walk(),
            18 => self.moving_pointer(),
            19 => self.method_call(),
            20 => self.grid_declaration(),
            21..=24 => self.memory_statement(),
            25 => self.jump_block(),
            26 if !self.labels.is_empty() => self.jump(),
            27..=29 => self.lambda(),
            _ => self.assignment(),
        }
    }

    /// A block with a label, to which code in it jumps.
    fn jump_block(&mut self) {
        let (label, late) = (self.name("L"), self.name("d"));
        self.open("");
        self.labels.push(label.clone());
        for at in 0..2 + self.below(3) {
            match self.below(5) {
                0 | 1 => self.jump(),
                2 => self.assignment(),
                // C++ forbids jumps past initializers.
                3 if at == 1 => self.line(&format!("int {late}k; {late}k = {at};")),
                _ => {
                    let count = self.some();
                    self.block("", count);
                }
            }
        }
        self.jump();
        self.line(&format!("int {late};"));
        self.assignment();
        self.labels.pop();
        self.line(&format!("{label}:"));
        let value = self.value(I32, 2);
        self.line(&format!("{late} = {value};"));
        self.declare(&late, VariableKind::Value(I32), true);
        for _ in 0..self.some() {
            self.statement();
        }
        self.close("");
    }

    fn jump(&mut self) {
        let label = self.random.pick(&self.labels.clone());
        let condition = self.condition(2);
        self.full();
        match self.below(4) {
            0 => {
                self.open(&format!("if ({condition})"));
                self.assignment();
                self.line(&format!("goto {label};"));
                self.close("");
            }
            1 => self.line(&format!("if ({condition}) goto {label}; else {{ }}")),
            _ => self.line(&format!("if ({condition}) goto {label};")),
        }
    }

    pub fn assignment(&mut self) {
        self.full();
        let Some((target, ty)) = self.target() else { return };
        let text = match self.below(8) {
            0 if ty != Bool => {
                let op = self.random.pick(&["++", "--"]);
                if self.one_in(2) { format!("{target}{op}") } else { format!("{op}{target}") }
            }
            1 | 2 if ty != Bool => {
                let op = self.random.pick(&["+=", "-=", "*="]);
                format!("{target} {op} {}", self.value(ty, 2))
            }
            3 if !ty.is_float() => {
                let op = self.random.pick(&["&=", "|=", "^="]);
                format!("{target} {op} {}", self.integer(2))
            }
            4 if !ty.is_float() && ty != Bool => {
                let is_unsigned = matches!(ty, U32 | U64);
                let op = if is_unsigned && self.one_in(2) { "<<=" } else { ">>=" };
                format!("{target} {op} ({} & 7)", self.integer(1))
            }
            5 if !ty.is_float() && ty != Bool => {
                let op = self.random.pick(&["/=", "%="]);
                format!("{target} {op} (({} & 7) + 1)", self.integer(1))
            }
            _ => format!("{target} = {}", self.value(ty, 3)),
        };
        self.line(&format!("{text};"));
    }

    pub fn declaration(&mut self) {
        let ty = self.value_type();
        let value = self.value(ty, 3);
        // A variable may hide one of an outer block, which its initializer must not mention.
        let outer = self.pick_variable(|variable| variable.name.starts_with('v')).map(|variable| variable.name);
        let is_here = |name: &String| self.scopes.last().is_some_and(|scope| scope.iter().any(|v| v.name == *name));
        let hidden = outer.filter(|name| !is_here(name) && !value.contains(name.as_str()));
        let name = match hidden {
            Some(hidden) if self.one_in(6) => hidden,
            _ => self.name("v"),
        };
        match self.below(6) {
            0 => {
                self.line(&format!("const {} {name} = {value};", ty.name()));
                self.declare(&name, VariableKind::Value(ty), false);
            }
            1 => {
                self.line(&format!("auto {name} = ({})({value});", ty.name()));
                self.declare(&name, VariableKind::Value(ty), true);
            }
            2 => {
                let second = self.name("v");
                self.line(&format!("{} {name} = {value}, {second} = {name};", ty.name()));
                self.declare(&name, VariableKind::Value(ty), true);
                self.declare(&second, VariableKind::Value(ty), true);
            }
            3 => {
                self.line(&format!("{} {name}({value});", ty.name()));
                self.declare(&name, VariableKind::Value(ty), true);
            }
            _ => {
                self.line(&format!("{} {name} = {value};", ty.name()));
                self.declare(&name, VariableKind::Value(ty), true);
            }
        }
    }

    pub fn array_declaration(&mut self) {
        let (ty, len, name) = (self.value_type(), self.random.pick(&[2, 4, 8]), self.name("a"));
        let given = if self.one_in(3) { self.below(len) } else { len };
        let values: Vec<String> = (0..given).map(|_| format!("({})({})", ty.name(), self.value(ty, 1))).collect();
        self.line(&format!("{} {name}[{len}] = {{{}}};", ty.name(), values.join(", ")));
        self.declare(&name, VariableKind::Elements(ty, len), true);
    }

    pub fn record_declaration(&mut self) {
        if self.records.is_empty() {
            return self.declaration();
        }
        let at = self.below(self.records.len());
        let record = self.records[at].clone();
        let name = self.name("s");
        let copied = self.pick_variable(|variable| matches!(variable.kind, VariableKind::Record(found) if found == at));
        if let Some(copied) = copied.filter(|_| self.one_in(3)) {
            let value = match self.below(3) {
                0 => format!("{0} + {0}", copied.name),
                _ => copied.name,
            };
            self.line(&format!("{} {name} = {value};", record.name));
        } else {
            let values: Vec<String> =
                record.fields.iter().map(|(_, ty)| format!("({})({})", ty.name(), self.value(*ty, 2))).collect();
            let values = values.join(", ");
            match record.has_constructor {
                true => self.line(&format!("{} {name}({values});", record.name)),
                false => self.line(&format!("{} {name} = {{{values}}};", record.name)),
            }
        }
        self.declare(&name, VariableKind::Record(at), true);
    }

    /// Declares a reference to a variable, or a pointer into an array.
    pub fn alias_declaration(&mut self) {
        if self.one_in(4) {
            // A reference to an element or a field is used like a variable.
            let used = self.used.clone();
            if let Some((target, ty)) = self.target().filter(|(target, _)| target.contains(['[', '.'])) {
                let name = self.name("r");
                for variable in self.scopes.iter_mut().flatten().filter(|variable| target.starts_with(&variable.name)) {
                    variable.is_aliased = true;
                }
                self.line(&format!("{}& {name} = {target};", ty.name()));
                self.declare(&name, VariableKind::Value(ty), true);
                if let Some(variable) = self.scopes.last_mut().and_then(|scope| scope.last_mut()) {
                    variable.is_aliased = true;
                }
            }
            self.used = used;
            return;
        }
        if self.one_in(2) {
            let Some(target) = self.pick_variable(|variable| {
                matches!(variable.kind, VariableKind::Value(_)) && variable.is_mutable && !variable.is_aliased
            }) else {
                return;
            };
            let VariableKind::Value(ty) = target.kind else { return };
            for variable in self.scopes.iter_mut().flatten().filter(|variable| variable.name == target.name) {
                variable.is_aliased = true;
            }
            let name = self.name("r");
            self.line(&format!("{}& {name} = {};", ty.name(), target.name));
            self.declare(&name, VariableKind::Value(ty), true);
            if let Some(variable) = self.scopes.last_mut().and_then(|scope| scope.last_mut()) {
                variable.is_aliased = true;
            }
            return;
        }
        let Some(array) =
            self.pick_variable(|variable| matches!(variable.kind, VariableKind::Elements(_, len) if len > 1))
        else {
            return;
        };
        let VariableKind::Elements(ty, len) = array.kind else { return };
        let name = self.name("p");
        let (half, offset) = (len / 2, self.below(len / 2 + 1));
        let constant = if array.is_mutable && self.one_in(2) { "" } else { "const " };
        let value =
            if self.one_in(2) { format!("{} + {offset}", array.name) } else { format!("&{}[{offset}]", array.name) };
        self.line(&format!("{constant}{}* {name} = {value};", ty.name()));
        self.declare(&name, VariableKind::Elements(ty, half), constant.is_empty());
    }

    /// Reads an array through a moving pointer.
    pub fn pointer_walk(&mut self) {
        let Some(array) = self.pick_variable(|variable| matches!(variable.kind, VariableKind::Elements(..))) else {
            return;
        };
        let VariableKind::Elements(ty, len) = array.kind else { return };
        let Some((sum, _)) = self.changed_variable(ty.is_float()) else { return };
        let name = self.name("q");
        let source = array.name;
        match self.below(3) {
            0 => self.line(&format!(
                "for (const {}* {name} = {source}; {name} < {source} + {len}; ++{name}) {sum} += *{name};",
                ty.name()
            )),
            1 => {
                self.line(&format!("const {}* {name} = {source};", ty.name()));
                let op = if ty.is_float() { "-" } else { "^" };
                self.line(&format!("while ({name} != {source} + {len}) {sum} = {sum} {op} (*{name}++ != 0);"));
            }
            _ => {
                self.line(&format!("const {}* {name} = {source} + {len};", ty.name()));
                self.line(&format!("{name} -= {};", len.min(2)));
                let at = self.below(len.min(2));
                self.line(&format!("{sum} += {name}[{at}] + ({name} - {source});"));
            }
        }
    }

    /// Moves a pointer through an array in straight-line code.
    pub fn moving_pointer(&mut self) {
        let Some(array) =
            self.pick_variable(|variable| matches!(variable.kind, VariableKind::Elements(_, len) if len >= 4))
        else {
            return;
        };
        let VariableKind::Elements(ty, _) = array.kind else { return };
        let Some((sum, sum_ty)) = self.changed_variable(ty.is_float()) else { return };
        let (name, source) = (self.name("q"), array.name);
        let is_written = array.is_mutable && self.one_in(2);
        self.line(&format!("{}{}* {name} = {source};", if is_written { "" } else { "const " }, ty.name()));
        let mut at = 0;
        for _ in 0..3 {
            let text = match self.below(6) {
                0 if at < 3 => {
                    at += 1;
                    format!("{sum} = *{name}++;")
                }
                1 if at < 3 => {
                    at += 1;
                    format!("{sum} -= *++{name};")
                }
                2 if at > 0 => {
                    at -= 1;
                    format!("{name} -= 1; {sum} += {name}[1] != {name}[0];")
                }
                3 if is_written => format!("*{name} = {};", self.value(ty, 1)),
                4 if is_written && at < 3 => {
                    at += 1;
                    format!("*{name}++ = ({})({sum});", ty.name())
                }
                _ => format!("{sum} = ({})({sum} + {name}[{}]);", sum_ty.name(), self.below(4 - at)),
            };
            self.line(&text);
        }
    }

    pub fn method_call(&mut self) {
        let Some(object) =
            self.pick_variable(|variable| matches!(variable.kind, VariableKind::Record(_)) && variable.is_mutable)
        else {
            return;
        };
        let VariableKind::Record(record) = object.kind else { return };
        let ty = self.records[record].fields[0].1;
        self.changed.push(object.name.clone());
        let value = format!("({})({})", ty.name(), self.value(ty, 2));
        match self.target().filter(|_| self.one_in(2)) {
            Some((target, _)) => self.line(&format!("{target} = {}.take({value});", object.name)),
            None => self.line(&format!("{}.set({value});", object.name)),
        }
    }

    /// Declares a local array with two axes, and a pointer to one of its rows.
    pub fn grid_declaration(&mut self) {
        let (ty, name) = (self.value_type(), self.name("g"));
        let rows: Vec<String> = (0..2)
            .map(|_| {
                let values: Vec<String> = (0..4).map(|_| format!("({})({})", ty.name(), self.value(ty, 1))).collect();
                format!("{{{}}}", values.join(", "))
            })
            .collect();
        self.line(&format!("{} {name}[2][4] = {{{}}};", ty.name(), rows.join(", ")));
        let (row, value) = (self.index(2, 1), self.value(ty, 1));
        let column = self.below(4);
        self.line(&format!("{name}[{row}][{column}] = {value};"));
        let row = self.below(2);
        self.declare(&format!("{name}[{row}]"), VariableKind::Elements(ty, 4), true);
    }

    pub fn for_loop(&mut self) {
        let (name, limit) = (self.name("k"), 1 + self.below(6));
        let ty = self.random.pick(&[I32, I32, U32, I64, U8]);
        let step = self.random.pick(&["++NAME", "NAME++", "NAME += 2", "NAME = NAME + 1"]).replace("NAME", &name);
        let head = match self.below(5) {
            0 => format!("for ({0} {name} = {limit}; {name} > 0; {name}--)", ty.name()),
            1 => format!("for (int {name} = 0, {name}e = {limit}; {name} < {name}e; {name}++, {name}e--)"),
            2 => format!("for ({0} {name} = {limit}; {name} > 0; {name} /= 2)", ty.name()),
            3 => {
                let bound = self.integer(1);
                self.line(&format!("const int {name}n = ({bound}) & 7;"));
                format!("for (int {name} = 0; {name} < {name}n; {step})")
            }
            _ => format!("for ({} {name} = 0; {name} < {limit}; {step})", ty.name()),
        };
        self.open(&head);
        self.declare(&name, VariableKind::Value(ty), false);
        self.loop_body();
        self.close("");
    }

    pub fn loop_body(&mut self) {
        let outer = std::mem::replace(&mut self.in_loop, true);
        for _ in 0..self.some() {
            self.statement();
        }
        self.in_loop = outer;
    }

    pub fn while_loop(&mut self) {
        let (name, limit) = (self.name("w"), 1 + self.below(5));
        self.line(&format!("int {name} = {limit};"));
        let condition = self.condition(1);
        let is_do = self.one_in(2);
        let guard = match is_do {
            true => format!("while (--{name} > 0 && {condition})"),
            false => format!("while ({name}-- > 0 && {condition})"),
        };
        if is_do {
            self.open("do");
        } else {
            self.open(&guard);
        }
        self.declare(&name, VariableKind::Value(I32), false);
        self.loop_body();
        self.close(&if is_do { format!(" {guard};") } else { String::new() });
    }

    pub fn switch(&mut self) {
        let value = format!("({}) & 3", self.integer(2));
        self.line(&format!("switch ({value}) {{"));
        let outer = std::mem::replace(&mut self.in_loop, false);
        let mut labels = vec!["case 0:", "case 1:", "case 2:", "default:"];
        if self.one_in(2) {
            labels.swap(2, 3);
        }
        for label in labels {
            let count = self.some();
            self.block(label, count);
            if !self.one_in(3) {
                self.line("break;");
            }
        }
        self.in_loop = outer;
        self.line("}");
    }
}
