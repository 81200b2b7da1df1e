//! Parenthesised text (the syntax of PDDL) as trees that know their place.

use super::error::Fault;

/// Problems nest about ten deep; a limit keeps broken input from exhausting the stack.
const MAX_DEPTH: usize = 64;

/// A symbol or a list, with the byte where it starts.
#[derive(Debug)]
pub(super) struct Sexpr<'a> {
    pub(super) at: usize,
    pub(super) node: Node<'a>,
}

#[derive(Debug)]
pub(super) enum Node<'a> {
    Symbol(&'a str),
    List(Vec<Sexpr<'a>>),
}

impl<'a> Sexpr<'a> {
    /// Reads exactly one list; comments run from `;` to the end of the line.
    pub(super) fn parse(text: &'a str) -> Result<Self, Fault> {
        let mut open: Vec<(usize, Vec<Sexpr<'a>>)> = Vec::new();
        let mut whole = None;
        for (at, token) in (Tokens { text, at: 0 }) {
            if whole.is_some() {
                return Err(Fault::new(
                    at,
                    format!("`{token}` after the end of the definition"),
                ));
            }
            let finished = match token {
                "(" if open.len() == MAX_DEPTH => {
                    return Err(Fault::new(
                        at,
                        format!("more than {MAX_DEPTH} lists inside each other"),
                    ));
                }
                "(" => {
                    open.push((at, Vec::new()));
                    continue;
                }
                ")" => match open.pop() {
                    Some((start, items)) => Sexpr {
                        at: start,
                        node: Node::List(items),
                    },
                    None => return Err(Fault::new(at, "`)` without its `(`")),
                },
                symbol => Sexpr {
                    at,
                    node: Node::Symbol(symbol),
                },
            };
            match open.last_mut() {
                Some((_, items)) => items.push(finished),
                None if matches!(finished.node, Node::List(_)) => whole = Some(finished),
                None => return Err(Fault::new(at, format!("expected `(`, found `{token}`"))),
            }
        }
        match (open.pop(), whole) {
            (Some((start, _)), _) => Err(Fault::new(start, "`(` is never closed")),
            (None, Some(whole)) => Ok(whole),
            (None, None) => Err(Fault::new(text.len(), "no definition")),
        }
    }

    /// The items of a list.
    pub(super) fn list(&self) -> Result<&[Sexpr<'a>], Fault> {
        match &self.node {
            Node::List(items) => Ok(items),
            Node::Symbol(symbol) => Err(Fault::new(self.at, format!("expected a list, found `{symbol}`"))),
        }
    }

    /// The text of a symbol.
    pub(super) fn symbol(&self) -> Result<&'a str, Fault> {
        match self.node {
            Node::Symbol(symbol) => Ok(symbol),
            Node::List(_) => Err(Fault::new(self.at, "expected a name, found a list")),
        }
    }

    /// A list that begins with a name: the name and the rest.
    pub(super) fn form(&self) -> Result<(&'a str, &[Sexpr<'a>]), Fault> {
        match self.list()? {
            [head, rest @ ..] => Ok((head.symbol()?, rest)),
            [] => Err(Fault::new(self.at, "empty list")),
        }
    }
}

struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        loop {
            match *bytes.get(self.at)? {
                b';' => self.at += bytes[self.at..].iter().take_while(|&&byte| byte != b'\n').count(),
                byte if byte.is_ascii_whitespace() => self.at += 1,
                _ => break,
            }
        }
        let start = self.at;
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'(' | b')' | b';');
        let length = bytes[start..]
            .iter()
            .position(is_end)
            .unwrap_or(bytes.len() - start)
            .max(1);
        self.at += length;
        Some((start, &self.text[start..self.at]))
    }
}

#[cfg(test)]
mod tests {
    use super::Sexpr;

    fn fault(text: &str) -> (usize, String) {
        let fault = Sexpr::parse(text).unwrap_err();
        (fault.at, fault.message)
    }

    #[test]
    fn lists_comments_and_places() {
        let tree = Sexpr::parse(" (a ; (not this\n (b c)d)").unwrap();
        let (head, rest) = tree.form().unwrap();
        assert_eq!((head, tree.at, rest.len(), rest[0].at), ("a", 1, 2, 17));
        assert_eq!(rest[1].symbol().unwrap(), "d");
    }

    #[test]
    fn faults_say_where() {
        assert_eq!(fault("(a (b)"), (0, "`(` is never closed".to_owned()));
        assert_eq!(
            fault("(a))"),
            (3, "`)` after the end of the definition".to_owned())
        );
        assert_eq!(fault(" b"), (1, "expected `(`, found `b`".to_owned()));
        assert_eq!(fault(" ; c"), (4, "no definition".to_owned()));
        assert_eq!(fault(&"(".repeat(100)).0, 64);
    }
}
