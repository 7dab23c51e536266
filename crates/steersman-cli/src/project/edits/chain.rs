//! The chain of calls that begins with `Program::new`.

use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprMethodCall};

use super::source::Source;
use super::{NoPlace, tokens};

/// The type whose chain it is, and the functions that begin it.
const PROGRAM: &str = "Program";
const STARTS: [&str; 2] = ["new", "with_flags"];
/// The calls that are kept together.
const KINDS: [&str; 3] = ["crd", "external_crd", "samples"];

/// A chain: the call that begins it, and the calls on it, the first one first.
pub(super) struct Chain<'a> {
    pub(super) start: &'a ExprCall,
    calls: Vec<&'a ExprMethodCall>,
}

/// The file with another call: after the last one of its sort, else at the beginning of the chain.
pub(super) fn insert(source: &Source<'_>, call: &str) -> Result<String, NoPlace> {
    let chain = find(source)?;
    let newline = source.newline();
    let last = chain.calls.iter().rev().find(|call| KINDS.iter().any(|name| call.method == name));
    let place = last.map_or_else(|| source.range(chain.start).end, |call| source.range(*call).end);
    // As the calls that are there, else one step further than the beginning of the chain.
    let on_own_line = chain.calls.iter().map(|call| source.range(&call.dot_token).start);
    let indent = match on_own_line.rev().find(|dot| source.is_first_in_line(*dot)) {
        Some(dot) => source.indent(dot).to_owned(),
        None => {
            let indent = source.indent(source.range(chain.start).start);
            format!("{indent}{}", if indent.starts_with('\t') { "\t" } else { "    " })
        }
    };
    Ok(source.with(place, &format!("{newline}{indent}{call}")))
}

/// The file without a call; `None` if the chain has no such call.
pub(super) fn remove(source: &Source<'_>, call: &str) -> Option<String> {
    let chain = find(source).ok()?;
    let wanted = tokens(call);
    let found = chain.calls.iter().find(|found| {
        let arguments = found.args.to_token_stream();
        tokens(&format!(".{}({arguments})", found.method)) == wanted
    })?;
    let end = source.range(*found).end;
    let dot = source.range(&found.dot_token).start;
    let receiver = source.range(&*found.receiver).end;
    let between = &source.text[receiver..dot];
    let start = if between.trim().is_empty() {
        receiver
    } else if source.is_first_in_line(dot) {
        // The comment above stays, on its line.
        source.line_start(dot) + source.indent(dot).len()
    } else {
        dot
    };
    Some(source.without(start..end))
}

/// The only chain of a file.
pub(super) fn find<'a>(source: &'a Source<'_>) -> Result<Chain<'a>, NoPlace> {
    let mut chains = Chains(Vec::new());
    chains.visit_file(&source.file);
    match chains.0.len() {
        1 => Ok(chains.0.remove(0)),
        0 => Err(NoPlace::new("there is no call of Program::new or Program::with_flags")),
        count => Err(NoPlace::new(format!("there are {count} calls of Program::new or Program::with_flags"))),
    }
}

struct Chains<'a>(Vec<Chain<'a>>);

impl<'a> Visit<'a> for Chains<'a> {
    fn visit_expr_method_call(&mut self, outermost: &'a ExprMethodCall) {
        let mut calls = vec![outermost];
        let mut receiver = &*outermost.receiver;
        while let Expr::MethodCall(call) = receiver {
            calls.push(call);
            receiver = &call.receiver;
        }
        calls.reverse();
        for call in &calls {
            call.args.iter().for_each(|argument| self.visit_expr(argument));
        }
        match receiver {
            Expr::Call(start) if is_start(start) => {
                start.args.iter().for_each(|argument| self.visit_expr(argument));
                self.0.push(Chain { start, calls });
            }
            other => self.visit_expr(other),
        }
    }

    fn visit_expr_call(&mut self, call: &'a ExprCall) {
        if is_start(call) {
            self.0.push(Chain { start: call, calls: Vec::new() });
        }
        visit::visit_expr_call(self, call);
    }
}

/// Whether a call is one of `Program::new`, by whatever path.
fn is_start(call: &ExprCall) -> bool {
    let Expr::Path(function) = &*call.func else { return false };
    let mut names = function.path.segments.iter().rev().map(|segment| &segment.ident);
    let Some(function) = names.next() else { return false };
    STARTS.iter().any(|start| function == start) && names.next().is_some_and(|name| name == PROGRAM)
}
