//! The signature language: one line says what a service takes and gives, in Python, C, Fortran
//! and IDL files alike.
//!
//! ```text
//! dgemm(in m:i32, in n:i32, in k:i32, in a:f64[m,k], in b:f64[k,n], inout c:f64[m,n])
//! log(in text:str, out line:i64) effects
//! sim(in mesh:file, in steps:i32, out log:file)
//! ```
//!
//! A parameter is `[in|out|inout] name:dtype[extents] [order C|F]`; without a direction it is `inout`.
//! Its elements arrive in the order in which the caller has them; a service that can use one order only
//! demands it: `order F` (the first index runs fastest) or `order C` (the last one), and an array that
//! lies otherwise is copied. An extent is a number, a name, or a product such as `2*n` or `n**2`; a name is an integer scalar of the
//! same signature or a free one, and free names must agree wherever they stand. A `file` goes in or comes out: the caller
//! passes a path of his, and the service gets one of its own. `status` behind an integer that comes
//! back says that it is 0 when the service ended well: `out info:i32 status`. The mark
//! `effects` says that running the service twice is not the same as running it once: such calls
//! are never issued again after a server was lost. Behind it `cost n*n*n` says how the work of a call grows ([`crate::Cost`]).
//!
//! ```
//! use forebay_types::Signature;
//! let axpy = Signature::parse("axpy(in a:f64, in x:f64[n], inout y:f64[n])").unwrap();
//! assert_eq!(axpy.name().as_str(), "axpy");
//! assert_eq!(axpy.to_string(), "axpy(in a:f64, in x:f64[n], inout y:f64[n])");
//! ```

use std::fmt;

use crate::{Cost, DType, Error, Given, Name, Order, Result, limits};

/// The type of a file in a signature.
const FILE: &str = "file";
/// Longest text of a signature, in bytes.
pub const SIGNATURE_BYTES: usize = 8 * 1024;
/// The highest power of a name.
const POWER: usize = 8;

/// Which way a parameter travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Way {
    /// To the server.
    In,
    /// From the server.
    Out,
    /// Both ways.
    #[default]
    InOut,
}

impl Way {
    /// Whether its value goes to the server.
    pub fn goes(self) -> bool {
        self != Way::Out
    }

    /// Whether its value comes back.
    pub fn comes(self) -> bool {
        self != Way::In
    }

    /// The word in a signature.
    pub fn word(self) -> &'static str {
        match self {
            Way::In => "in",
            Way::Out => "out",
            Way::InOut => "inout",
        }
    }
}

/// An extent of an array parameter: a number times any names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The number; 1 when none is written.
    pub factor: u64,
    /// The names.
    pub names: Vec<String>,
}

/// A parameter of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Which way it travels.
    pub way: Way,
    /// Its dtype; of an array, that of the elements; of a file, that of its path.
    pub dtype: DType,
    /// The extents of an array; a scalar, text or bytes have none.
    pub extents: Option<Vec<Extent>>,
    /// The order in which the service demands its elements, if it does.
    pub order: Option<Order>,
    /// It says how the service ended: 0 if well.
    pub is_status: bool,
    /// It is a file: both sides have a path, and what is there travels.
    pub is_file: bool,
}

impl Param {
    /// Whether a caller passes it: all but pure results that are not arrays, which are returned. Of a file that comes the
    /// caller passes the path.
    pub fn is_passed(&self) -> bool {
        self.is_sent() || self.extents.is_some()
    }

    /// Whether what the caller passes for it is sent: what goes, and the path of a file that comes.
    pub fn is_sent(&self) -> bool {
        self.way.goes() || self.is_file
    }

    /// Whether it is returned as a value: scalars, text and bytes that come back, and the path of a file that does.
    pub fn is_returned(&self) -> bool {
        self.way.comes() && self.extents.is_none()
    }

    /// Whether a service returns it: what is returned but files, which it writes.
    pub fn is_given_back(&self) -> bool {
        self.is_returned() && !self.is_file
    }

    pub(crate) fn is_integer_scalar(&self) -> bool {
        self.extents.is_none() && self.dtype.is_integer()
    }
}

/// What a service is called, takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    name: Name,
    params: Vec<Param>,
    effects: bool,
    has_files: bool,
    cost: Option<Cost>,
}

impl Signature {
    /// Reads `name(parameters)`, with or without ` effects` and ` cost n*n` behind.
    pub fn parse(text: &str) -> Result<Signature> {
        if text.len() > SIGNATURE_BYTES {
            return Err(Error::bad(format!(
                "a signature of {} bytes is beyond the limit of {SIGNATURE_BYTES}",
                text.len()
            )));
        }
        let text = text.trim();
        let wrong = |why: &str| Error::bad(format!("the signature {text:?} {why}"));
        let open = text.find('(').ok_or_else(|| wrong("has no \"(\"; write name(in x:f64[n], ...)"))?;
        let close = text.rfind(')').ok_or_else(|| wrong("has no \")\" at its end"))?;
        let inside = text.get(open + 1..close).ok_or_else(|| wrong("has its parentheses the wrong way"))?;
        let behind = text.get(close + 1..).unwrap_or("").trim();
        let (effects, behind) = match behind.strip_prefix("effects") {
            Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => (true, rest.trim()),
            _ => (false, behind),
        };
        let cost = match behind.strip_prefix("cost") {
            _ if behind.is_empty() => None,
            Some(cost) if cost.is_empty() || cost.starts_with(char::is_whitespace) => Some(cost),
            _ => return Err(wrong("has something other than `effects` or `cost n*n` behind its \")\"")),
        };
        let signature = Signature::of(text[..open].trim(), inside)?.with_effects(effects);
        match cost {
            None => Ok(signature),
            Some(cost) => signature.with_cost(cost),
        }
    }

    /// A signature from a name and its parameters: `in a:f64, in x:f64[n]`.
    pub fn of(name: &str, params: &str) -> Result<Signature> {
        let name = Name::new(name)?;
        if name.as_str().contains(['(', ')', ',']) || name.as_str().trim() != name.as_str() {
            return Err(Error::bad(format!(
                "the service name {name:?} has a parenthesis, comma or outer blank; leave them out",
                name = name.as_str()
            )));
        }
        let within = |e: Error| e.within(format_args!("signature of {name}"));
        let params = read_params(params).map_err(within)?;
        check_params(&params).map_err(within)?;
        let has_files = params.iter().any(|p| p.is_file);
        Ok(Signature { name, params, effects: false, has_files, cost: None })
    }

    /// Returns the signature with the mark `effects`, or without it.
    pub fn with_effects(mut self, effects: bool) -> Signature {
        self.effects = effects;
        self
    }

    /// Returns the signature with a cost: `n*n*n`.
    pub fn with_cost(mut self, cost: &str) -> Result<Signature> {
        let cost = Cost::parse(cost, &self.params)
            .map_err(|e| e.within(format_args!("signature of {}", self.name)))?;
        self.cost = Some(cost);
        Ok(self)
    }

    /// The name of the service.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Its parameters, in order.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Whether running it twice is not the same as running it once.
    pub fn effects(&self) -> bool {
        self.effects
    }

    /// Whether any parameter is a file.
    pub fn has_files(&self) -> bool {
        self.has_files
    }

    /// How its work grows, if the service says so.
    pub fn cost(&self) -> Option<&Cost> {
        self.cost.as_ref()
    }

    /// What a call costs in units of the service, if it says so: from 1 to [`MOST_COST`](crate::MOST_COST). `given` has
    /// passed [`Signature::check`].
    pub fn cost_of(&self, given: &[Given]) -> Option<u64> {
        self.cost.as_ref().map(|cost| cost.of(self.passed(), given))
    }

    /// The parameters that a caller passes, in order.
    pub fn passed(&self) -> impl Iterator<Item = &Param> + Clone {
        self.params.iter().filter(|p| p.is_passed())
    }
}

fn read_params(text: &str) -> Result<Vec<Param>> {
    let mut params = Vec::new();
    if text.trim().is_empty() {
        return Ok(params);
    }
    for piece in split_outside_brackets(text) {
        if params.len() == limits::PARAMETERS {
            return Err(Error::bad(format!(
                "more than {} parameters; join some in an array",
                limits::PARAMETERS
            )));
        }
        params.push(read_param(piece.trim())?);
    }
    Ok(params)
}

/// Splits at commas that stand outside square brackets.
fn split_outside_brackets(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    text.split(move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth <= 0
    })
}

fn read_param(text: &str) -> Result<Param> {
    let wrong = |why: &str| {
        Error::bad(format!(
            "the parameter {text:?} {why}; write [in|out|inout] name:dtype or name:dtype[n,m], and behind that order C or order F if it matters"
        ))
    };
    let (left, kind) = text.split_once(':').ok_or_else(|| wrong("has no \":dtype\""))?;
    let words: Vec<&str> = left.split_whitespace().collect();
    let (way, name) = match words.as_slice() {
        [name] => (Way::InOut, *name),
        ["in", name] => (Way::In, *name),
        ["out", name] => (Way::Out, *name),
        ["inout", name] => (Way::InOut, *name),
        _ => return Err(wrong("begins with neither a direction nor a name")),
    };
    if !is_identifier(name) {
        return Err(wrong("has a name that is not letters, digits and underscores"));
    }
    let kind = kind.trim();
    let (kind, is_status) = match kind.strip_suffix("status") {
        Some(kind) if kind.ends_with(char::is_whitespace) => (kind.trim_end(), true),
        _ => (kind, false),
    };
    let (dtype, extents, behind) = match kind.split_once('[') {
        None => (kind, None, ""),
        Some((dtype, rest)) => {
            let (inside, behind) = rest.rsplit_once(']').ok_or_else(|| wrong("has no \"]\" at its end"))?;
            (dtype.trim(), Some(read_extents(inside)?), behind.trim())
        }
    };
    let order = match behind.split_whitespace().collect::<Vec<_>>().as_slice() {
        [] => None,
        ["order", "C"] => Some(Order::C),
        ["order", "F"] => Some(Order::F),
        ["order", ..] => return Err(wrong("demands an order that is neither C nor F")),
        _ => return Err(wrong("has something other than an order behind its \"]\"")),
    };
    if order.is_some() && extents.as_ref().is_none_or(|e| e.len() < 2) {
        return Err(wrong("has less than two extents, so there is one order only; leave it out"));
    }
    let is_file = dtype == FILE;
    if is_file && extents.is_some() {
        return Err(wrong("is an array of files, which is not known; take one file, or several parameters"));
    }
    if is_file && way == Way::InOut {
        return Err(wrong(
            "is a file and goes both ways; a file goes in or comes out, so take two: in x:file, out y:file",
        ));
    }
    let dtype = match is_file {
        true => DType::Str,
        false => DType::parse(dtype)
            .map_err(|e| Error::bad(format!("parameter {name}: {}, or {FILE} for a file", e.text())))?,
    };
    let param = Param { name: name.to_owned(), way, dtype, extents, order, is_status, is_file };
    if is_status && !(param.is_integer_scalar() && way.comes()) {
        return Err(wrong("is no integer that comes back, which a status is"));
    }
    Ok(param)
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.len() <= limits::NAME_BYTES
}

fn read_extents(text: &str) -> Result<Vec<Extent>> {
    let extents: Vec<Extent> = text.split(',').map(read_extent).collect::<Result<_>>()?;
    if extents.len() > limits::RANK {
        return Err(Error::bad(format!(
            "[{text}] has more than {} extents; reshape the array",
            limits::RANK
        )));
    }
    Ok(extents)
}

pub(crate) fn read_extent(text: &str) -> Result<Extent> {
    let mut extent = Extent { factor: 1, names: Vec::new() };
    let mut terms = text.split('*').map(str::trim).peekable();
    while let Some(term) = terms.next() {
        // Nothing between two stars: a power.
        let times = match terms.next_if_eq(&"") {
            Some(_) => read_power(text, terms.next().unwrap_or(""))?,
            None => 1,
        };
        if let Ok(number) = term.parse::<u64>() {
            let power = number.checked_pow(times as u32);
            extent.factor = power
                .and_then(|power| extent.factor.checked_mul(power))
                .filter(|f| *f < 1 << 62)
                .ok_or_else(|| Error::bad(format!("the extent {text:?} is beyond 2^62")))?;
        } else if is_identifier(term) {
            extent.names.extend(std::iter::repeat_n(term.to_owned(), times));
        } else {
            return Err(Error::bad(format!(
                "the extent {text:?} is not a number, a name or a product such as 2*n"
            )));
        }
    }
    if extent.factor == 0 && !extent.names.is_empty() {
        return Err(Error::bad(format!("the extent {text:?} is always 0; leave the names out")));
    }
    Ok(extent)
}

fn read_power(text: &str, power: &str) -> Result<usize> {
    let number = power.parse().ok().filter(|n| (1..=POWER).contains(n));
    number.ok_or_else(|| Error::bad(format!("in {text:?}, a power is a number from 1 to {POWER}")))
}

/// What no single parameter shows: names given twice, and names in products that nothing determines.
fn check_params(params: &[Param]) -> Result<()> {
    for (i, param) in params.iter().enumerate() {
        if params[..i].iter().any(|p| p.name == param.name) {
            return Err(Error::bad(format!("two parameters are called {:?}; rename one", param.name)));
        }
        if param.is_status && params[..i].iter().any(|p| p.is_status) {
            return Err(Error::bad(format!("{} is a second status; a service has one", param.name)));
        }
        if param.extents.is_some() && param.dtype.is_text() {
            return Err(Error::bad(format!(
                "parameter {}: arrays of {} are not known; use u8[n] or one {0}",
                param.name, param.dtype
            )));
        }
    }
    let extents = || params.iter().filter_map(|p| p.extents.as_ref()).flatten();
    for name in extents().filter(|e| e.names.len() > 1).flat_map(|e| &e.names) {
        let scalar = params.iter().any(|p| p.name == *name && p.is_integer_scalar() && p.way.goes());
        let alone = extents().any(|e| e.names.len() == 1 && e.names[0] == *name);
        if !scalar && !alone {
            return Err(Error::bad(format!(
                "the extent name {name:?} stands in products only; pass it as an integer: in {name}:i64"
            )));
        }
    }
    for name in extents().flat_map(|e| &e.names) {
        let Some(param) = params.iter().find(|p| p.name == *name) else { continue };
        if !param.is_integer_scalar() || !param.way.goes() {
            return Err(Error::bad(format!(
                "the extent name {name:?} is the parameter `{param}`, which is no integer that the caller passes"
            )));
        }
    }
    Ok(())
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.factor, self.names.as_slice()) {
            (factor, []) => write!(f, "{factor}"),
            (1, names) => f.write_str(&names.join("*")),
            (factor, names) => write!(f, "{factor}*{}", names.join("*")),
        }
    }
}

impl Param {
    /// Dtype, extents and the order demanded, or that it is the status: `f64[n,m] order F`, `i32 status`.
    pub fn kind(&self) -> String {
        if self.is_file {
            return FILE.to_owned();
        }
        let Some(extents) = &self.extents else {
            return format!("{}{}", self.dtype, if self.is_status { " status" } else { "" });
        };
        let words: Vec<String> = extents.iter().map(Extent::to_string).collect();
        let order = match self.order {
            None => "",
            Some(Order::C) => " order C",
            Some(Order::F) => " order F",
        };
        format!("{}[{}]{order}", self.dtype, words.join(","))
    }
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}:{}", self.way.word(), self.name, self.kind())
    }
}

impl fmt::Display for Signature {
    /// The canonical text, which [`Signature::parse`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.params.iter().map(Param::to_string).collect();
        write!(f, "{}({})", self.name, words.join(", "))?;
        if self.effects {
            f.write_str(" effects")?;
        }
        self.cost.as_ref().map_or(Ok(()), |cost| write!(f, " cost {cost}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_text_of_a_signature_reads_back_the_same() {
        for text in [
            "nothing()",
            "dgemm(in m:i32, in n:i32, in k:i32, in a:f64[m,k], in b:f64[k,n], inout c:f64[m,n])",
            "log(in text:str, out line:i64) effects",
            "lib/fft(in n:i64, in x:c128[2*n], out y:c128[3,2*n*n])",
            "lu(inout a:f64[n,n] order F, out p:i32[n], in b:f64[n,m] order C) effects",
            "solve(inout a:f64[n,n], out info:i32 status)",
            "sim(in mesh:file, in steps:i32, out log:file) effects",
            "lu(inout a:f64[n,n], in m:i64) effects cost n*n*n + 2*m",
        ] {
            assert_eq!(Signature::parse(text).unwrap().to_string(), text);
        }
        let loose = Signature::parse("  f ( x : f64[ n , 2 * n ],in y:bytes )").unwrap();
        assert_eq!(loose.to_string(), "f(inout x:f64[n,2*n], in y:bytes)");
        let power = Signature::parse("f(in n:i64, x:f64[2*n**2]) cost  n ** 3").unwrap();
        assert_eq!(power.to_string(), "f(in n:i64, inout x:f64[2*n*n]) cost n*n*n");
    }

    #[test]
    fn a_faulty_signature_is_refused_with_its_place() {
        for (text, says) in [
            ("f", "has no \"(\""),
            ("f(x:f64", "has no \")\""),
            ("f(x:f64) twice", "other than `effects`"),
            ("f(x)", "has no \":dtype\""),
            ("f(in n:i32 status)", "no integer that comes back"),
            ("f(out x:f64 status)", "no integer that comes back"),
            ("f(out n:i32 status, out m:i32 status)", "m is a second status"),
            ("f(x:float)", "parameter x: \"float\" is not a dtype"),
            ("f(into x:f64)", "neither a direction nor a name"),
            ("f(in x:f64[n)", "has no \"]\""),
            ("f(in x:f64[n,m] order)", "neither C nor F"),
            ("f(in x:f64[n,m] order A)", "neither C nor F"),
            ("f(in x:f64[n,m] F)", "other than an order behind"),
            ("f(in x:f64[n] order F)", "one order only"),
            ("f(in x:f64[n+1])", "a product such as 2*n"),
            ("f(in x:f64[1,1,1,1,1,1,1,1,1])", "more than 8 extents"),
            ("f(in x:f64, out x:f64)", "two parameters are called \"x\""),
            ("f(in x:f64[n*m])", "in n:i64"),
            ("f(in n:f64, in x:f64[n])", "no integer that the caller passes"),
            ("f(out n:i64, in x:f64[n])", "no integer that the caller passes"),
            ("f(in x:str[n])", "arrays of str are not known"),
            ("f(in x:file[n])", "an array of files"),
            ("f(x:file)", "in x:file, out y:file"),
            ("f(inout x:file)", "goes both ways"),
            ("f(in x:file status)", "no integer that comes back"),
            ("f(in n:file, in x:f64[n])", "no integer that the caller passes"),
            ("(in x:f64)", "is empty"),
            ("f(,)", "has no \":dtype\""),
            (")(", "parentheses the wrong way"),
        ] {
            let e = Signature::parse(text).unwrap_err();
            assert!(e.text().contains(says), "{text}: {e}");
        }
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(text in "[ -~\\n]{0,80}") {
            let _ = Signature::parse(&text);
            let _ = Signature::parse(&format!("f({text})"));
        }

        #[test]
        fn what_is_read_is_written_the_same(
            params in proptest::collection::vec((0usize..3, 0usize..14, proptest::option::of(
                proptest::collection::vec((1u64..9, 0usize..3), 1..4))), 0..6)
        ) {
            let names = ["n", "m", "k"];
            let text: Vec<String> = params.iter().enumerate().map(|(i, (way, dtype, extents))| {
                if *dtype == 13 {
                    return format!("{} p{i}:file", ["in", "out"][*way % 2]);
                }
                let dtype = DType::all().nth(*dtype).unwrap();
                let extents = extents.as_ref().map(|e| {
                    let e: Vec<String> = e.iter().map(|(f, n)| format!("{f}*{}", names[*n])).collect();
                    format!("[{}]", e.join(", "))
                });
                format!("{} p{i}:{dtype}{}", ["in", "out", ""][*way], extents.unwrap_or_default())
            }).collect();
            let once = Signature::of("f", &text.join(",")).unwrap();
            let twice = Signature::parse(&once.to_string()).unwrap();
            prop_assert_eq!(once, twice);
        }
    }
}
