//! The syntax tree of code in another language. One tree serves Python, C, CUDA, Rust's closures and Julia, because
//! their statements and operators differ in spelling more than in structure.

/// A language, or several whose syntax is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Also Numba and Triton.
    Python,
    /// C, C++ and CUDA, and Clk with some of their syntax.
    C,
    Julia,
}

/// A place where a subscript selects one element or a range.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Subscript {
    Element(ForeignExpr),
    /// `a:b:c` of Python, `a:c:b` of Julia and `a..b step c` of Clk: start, end and step. Ends are exclusive.
    Range([Option<Box<ForeignExpr>>; 3]),
    /// `None` or `np.newaxis`.
    NewAxis,
    /// `...`.
    Rest,
}

/// An argument of a call, with its name if it has one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ForeignArgument {
    pub name: Option<String>,
    pub value: ForeignExpr,
}

/// A part of a string: text, or a value with its format.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TextPart {
    /// Literal text in the spelling of a Clk string.
    Literal(String),
    Value(ForeignExpr, String),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ForeignExpr {
    /// A number in Clk's spelling.
    Number(String),
    Text(Vec<TextPart>),
    Name(String),
    /// The operator in Clk's spelling, or `not`.
    Unary(&'static str, Box<ForeignExpr>),
    /// The operator in Clk's spelling, or `//` for a quotient rounded down, or `/.` for one that is never an integer.
    Binary(&'static str, Box<ForeignExpr>, Box<ForeignExpr>),
    Call(Box<ForeignExpr>, Vec<ForeignArgument>),
    Index(Box<ForeignExpr>, Vec<Subscript>),
    Field(Box<ForeignExpr>, String),
    /// A condition and two values.
    Conditional(Box<[ForeignExpr; 3]>),
    /// `(float)x`, with the type in Clk's spelling.
    Cast(&'static str, Box<ForeignExpr>),
    /// `&x`.
    Address(Box<ForeignExpr>),
    /// `*p`.
    Pointee(Box<ForeignExpr>),
    Tuple(Vec<ForeignExpr>),
    List(Vec<ForeignExpr>),
    /// A function without a name: parameters and value.
    Closure(Vec<String>, Box<ForeignExpr>),
    /// `[value for name in elements if condition]`.
    Comprehension {
        value: Box<ForeignExpr>,
        name: String,
        elements: Box<ForeignExpr>,
        condition: Option<Box<ForeignExpr>>,
    },
    /// A range of Clk or Julia: start, end, step, and whether it includes its end.
    Range(Box<[Option<ForeignExpr>; 3]>, bool),
    /// `kernel<<<grid, block>>>(arguments)`.
    Launch(Box<ForeignExpr>, Vec<ForeignExpr>, Vec<ForeignArgument>),
}

impl ForeignExpr {
    pub fn name(text: &str) -> ForeignExpr {
        ForeignExpr::Name(text.to_owned())
    }

    pub fn binary(op: &'static str, left: ForeignExpr, right: ForeignExpr) -> ForeignExpr {
        ForeignExpr::Binary(op, Box::new(left), Box::new(right))
    }

    /// Returns the dotted path of names, such as `np.linalg.norm`.
    pub fn path(&self) -> Option<String> {
        match self {
            ForeignExpr::Name(name) => Some(name.clone()),
            ForeignExpr::Field(base, name) => Some(format!("{}.{name}", base.path()?)),
            _ => None,
        }
    }

    pub fn is_name(&self, text: &str) -> bool {
        matches!(self, ForeignExpr::Name(name) if name == text)
    }

    /// Returns the array of an element, or the expression itself.
    pub fn base(&self) -> &ForeignExpr {
        match self {
            ForeignExpr::Index(base, _) | ForeignExpr::Address(base) | ForeignExpr::Pointee(base) => base.base(),
            other => other,
        }
    }

    /// Returns the value of an integer literal.
    pub fn integer(&self) -> Option<i64> {
        match self {
            ForeignExpr::Number(text) => text.parse().ok(),
            ForeignExpr::Unary("-", inner) => Some(-inner.integer()?),
            _ => None,
        }
    }

    /// Calls `visit` for this expression and all expressions in it.
    pub fn visit<'e>(&'e self, visit: &mut dyn FnMut(&'e ForeignExpr)) {
        visit(self);
        self.parts().into_iter().for_each(|part| part.visit(visit));
    }

    /// Returns whether a condition holds for this expression or one in it.
    pub fn contains(&self, test: impl Fn(&ForeignExpr) -> bool) -> bool {
        let mut found = false;
        self.visit(&mut |e| found |= test(e));
        found
    }

    pub fn uses(&self, name: &str) -> bool {
        self.contains(|e| e.is_name(name))
    }

    /// Returns the expressions directly in this one.
    fn parts(&self) -> Vec<&ForeignExpr> {
        use ForeignExpr::*;
        match self {
            Number(_) | Name(_) => vec![],
            Text(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    TextPart::Value(value, _) => Some(value),
                    TextPart::Literal(_) => None,
                })
                .collect(),
            Unary(_, e) | Field(e, _) | Cast(_, e) | Address(e) | Pointee(e) | Closure(_, e) => vec![e],
            Binary(_, a, b) => vec![a, b],
            Call(callee, args) => std::iter::once(&**callee).chain(args.iter().map(|arg| &arg.value)).collect(),
            Index(base, subscripts) => {
                let mut parts = vec![&**base];
                for subscript in subscripts {
                    match subscript {
                        Subscript::Element(e) => parts.push(e),
                        Subscript::Range(bounds) => parts.extend(bounds.iter().flatten().map(|e| &**e)),
                        Subscript::NewAxis | Subscript::Rest => {}
                    }
                }
                parts
            }
            Conditional(parts) => parts.iter().collect(),
            Tuple(parts) | List(parts) => parts.iter().collect(),
            Comprehension { value, elements, condition, .. } => {
                [&**value, &**elements].into_iter().chain(condition.as_deref()).collect()
            }
            Range(parts, _) => parts.iter().flatten().collect(),
            Launch(callee, extents, args) => {
                std::iter::once(&**callee).chain(extents).chain(args.iter().map(|arg| &arg.value)).collect()
            }
        }
    }

    /// Rewrites this expression from the inside out.
    pub fn rewrite(self, edit: &mut dyn FnMut(ForeignExpr) -> ForeignExpr) -> ForeignExpr {
        use ForeignExpr::*;
        fn boxed(e: ForeignExpr, edit: &mut dyn FnMut(ForeignExpr) -> ForeignExpr) -> Box<ForeignExpr> {
            Box::new(e.rewrite(edit))
        }
        let rewritten = match self {
            Number(_) | Name(_) => self,
            Text(parts) => Text(
                parts
                    .into_iter()
                    .map(|part| match part {
                        TextPart::Value(value, format) => TextPart::Value(value.rewrite(edit), format),
                        literal @ TextPart::Literal(_) => literal,
                    })
                    .collect(),
            ),
            Unary(op, e) => Unary(op, boxed(*e, edit)),
            Field(e, name) => Field(boxed(*e, edit), name),
            Cast(ty, e) => Cast(ty, boxed(*e, edit)),
            Address(e) => Address(boxed(*e, edit)),
            Pointee(e) => Pointee(boxed(*e, edit)),
            Closure(params, e) => Closure(params, boxed(*e, edit)),
            Binary(op, a, b) => Binary(op, boxed(*a, edit), boxed(*b, edit)),
            Call(callee, args) => Call(boxed(*callee, edit), rewrite_arguments(args, edit)),
            Index(base, subscripts) => Index(
                boxed(*base, edit),
                subscripts
                    .into_iter()
                    .map(|subscript| match subscript {
                        Subscript::Element(e) => Subscript::Element(e.rewrite(edit)),
                        Subscript::Range(bounds) => {
                            Subscript::Range(bounds.map(|bound| bound.map(|e| Box::new(e.rewrite(edit)))))
                        }
                        other => other,
                    })
                    .collect(),
            ),
            Conditional(parts) => Conditional(Box::new(parts.map(|e| e.rewrite(edit)))),
            Tuple(parts) => Tuple(parts.into_iter().map(|e| e.rewrite(edit)).collect()),
            List(parts) => List(parts.into_iter().map(|e| e.rewrite(edit)).collect()),
            Comprehension { value, name, elements, condition } => Comprehension {
                value: boxed(*value, edit),
                name,
                elements: boxed(*elements, edit),
                condition: condition.map(|e| boxed(*e, edit)),
            },
            Range(parts, inclusive) => Range(Box::new(parts.map(|e| e.map(|e| e.rewrite(edit)))), inclusive),
            Launch(callee, extents, args) => Launch(
                boxed(*callee, edit),
                extents.into_iter().map(|e| e.rewrite(edit)).collect(),
                rewrite_arguments(args, edit),
            ),
        };
        edit(rewritten)
    }

    /// Replaces a variable by an expression. The tree keeps precedence, so no parentheses are needed.
    pub fn substitute(self, name: &str, value: &ForeignExpr) -> ForeignExpr {
        self.rewrite(&mut |e| if e.is_name(name) { value.clone() } else { e })
    }
}

fn rewrite_arguments(
    args: Vec<ForeignArgument>,
    edit: &mut dyn FnMut(ForeignExpr) -> ForeignExpr,
) -> Vec<ForeignArgument> {
    args.into_iter().map(|arg| ForeignArgument { name: arg.name, value: arg.value.rewrite(edit) }).collect()
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ForeignParameter {
    pub name: String,
    /// The type of a value or of the elements of an array, in Clk's spelling; empty if it is not stated.
    pub element: String,
    /// Whether it is a pointer or an array.
    pub is_array: bool,
    /// Whether it is `const`.
    pub is_const: bool,
    /// The extents of an array, if they are stated.
    pub extents: Vec<ForeignExpr>,
    pub default: Option<ForeignExpr>,
}

impl ForeignParameter {
    /// Returns a parameter without a stated type.
    pub fn untyped(name: &str) -> ForeignParameter {
        ForeignParameter {
            name: name.to_owned(),
            element: String::new(),
            is_array: false,
            is_const: false,
            extents: vec![],
            default: None,
        }
    }
}

/// A declared variable: name, extents of an array, and value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ForeignVariable {
    pub name: String,
    pub is_pointer: bool,
    pub extents: Vec<ForeignExpr>,
    pub value: Option<ForeignExpr>,
}

/// What a function is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FunctionRole {
    /// A function that the host calls, or the device.
    Function,
    /// A kernel of CUDA or Numba.
    Kernel,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ForeignFunction {
    pub role: FunctionRole,
    pub name: String,
    /// Compile-time parameters in Clk's spelling: `const B: i32`.
    pub generics: Vec<String>,
    pub params: Vec<ForeignParameter>,
    /// The result type in Clk's spelling; `None` if it is not stated, empty if there is no result.
    pub result: Option<String>,
    /// The launch clause of Clk, if the head has one.
    pub geometry: String,
    pub body: Vec<ForeignStmt>,
}

impl ForeignFunction {
    /// Returns a function whose body is its result.
    pub fn of_value(name: &str, params: Vec<ForeignParameter>, value: ForeignExpr) -> ForeignFunction {
        ForeignFunction {
            role: FunctionRole::Function,
            name: name.to_owned(),
            generics: vec![],
            params,
            result: None,
            geometry: String::new(),
            body: vec![ForeignStmt::new(StmtShape::Return(Some(value)))],
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum StmtShape {
    /// A declaration with a type in Clk's spelling; the type is empty if it is inferred.
    Declare {
        ty: String,
        is_constant: bool,
        is_shared: bool,
        variables: Vec<ForeignVariable>,
    },
    /// `let` or `var` of Clk: the word, the pattern with its type, and the value.
    Bind(&'static str, String, Option<ForeignExpr>),
    /// `place op= value`; the operator is empty for a plain assignment. Several places are a chain, `a = b = 0`.
    Assign(Vec<ForeignExpr>, &'static str, ForeignExpr),
    Value(ForeignExpr),
    /// Branches with their conditions, and the `else` branch.
    If(Vec<(ForeignExpr, Vec<ForeignStmt>)>, Vec<ForeignStmt>),
    While(ForeignExpr, Vec<ForeignStmt>),
    /// `do { … } while (condition)`.
    DoWhile(Vec<ForeignStmt>, ForeignExpr),
    /// A loop over elements or a range: names, elements, body.
    For(Vec<String>, ForeignExpr, Vec<ForeignStmt>),
    /// A loop of C: start, condition, step, body.
    CFor(Box<Option<ForeignStmt>>, Option<ForeignExpr>, Box<Option<ForeignStmt>>, Vec<ForeignStmt>),
    Loop(Vec<ForeignStmt>),
    Block(Vec<ForeignStmt>),
    Return(Option<ForeignExpr>),
    /// `break` or `continue`.
    Jump(&'static str),
    Function(Box<ForeignFunction>),
    /// A condition that must hold, and a message.
    Assert(ForeignExpr, Option<ForeignExpr>),
    /// A loop hint: `#unroll`.
    Hint(String),
    /// Nothing: `pass`, `import numpy`.
    Nothing,
    /// An item of Clk whose body has the syntax of another language: `kernel f(x: [f32; N]) threads(i: N):`.
    Item(String, Vec<ForeignStmt>),
    /// The source text of an item of Clk.
    Raw(String),
}

/// A statement with its range in the text and the comments before and after it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ForeignStmt {
    pub shape: StmtShape,
    pub start: usize,
    pub end: usize,
    pub comments: Vec<String>,
    pub trailing_comment: Option<String>,
    /// Whether an empty line comes before it.
    pub is_after_gap: bool,
}

impl ForeignStmt {
    pub fn new(shape: StmtShape) -> ForeignStmt {
        ForeignStmt { shape, start: 0, end: 0, comments: vec![], trailing_comment: None, is_after_gap: false }
    }

    /// Returns the blocks of this statement, without those of nested functions.
    pub fn blocks(&self) -> Vec<&[ForeignStmt]> {
        match &self.shape {
            StmtShape::If(branches, otherwise) => {
                branches.iter().map(|(_, body)| &body[..]).chain([&otherwise[..]]).collect()
            }
            StmtShape::While(_, body)
            | StmtShape::DoWhile(body, _)
            | StmtShape::For(_, _, body)
            | StmtShape::CFor(_, _, _, body)
            | StmtShape::Loop(body)
            | StmtShape::Item(_, body)
            | StmtShape::Block(body) => vec![body],
            _ => vec![],
        }
    }

    /// Returns the expressions directly in this statement.
    pub fn expressions(&self) -> Vec<&ForeignExpr> {
        match &self.shape {
            StmtShape::Declare { variables, .. } => {
                variables.iter().flat_map(|v| v.extents.iter().chain(&v.value)).collect()
            }
            StmtShape::Bind(_, _, value) | StmtShape::Return(value) => value.iter().collect(),
            StmtShape::Assign(places, _, value) => places.iter().chain([value]).collect(),
            StmtShape::Value(e) | StmtShape::While(e, _) | StmtShape::DoWhile(_, e) | StmtShape::For(_, e, _) => {
                vec![e]
            }
            StmtShape::If(branches, _) => branches.iter().map(|(condition, _)| condition).collect(),
            StmtShape::CFor(first, condition, step, _) => {
                let parts = [first, step].into_iter().filter_map(|part| (**part).as_ref());
                parts.flat_map(ForeignStmt::expressions).chain(condition).collect()
            }
            StmtShape::Assert(condition, message) => [condition].into_iter().chain(message).collect(),
            _ => vec![],
        }
    }

    /// Calls `visit` for this statement and all statements in its blocks.
    pub fn visit<'s>(&'s self, visit: &mut dyn FnMut(&'s ForeignStmt)) {
        visit(self);
        if let StmtShape::CFor(first, _, step, _) = &self.shape {
            [first, step].into_iter().filter_map(|part| (**part).as_ref()).for_each(|part| part.visit(visit));
        }
        self.blocks().into_iter().flatten().for_each(|stmt| stmt.visit(visit));
    }

    /// Returns whether this statement or one in its blocks uses a variable.
    pub fn uses(&self, name: &str) -> bool {
        let mut found = false;
        self.visit(&mut |stmt| found |= stmt.expressions().iter().any(|e| e.uses(name)));
        found
    }
}

/// Rewrites all expressions of statements.
pub(super) fn rewrite_statements(
    stmts: Vec<ForeignStmt>,
    edit: &mut dyn FnMut(ForeignExpr) -> ForeignExpr,
) -> Vec<ForeignStmt> {
    stmts.into_iter().map(|stmt| rewrite_statement(stmt, edit)).collect()
}

fn rewrite_statement(stmt: ForeignStmt, edit: &mut dyn FnMut(ForeignExpr) -> ForeignExpr) -> ForeignStmt {
    use StmtShape::*;
    let shape = match stmt.shape {
        Declare { ty, is_constant, is_shared, variables } => Declare {
            ty,
            is_constant,
            is_shared,
            variables: variables
                .into_iter()
                .map(|v| ForeignVariable {
                    extents: v.extents.into_iter().map(|e| e.rewrite(edit)).collect(),
                    value: v.value.map(|e| e.rewrite(edit)),
                    ..v
                })
                .collect(),
        },
        Bind(word, pattern, value) => Bind(word, pattern, value.map(|e| e.rewrite(edit))),
        Assign(places, op, value) => {
            Assign(places.into_iter().map(|e| e.rewrite(edit)).collect(), op, value.rewrite(edit))
        }
        Value(e) => Value(e.rewrite(edit)),
        If(branches, otherwise) => {
            let branches = branches.into_iter();
            let branches = branches.map(|(c, body)| (c.rewrite(edit), rewrite_statements(body, edit))).collect();
            If(branches, rewrite_statements(otherwise, edit))
        }
        While(e, body) => While(e.rewrite(edit), rewrite_statements(body, edit)),
        DoWhile(body, e) => DoWhile(rewrite_statements(body, edit), e.rewrite(edit)),
        For(names, e, body) => For(names, e.rewrite(edit), rewrite_statements(body, edit)),
        CFor(first, condition, step, body) => CFor(
            Box::new(first.map(|stmt| rewrite_statement(stmt, edit))),
            condition.map(|e| e.rewrite(edit)),
            Box::new(step.map(|stmt| rewrite_statement(stmt, edit))),
            rewrite_statements(body, edit),
        ),
        Loop(body) => Loop(rewrite_statements(body, edit)),
        Block(body) => Block(rewrite_statements(body, edit)),
        Item(head, body) => Item(head, rewrite_statements(body, edit)),
        Return(value) => Return(value.map(|e| e.rewrite(edit))),
        Assert(condition, message) => Assert(condition.rewrite(edit), message.map(|e| e.rewrite(edit))),
        other @ (Jump(_) | Function(_) | Hint(_) | Nothing | Raw(_)) => other,
    };
    ForeignStmt { shape, ..stmt }
}
