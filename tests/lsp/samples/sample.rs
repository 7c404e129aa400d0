//! A tiny tokenizer.
use std::collections::HashMap;
use crate::error::{Error, Result as Outcome};

mod lexer;

pub const LIMIT: usize = 64;

/// One token.
#[derive(Debug, Clone)]
pub enum Token {
    Word(String),
    Number(i64),
}

#[derive(Default)]
pub struct Tokenizer<'a> {
    text: &'a str,
    seen: HashMap<String, usize>,
}

pub trait Visit {
    fn visit(&mut self, token: &Token);

    fn done(&self) -> bool {
        false
    }
}

impl<'a> Tokenizer<'a> {
    /// Starts at the beginning.
    pub fn new(text: &'a str) -> Self {
        Self { text, seen: HashMap::new() }
    }

    #[inline]
    pub async fn next(&mut self) -> Outcome<Token> {
        let word = self.text.split_whitespace().next().ok_or(Error::End)?;
        *self.seen.entry(word.to_string()).or_insert(0) += 1;
        Ok(Token::Word(word.to_string()))
    }
}

impl Visit for Tokenizer<'_> {
    fn visit(&mut self, token: &Token) {
        println!("{:?}", token);
    }
}

macro_rules! square {
    ($x:expr) => {
        $x * $x
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares() {
        assert_eq!(square!(3), 9);
        assert!(lexer::ready());
    }
}
