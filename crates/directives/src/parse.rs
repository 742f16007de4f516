//! One directive: its verb, what it names, its clauses. `spec/directives.md` is the grammar.

use crate::Language;
use crate::words::{Word, WordKind, words};
use forebay_types::{DType, limits};

/// A fault, by the byte of the directive at which it stands.
type Wrong = (usize, String);

/// A name, and where it stands in the directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub text: String,
    pub at: usize,
}

/// An array of the program.
#[derive(Debug)]
pub enum Local {
    /// As the compiler knows it.
    Whole(String),
    /// With extents that are given.
    Counted(String, Vec<String>),
    /// A type and extents: there is none in the program.
    Room(DType, Vec<String>),
}

/// An argument of a call.
#[derive(Debug)]
pub enum Passed {
    /// An array at a server, or an expression: that is known when all names of the file are.
    Expression(String),
    /// `&x`, in Fortran `out(x)`: what comes back.
    Place(String),
    /// `'N'` of C, as the text that it is.
    Letter(String),
    /// `array(p, n, m order F)`
    Array(String, Vec<String>, bool),
}

#[derive(Debug)]
pub enum Verb {
    Connect {
        broker: Option<String>,
    },
    Create {
        name: Name,
        local: Local,
        column_major: Option<bool>,
        server: Option<String>,
    },
    Put {
        name: Name,
        local: Local,
    },
    Get {
        name: Name,
        local: Local,
    },
    Kill {
        names: Vec<Name>,
    },
    Extern {
        names: Vec<Name>,
    },
    Call {
        service: String,
        args: Vec<Passed>,
        under: Option<Name>,
    },
    Wait {
        names: Vec<Name>,
    },
    /// From here to `End` stands what the plain compiler takes in the place of directives.
    Local,
    End,
}

#[derive(Debug)]
pub struct Directive {
    pub verb: Verb,
    /// The variable that gets the status.
    pub status: Option<String>,
    /// As it was written, on one line, for the text of an error.
    pub text: String,
}

/// Each directive, and how it is written.
const VERBS: [(&str, &str); 10] = [
    ("connect", "connect [ADDRESS]"),
    ("create", "create NAME, ARRAY [, EXTENT ...] [order F] [on SERVER]"),
    ("put", "put NAME, ARRAY [, EXTENT ...]"),
    ("get", "get NAME, ARRAY [, EXTENT ...]"),
    ("kill", "kill NAME [, NAME ...]"),
    ("extern", "extern NAME [, NAME ...]"),
    ("call", "call SERVICE(ARGUMENT, ...) [async NAME]"),
    ("wait", "wait NAME [, NAME ...]"),
    ("local", "local"),
    ("end", "end"),
];
/// What may stand behind a directive.
const CLAUSES: [&str; 4] = ["order", "on", "status", "async"];
const LONGEST_NAME: usize = 63;

pub fn parse(text: &str, language: Language) -> Result<Directive, Wrong> {
    let words = words(text, language)?;
    let Some(first) = words.first() else {
        let all: Vec<&str> = VERBS.iter().map(|(verb, _)| *verb).collect();
        return Err((text.len(), format!("a directive is missing; there are {}", all.join(", "))));
    };
    let said = if language.is_fortran() { first.text.to_ascii_lowercase() } else { first.text.to_owned() };
    let Some((verb, form)) = VERBS.iter().find(|(verb, _)| *verb == said) else {
        return Err((first.at, unknown(first.text)));
    };
    let mut reader = Reader { text, words: &words, next: 1, language, form };
    let verb = reader.verb(verb)?;
    let status = reader.finish(&verb)?;
    let text = words.last().map_or(text, |last| &text[first.at..last.end()]);
    Ok(Directive {
        verb,
        status,
        text: text.split_whitespace().filter(|w| *w != "\\").collect::<Vec<_>>().join(" "),
    })
}

fn unknown(word: &str) -> String {
    let all: Vec<String> = VERBS.iter().map(|(verb, _)| (*verb).to_owned()).collect();
    match forebay_types::alike(word, &all).first() {
        Some(near) => format!("`{word}` is no directive; did you mean `{near}`?"),
        None => format!("`{word}` is no directive; there are {}", all.join(", ")),
    }
}

fn unclosed(at: usize, bracket: &str) -> Wrong {
    (
        at,
        format!(
            "the `{bracket}` that stands here is never closed; a directive goes on in the next line if that begins with its sign, too"
        ),
    )
}

struct Reader<'a> {
    text: &'a str,
    words: &'a [Word<'a>],
    next: usize,
    language: Language,
    form: &'static str,
}

impl<'a> Reader<'a> {
    fn verb(&mut self, verb: &str) -> Result<Verb, Wrong> {
        Ok(match verb {
            "connect" => {
                let broker = if self.at_end_or_clause() { None } else { Some(self.expression()?.0) };
                Verb::Connect { broker }
            }
            "create" => {
                let name = self.name()?;
                self.sign(",")?;
                let local = self.local()?;
                let column_major = self.order()?;
                let server = self.clause("on")?.map(|_| self.expression()).transpose()?.map(|e| e.0);
                Verb::Create { name, local, column_major, server }
            }
            "put" | "get" => {
                let name = self.name()?;
                self.sign(",")?;
                let at = self.position();
                let local = self.local()?;
                if let Local::Room(dtype, _) = local {
                    return Err((
                        at,
                        format!("{dtype} is a type, and {verb} wants an array of the program: {}", self.form),
                    ));
                }
                if verb == "put" { Verb::Put { name, local } } else { Verb::Get { name, local } }
            }
            "kill" => Verb::Kill { names: self.names()? },
            "extern" => Verb::Extern { names: self.names()? },
            "wait" => Verb::Wait { names: self.names()? },
            "call" => self.call()?,
            "local" => Verb::Local,
            _ => Verb::End,
        })
    }

    /// What stands behind all: the variable of the status, and then nothing.
    fn finish(&mut self, verb: &Verb) -> Result<Option<String>, Wrong> {
        let at = self.position();
        let status = self.clause("status")?.map(|_| self.expression()).transpose()?.map(|e| e.0);
        if status.is_some() && matches!(verb, Verb::Extern { .. } | Verb::Local | Verb::End) {
            return Err((at, format!("this directive does nothing that could fail; write {}", self.form)));
        }
        match self.peek() {
            None => Ok(status),
            Some(word) => {
                let clauses: Vec<String> = CLAUSES.iter().map(|c| (*c).to_owned()).collect();
                let near = match (word.kind, forebay_types::alike(word.text, &clauses).first()) {
                    (WordKind::Name, Some(near)) if *near != word.text => format!("did you mean `{near}`? "),
                    _ => String::new(),
                };
                Err((
                    word.at,
                    format!(
                        "`{}` stands where the directive should end; {near}write {} [status VARIABLE]",
                        word.text, self.form
                    ),
                ))
            }
        }
    }

    fn call(&mut self) -> Result<Verb, Wrong> {
        let service = self.service()?;
        let bracket = self.position();
        self.sign("(")?;
        let mut args = Vec::new();
        if !self.take(")") {
            loop {
                args.push(self.argument()?);
                if self.take(")") {
                    break;
                }
                if self.peek().is_none() {
                    return Err(unclosed(bracket, "("));
                }
                self.sign(",")?;
            }
        }
        let under = self.clause("async")?.map(|_| self.name()).transpose()?;
        Ok(Verb::Call { service, args, under })
    }

    /// `dgemm`, `native/dgemm_`, or a text.
    fn service(&mut self) -> Result<String, Wrong> {
        let Some(word) = self.peek() else { return Err(self.wants("the name of a service")) };
        self.next += 1;
        if word.kind == WordKind::Text {
            let inner = word.text.get(1..word.text.len() - 1).unwrap_or_default();
            return match inner.is_empty() || inner.contains(['"', '\'', '\\']) {
                true => Err((word.at, "this is no name of a service; `forebay services` lists them".into())),
                false => Ok(inner.to_owned()),
            };
        }
        let mut end = word;
        while let Some(more) = self.peek()
            && !more.is("(")
            && more.at == end.end()
            && (more.kind == WordKind::Name || matches!(more.text, "/" | "." | "-"))
        {
            end = more;
            self.next += 1;
        }
        match word.kind {
            WordKind::Name => Ok(self.text[word.at..end.end()].to_owned()),
            _ => Err((word.at, format!("`{}` is no name of a service; write {}", word.text, self.form))),
        }
    }

    fn argument(&mut self) -> Result<Passed, Wrong> {
        let Some(word) = self.peek() else { return Err(self.wants("an argument")) };
        let before_bracket = self.words.get(self.next + 1).is_some_and(|next| next.is("("));
        let is_named = |name: &str| {
            word.kind == WordKind::Name && word.text.eq_ignore_ascii_case(name) && before_bracket
        };
        if self.language.is_fortran() {
            if is_named("out") {
                self.next += 2;
                let (place, _) = self.expression()?;
                self.sign(")")?;
                return Ok(Passed::Place(place));
            }
            return Ok(Passed::Expression(self.expression()?.0));
        }
        if is_named("array") {
            self.next += 2;
            let (pointer, _) = self.expression()?;
            let extents = self.extents()?;
            if extents.is_empty() {
                return Err(self.wants("an extent: array(POINTER, EXTENT ...)"));
            }
            let column_major = self.order()? == Some(true);
            self.sign(")")?;
            return Ok(Passed::Array(pointer, extents, column_major));
        }
        let (expression, count) = self.expression()?;
        Ok(match word.kind {
            WordKind::Letter if count == 1 => Passed::Letter(as_text(&expression)),
            WordKind::Sign if word.text == "&" => Passed::Place(expression),
            _ => Passed::Expression(expression),
        })
    }

    /// An array or a type, with extents behind it.
    fn local(&mut self) -> Result<Local, Wrong> {
        let at = self.position();
        let (expression, _) = self.expression()?;
        let extents = self.extents()?;
        if let Ok(dtype) = DType::parse(&expression) {
            return match (extents.is_empty(), dtype.is_text()) {
                (true, _) => {
                    Err((at, format!("how large is it? Write the extents of {dtype} behind it: {dtype}, N")))
                }
                (_, true) => {
                    Err((at, format!("{dtype} has no elements that stay at a server; take numbers")))
                }
                _ => Ok(Local::Room(dtype, extents)),
            };
        }
        if expression.starts_with(|c: char| c.is_ascii_digit()) {
            return Err((
                at,
                format!(
                    "{expression} is no array; room without one is a type and extents: f64, {expression}"
                ),
            ));
        }
        if extents.is_empty() {
            return Ok(Local::Whole(expression));
        }
        if self.language.is_fortran() {
            let section = extents.iter().map(|e| format!("1:{e}")).collect::<Vec<_>>().join(", ");
            return Err((
                at,
                format!(
                    "an array of Fortran has its own extents; of a part write the section: {expression}({section})"
                ),
            ));
        }
        Ok(Local::Counted(expression, extents))
    }

    /// `, n, m`: what follows behind commas.
    fn extents(&mut self) -> Result<Vec<String>, Wrong> {
        let mut all = Vec::new();
        while self.peek().is_some_and(|word| word.is(",")) {
            self.next += 1;
            let at = self.position();
            all.push(self.expression()?.0);
            if all.len() > limits::RANK {
                return Err((at, format!("an array has at most {} dimensions", limits::RANK)));
            }
        }
        Ok(all)
    }

    /// `order F` or `order C`: whether the first index runs fastest.
    fn order(&mut self) -> Result<Option<bool>, Wrong> {
        let at = self.position();
        if self.clause("order")?.is_none() {
            return Ok(None);
        }
        if self.language.is_fortran() {
            return Err((at, "in Fortran the first index always runs fastest; leave the order out".into()));
        }
        let word = self.peek().ok_or_else(|| self.wants("F or C"))?;
        self.next += 1;
        match word.text {
            "F" | "f" => Ok(Some(true)),
            "C" | "c" => Ok(Some(false)),
            other => Err((
                word.at,
                format!("`{other}` is no order; write order F (the first index runs fastest) or order C"),
            )),
        }
    }

    fn names(&mut self) -> Result<Vec<Name>, Wrong> {
        let mut all = vec![self.name()?];
        while self.take(",") {
            all.push(self.name()?);
        }
        Ok(all)
    }

    /// A name of an array at a server or of a call; in Fortran small and large letters are the same.
    fn name(&mut self) -> Result<Name, Wrong> {
        let Some(word) = self.peek() else { return Err(self.wants("a name")) };
        let is_name = word.kind == WordKind::Name && word.text.is_ascii() && word.text.len() <= LONGEST_NAME;
        if !is_name {
            return Err((
                word.at,
                format!(
                    "`{}` is no name: letters, digits and _, at most {LONGEST_NAME}; write {}",
                    word.text, self.form
                ),
            ));
        }
        self.next += 1;
        let text =
            if self.language.is_fortran() { word.text.to_ascii_lowercase() } else { word.text.to_owned() };
        Ok(Name { text, at: word.at })
    }

    /// An expression of the program, to the next comma, closing bracket or clause; and how many words it has.
    fn expression(&mut self) -> Result<(String, usize), Wrong> {
        let begin = self.next;
        let mut open = Vec::new();
        while let Some(word) = self.peek() {
            match word.text {
                "(" | "[" | "{" if word.kind == WordKind::Sign => open.push(word),
                ")" | "]" | "}" if word.kind == WordKind::Sign => match open.pop() {
                    Some(_) => (),
                    None => break,
                },
                "," if word.kind == WordKind::Sign && open.is_empty() => break,
                _ if open.is_empty()
                    && self.next > begin
                    && (self.is_clause(&word) || self.is_astray(&word)) =>
                {
                    break;
                }
                _ => (),
            }
            self.next += 1;
        }
        if let Some(bracket) = open.last() {
            return Err(unclosed(bracket.at, bracket.text));
        }
        match (self.words.get(begin), self.next.checked_sub(1).and_then(|last| self.words.get(last))) {
            (Some(first), Some(last)) if self.next > begin => {
                Ok((self.between(first.at, last.end()), self.next - begin))
            }
            _ => Err(self.wants("an expression")),
        }
    }

    /// The text between two bytes, on one line and without comments.
    fn between(&self, from: usize, to: usize) -> String {
        let mut text = String::new();
        let mut end = from;
        for word in self.words.iter().filter(|word| word.at >= from && word.end() <= to) {
            if word.at > end {
                text.push(' ');
            }
            text.push_str(word.text);
            end = word.end();
        }
        text
    }

    /// A clause begins where a word of clauses follows an operand: no expression goes on so.
    fn is_clause(&self, word: &Word<'_>) -> bool {
        let before = self.next.checked_sub(1).and_then(|at| self.words.get(at));
        word.kind == WordKind::Name
            && CLAUSES.iter().any(|c| self.same(c, word.text))
            && before.is_some_and(Word::ends_operand)
    }

    /// A name directly behind a name: no expression has that, but for a few words.
    fn is_astray(&self, word: &Word<'_>) -> bool {
        const TAKES_A_NAME: [&str; 9] =
            ["sizeof", "struct", "unsigned", "signed", "long", "short", "const", "new", "alignof"];
        let before = self.next.checked_sub(1).and_then(|at| self.words.get(at));
        word.kind == WordKind::Name
            && before.is_some_and(|before| match before.kind {
                WordKind::Name => !TAKES_A_NAME.contains(&before.text),
                WordKind::Number => true,
                _ => before.is("]"),
            })
    }

    fn same(&self, clause: &str, word: &str) -> bool {
        if self.language.is_fortran() { clause.eq_ignore_ascii_case(word) } else { clause == word }
    }

    fn clause(&mut self, clause: &str) -> Result<Option<()>, Wrong> {
        let Some(word) = self.peek().filter(|word| self.is_clause(word) && self.same(clause, word.text))
        else {
            return Ok(None);
        };
        self.next += 1;
        match self.peek() {
            Some(_) => Ok(Some(())),
            None => Err((word.end(), format!("something must follow `{clause}`"))),
        }
    }

    fn at_end_or_clause(&self) -> bool {
        self.peek().is_none_or(|word| self.is_clause(&word))
    }

    fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_there = self.peek().is_some_and(|word| word.is(sign));
        self.next += usize::from(is_there);
        is_there
    }

    fn sign(&mut self, sign: &str) -> Result<(), Wrong> {
        if self.take(sign) {
            return Ok(());
        }
        let found = self.peek().map_or("the end".into(), |word| format!("`{}`", word.text));
        Err((self.position(), format!("{found} stands where `{sign}` should; write {}", self.form)))
    }

    fn wants(&self, what: &str) -> Wrong {
        let found = self.peek().map_or("the end".into(), |word| format!("`{}`", word.text));
        (self.position(), format!("{found} stands where {what} should; write {}", self.form))
    }

    fn position(&self) -> usize {
        self.peek().map_or_else(|| self.words.last().map_or(0, Word::end), |word| word.at)
    }
}

/// `'N'` as `"N"`.
fn as_text(letter: &str) -> String {
    let inner = letter.trim_start_matches('\'').trim_end_matches('\'');
    match letter {
        "'\\''" => "\"'\"".into(),
        "'\"'" => "\"\\\"\"".into(),
        _ => format!("\"{inner}\""),
    }
}
