//! Prints a tree as compact text, for tests. Parentheses show the structure of expressions.

use crate::ast::*;

/// Prints declarations, one per line, with the statements of bodies indented.
pub(super) fn decls(decls: &[CppDecl]) -> String {
    let mut printer = TreePrinter::default();
    for decl in decls {
        printer.decl(decl);
    }
    printer.out
}

#[derive(Default)]
struct TreePrinter {
    out: String,
    indent: usize,
}

impl TreePrinter {
    fn line(&mut self, text: &str) {
        self.out.push_str(&"  ".repeat(self.indent));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn inner(&mut self, print: impl FnOnce(&mut Self)) {
        self.indent += 1;
        print(self);
        self.indent -= 1;
    }

    fn decl(&mut self, decl: &CppDecl) {
        match &decl.kind {
            CppDeclKind::Function(function) => self.function("", function),
            CppDeclKind::ExplicitInstantiation(function) => self.function("instantiate ", function),
            CppDeclKind::Variables(decl) => {
                for text in variables(decl) {
                    self.line(&text);
                }
            }
            CppDeclKind::Record(record) => self.record(record),
            CppDeclKind::Enum(defined) => self.line(&enum_text(defined)),
            CppDeclKind::Alias(alias) => {
                let head = alias.template.as_ref().map_or(String::new(), template);
                self.line(&format!("{head}alias {} = {}", alias.name.text, ty(&alias.ty)));
            }
            CppDeclKind::Namespace { name, inline, decls } => {
                let inline = if *inline { "inline " } else { "" };
                self.line(&format!("{inline}namespace {}", name.as_ref().map_or("", |name| &name.text)));
                self.inner(|p| decls.iter().for_each(|decl| p.decl(decl)));
            }
            CppDeclKind::NamespaceAlias { name, target } => {
                self.line(&format!("namespace {} = {}", name.text, qualified(target)));
            }
            CppDeclKind::LinkageBlock(decls) => decls.iter().for_each(|decl| self.decl(decl)),
            CppDeclKind::UsingNamespace(name) => self.line(&format!("using namespace {}", qualified(name))),
            CppDeclKind::UsingName(name) => self.line(&format!("using {}", qualified(name))),
            CppDeclKind::StaticAssert { condition, .. } => self.line(&format!("static_assert {}", expr(condition))),
            CppDeclKind::Friend(inner) => {
                self.line("friend");
                self.inner(|p| inner.iter().for_each(|decl| p.decl(decl)));
            }
            CppDeclKind::Refused { name, kernel, refusal } => {
                let name = name.as_ref().map_or("", |name| &name.text);
                self.line(&format!("refused {name} (kernel: {kernel}): {}", refusal.construct));
            }
            CppDeclKind::Skipped => self.line("skipped"),
        }
    }

    fn function(&mut self, prefix: &str, function: &CppFunction) {
        let mut text = String::from(prefix);
        text += &function.template.as_ref().map_or(String::new(), template);
        let attributes = &function.attributes;
        let flags = [
            (attributes.global, "kernel"),
            (attributes.device, "device"),
            (attributes.host, "host"),
            (attributes.inline, "inline"),
            (attributes.constexpr, "constexpr"),
            (attributes.is_static, "static"),
            (attributes.is_virtual, "virtual"),
        ];
        for (_, word) in flags.iter().filter(|(set, _)| *set) {
            text += &format!("{word} ");
        }
        if let Some(bounds) = &attributes.launch_bounds {
            let all = [Some(&bounds.max_threads), bounds.min_blocks.as_ref(), bounds.max_cluster.as_ref()];
            text += &format!("launch_bounds({}) ", all.into_iter().flatten().map(expr).collect::<Vec<_>>().join(", "));
        }
        if let Some(scope) = &function.scope {
            text += &format!("{}::", qualified(scope));
        }
        text += &match &function.name {
            FunctionName::Plain(name) => name.to_string(),
            FunctionName::Constructor(name) => format!("constructor {name}"),
            FunctionName::Destructor(name) => format!("~{name}"),
            FunctionName::Operator(operator) => format!("operator{operator}"),
            FunctionName::Conversion => "conversion".to_string(),
        };
        text += &function.template_args.as_ref().map_or(String::new(), |args| template_args(args));
        let mut params: Vec<String> = function.params.iter().map(param).collect();
        params.extend(function.variadic.then(|| "...".to_string()));
        text += &format!("({}) -> {}", params.join(", "), ty(&function.result));
        if function.is_const {
            text += " const";
        }
        for initializer in &function.initializers {
            text += &format!(", {}({})", qualified(&initializer.name), exprs(&initializer.args));
        }
        match &function.body {
            FunctionBody::None => self.line(&format!("{text};")),
            FunctionBody::Block(block) => {
                self.line(&text);
                self.block(block);
            }
            FunctionBody::Defaulted => self.line(&format!("{text} = default")),
            FunctionBody::Deleted => self.line(&format!("{text} = delete")),
            FunctionBody::Pure => self.line(&format!("{text} = 0")),
            FunctionBody::Skipped(_) => self.line(&format!("{text} skipped")),
            FunctionBody::Refused(refusal) => self.line(&format!("{text} refused: {}", refusal.construct)),
        }
    }

    fn record(&mut self, record: &CppRecord) {
        let head = record.template.as_ref().map_or(String::new(), template);
        self.line(&format!("{head}{}", record_head(record)));
        self.inner(|p| {
            for member in record.members.iter().flatten() {
                p.decl(&member.decl);
            }
        });
    }

    fn block(&mut self, block: &CppBlock) {
        self.inner(|p| block.stmts.iter().for_each(|stmt| p.stmt(stmt)));
    }

    fn body(&mut self, stmt: &CppStmt) {
        match &stmt.kind {
            CppStmtKind::Block(block) => self.block(block),
            _ => self.inner(|p| p.stmt(stmt)),
        }
    }

    fn stmt(&mut self, stmt: &CppStmt) {
        match &stmt.kind {
            CppStmtKind::Empty => self.line(";"),
            CppStmtKind::Expr(value) => self.line(&expr(value)),
            CppStmtKind::Decl(decl) => self.decl(decl),
            CppStmtKind::Block(block) => {
                self.line("block");
                self.block(block);
            }
            CppStmtKind::If(inner) => {
                let constexpr = if inner.constexpr { " constexpr" } else { "" };
                let init = inner.init.as_ref().map_or(String::new(), |init| format!("{}; ", simple(init)));
                self.line(&format!("if{constexpr} {init}{}", condition(&inner.condition)));
                self.body(&inner.then);
                if let Some(otherwise) = &inner.otherwise {
                    self.line("else");
                    self.body(otherwise);
                }
            }
            CppStmtKind::While { unroll, condition: value, body } => {
                self.line(&format!("{}while {}", hint(unroll), condition(value)));
                self.body(body);
            }
            CppStmtKind::DoWhile { unroll, body, condition } => {
                self.line(&format!("{}do while {}", hint(unroll), expr(condition)));
                self.body(body);
            }
            CppStmtKind::For(inner) => {
                let value = inner.condition.as_ref().map_or(String::new(), condition);
                let step = inner.step.as_ref().map_or(String::new(), expr);
                self.line(&format!("{}for {}; {value}; {step}", hint(&inner.unroll), simple(&inner.init)));
                self.body(&inner.body);
            }
            CppStmtKind::RangeFor { variable, range, body } => {
                self.line(&format!("for {} : {}", variables(variable).join(", "), expr(range)));
                self.body(body);
            }
            CppStmtKind::Switch(inner) => {
                self.line(&format!("switch {}", condition(&inner.condition)));
                self.inner(|p| {
                    inner.prologue.iter().for_each(|stmt| p.stmt(stmt));
                    for section in &inner.sections {
                        let labels = section.labels.iter().map(|label| match label {
                            SwitchLabel::Case(value) => format!("case {}", expr(value)),
                            SwitchLabel::Range(low, high) => format!("case {} ... {}", expr(low), expr(high)),
                            SwitchLabel::Default => "default".to_string(),
                        });
                        let labels = labels.collect::<Vec<_>>().join(", ");
                        p.line(&labels);
                        p.inner(|p| section.stmts.iter().for_each(|stmt| p.stmt(stmt)));
                    }
                });
            }
            CppStmtKind::Return(value) => {
                self.line(format!("return {}", value.as_ref().map_or(String::new(), expr)).trim_end());
            }
            CppStmtKind::Break => self.line("break"),
            CppStmtKind::Continue => self.line("continue"),
            CppStmtKind::Label(name) => self.line(&format!("{}:", name.text)),
            CppStmtKind::Goto(name) => self.line(&format!("goto {}", name.text)),
            CppStmtKind::Refused(refusal) => self.line(&format!("refused: {}", refusal.construct)),
        }
    }
}

fn simple(stmt: &CppStmt) -> String {
    let mut printer = TreePrinter::default();
    printer.stmt(stmt);
    printer.out.trim_end().replace('\n', ", ").trim_start_matches(';').to_string()
}

fn hint(unroll: &Option<UnrollHint>) -> String {
    match unroll {
        None => String::new(),
        Some(UnrollHint { count: None, .. }) => "unroll ".into(),
        Some(UnrollHint { count: Some(count), .. }) => format!("unroll({}) ", expr(count)),
    }
}

fn condition(condition: &CppCondition) -> String {
    match condition {
        CppCondition::Expr(value) => expr(value),
        CppCondition::Decl(decl) => variables(decl).join(", "),
    }
}

fn variables(decl: &VariableDecl) -> Vec<String> {
    let attributes = &decl.attributes;
    let flags = [
        (attributes.shared, "shared "),
        (attributes.device, "device "),
        (attributes.constant, "constant "),
        (attributes.is_extern, "extern "),
        (attributes.is_static, "static "),
        (attributes.constexpr, "constexpr "),
    ];
    let mut prefix: String = flags.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
    if let Some(align) = &attributes.align {
        prefix += &format!("align({}) ", expr(align));
    }
    let text = |variable: &CppVariable| {
        let name = match &variable.name {
            VariableName::Plain(name) => name.text.to_string(),
            VariableName::Bindings(names) => {
                format!("[{}]", names.iter().map(|name| name.text.as_str()).collect::<Vec<_>>().join(", "))
            }
            VariableName::Unnamed => "_".to_string(),
        };
        let init = match &variable.init {
            CppInit::None => String::new(),
            CppInit::Equal(value) => format!(" = {}", expr(value)),
            CppInit::Paren(args) => format!("({})", exprs(args)),
            CppInit::Brace(args) => format!("{{{}}}", exprs(args)),
        };
        let bits = variable.bits.as_ref().map_or(String::new(), |bits| format!(" : {}", expr(bits)));
        let head = decl.template.as_ref().map_or(String::new(), template);
        format!("{head}{prefix}var {name}: {}{bits}{init}", ty(&variable.ty))
    };
    decl.variables.iter().map(text).collect()
}

fn record_head(record: &CppRecord) -> String {
    let mut text = format!("{:?} {}", record.kind, record.name.as_ref().map_or("", |name| &name.text)).to_lowercase();
    text += &record.template_args.as_ref().map_or(String::new(), |args| template_args(args));
    for base in &record.bases {
        text += &format!(" : {}", qualified(&base.name));
    }
    if record.members.is_none() {
        text.push(';');
    }
    text
}

fn enum_text(defined: &CppEnum) -> String {
    let scoped = if defined.scoped { "enum class" } else { "enum" };
    let values = defined.enumerators.iter().flatten().map(|enumerator| {
        let value = enumerator.value.as_ref().map_or(String::new(), |value| format!(" = {}", expr(value)));
        format!("{}{value}", enumerator.name.text)
    });
    let name = defined.name.as_ref().map_or("", |name| &name.text);
    format!("{scoped} {name} {{{}}}", values.collect::<Vec<_>>().join(", "))
}

fn param(param: &CppParam) -> String {
    let default = param.default.as_ref().map_or(String::new(), |value| format!(" = {}", expr(value)));
    let pack = if param.pack { "..." } else { "" };
    format!("{}{pack}: {}{default}", param.name.as_ref().map_or("_", |name| &name.text), ty(&param.ty))
}

fn template(header: &TemplateHeader) -> String {
    let params = header.params.iter().map(|param| {
        let name = param.name.as_ref().map_or("_", |name| &name.text);
        let pack = if param.pack { "..." } else { "" };
        match &param.kind {
            TemplateParamKind::Type { default } => {
                format!(
                    "{name}{pack}{}",
                    default.as_ref().map_or(String::new(), |default| format!(" = {}", ty(default)))
                )
            }
            TemplateParamKind::Value { ty: own, default } => {
                let default = default.as_ref().map_or(String::new(), |default| format!(" = {}", expr(default)));
                format!("{name}{pack}: {}{default}", ty(own))
            }
            TemplateParamKind::Template => format!("template {name}"),
        }
    });
    format!("<{}> ", params.collect::<Vec<_>>().join(", "))
}

fn template_args(args: &[CppTemplateArg]) -> String {
    fn one(arg: &CppTemplateArg) -> String {
        match arg {
            CppTemplateArg::Type(own) => format!("type {}", ty(own)),
            CppTemplateArg::Value(value) => expr(value),
            CppTemplateArg::Pack(inner) => format!("{}...", one(inner)),
        }
    }
    format!("<{}>", args.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn qualified(name: &QualifiedName) -> String {
    let segments = name.segments.iter().map(|segment| {
        let args = segment.args.as_ref().map_or(String::new(), |args| template_args(args));
        format!("{}{args}", segment.name.text)
    });
    format!("{}{}", if name.global { "::" } else { "" }, segments.collect::<Vec<_>>().join("::"))
}

fn ty(own: &CppType) -> String {
    let mut text = String::new();
    let qualifiers = own.qualifiers;
    for (_, word) in
        [(qualifiers.is_const, "const "), (qualifiers.volatile, "volatile "), (qualifiers.restrict, "restrict ")]
            .iter()
            .filter(|(set, _)| *set)
    {
        text += word;
    }
    text + &match &own.kind {
        CppTypeKind::Basic(basic) => format!("{basic:?}"),
        CppTypeKind::Named(name) => qualified(name),
        CppTypeKind::Pointer(inner) => format!("*{}", ty(inner)),
        CppTypeKind::Reference(inner) => format!("&{}", ty(inner)),
        CppTypeKind::RvalueReference(inner) => format!("&&{}", ty(inner)),
        CppTypeKind::Array { element, length } => {
            format!("[{}; {}]", ty(element), length.as_ref().map_or(String::new(), |length| expr(length)))
        }
        CppTypeKind::Function { result, params } => {
            format!("fn({}) -> {}", params.iter().map(param).collect::<Vec<_>>().join(", "), ty(result))
        }
        CppTypeKind::MemberPointer { class, target } => format!("{}::*{}", qualified(class), ty(target)),
        CppTypeKind::Auto => "auto".to_string(),
        CppTypeKind::Decltype { value, .. } => format!("decltype({})", expr(value)),
        CppTypeKind::Record(record) => record_head(record),
        CppTypeKind::Enum(defined) => enum_text(defined),
    }
}

fn exprs(values: &[CppExpr]) -> String {
    values.iter().map(expr).collect::<Vec<_>>().join(", ")
}

fn expr(value: &CppExpr) -> String {
    match &value.kind {
        CppExprKind::Int(literal) => {
            let length = match literal.length {
                IntLength::Int => "",
                IntLength::Long => "L",
                IntLength::LongLong => "LL",
            };
            format!("{}{}{length}", literal.value, if literal.unsigned { "u" } else { "" })
        }
        CppExprKind::Float(literal) => {
            format!("{}{}", literal.text, if literal.ty == BasicType::Float { "f" } else { "" })
        }
        CppExprKind::Char(literal) => format!("'{}'", literal.value),
        CppExprKind::String(literal) => format!("{:?}", String::from_utf8_lossy(&literal.bytes)),
        CppExprKind::Bool(value) => value.to_string(),
        CppExprKind::Nullptr => "nullptr".into(),
        CppExprKind::This => "this".into(),
        CppExprKind::Name(name) => qualified(name),
        CppExprKind::Unary { op, operand } => match op {
            CppUnaryOp::PostIncrement | CppUnaryOp::PostDecrement => format!("({}{})", expr(operand), op.text()),
            _ => format!("({}{})", op.text(), expr(operand)),
        },
        CppExprKind::Binary { op, left, right } => format!("({} {} {})", expr(left), op.text(), expr(right)),
        CppExprKind::Assign { op, target, value } => {
            format!("({} {}= {})", expr(target), op.map_or("", CppBinaryOp::text), expr(value))
        }
        CppExprKind::Conditional { condition, then, otherwise } => {
            format!("({} ? {} : {})", expr(condition), expr(then), expr(otherwise))
        }
        CppExprKind::Comma { left, right } => format!("({}, {})", expr(left), expr(right)),
        CppExprKind::Call { callee, args } => format!("{}({})", expr(callee), exprs(args)),
        CppExprKind::Launch { callee, config, args } => {
            format!("{}<<<{}>>>({})", expr(callee), exprs(config), exprs(args))
        }
        CppExprKind::Index { base, index } => format!("{}[{}]", expr(base), expr(index)),
        CppExprKind::Member { base, arrow, member } => {
            format!("{}{}{}", expr(base), if *arrow { "->" } else { "." }, qualified(member))
        }
        CppExprKind::Cast { kind, ty: own, value } => format!("{kind:?}<{}>({})", ty(own), expr(value)),
        CppExprKind::Construct { ty: own, args, braces } => {
            let (open, close) = if *braces { ("{", "}") } else { ("(", ")") };
            format!("new {}{open}{}{close}", ty(own), exprs(args))
        }
        CppExprKind::InitList(items) => {
            let items = items.iter().map(|item| match &item.designator {
                None => expr(&item.value),
                Some(Designator::Field(name)) => format!(".{} = {}", name.text, expr(&item.value)),
                Some(Designator::Index(index)) => format!("[{}] = {}", expr(index), expr(&item.value)),
            });
            format!("{{{}}}", items.collect::<Vec<_>>().join(", "))
        }
        CppExprKind::SizeofExpr(value) => format!("sizeof({})", expr(value)),
        CppExprKind::SizeofType(own) => format!("sizeof(type {})", ty(own)),
        CppExprKind::AlignofType(own) => format!("alignof(type {})", ty(own)),
        CppExprKind::SizeofPack(name) => format!("sizeof...({})", name.text),
        CppExprKind::Statements(block) => format!("({{ {} statements }})", block.stmts.len()),
        CppExprKind::Lambda(lambda) => {
            let mut printer = TreePrinter::default();
            let call = lambda.call();
            if let Some(FunctionBody::Block(body)) = call.map(|call| &call.body) {
                printer.block(body);
            }
            let params = call.map_or(&[][..], |call| &call.params);
            let params = params.iter().map(param).collect::<Vec<_>>().join(", ");
            let captures = lambda.captures.iter().map(|capture| capture.name.text.as_str()).collect::<Vec<_>>();
            format!("lambda[{}]({params}){{{}}}", captures.join(", "), printer.out.trim())
        }
        CppExprKind::PackExpansion(inner) => format!("{}...", expr(inner)),
        CppExprKind::Refused(refusal) => format!("refused({})", refusal.construct),
    }
}
