//! From words to statements: what `set` says, and the lines of routines as they are written. What
//! names mean is found out in [`crate::routine`].

use std::collections::HashSet;

use forebay_types::{DType, Order, Result, Way, limits};

use crate::expr::{Binary, Expr, Function, Unary};
use crate::lexer::{self, Word, fault};
use crate::model::Case;
use crate::model::{Complex, Convention, Hidden, Library, LinePlace, Literal, Settings, Threads, Type};
use crate::raw::{NameAt, RawArg, RawChain, RawKind, RawRoutine, RawStep, RawType, RawTyped, RawValue};

/// Most routines of a file: each is two services, and that is what a server offers at most.
const ROUTINES: usize = 2_000;
/// How many plans of a chain are kept if nothing is said, and at most.
const PLANS: usize = 16;
const MOST_PLANS: usize = 100_000;
/// Most variables of an environment.
const VARIABLES: usize = 64;
/// How deep parentheses may stand in each other.
const DEPTH: u32 = 64;
/// Most operations of an expression as it is written.
const OPERATIONS: u32 = 128;

struct Parser<'a, 'f> {
    file: &'f str,
    words: Vec<(Word<'a>, LinePlace)>,
    at: usize,
    depth: u32,
    operations: u32,
}

impl Library {
    /// Reads a file; its name stands in errors: `blas.fbi:7:31: "ldb" is used by b but is no argument; add ldb:i32`.
    pub fn parse(file: &str, text: &str) -> Result<Library> {
        let mut p = Parser { file, words: lexer::words(file, text)?, at: 0, depth: 0, operations: 0 };
        p.version()?;
        let mut settings = Settings::default();
        let mut routines = Vec::new();
        let mut names = HashSet::new();
        while let Some(first) = p.statement() {
            match first.name {
                "set" => p.set(&mut settings)?,
                word => {
                    let is_chain = word == "chain" && matches!(p.peek(), Word::Name(_));
                    let first = if is_chain { p.name("the name of the chain")? } else { first };
                    let raw = p.routine(first, is_chain)?;
                    if !names.insert(first.name) {
                        let why = format!("{:?} is a routine already; leave one out", first.name);
                        return Err(p.at(first.place, why));
                    }
                    if routines.len() == ROUTINES {
                        let why =
                            format!("more than {ROUTINES} routines; divide the file among several servers");
                        return Err(p.at(first.place, why));
                    }
                    routines.push(crate::routine::resolve(file, raw, &settings)?);
                }
            }
            p.end_of_statement()?;
        }
        if p.at + 1 < p.words.len() {
            return Err(p.unexpected("a routine or set"));
        }
        Ok(Library { settings, routines })
    }
}

impl<'a> Parser<'a, '_> {
    fn at(&self, place: LinePlace, text: impl std::fmt::Display) -> forebay_types::Error {
        fault(self.file, place, text)
    }

    fn peek(&self) -> &Word<'a> {
        self.words.get(self.at).map_or(&Word::End, |(word, _)| word)
    }

    fn place(&self) -> LinePlace {
        self.words.get(self.at).or(self.words.last()).map(|w| w.1).unwrap_or_default()
    }

    fn next(&mut self) -> Word<'a> {
        let word = self.peek().clone();
        self.at += 1;
        word
    }

    fn unexpected(&self, wanted: &str) -> forebay_types::Error {
        self.at(self.place(), format!("{} stands where {wanted} is expected", self.peek()))
    }

    /// Takes a sign if it comes next.
    fn sign(&mut self, sign: &str) -> bool {
        let is_it = *self.peek() == Word::Sign(TABLE.iter().find(|s| **s == sign).copied().unwrap_or(""));
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.sign(sign) { Ok(()) } else { Err(self.unexpected(&format!("{sign:?}"))) }
    }

    /// Takes a word if it comes next.
    fn word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Word::Name(name) if *name == word);
        self.at += usize::from(is_it);
        is_it
    }

    fn name(&mut self, wanted: &str) -> Result<NameAt<'a>> {
        let place = self.place();
        match *self.peek() {
            Word::Name(name) if name.len() <= limits::NAME_BYTES => {
                self.at += 1;
                Ok(NameAt { name, place })
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    fn text(&mut self, wanted: &str) -> Result<&'a str> {
        match *self.peek() {
            Word::Text(text) => {
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    fn integer(&mut self) -> Result<i64> {
        let minus = self.sign("-");
        match *self.peek() {
            Word::Integer(n) => {
                self.at += 1;
                Ok(if minus { -n } else { n })
            }
            _ => Err(self.unexpected("an integer")),
        }
    }

    /// One of some words.
    fn choice<T: Copy>(&mut self, what: &str, of: &[(&str, T)]) -> Result<T> {
        let found = match self.peek() {
            Word::Name(name) => of.iter().find(|(word, _)| word == name).map(|(_, value)| *value),
            Word::Integer(n) => of.iter().find(|(word, _)| *word == n.to_string()).map(|(_, value)| *value),
            _ => None,
        };
        let words: Vec<&str> = of.iter().map(|(word, _)| *word).collect();
        let found = found.ok_or_else(|| self.unexpected(&format!("the {what}, {},", words.join(" or "))))?;
        self.at += 1;
        Ok(found)
    }

    fn version(&mut self) -> Result<()> {
        while *self.peek() == Word::End && self.at < self.words.len() {
            self.at += 1;
        }
        let place = self.place();
        if !self.word("fbi") {
            return Err(self.at(place, "an interface file begins with the line `fbi 1`; write it first"));
        }
        match self.integer()? {
            1 => self.end_of_statement(),
            n => Err(self
                .at(place, format!("the file is of version {n}; this version of Forebay reads version 1"))),
        }
    }

    /// The first name of the next statement.
    fn statement(&mut self) -> Option<NameAt<'a>> {
        while *self.peek() == Word::End && self.at < self.words.len() {
            self.at += 1;
        }
        self.name("a routine").ok()
    }

    fn end_of_statement(&mut self) -> Result<()> {
        if self.at >= self.words.len() || *self.peek() == Word::End {
            return Ok(());
        }
        Err(self.unexpected("an option of the line, or its end,"))
    }

    fn set(&mut self, settings: &mut Settings) -> Result<()> {
        let key = self.name("what is set")?;
        match key.name {
            "library" => settings.library = Some(self.text("the library, in quotes,")?.to_owned()),
            "convention" => settings.convention = self.convention()?,
            "symbol" => settings.symbol = self.symbol()?.to_owned(),
            "int" => {
                settings.int = self.choice("size of integers", &[("32", DType::I32), ("64", DType::I64)])?
            }
            "threads" => settings.threads = self.threads()?,
            "lock" => settings.lock = Some(self.name("the name of the lock")?.name.to_owned()),
            "hidden" => {
                let all = [("end", Hidden::End), ("next", Hidden::Next), ("none", Hidden::None)];
                settings.hidden = Some(self.choice("place of hidden lengths", &all)?);
            }
            "complex" => {
                let all = [("value", Complex::Value), ("pointer", Complex::Pointer)];
                settings.complex = self.choice("way of complex results", &all)?;
            }
            "stubs" => {
                settings.only_changed =
                    self.choice("what stubs write", &[("whole", false), ("changed", true)])?;
            }
            "env" => {
                let name = self.name("the name of the variable")?;
                self.expect("=")?;
                let value = match self.next() {
                    Word::Name(word) => word.to_owned(),
                    Word::Text(text) => text.to_owned(),
                    Word::Integer(n) => n.to_string(),
                    _ => {
                        self.at -= 1;
                        return Err(self.unexpected("the value of the variable, a word, a number or a text,"));
                    }
                };
                if value.contains('\0') || settings.env.len() == VARIABLES {
                    let why = format!(
                        "{} has a zero byte, or is beyond the limit of {VARIABLES} variables",
                        name.name
                    );
                    return Err(self.at(name.place, why));
                }
                settings.env.push((name.name.to_owned(), value));
            }
            other => {
                let known = "library, convention, symbol, int, threads, lock, hidden, complex, stubs or env";
                return Err(self.at(key.place, format!("{other:?} cannot be set; set {known}")));
            }
        }
        Ok(())
    }

    fn convention(&mut self) -> Result<Convention> {
        self.choice("convention", &[("fortran", Convention::Fortran), ("c", Convention::C)])
    }

    fn threads(&mut self) -> Result<Threads> {
        let all = [("safe", Threads::Safe), ("serial", Threads::Serial), ("process", Threads::Process)];
        self.choice("rule of threads", &all)
    }

    fn order(&mut self) -> Result<Order> {
        if *self.peek() == Word::Sign("(") {
            let why =
                "an order that depends on an argument is not served; write two lines, one for each order";
            return Err(self.at(self.place(), why));
        }
        self.choice("order", &[("F", Order::F), ("C", Order::C)])
    }

    fn symbol(&mut self) -> Result<&'a str> {
        let place = self.place();
        let symbol = self.text("the symbol, in quotes,")?;
        let plain = |c: char| c.is_ascii_graphic();
        if symbol.is_empty() || symbol.len() > limits::NAME_BYTES || !symbol.chars().all(plain) {
            let why =
                format!("{symbol:?} is no symbol; write for example \"%s_\", where %s is the routine's name");
            return Err(self.at(place, why));
        }
        Ok(symbol)
    }

    fn routine(&mut self, name: NameAt<'a>, is_chain: bool) -> Result<RawRoutine<'a>> {
        self.expect("(")?;
        let mut raw = RawRoutine {
            name,
            args: Vec::new(),
            returned: None,
            returned_status: None,
            returns: None,
            symbol: None,
            convention: None,
            order: None,
            threads: None,
            cost: None,
            effects: false,
            xerbla: false,
            chain: None,
            lets: Vec::new(),
            wheres: Vec::new(),
        };
        if !self.sign(")") {
            loop {
                if raw.args.len() == limits::PARAMETERS {
                    let why = format!("more than {} arguments; no call has so many", limits::PARAMETERS);
                    return Err(self.at(self.place(), why));
                }
                raw.args.push(self.arg()?);
                if self.sign(")") {
                    break;
                }
                self.expect(",")?;
            }
        }
        if is_chain {
            raw.chain = Some(self.chain()?);
        } else if self.sign("->") {
            raw.returned = Some(self.of_type()?);
            raw.returned_status = self.word("status").then(|| self.cases()).transpose()?;
        }
        while *self.peek() != Word::End {
            self.clause(&mut raw)?;
        }
        Ok(raw)
    }

    /// What stands behind the arguments of a chain.
    fn chain(&mut self) -> Result<RawChain<'a>> {
        let wants = |p: &mut Self, word: &str| match p.word(word) {
            true => Ok(()),
            false => Err(p.unexpected(&format!("{word:?} of the chain"))),
        };
        wants(self, "plan")?;
        let name = self.name("the name of the plan")?;
        self.expect("=")?;
        let plan = self.step()?;
        let mut keep = PLANS;
        if self.word("keep") {
            let place = self.place();
            let n = self.integer()?;
            keep = usize::try_from(n).ok().filter(|n| (1..=MOST_PLANS).contains(n)).ok_or_else(|| {
                self.at(
                    place,
                    format!("keep {n} is not from 1 to {MOST_PLANS}; write how many plans are kept"),
                )
            })?;
        }
        let free = self.word("free").then(|| self.step()).transpose()?;
        wants(self, "call")?;
        Ok(RawChain { name, plan, keep, free, call: self.step()? })
    }

    fn step(&mut self) -> Result<RawStep<'a>> {
        let symbol = self.name("a function of the library")?;
        self.expect("(")?;
        let mut values = Vec::new();
        while !self.sign(")") {
            if values.len() == limits::PARAMETERS {
                return Err(self.at(self.place(), format!("more than {} values", limits::PARAMETERS)));
            }
            if !values.is_empty() {
                self.expect(",")?;
            }
            let place = self.place();
            values.push(match self.word("const") {
                true => {
                    let n = self.integer()?;
                    let fits = i32::try_from(n).ok();
                    RawValue::Const(
                        fits.ok_or_else(|| self.at(place, format!("{n} is beyond what an int holds")))?,
                    )
                }
                false => RawValue::Name(self.name("an argument, the plan, or const and a number,")?),
            });
        }
        Ok(RawStep { symbol, values })
    }

    fn clause(&mut self, raw: &mut RawRoutine<'a>) -> Result<()> {
        let clause = self.name("an option of the routine, or the end of the line,")?;
        match clause.name {
            "symbol" => raw.symbol = Some(self.symbol()?),
            "convention" => raw.convention = Some(self.convention()?),
            "order" => raw.order = Some(self.order()?),
            "threads" => raw.threads = Some(self.threads()?),
            "cost" => raw.cost = Some(self.expression()?),
            "effects" => raw.effects = true,
            "xerbla" => raw.xerbla = true,
            "returns" => raw.returns = Some(self.name("the name of the result")?),
            "let" => {
                let name = self.name("a name")?;
                self.expect("=")?;
                raw.lets.push((name, self.expression()?));
            }
            "where" => {
                let holds = self.expression()?;
                let text = matches!(self.peek(), Word::Text(_)).then(|| self.text("a text")).transpose()?;
                raw.wheres.push((holds, text));
            }
            other => {
                let known =
                    "symbol, convention, order, threads, cost, effects, xerbla, returns, let or where";
                return Err(
                    self.at(clause.place, format!("{other:?} is no option of a routine; write {known}"))
                );
            }
        }
        Ok(())
    }

    fn arg(&mut self) -> Result<RawArg<'a>> {
        let first = self.name("an argument")?;
        let is_name = |word: &Word| matches!(word, Word::Name(_));
        let named = is_name(self.peek());
        let way = match first.name {
            "in" if named => Some(Way::In),
            "out" if named => Some(Way::Out),
            "inout" if named => Some(Way::InOut),
            _ => None,
        };
        if way.is_some() {
            let name = self.name("the name of an argument")?;
            return self.typed(name, way);
        }
        match first.name {
            "proc" if named => {
                let name = self.name("a name")?.name;
                let why = format!(
                    "{name} is a procedure; a remote library cannot call yours back. Leave the routine out (stubs call the local one), \
                     or write a service of your own around it"
                );
                Err(self.at(first.place, why))
            }
            "const" if named => {
                let name = self.name("a name")?;
                self.expect(":")?;
                let of = self.of_type()?;
                self.expect("=")?;
                let value = self.literal()?;
                self.options(RawArg { name, kind: RawKind::Const(of, value), by_value: None })
            }
            "work" if named => {
                let name = self.name("a name")?;
                self.expect(":")?;
                let of = self.of_type()?;
                self.expect("[")?;
                let len = self.expression()?;
                self.expect("]")?;
                let query =
                    self.word("query").then(|| self.name("the argument that says its length")).transpose()?;
                Ok(RawArg { name, kind: RawKind::Work { of, len, query }, by_value: None })
            }
            "length" if *self.peek() == Word::Sign("(") => {
                self.expect("(")?;
                let of = self.name("the argument whose length is meant")?;
                self.expect(")")?;
                self.options(RawArg { name: first, kind: RawKind::Length(of), by_value: None })
            }
            "null" if *self.peek() != Word::Sign(":") => {
                Ok(RawArg { name: first, kind: RawKind::Null, by_value: None })
            }
            _ if *self.peek() == Word::Sign(":") => self.typed(first, None),
            _ => self.options(RawArg { name: first, kind: RawKind::Bare, by_value: None }),
        }
    }

    fn typed(&mut self, name: NameAt<'a>, way: Option<Way>) -> Result<RawArg<'a>> {
        self.expect(":")?;
        let of = self.of_type()?;
        let mut extents = None;
        if self.sign("[") {
            let mut all = vec![self.expression()?];
            while self.sign(",") {
                all.push(self.expression()?);
            }
            self.expect("]")?;
            extents = Some(all);
        }
        if way.is_none() && extents.is_none() && self.sign("=") {
            let value = self.expression()?;
            return self.options(RawArg { name, kind: RawKind::Computed(of, value), by_value: None });
        }
        let typed = RawTyped {
            way,
            of,
            extents,
            order: None,
            ld: None,
            inc: None,
            tri: None,
            align: None,
            when: None,
            one_of: None,
            status: None,
        };
        self.options(RawArg { name, kind: RawKind::Typed(typed), by_value: None })
    }

    fn options(&mut self, mut arg: RawArg<'a>) -> Result<RawArg<'a>> {
        while let Word::Name(word) = *self.peek() {
            let place = self.place();
            self.at += 1;
            if word == "by" {
                arg.by_value = Some(self.choice("way of passing", &[("value", true), ("pointer", false)])?);
                continue;
            }
            let RawKind::Typed(typed) = &mut arg.kind else {
                return Err(self.at(place, format!("{word:?} is no option of {}", arg.name.name)));
            };
            match word {
                "order" => typed.order = Some(self.order()?),
                "ld" => typed.ld = Some(self.name("the leading dimension")?),
                "inc" => typed.inc = Some(self.name("the increment")?),
                "tri" => typed.tri = Some(self.name("the character that says which triangle")?),
                "align" => {
                    let n = self.integer()?;
                    let fits = (1..=4096).contains(&n) && (n as u64).is_power_of_two();
                    if !fits {
                        return Err(self.at(place, format!("align {n} is no power of two up to 4096")));
                    }
                    typed.align = Some(n as usize);
                }
                "when" => typed.when = Some(self.expression()?),
                "one" if self.word("of") => typed.one_of = Some(self.one_of()?),
                "status" => typed.status = Some(self.cases()?),
                _ => {
                    let known = "order, ld, inc, tri, align, when, one of, status, by value or by pointer";
                    return Err(
                        self.at(place, format!("{word:?} is no option of an argument; write {known}"))
                    );
                }
            }
        }
        Ok(arg)
    }

    fn one_of(&mut self) -> Result<Vec<i64>> {
        if let Word::Text(text) = *self.peek() {
            self.at += 1;
            return Ok(text.bytes().map(i64::from).collect());
        }
        let mut all = vec![self.integer()?];
        while matches!(self.peek(), Word::Integer(_) | Word::Sign("-")) && all.len() < 256 {
            all.push(self.integer()?);
        }
        Ok(all)
    }

    fn cases(&mut self) -> Result<Vec<Case>> {
        let mut cases = Vec::new();
        let compares = [("<", Binary::Less), (">", Binary::Greater), ("==", Binary::Equal)];
        while let Some((_, compare)) = compares.iter().find(|(sign, _)| self.sign(sign)) {
            let with = self.integer()?;
            let text = self.text("what is said then, in quotes,")?.to_owned();
            cases.push(Case { compare: *compare, with, text });
        }
        Ok(cases)
    }

    fn of_type(&mut self) -> Result<RawType> {
        let name = self.name("a type")?;
        let dtype = |d| Ok(RawType::Scalar(Type::Number(d)));
        match (name.name, DType::parse(name.name)) {
            ("char", _) => Ok(RawType::Scalar(Type::Char)),
            ("bool", _) => Ok(RawType::Scalar(Type::Bool)),
            ("str", _) => Ok(RawType::Str),
            ("file", _) => Ok(RawType::File),
            (_, Ok(d)) if d != DType::F16 && !d.is_text() => dtype(d),
            (other, _) => {
                let known = "i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 c64 c128 bool char str file";
                let why = format!(
                    "{other:?} is no type of an argument; known are {known}. Structures by value and lists of variable length are not served: \
                     write a service of your own around the routine"
                );
                Err(self.at(name.place, why))
            }
        }
    }

    fn literal(&mut self) -> Result<Literal> {
        let minus = self.sign("-");
        let place = self.place();
        match self.next() {
            Word::Integer(n) => Ok(Literal::Integer(if minus { -n } else { n })),
            Word::Real(x) => Ok(Literal::Real(if minus { -x } else { x })),
            Word::Text(text) if text.len() == 1 && !minus => Ok(Literal::Integer(text.as_bytes()[0].into())),
            other => {
                Err(self
                    .at(place, format!("{other} is no constant; write a number, or one character in quotes")))
            }
        }
    }

    fn deeper<T>(&mut self, of: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEPTH {
            return Err(self.at(
                self.place(),
                format!("an expression of more than {DEPTH} levels; name parts of it by let"),
            ));
        }
        if self.depth == 0 {
            self.operations = 0;
        }
        self.depth += 1;
        let value = of(self);
        self.depth -= 1;
        value
    }

    fn expression(&mut self) -> Result<Expr<NameAt<'a>>> {
        self.deeper(|p| {
            let yes = p.or()?;
            if !p.word("if") {
                return Ok(yes);
            }
            let condition = p.or()?;
            if !p.word("else") {
                return Err(p.unexpected("\"else\""));
            }
            Ok(Expr::If(Box::new((condition, yes, p.expression()?))))
        })
    }

    fn or(&mut self) -> Result<Expr<NameAt<'a>>> {
        let mut e = self.and()?;
        while self.word("or") {
            let y = self.and()?;
            e = self.pair(Binary::Or, e, y)?;
        }
        Ok(e)
    }

    fn and(&mut self) -> Result<Expr<NameAt<'a>>> {
        let mut e = self.not()?;
        while self.word("and") {
            let y = self.not()?;
            e = self.pair(Binary::And, e, y)?;
        }
        Ok(e)
    }

    fn not(&mut self) -> Result<Expr<NameAt<'a>>> {
        if self.word("not") {
            return self.deeper(|p| Ok(Expr::Unary(Unary::Not, Box::new(p.not()?))));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Expr<NameAt<'a>>> {
        let e = self.sum()?;
        if self.word("in") {
            let bytes = self.text("the characters, in quotes,")?.bytes().collect();
            return Ok(Expr::OneOf(Box::new(e), bytes));
        }
        use Binary::*;
        for what in [Equal, Unequal, LessOrEqual, GreaterOrEqual, Less, Greater] {
            if self.sign(what.sign()) {
                let y = self.sum()?;
                return self.pair(what, e, y);
            }
        }
        Ok(e)
    }

    fn sum(&mut self) -> Result<Expr<NameAt<'a>>> {
        let mut e = self.product()?;
        while let Some(what) = [Binary::Add, Binary::Subtract].into_iter().find(|w| self.sign(w.sign())) {
            let y = self.product()?;
            e = self.pair(what, e, y)?;
        }
        Ok(e)
    }

    fn product(&mut self) -> Result<Expr<NameAt<'a>>> {
        let mut e = self.factor()?;
        while let Some(what) = [Binary::Multiply, Binary::Divide].into_iter().find(|w| self.sign(w.sign())) {
            let y = self.factor()?;
            e = self.pair(what, e, y)?;
        }
        Ok(e)
    }

    fn factor(&mut self) -> Result<Expr<NameAt<'a>>> {
        if self.sign("-") {
            return self.deeper(|p| Ok(Expr::Unary(Unary::Minus, Box::new(p.factor()?))));
        }
        if self.sign("(") {
            let e = self.expression()?;
            self.expect(")")?;
            return Ok(e);
        }
        let place = self.place();
        match *self.peek() {
            Word::Integer(n) => {
                self.at += 1;
                Ok(Expr::Number(n))
            }
            Word::Text(text) if text.len() == 1 => {
                self.at += 1;
                Ok(Expr::Number(text.as_bytes()[0].into()))
            }
            Word::Name(name) => {
                self.at += 1;
                match Function::named(name) {
                    Some(function) if self.sign("(") => self.function(function, place),
                    _ => Ok(Expr::Value(NameAt { name, place })),
                }
            }
            _ => Err(self.unexpected("a number, a name or \"(\"")),
        }
    }

    /// Two values and what is done with them; a long row of those would be a tree as deep.
    fn pair(&mut self, what: Binary, x: Expr<NameAt<'a>>, y: Expr<NameAt<'a>>) -> Result<Expr<NameAt<'a>>> {
        self.operations += 1;
        if self.operations > OPERATIONS {
            let why = format!("an expression of more than {OPERATIONS} parts; name parts of it by let");
            return Err(self.at(self.place(), why));
        }
        Ok(Expr::Binary(what, Box::new((x, y))))
    }

    fn function(&mut self, function: Function, place: LinePlace) -> Result<Expr<NameAt<'a>>> {
        let mut all = vec![self.expression()?];
        while self.sign(",") {
            all.push(self.expression()?);
        }
        self.expect(")")?;
        let fits = if function == Function::Abs { all.len() == 1 } else { (2..=16).contains(&all.len()) };
        if !fits {
            let why = format!(
                "{} has {} values; abs takes one, max and min take 2 to 16",
                function.name(),
                all.len()
            );
            return Err(self.at(place, why));
        }
        Ok(Expr::Call(function, all))
    }
}

/// Signs as the lexer gives them.
const TABLE: [&str; 20] =
    ["->", "==", "!=", "<=", ">=", "(", ")", "[", "]", ",", ":", "=", "+", "-", "*", "/", "<", ">", "{", "}"];
