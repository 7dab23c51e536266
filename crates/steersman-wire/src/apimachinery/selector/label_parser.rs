//! The grammar of label selectors.

use super::label::{LabelRequirement, check_key};
use super::{SelectorError, SelectorOperator};

/// The requirements of a selector, in the order of the text.
pub(crate) fn parse(text: &str) -> Result<Vec<LabelRequirement>, SelectorError> {
    let mut parser = Parser::new(text);
    let mut requirements = Vec::new();
    match parser.next {
        Token::End => return Ok(requirements),
        Token::Word(_) | Token::Not => {}
        other => return Err(found(other, ", expected: !, identifier, or 'end of string'")),
    }
    loop {
        let requirement = parser.requirement();
        let explain = |error| SelectorError::new(format!("unable to parse requirement: {error}"));
        requirements.push(requirement.map_err(explain)?);
        match parser.take() {
            Token::End => return Ok(requirements),
            Token::Comma if matches!(parser.next, Token::Word(_) | Token::Not) => {}
            Token::Comma => return Err(found(parser.next, ", expected: identifier after ','")),
            other => return Err(found(other, ", expected: ',' or 'end of string'")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, or one of the operators `in` and `notin`: only the position decides.
    Word(&'a str),
    Comma,
    Open,
    Close,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::Word(text) => text,
            Token::Comma => ",",
            Token::Open => "(",
            Token::Close => ")",
            Token::Not => "!",
            Token::Equals => "=",
            Token::DoubleEquals => "==",
            Token::NotEquals => "!=",
            Token::Greater => ">",
            Token::Less => "<",
            Token::End => "",
        }
    }

    /// The first token of a text that does not begin with white space. A NUL ends the text.
    fn first(text: &'a str) -> Self {
        let second = text.as_bytes().get(1);
        match text.as_bytes().first() {
            None | Some(0) => Token::End,
            Some(b'=') if second == Some(&b'=') => Token::DoubleEquals,
            Some(b'=') => Token::Equals,
            Some(b'!') if second == Some(&b'=') => Token::NotEquals,
            Some(b'!') => Token::Not,
            Some(b',') => Token::Comma,
            Some(b'(') => Token::Open,
            Some(b')') => Token::Close,
            Some(b'>') => Token::Greater,
            Some(b'<') => Token::Less,
            Some(_) => Token::Word(&text[..text.find(ends_word).unwrap_or(text.len())]),
        }
    }
}

fn is_white_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

fn ends_word(character: char) -> bool {
    is_white_space(character) || matches!(character, '=' | '!' | '(' | ')' | ',' | '>' | '<' | '\0')
}

fn found(token: Token<'_>, expected: &str) -> SelectorError {
    SelectorError::new(format!("found '{}'{expected}", token.text()))
}

struct Parser<'a> {
    /// The text after `next`.
    rest: &'a str,
    next: Token<'a>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        let mut parser = Parser { rest: text, next: Token::End };
        parser.take();
        parser
    }

    /// Consumes and returns the next token.
    fn take(&mut self) -> Token<'a> {
        let taken = self.next;
        let text = self.rest.trim_start_matches(is_white_space);
        self.next = Token::first(text);
        let rest = &text[self.next.text().len()..];
        // Right after a word or symbol, a NUL only separates, as it does in apimachinery's lexer.
        let separated = if self.next == Token::End { None } else { rest.strip_prefix('\0') };
        self.rest = separated.unwrap_or(rest);
        taken
    }

    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        let negated = self.next == Token::Not;
        if negated {
            self.take();
        }
        let key = match self.take() {
            Token::Word(key) => key,
            other => return Err(found(other, ", expected: identifier")),
        };
        // The parser has no path for this error, and Go writes a missing path like this.
        check_key("<nil>", key).map_err(SelectorError::new)?;
        if negated {
            return LabelRequirement::new(key, SelectorOperator::DoesNotExist, Vec::new());
        }
        if matches!(self.next, Token::End | Token::Comma) {
            return LabelRequirement::new(key, SelectorOperator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            SelectorOperator::In | SelectorOperator::NotIn => self.values()?,
            _ => vec![self.exact_value()?],
        };
        LabelRequirement::new(key, operator, values.into_iter().map(str::to_owned).collect())
    }

    fn operator(&mut self) -> Result<SelectorOperator, SelectorError> {
        match self.take() {
            Token::Word("in") => Ok(SelectorOperator::In),
            Token::Word("notin") => Ok(SelectorOperator::NotIn),
            Token::Equals => Ok(SelectorOperator::Equals),
            Token::DoubleEquals => Ok(SelectorOperator::DoubleEquals),
            Token::NotEquals => Ok(SelectorOperator::NotEquals),
            Token::Greater => Ok(SelectorOperator::GreaterThan),
            Token::Less => Ok(SelectorOperator::LessThan),
            other => Err(found(
                other,
                &format!(", expected: {}", SelectorOperator::BINARY.map(SelectorOperator::as_str).join(", ")),
            )),
        }
    }

    /// The values in parentheses, sorted and without duplicates. An omitted value is empty.
    fn values(&mut self) -> Result<Vec<&'a str>, SelectorError> {
        match self.take() {
            Token::Open => {}
            other => return Err(found(other, " expected: '('")),
        }
        if !matches!(self.next, Token::Word(_) | Token::Comma | Token::Close) {
            return Err(found(self.next, ", expected: ',', ')' or identifier"));
        }
        let mut values = Vec::new();
        loop {
            let value = match self.next {
                Token::Word(value) => {
                    self.take();
                    value
                }
                Token::Comma | Token::Close => "",
                other => return Err(found(other, ", expected: ',', or identifier")),
            };
            values.push(value);
            match self.next {
                Token::Comma => self.take(),
                Token::Close => break,
                other => return Err(found(other, ", expected: ',' or ')'")),
            };
        }
        self.take();
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }

    fn exact_value(&mut self) -> Result<&'a str, SelectorError> {
        if matches!(self.next, Token::End | Token::Comma) {
            return Ok("");
        }
        match self.take() {
            Token::Word(value) => Ok(value),
            other => Err(found(other, ", expected: identifier")),
        }
    }
}
