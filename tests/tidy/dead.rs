//! Public items that nobody names: the compiler keeps them, for somebody outside might. Nobody is outside.
//!
//! Read as text, so what is meant is told by the name alone: a method is named behind a dot or `::`, a function of a
//! type behind the type (`Block::new`), all else by its name anywhere. What is merely passed on (`pub use`) names
//! nothing, but for the facade, which is there for others.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge;
use crate::tree::{File, files};

/// What stands before a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before<'a> {
    Dot,
    /// `::`, behind that name; none where it is not plain.
    Path(Option<&'a str>),
    Nothing,
}

/// A name in a source, where it stands and what is before it.
struct Mention<'a> {
    name: &'a str,
    at: usize,
    before: Before<'a>,
}

/// The code of a source: comments are blank, and so are what passes items on.
fn code(file: &File) -> String {
    let line = |line: &str| match line.trim_start().starts_with("//") {
        true => String::new(),
        false => line.split(" // ").next().unwrap_or(line).to_owned(),
    };
    let mut text = file.text.lines().map(line).collect::<Vec<_>>().join("\n");
    while let (false, Some(at)) = (file.path.starts_with("crates/forebay/"), text.find("pub use ")) {
        let end = text[at..].find(';').map_or(text.len(), |end| at + end);
        text.replace_range(at..end, "");
    }
    text
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The name that ends a text.
fn last_name(text: &str) -> Option<&str> {
    let name = &text[text.trim_end_matches(is_part).len()..];
    (!name.is_empty()).then_some(name)
}

fn mentions(code: &str) -> Vec<Mention<'_>> {
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(start) = code[rest..].find(is_part).map(|at| rest + at) {
        let end = code[start..].find(|c| !is_part(c)).map_or(code.len(), |len| start + len);
        let ahead = code[..start].trim_end();
        let before = match ahead.strip_suffix("::") {
            Some(path) => Before::Path(last_name(path)),
            None if ahead.ends_with('.') => Before::Dot,
            None => Before::Nothing,
        };
        found.push(Mention { name: &code[start..end], at: start, before });
        rest = end;
    }
    found
}

/// Of what kind an item is, for how it is named.
#[derive(Debug, PartialEq)]
enum Item {
    Method,
    /// A function of that type; none: the type is made by a macro.
    OfType(Option<String>),
    Other,
}

/// The text behind the first bracket that is not of generics.
fn parameters(behind_name: &str) -> &str {
    let (mut depth, mut last) = (0, ' ');
    for (at, c) in behind_name.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if last != '-' => depth -= 1,
            '(' if depth == 0 => return &behind_name[at + 1..],
            _ => {}
        }
        last = c;
    }
    ""
}

fn takes_self(behind_name: &str) -> bool {
    let first = parameters(behind_name).split([',', ')', ':']).next().unwrap_or_default();
    crate::tree::has_word(first, "self")
}

/// The type that an `impl` is for, from its head.
fn type_of(head: &str) -> Option<String> {
    let mut text = head.trim_start().trim_start_matches("unsafe ").strip_prefix("impl")?;
    if text.starts_with('<') {
        let mut depth = 0;
        let end = text.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '<') - i32::from(*c == '>');
            depth == 0
        })?;
        text = &text[end.0 + 1..];
    }
    let text = text.rsplit(" for ").next()?.trim();
    let path = text.split(['<', ' ', '{']).next()?;
    path.rsplit("::").next().filter(|name| !name.starts_with('$') && !name.is_empty()).map(str::to_owned)
}

/// The public items of a source: where the name of each stands, and of what kind it is.
fn items(code: &str) -> Vec<(usize, &str, Item)> {
    let mut found = Vec::new();
    let mut within: Option<(usize, Option<String>)> = None;
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let indent = line.len() - line.trim_start().len();
        let trimmed = line.trim();
        if trimmed.starts_with("impl") || trimmed.starts_with("unsafe impl") {
            let head = code[start..].split('{').next().unwrap_or_default();
            within = Some((indent, type_of(head)));
        } else if trimmed == "}" && within.as_ref().is_some_and(|(of, _)| *of == indent) {
            within = None;
        }
        let Some(mut rest) = trimmed.strip_prefix("pub ") else { continue };
        for word in ["const fn ", "async ", "unsafe ", "extern \"C\" "] {
            rest = rest
                .strip_prefix(word)
                .map_or(rest, |more| if word == "const fn " { &rest[6..] } else { more });
        }
        let kinds = ["fn ", "struct ", "enum ", "trait ", "const ", "static ", "type ", "union "];
        let Some((kind, rest)) = kinds.iter().find_map(|k| Some((*k, rest.strip_prefix(k)?))) else {
            continue;
        };
        let name = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        let place = start + line.find(rest).unwrap_or_default();
        let item = match (&within, kind) {
            (Some(_), "fn ") if takes_self(&code[place + name.len()..]) => Item::Method,
            (Some((_, of)), "fn ") => Item::OfType(of.clone()),
            _ => Item::Other,
        };
        if !name.is_empty() {
            found.push((place, name, item));
        }
    }
    found
}

/// Other names of types: `use Process as Known`, `type Ring = ring::Producer`.
fn aliases<'a>(mentions: &[Mention<'a>], code: &'a str) -> Vec<(&'a str, &'a str)> {
    let renamed = mentions.windows(3).filter(|w| w[1].name == "as").map(|w| (w[2].name, w[0].name));
    let typed = code.lines().filter_map(|line| {
        let (name, of) = line.split_once("type ")?.1.split_once('=')?;
        Some((last_name(name.split('<').next()?.trim())?, last_name(of.split(['<', ';']).next()?.trim())?))
    });
    renamed.chain(typed).collect()
}

/// Who names what, in all sources.
struct Names<'a> {
    of: BTreeMap<&'a str, Vec<(usize, &'a Mention<'a>)>>,
    aliases: BTreeSet<(&'a str, &'a str)>,
}

impl Names<'_> {
    /// Whether an item of a source is named elsewhere, or in it before its tests.
    fn are_said(&self, source: usize, code: &str, (at, name, item): &(usize, &str, Item)) -> bool {
        let product = code.find("#[cfg(test)]\nmod tests").unwrap_or(code.len());
        let on_impl = |at: usize| {
            let line = code[..at].rfind('\n').map_or(0, |start| start + 1);
            code[line..].trim_start().starts_with("impl")
        };
        self.of.get(name).into_iter().flatten().any(|(file, mention)| {
            let own = *file == source;
            if own && (mention.at == *at || mention.at >= product || on_impl(mention.at)) {
                return false;
            }
            match (item, mention.before) {
                (Item::Other, _) => true,
                (Item::Method, before) => before != Before::Nothing,
                (Item::OfType(_), Before::Dot | Before::Nothing) => false,
                (Item::OfType(None), _) | (_, Before::Path(None)) => true,
                (Item::OfType(Some(of)), Before::Path(Some(ahead))) => {
                    ahead == of || own && ahead == "Self" || self.aliases.contains(&(ahead, of))
                }
            }
        })
    }
}

/// The items of sources under `crates/` that no source names.
fn unnamed(sources: &[(&str, String)]) -> Vec<String> {
    let mentions: Vec<_> = sources.iter().map(|(_, code)| mentions(code)).collect();
    let mut names = Names { of: BTreeMap::new(), aliases: BTreeSet::new() };
    for (file, found) in mentions.iter().enumerate() {
        names.aliases.extend(aliases(found, &sources[file].1));
        for mention in found {
            names.of.entry(mention.name).or_default().push((file, mention));
        }
    }
    let mut unnamed = Vec::new();
    for (file, (path, code)) in sources.iter().enumerate() {
        let product = code.find("#[cfg(test)]\nmod tests").unwrap_or(code.len());
        if path.starts_with("crates/") && path.contains("/src/") {
            let dead = items(&code[..product]).into_iter().filter(|item| !names.are_said(file, code, item));
            unnamed.extend(dead.map(|(_, name, _)| format!("{path}: {name}")));
        }
    }
    unnamed
}

#[test]
fn every_public_item_is_named_somewhere() {
    let sources: Vec<_> =
        files().iter().filter(|f| f.is(&["rs"])).map(|f| (f.path.as_str(), code(f))).collect();
    let breaches = unnamed(&sources).into_iter().map(|item| format!("{item}: delete it, or make it private"));
    judge("a public item is there for somebody:", breaches.collect());
}

#[test]
fn an_item_is_dead_when_only_its_namesakes_are_used() {
    let item = "\
        pub struct Block;\n\
        impl Block {\n    \
            pub fn new() -> Block { Block }\n    \
            pub fn of<F: Fn(u32) -> u32>(f: F) -> Self { Self::new() }\n    \
            pub fn len(&self) -> u32 { 0 }\n    \
            pub const fn never(\n        &self,\n    ) -> u32 { 0 }\n\
        }\n\
        pub const LEAST: u32 = 1;\n\
        pub fn free() {}\n\
        #[cfg(test)]\nmod tests { fn t(b: Block) { b.never() } }\n";
    let other = "use block::Block as Piece;\nfn f() { View::of(len); Piece::new().len(); self.free }\n";
    let sources = [("crates/a/src/b.rs", item.to_owned()), ("tests/c.rs", other.to_owned())];
    assert_eq!(unnamed(&sources), ["of", "never", "LEAST"].map(|name| format!("crates/a/src/b.rs: {name}")));
}
