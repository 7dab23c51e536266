//! The function that adds the controllers to the manager.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Block, Expr, Item, Pat, Stmt};

use super::source::Source;
use super::{NoPlace, chain, tokens};

/// The function: its first parameter, its body, and its tokens.
struct Setup<'a> {
    manager: &'a Ident,
    block: &'a Block,
    tokens: TokenStream,
}

/// The file with a statement that calls `function` with the manager.
pub(super) fn insert(source: &Source<'_>, function: &str) -> Result<String, NoPlace> {
    let setup = find(source)?;
    let newline = source.newline();
    let parameter = setup.manager.to_string();
    // An unused parameter becomes a used one.
    let renamed = parameter
        .strip_prefix('_')
        .filter(|name| !name.is_empty() && count(&setup.tokens, &parameter) == 1 && count(&setup.tokens, name) == 0);
    let manager = renamed.unwrap_or(&parameter);
    let statement = format!("{function}({manager})?;");

    let is_end = |statement: &&Stmt| {
        matches!(statement, Stmt::Expr(_, None) | Stmt::Expr(Expr::Return(_), _))
            || matches!(statement, Stmt::Macro(it) if it.semi_token.is_none())
    };
    let (before, last) = match setup.block.stmts.split_last() {
        Some((last, before)) if is_end(&last) => (before, source.range(last).start),
        _ => {
            return Err(NoPlace::new(
                "the function that gets the manager does not end with an expression such as Ok(())",
            ));
        }
    };
    let limit = before.last().map_or_else(
        || source.range_of(setup.block.brace_token.span.open()).end,
        |statement| source.range(statement).end,
    );
    let text = if source.is_first_in_line(last) {
        let place = source.above_comments(last, limit);
        source.with(place, &format!("{}{statement}{newline}", source.indent(last)))
    } else {
        source.with(last, &format!("{statement} "))
    };
    if renamed.is_none() {
        return Ok(text);
    }
    // The parameter stands before the statement, so that its place is still right.
    let underscore = source.range_of(setup.manager.span()).start;
    Ok(format!("{}{}", &text[..underscore], &text[underscore + 1..]))
}

/// The file without the statement that calls `function`; `None` if there is none.
pub(super) fn remove(source: &Source<'_>, function: &str) -> Option<String> {
    let setup = find(source).ok()?;
    let statement = setup.block.stmts.iter().find(|statement| calls(statement, function))?;
    let range = source.range(statement);
    let text = source.without_line(range);
    let parameter = setup.manager.to_string();
    let uses = count(&setup.tokens, &parameter) - count(&statement.to_token_stream(), &parameter);
    if uses > 1 || parameter.starts_with('_') {
        return Some(text);
    }
    // The parameter stands before the statement, so that its place is still right.
    let parameter = source.range_of(setup.manager.span()).start;
    Some(format!("{}_{}", &text[..parameter], &text[parameter..]))
}

/// Whether a statement is a call of `function`, with `?` or without.
fn calls(statement: &Stmt, function: &str) -> bool {
    let Stmt::Expr(expression, Some(_)) = statement else { return false };
    let call = match expression {
        Expr::Try(inner) => &*inner.expr,
        other => other,
    };
    let Expr::Call(call) = call else { return false };
    let path = call.func.to_token_stream().to_string();
    path == tokens(function) || path == tokens(&format!("crate::{function}"))
}

/// The third argument of `Program::new`: a function of this file, or a closure.
fn find<'a>(source: &'a Source<'_>) -> Result<Setup<'a>, NoPlace> {
    let missing = |reason: &str| NoPlace::new(format!("the function that gets the manager, {reason}"));
    let chain = chain::find(source)?;
    let argument = chain.start.args.iter().nth(2).ok_or_else(|| missing("the third argument, is missing"))?;
    let (pattern, block, tokens) = match argument {
        Expr::Path(path) => {
            let name = path.path.get_ident().ok_or_else(|| missing("is not in this file"))?;
            let functions = source.file.items.iter().filter_map(|item| match item {
                Item::Fn(function) if function.sig.ident == *name => Some(function),
                _ => None,
            });
            let function = { functions }.next().ok_or_else(|| missing(&format!("{name}, is not in this file")))?;
            let pattern = match function.sig.inputs.first() {
                Some(syn::FnArg::Typed(parameter)) => Some(&*parameter.pat),
                _ => None,
            };
            (pattern, &*function.block, function.to_token_stream())
        }
        Expr::Closure(closure) => {
            let Expr::Block(body) = &*closure.body else { return Err(missing("is a closure without a block")) };
            (closure.inputs.first(), &body.block, closure.to_token_stream())
        }
        _ => return Err(missing("is neither a function of this file nor a closure")),
    };
    let pattern = match pattern {
        Some(Pat::Type(typed)) => Some(&*typed.pat),
        other => other,
    };
    match pattern {
        Some(Pat::Ident(parameter)) => Ok(Setup { manager: &parameter.ident, block, tokens }),
        _ => Err(missing("has no name for it")),
    }
}

/// How often an identifier occurs.
fn count(tokens: &TokenStream, name: &str) -> usize {
    let counts = tokens.clone().into_iter().map(|token| match token {
        TokenTree::Ident(ident) => usize::from(ident == name),
        TokenTree::Group(group) => count(&group.stream(), name),
        _ => 0,
    });
    counts.sum()
}
