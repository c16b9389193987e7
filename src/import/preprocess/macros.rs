//! Macro expansion, by the algorithm of Dave Prosser: each token has a set of macros that may not
//! expand it again.

use super::Preprocessor;
use super::definition::{MacroDefinition, PpStream, PpToken};
use crate::ast::SmolStr;
use crate::lex::{self, CppTok, RawToken};
use crate::source::{MacroExpansion, SourceSpan};
use std::rc::Rc;

/// Maximum number of macros that are nested in each other, and of nested arguments.
const MAX_MACRO_DEPTH: usize = 200;

/// An argument of a macro invocation.
struct MacroArgument {
    tokens: Vec<PpToken>,
    /// The macro-expanded tokens, if they were needed.
    expanded: Option<Vec<PpToken>>,
}

impl Preprocessor<'_> {
    /// Returns the next token after expansion.
    pub(super) fn next_expanded(&mut self, stream: &mut PpStream) -> Option<PpToken> {
        loop {
            let token = self.next_token(stream, true)?;
            if token.kind != CppTok::Ident || !self.expand(&token, stream) {
                return Some(token);
            }
        }
    }

    fn next_token(&mut self, stream: &mut PpStream, cross_files: bool) -> Option<PpToken> {
        if let Some(token) = stream.pending.pop() {
            return Some(token);
        }
        if stream.files { self.next_file_token(stream, cross_files) } else { None }
    }

    /// Expands all macros in a list of tokens.
    pub(super) fn expand_list(&mut self, tokens: &[PpToken]) -> Vec<PpToken> {
        self.depth += 1;
        if self.depth > MAX_MACRO_DEPTH {
            self.exhausted(tokens.first().map(|token| token.span), "macro arguments are nested too deeply");
        }
        let mut stream = PpStream { pending: tokens.iter().rev().cloned().collect(), files: false };
        let mut expanded = Vec::with_capacity(tokens.len());
        while !self.stopped
            && let Some(token) = self.next_expanded(&mut stream)
        {
            expanded.push(token);
        }
        self.depth -= 1;
        expanded
    }

    /// Replaces the invocation that starts with a name by the macro's body. Returns `false` if the name is not an
    /// invocation.
    fn expand(&mut self, name: &PpToken, stream: &mut PpStream) -> bool {
        if self.stopped || name.hidden.as_ref().is_some_and(|hidden| hidden.contains(&name.text)) {
            return false;
        }
        let Some(definition) = self.macros.get(&name.text).cloned() else {
            return self.expand_builtin(name, stream);
        };
        let (mut hidden, mut call) = (name.hidden.clone(), name.span);
        let mut arguments = Vec::new();
        if let Some(params) = &definition.params {
            match self.next_token(stream, false) {
                Some(open) if open.kind == CppTok::LParen => {}
                other => {
                    stream.pending.extend(other);
                    return false;
                }
            }
            let Some((list, close)) = self.arguments(stream, params.len(), definition.variadic) else {
                self.error(name.span, format!("the arguments of the macro `{}` have no `)`", name.text));
                return true;
            };
            call = if close.span.expansion == call.expansion { call.to(close.span) } else { call };
            hidden = intersect(&hidden, &close.hidden);
            let expected = params.len();
            arguments = list;
            if expected == 0 && matches!(&arguments[..], [only] if only.tokens.is_empty()) {
                arguments.clear();
            }
            if definition.variadic && arguments.len() + 1 == expected {
                arguments.push(MacroArgument { tokens: vec![], expanded: None });
            }
            if arguments.len() != expected {
                let (name_text, found) = (&name.text, arguments.len());
                self.error(name.span, format!("the macro `{name_text}` takes {expected} arguments, not {found}"));
                return true;
            }
        }
        let mut set = hidden.map_or_else(Vec::new, |hidden| (*hidden).clone());
        set.push(name.text.clone());
        if set.len() > MAX_MACRO_DEPTH {
            self.exhausted(Some(name.span), "macros are nested too deeply");
            return true;
        }
        let expansion = MacroExpansion { name: name.text.clone(), definition: definition.place, call };
        let expansion = self.provenance.add_expansion(expansion);
        let mut body = self.substitute(&definition, &mut arguments, SourceSpan { span: call.span, expansion }, name);
        if let Some(first) = body.first_mut() {
            first.space = name.space;
            first.line_start = name.line_start;
        }
        let set = Rc::new(set);
        for token in &mut body {
            token.hidden = Some(match &token.hidden {
                None => set.clone(),
                Some(own) if Rc::ptr_eq(own, &set) => set.clone(),
                Some(own) => {
                    let mut union = (**own).clone();
                    union.extend(set.iter().filter(|name| !own.contains(name)).cloned());
                    Rc::new(union)
                }
            });
        }
        if self.spend(body.len() + 1, name.span) {
            stream.pending.extend(body.into_iter().rev());
        }
        true
    }

    /// Reads the arguments of an invocation up to its `)`.
    fn arguments(
        &mut self,
        stream: &mut PpStream,
        params: usize,
        variadic: bool,
    ) -> Option<(Vec<MacroArgument>, PpToken)> {
        let mut arguments = vec![MacroArgument { tokens: vec![], expanded: None }];
        let mut depth = 0;
        loop {
            let token = self.next_token(stream, false)?;
            if self.stopped || token.kind == CppTok::Eof {
                return None;
            }
            match token.kind {
                CppTok::LParen => depth += 1,
                CppTok::RParen if depth == 0 => return Some((arguments, token)),
                CppTok::RParen => depth -= 1,
                CppTok::Comma if depth == 0 && !(variadic && arguments.len() == params) => {
                    arguments.push(MacroArgument { tokens: vec![], expanded: None });
                    continue;
                }
                _ => {}
            }
            if !self.spend(1, token.span) {
                return None;
            }
            if let Some(last) = arguments.last_mut() {
                last.tokens.push(token);
            }
        }
    }

    /// Returns the body of a macro with its parameters replaced.
    fn substitute(
        &mut self,
        definition: &MacroDefinition,
        arguments: &mut [MacroArgument],
        place: SourceSpan,
        name: &PpToken,
    ) -> Vec<PpToken> {
        let params = definition.params.as_deref().unwrap_or(&[]);
        let parameter = |token: &RawToken| match token.kind {
            CppTok::Ident => params.iter().position(|param| *param == token.text),
            _ => None,
        };
        let body = definition.body.clone();
        let mut out: Vec<PpToken> = Vec::with_capacity(body.len());
        let mut at = 0;
        // Whether the last token before `##` was an empty argument.
        let mut empty_left = false;
        while let Some(token) = body.get(at) {
            if self.stopped {
                break;
            }
            at += 1;
            let next = body.get(at);
            if token.kind == CppTok::Hash
                && definition.params.is_some()
                && let Some(param) = next.and_then(&parameter)
            {
                out.push(stringify(&arguments[param].tokens, place, token.space));
                at += 1;
                continue;
            }
            if token.kind == CppTok::HashHash
                && let Some(right) = next
            {
                at += 1;
                let mut operand = match parameter(right) {
                    Some(param) => {
                        // GNU's `, ## __VA_ARGS__` removes the comma if there are no further arguments.
                        let comma = out.last().is_some_and(|left| left.kind == CppTok::Comma);
                        if comma && definition.variadic && param + 1 == params.len() {
                            if arguments[param].tokens.is_empty() {
                                out.pop();
                            } else {
                                out.extend(self.expanded_argument(&mut arguments[param]));
                            }
                            continue;
                        }
                        arguments[param].tokens.clone()
                    }
                    None => vec![body_token(right, place)],
                };
                if operand.is_empty() {
                    continue;
                }
                if !empty_left && let Some(left) = out.pop() {
                    let pasted = self.paste(&left, &operand[0], place, name);
                    operand.splice(..1, pasted);
                }
                empty_left = false;
                out.extend(operand);
                continue;
            }
            if token.text == "__VA_OPT__"
                && definition.variadic
                && next.is_some_and(|open| open.kind == CppTok::LParen)
                && let Some(end) = closing(&body, at)
            {
                // Only the parentheses are removed if there are variable arguments.
                let given = arguments.last().is_some_and(|last| !last.tokens.is_empty());
                let inner = MacroDefinition { body: Rc::new(body[at + 1..end].to_vec()), ..definition.clone() };
                if given {
                    let inner = self.substitute(&inner, arguments, place, name);
                    out.extend(inner);
                }
                at = end + 1;
                continue;
            }
            match parameter(token) {
                Some(param) if next.is_some_and(|next| next.kind == CppTok::HashHash) => {
                    empty_left = arguments[param].tokens.is_empty();
                    out.extend(arguments[param].tokens.iter().cloned());
                }
                Some(param) => {
                    let from = out.len();
                    out.extend(self.expanded_argument(&mut arguments[param]));
                    if let Some(first) = out.get_mut(from) {
                        first.space = token.space;
                    }
                }
                None => {
                    empty_left = false;
                    out.push(body_token(token, place));
                }
            }
            if !self.spend(0, place) || out.len() > self.budget {
                self.exhausted(Some(place), "macros expand to too many tokens");
                break;
            }
        }
        out
    }

    fn expanded_argument(&mut self, argument: &mut MacroArgument) -> Vec<PpToken> {
        if argument.expanded.is_none() {
            argument.expanded = Some(self.expand_list(&argument.tokens));
        }
        argument.expanded.clone().unwrap_or_default()
    }

    /// Joins two tokens to one.
    fn paste(&mut self, left: &PpToken, right: &PpToken, place: SourceSpan, name: &PpToken) -> Vec<PpToken> {
        let text = format!("{}{}", left.text, right.text);
        let tokens = lex::lex_fragment(&text, place.span);
        match &tokens[..] {
            [token] if token.kind != CppTok::Unknown => {
                // A token of an argument keeps its place.
                let span =
                    if left.kind == CppTok::Ident && left.text.len() >= right.text.len() { left.span } else { place };
                vec![PpToken { span, space: left.space, hidden: None, ..PpToken::from(token) }]
            }
            _ => {
                self.error(name.span, format!("`{text}` in the macro `{}` is not one token", name.text));
                vec![left.clone(), right.clone()]
            }
        }
    }

    /// Expands `__LINE__`, `__FILE__`, `__COUNTER__` and `_Pragma`.
    fn expand_builtin(&mut self, name: &PpToken, stream: &mut PpStream) -> bool {
        let (kind, text) = match name.text.as_str() {
            "__LINE__" => (CppTok::Number, self.sources.line_column(name.span.span).0.to_string()),
            "__FILE__" => (CppTok::Str, format!("{:?}", self.sources.name(name.span.span.file))),
            "__COUNTER__" => {
                self.counter += 1;
                (CppTok::Number, (self.counter - 1).to_string())
            }
            "_Pragma" => return self.pragma_operator(name, stream),
            _ => return false,
        };
        stream.pending.push(PpToken { kind, text: text.into(), ..name.clone() });
        true
    }

    /// Replaces `_Pragma("text")` by the tokens of the pragma, if it has a meaning here.
    fn pragma_operator(&mut self, name: &PpToken, stream: &mut PpStream) -> bool {
        let mut tokens = Vec::new();
        for kind in [CppTok::LParen, CppTok::Str, CppTok::RParen] {
            match self.next_token(stream, false) {
                Some(token) if token.kind == kind => tokens.push(token),
                other => {
                    stream.pending.extend(other);
                    self.error(name.span, "expected `_Pragma(\"…\")`".to_string());
                    return true;
                }
            }
        }
        let text = crate::literal::string(&tokens[1].text).map_or_else(Vec::new, |string| string.bytes);
        let text = String::from_utf8_lossy(&text).into_owned();
        let line: Vec<PpToken> = lex::lex_fragment(&text, name.span.span)
            .iter()
            .map(|token| PpToken { span: name.span, ..PpToken::from(token) })
            .collect();
        let tokens = self.pragma(&line, name.span);
        stream.pending.extend(tokens.into_iter().rev());
        true
    }
}

/// Returns the position of the `)` that closes the `(` at a position.
fn closing(tokens: &[RawToken], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    tokens.iter().enumerate().skip(open).find_map(|(at, token)| {
        match token.kind {
            CppTok::LParen => depth += 1,
            CppTok::RParen => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

fn body_token(token: &RawToken, place: SourceSpan) -> PpToken {
    PpToken { span: place, ..PpToken::from(token) }
}

fn intersect(a: &Option<Rc<Vec<SmolStr>>>, b: &Option<Rc<Vec<SmolStr>>>) -> Option<Rc<Vec<SmolStr>>> {
    let (a, b) = (a.as_ref()?, b.as_ref()?);
    if Rc::ptr_eq(a, b) {
        return Some(a.clone());
    }
    Some(Rc::new(a.iter().filter(|name| b.contains(name)).cloned().collect()))
}

/// Returns the string literal of an argument, for `#`.
fn stringify(tokens: &[PpToken], place: SourceSpan, space: bool) -> PpToken {
    let mut text = String::from("\"");
    for (at, token) in tokens.iter().enumerate() {
        if at > 0 && token.space {
            text.push(' ');
        }
        let literal = matches!(token.kind, CppTok::Str | CppTok::Char);
        for c in token.text.chars() {
            if c == '"' || (c == '\\' && literal) {
                text.push('\\');
            }
            text.push(c);
        }
    }
    text.push('"');
    PpToken { kind: CppTok::Str, text: text.into(), span: place, space, line_start: false, hidden: None }
}
