//! Parses problems: `nat i n`, `int k`, `product p i n` (`p` is `i*n`), and one fact per line, such as `i*n + j < 4 or
//! i % 3 != 0`. A quotient or remainder by a constant becomes a variable, defined by the facts of division; a product
//! of variables becomes a product variable.

use clk_base::linear::{AffineForm, Formula, LinearProblem, Var};

/// One problem of a corpus: its name, the verdict that is expected, and the problem.
pub struct Case {
    pub name: String,
    pub expected: String,
    pub problem: LinearProblem,
}

/// Reads a corpus: each problem begins with `problem NAME: VERDICT`.
pub fn corpus(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|line| !line.is_empty()) {
        if let Some(head) = line.strip_prefix("problem ") {
            let (name, expected) = head.split_once(": ").expect("a name and a verdict");
            cases.push(Case { name: name.into(), expected: expected.into(), problem: LinearProblem::default() });
            continue;
        }
        let case = cases.last_mut().expect("a problem comes first");
        read(&mut case.problem, line).unwrap_or_else(|| panic!("{}: cannot read `{line}`", case.name));
    }
    cases
}

fn read(problem: &mut LinearProblem, line: &str) -> Option<()> {
    if let Some(names) = line.strip_prefix("nat ") {
        for name in names.split_whitespace() {
            let var = problem.add_variable(name);
            problem.facts.push(Formula::non_negative(AffineForm::from(var)));
        }
        return Some(());
    }
    if let Some(names) = line.strip_prefix("int ") {
        names.split_whitespace().for_each(|name| _ = problem.add_variable(name));
        return Some(());
    }
    if let Some(names) = line.strip_prefix("product ") {
        let var = |name: &str| Some(Var(problem.variables.iter().position(|known| known == name)? as u32));
        let vars: Vec<Var> = names.split_whitespace().map(var).collect::<Option<_>>()?;
        let [product, x, y] = vars[..] else { return None };
        problem.products.push((product, x, y));
        return Some(());
    }
    let tokens = tokens(line);
    let mut reader = Reader { problem, tokens: &tokens, at: 0 };
    let fact = reader.disjunction()?;
    (reader.at == tokens.len()).then_some(())?;
    problem.facts.push(fact);
    Some(())
}

fn tokens(line: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut word = false;
    for c in line.chars() {
        let is_word = c.is_alphanumeric() || c == '_' || c == '\'';
        let joins = match tokens.last() {
            Some(last) => is_word && word || c == '=' && matches!(last.as_str(), "<" | ">" | "!" | "="),
            None => false,
        };
        word = is_word;
        match tokens.last_mut() {
            Some(last) if joins => last.push(c),
            _ if c.is_whitespace() => {}
            _ => tokens.push(c.to_string()),
        }
    }
    tokens
}

struct Reader<'a> {
    problem: &'a mut LinearProblem,
    tokens: &'a [String],
    at: usize,
}

impl Reader<'_> {
    fn take_token(&mut self, token: &str) -> bool {
        let is_next = self.tokens.get(self.at).is_some_and(|next| next == token);
        self.at += usize::from(is_next);
        is_next
    }

    fn disjunction(&mut self) -> Option<Formula> {
        let mut parts = vec![self.conjunction()?];
        while self.take_token("or") {
            parts.push(self.conjunction()?);
        }
        if parts.len() == 1 { parts.pop() } else { Some(Formula::Or(parts)) }
    }

    fn conjunction(&mut self) -> Option<Formula> {
        let mut parts = vec![self.comparison()?];
        while self.take_token("and") {
            parts.push(self.comparison()?);
        }
        if parts.len() == 1 { parts.pop() } else { Some(Formula::And(parts)) }
    }

    fn comparison(&mut self) -> Option<Formula> {
        if self.take_token("not") {
            return self.comparison()?.not();
        }
        let start = self.at;
        if self.take_token("(")
            && let Some(inner) = self.disjunction()
            && self.take_token(")")
        {
            return Some(inner);
        }
        self.at = start;
        let (mut left, mut parts) = (self.sum()?, Vec::new());
        while let Some(operator) = self.tokens.get(self.at).cloned() {
            let compare = match operator.as_str() {
                "<" => Formula::lt,
                "<=" => Formula::le,
                ">" => Formula::gt,
                ">=" => Formula::ge,
                "==" => Formula::eq,
                "!=" => Formula::ne,
                _ => break,
            };
            self.at += 1;
            let right = self.sum()?;
            parts.push(compare(&left, &right)?);
            left = right;
        }
        match parts.len() {
            0 => None,
            1 => parts.pop(),
            _ => Some(Formula::And(parts)),
        }
    }

    fn sum(&mut self) -> Option<AffineForm> {
        let mut sum = self.term()?;
        loop {
            if self.take_token("+") {
                sum = sum.add(&self.term()?)?;
            } else if self.take_token("-") {
                sum = sum.sub(&self.term()?)?;
            } else {
                return Some(sum);
            }
        }
    }

    fn term(&mut self) -> Option<AffineForm> {
        let mut term = self.factor()?;
        loop {
            if self.take_token("*") {
                let factor = self.factor()?;
                term = self.multiply(&term, &factor)?;
            } else if self.take_token("/") {
                let divisor = self.factor()?.constant();
                term = self.divide(&term, divisor)?.0.into();
            } else if self.take_token("%") {
                let divisor = self.factor()?.constant();
                term = self.divide(&term, divisor)?.1.into();
            } else {
                return Some(term);
            }
        }
    }

    fn factor(&mut self) -> Option<AffineForm> {
        if self.take_token("-") {
            return self.factor()?.scale(-1);
        }
        if self.take_token("(") {
            let inner = self.sum()?;
            return self.take_token(")").then_some(inner);
        }
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        if let Ok(number) = token.parse::<i128>() {
            return Some(number.into());
        }
        let index = self.problem.variables.iter().position(|name| name == token)?;
        Some(Var(index as u32).into())
    }

    fn multiply(&mut self, a: &AffineForm, b: &AffineForm) -> Option<AffineForm> {
        if a.terms().is_empty() {
            return b.scale(a.constant());
        }
        if b.terms().is_empty() {
            return a.scale(b.constant());
        }
        let (x, y) = (self.variable(a)?, self.variable(b)?);
        Some(self.problem.product(x, y).into())
    }

    /// Returns a variable that equals this affine form. Adds a new variable unless the form is a single variable.
    fn variable(&mut self, form: &AffineForm) -> Option<Var> {
        if let ([(var, 1)], 0) = (form.terms(), form.constant()) {
            return Some(*var);
        }
        let name = format!("({})", form.display(&self.problem.variables));
        if let Some(index) = self.problem.variables.iter().position(|known| *known == name) {
            return Some(Var(index as u32));
        }
        let var = self.problem.add_variable(name);
        self.problem.facts.push(Formula::eq(&var.into(), form)?);
        Some(var)
    }

    fn divide(&mut self, form: &AffineForm, divisor: i128) -> Option<(Var, Var)> {
        let text = form.display(&self.problem.variables).to_string();
        let names = [format!("({text}) / {divisor}"), format!("({text}) % {divisor}")];
        if let Some(index) = self.problem.variables.iter().position(|known| *known == names[0]) {
            return Some((Var(index as u32), Var(index as u32 + 1)));
        }
        let [quotient, remainder] = names.map(|name| self.problem.add_variable(name));
        self.problem.facts.push(Formula::division(form, divisor, quotient, remainder)?);
        Some((quotient, remainder))
    }
}
