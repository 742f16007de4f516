//! Units as people write them, as a factor and the powers of the seven base units of SI.
//!
//! ```
//! use forebay_types::Unit;
//! let field = Unit::parse("kV/cm").unwrap();
//! assert_eq!((field.factor, field.powers), (1e5, [1.0, 1.0, -3.0, -1.0, 0.0, 0.0, 0.0]));
//! assert!(Unit::parse("degC").is_err(), "its zero is elsewhere");
//! ```
//!
//! ```text
//!  unit    = factor { [ "*" | "." | "·" | blank | "/" ] factor }        "/" is for the factor behind it alone
//!  factor  = ( symbol | number | "(" unit ")" ) [ power ]
//!  power   = [ "^" | "**" ] integer | ( "^" | "**" ) ( decimal | "(" fraction ")" ) | superscripts
//! ```
//!
//! What is not known, or has several meanings, is no unit: a wrong one is worse than none.

use crate::limits;

/// A unit: so many times the product of these powers of metre, kilogram, second, ampere, kelvin, mole and candela.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// How many of them it is.
    pub factor: f64,
    /// The powers, in the order above; whole or half.
    pub powers: [f64; 7],
}

const ONE: Unit = Unit { factor: 1.0, powers: [0.0; 7] };

/// What a symbol stands for. The last: whether prefixes of SI go before it.
type Row = (&'static [&'static str], f64, [i8; 7], bool);

const SYMBOLS: &[Row] = &[
    // Base units.
    (&["m", "meter", "metre"], 1.0, [1, 0, 0, 0, 0, 0, 0], true),
    (&["g", "gram"], 1e-3, [0, 1, 0, 0, 0, 0, 0], true),
    (&["s", "sec", "second"], 1.0, [0, 0, 1, 0, 0, 0, 0], true),
    (&["A", "ampere", "amp"], 1.0, [0, 0, 0, 1, 0, 0, 0], true),
    (&["K", "kelvin"], 1.0, [0, 0, 0, 0, 1, 0, 0], true),
    (&["mol", "mole"], 1.0, [0, 0, 0, 0, 0, 1, 0], true),
    (&["cd", "candela"], 1.0, [0, 0, 0, 0, 0, 0, 1], true),
    // Units with names.
    (&["rad", "radian", "sr", "steradian"], 1.0, [0; 7], true),
    (&["Hz", "hertz", "Bq", "becquerel"], 1.0, [0, 0, -1, 0, 0, 0, 0], true),
    (&["N", "newton"], 1.0, [1, 1, -2, 0, 0, 0, 0], true),
    (&["Pa", "pascal"], 1.0, [-1, 1, -2, 0, 0, 0, 0], true),
    (&["J", "joule"], 1.0, [2, 1, -2, 0, 0, 0, 0], true),
    (&["W", "watt"], 1.0, [2, 1, -3, 0, 0, 0, 0], true),
    (&["C", "coulomb"], 1.0, [0, 0, 1, 1, 0, 0, 0], true),
    (&["V", "volt"], 1.0, [2, 1, -3, -1, 0, 0, 0], true),
    (&["F", "farad"], 1.0, [-2, -1, 4, 2, 0, 0, 0], true),
    (&["ohm", "Ω", "\u{2126}"], 1.0, [2, 1, -3, -2, 0, 0, 0], true),
    (&["S", "siemens"], 1.0, [-2, -1, 3, 2, 0, 0, 0], true),
    (&["Wb", "weber"], 1.0, [2, 1, -2, -1, 0, 0, 0], true),
    (&["T", "tesla"], 1.0, [0, 1, -2, -1, 0, 0, 0], true),
    (&["H", "henry"], 1.0, [2, 1, -2, -2, 0, 0, 0], true),
    (&["lm", "lumen"], 1.0, [0, 0, 0, 0, 0, 0, 1], true),
    (&["lx", "lux"], 1.0, [-2, 0, 0, 0, 0, 0, 1], true),
    (&["Gy", "gray", "Sv", "sievert"], 1.0, [2, 0, -2, 0, 0, 0, 0], true),
    (&["kat", "katal"], 1.0, [0, 0, -1, 0, 0, 1, 0], true),
    // Length, area, volume.
    (&["angstrom", "Å", "\u{212b}"], 1e-10, [1, 0, 0, 0, 0, 0, 0], false),
    (&["bohr"], 5.291_772_109_03e-11, [1, 0, 0, 0, 0, 0, 0], false),
    (&["pc", "parsec"], 3.085_677_581_491_367e16, [1, 0, 0, 0, 0, 0, 0], true),
    (&["ly", "light_year"], 9.460_730_472_580_8e15, [1, 0, 0, 0, 0, 0, 0], true),
    (&["inch"], 0.0254, [1, 0, 0, 0, 0, 0, 0], false),
    (&["ft", "foot", "feet"], 0.3048, [1, 0, 0, 0, 0, 0, 0], false),
    (&["mile"], 1609.344, [1, 0, 0, 0, 0, 0, 0], false),
    (&["ha", "hectare"], 1e4, [2, 0, 0, 0, 0, 0, 0], false),
    (&["l", "L", "liter", "litre"], 1e-3, [3, 0, 0, 0, 0, 0, 0], true),
    // Time.
    (&["min", "minute"], 60.0, [0, 0, 1, 0, 0, 0, 0], false),
    (&["h", "hr", "hour"], 3600.0, [0, 0, 1, 0, 0, 0, 0], false),
    (&["d", "day"], 86_400.0, [0, 0, 1, 0, 0, 0, 0], false),
    (&["yr", "year"], 31_557_600.0, [0, 0, 1, 0, 0, 0, 0], true),
    // Mass, force, pressure.
    (&["t", "tonne"], 1e3, [0, 1, 0, 0, 0, 0, 0], false),
    (&["u", "amu", "Da", "dalton"], 1.660_539_066_60e-27, [0, 1, 0, 0, 0, 0, 0], false),
    (&["kDa"], 1.660_539_066_60e-24, [0, 1, 0, 0, 0, 0, 0], false),
    (&["lb", "pound"], 0.453_592_37, [0, 1, 0, 0, 0, 0, 0], false),
    (&["dyn", "dyne"], 1e-5, [1, 1, -2, 0, 0, 0, 0], false),
    (&["bar"], 1e5, [-1, 1, -2, 0, 0, 0, 0], true),
    (&["atm", "atmosphere"], 101_325.0, [-1, 1, -2, 0, 0, 0, 0], false),
    (&["Torr", "torr", "mmHg"], 101_325.0 / 760.0, [-1, 1, -2, 0, 0, 0, 0], false),
    (&["mTorr"], 101.325 / 760.0, [-1, 1, -2, 0, 0, 0, 0], false),
    (&["psi"], 6_894.757_293_168_361, [-1, 1, -2, 0, 0, 0, 0], false),
    // Energy, charge.
    (&["eV", "electron_volt"], 1.602_176_634e-19, [2, 1, -2, 0, 0, 0, 0], true),
    (&["cal", "calorie"], 4.184, [2, 1, -2, 0, 0, 0, 0], true),
    (&["erg"], 1e-7, [2, 1, -2, 0, 0, 0, 0], false),
    (&["hartree", "Eh"], 4.359_744_722_207_1e-18, [2, 1, -2, 0, 0, 0, 0], false),
    (&["e"], 1.602_176_634e-19, [0, 0, 1, 1, 0, 0, 0], false),
    (&["gauss"], 1e-4, [0, 1, -2, -1, 0, 0, 0], false),
    // Numbers.
    (&["dimensionless"], 1.0, [0; 7], false),
    (&["%", "percent"], 1e-2, [0; 7], false),
    (&["‰", "permille"], 1e-3, [0; 7], false),
    (&["ppm"], 1e-6, [0; 7], false),
    (&["deg", "°", "degree"], std::f64::consts::PI / 180.0, [0; 7], false),
    (&["degrees_north", "degrees_east"], std::f64::consts::PI / 180.0, [0; 7], false),
    (&["arcmin", "arcminute"], std::f64::consts::PI / 10_800.0, [0; 7], false),
    (&["arcsec", "arcsecond"], std::f64::consts::PI / 648_000.0, [0; 7], false),
];

/// Their zero is elsewhere, or they count by powers.
const NOT_LINEAR: &[&str] = &[
    "degC",
    "°C",
    "degree_C",
    "degrees_C",
    "celsius",
    "Celsius",
    "degree_Celsius",
    "degF",
    "°F",
    "fahrenheit",
    "Fahrenheit",
    "dB",
    "dBm",
    "dBZ",
    "dBi",
    "Np",
    "bel",
    "pH",
    "mag",
];

/// People mean something else by these than symbol and prefix say.
const AMBIGUOUS: &[&str] = &["kT", "Gs"];

/// Long names of prefixes are before long names of units alone, short ones before symbols.
const PREFIXES: &[(&str, &str, f64)] = &[
    ("Q", "quetta", 1e30),
    ("R", "ronna", 1e27),
    ("Y", "yotta", 1e24),
    ("Z", "zetta", 1e21),
    ("E", "exa", 1e18),
    ("P", "peta", 1e15),
    ("T", "tera", 1e12),
    ("G", "giga", 1e9),
    ("M", "mega", 1e6),
    ("k", "kilo", 1e3),
    ("h", "hecto", 1e2),
    ("da", "deca", 1e1),
    ("d", "deci", 1e-1),
    ("c", "centi", 1e-2),
    ("m", "milli", 1e-3),
    ("u", "micro", 1e-6),
    ("\u{b5}", "micro", 1e-6),
    ("\u{3bc}", "micro", 1e-6),
    ("n", "nano", 1e-9),
    ("p", "pico", 1e-12),
    ("f", "femto", 1e-15),
    ("a", "atto", 1e-18),
    ("z", "zepto", 1e-21),
    ("y", "yocto", 1e-24),
    ("r", "ronto", 1e-27),
    ("q", "quecto", 1e-30),
];

impl Unit {
    /// Reads a unit; the error says in a few words why it is none.
    pub fn parse(text: &str) -> Result<Unit, &'static str> {
        if text.len() > limits::UNIT_BYTES {
            return Err("too long");
        }
        if let Some(why) = refused(text.trim()) {
            return Err(why);
        }
        let letters: Vec<char> = text.trim().chars().collect();
        let mut parser = Parser { rest: &letters, depth: 0 };
        let unit = parser.product()?;
        match parser.rest {
            [] if unit.factor.is_finite() && unit.factor > 0.0 => Ok(unit),
            _ => Err("not known"),
        }
    }

    /// Whether it is a length.
    pub fn is_length(&self) -> bool {
        self.powers == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    }

    fn times(mut self, other: Unit, power: f64) -> Unit {
        self.factor *= other.factor.powf(power);
        self.powers.iter_mut().zip(other.powers).for_each(|(own, p)| *own += p * power);
        self
    }
}

fn refused(word: &str) -> Option<&'static str> {
    if NOT_LINEAR.contains(&word) {
        return Some("not linear");
    }
    AMBIGUOUS.contains(&word).then_some("not known")
}

fn is_letter(c: char) -> bool {
    c.is_alphabetic() || matches!(c, '_' | '%' | '°' | '‰' | '\u{b5}' | '\u{2126}' | '\u{212b}')
}

/// Reads from the left; brackets are not nested deeper than a unit is long.
struct Parser<'a> {
    rest: &'a [char],
    depth: usize,
}

impl Parser<'_> {
    fn blanks(&mut self) -> bool {
        let n = self.rest.iter().take_while(|c| c.is_whitespace()).count();
        self.rest = &self.rest[n..];
        n > 0
    }

    fn takes(&mut self, what: &str) -> bool {
        let n = what.chars().count();
        let found = self.rest.len() >= n && what.chars().zip(self.rest).all(|(a, b)| a == *b);
        if found {
            self.rest = &self.rest[n..];
        }
        found
    }

    fn product(&mut self) -> Result<Unit, &'static str> {
        let mut unit = self.factor()?;
        loop {
            let apart = self.blanks();
            let over = self.takes("/");
            let times = !over && (self.takes("*") || self.takes("·") || self.takes("⋅") || self.takes("."));
            self.blanks();
            match self.rest.first() {
                None if !over && !times => return Ok(unit),
                Some(')') if !over && !times && self.depth > 0 => return Ok(unit),
                Some(_) if over || times || apart => {
                    unit = unit.times(self.factor()?, if over { -1.0 } else { 1.0 });
                }
                _ => return Err("not known"),
            }
        }
    }

    fn factor(&mut self) -> Result<Unit, &'static str> {
        let (unit, is_symbol) = match self.rest.first() {
            Some('(') => {
                self.rest = &self.rest[1..];
                self.depth += 1;
                self.blanks();
                let unit = self.product()?;
                self.depth -= 1;
                if !self.takes(")") {
                    return Err("not known");
                }
                (unit, false)
            }
            Some(c) if c.is_ascii_digit() => (Unit { factor: self.number()?, ..ONE }, false),
            Some(c) if is_letter(*c) => (self.symbol()?, true),
            _ => return Err("not known"),
        };
        match self.power(is_symbol)? {
            Some(power) => Ok(ONE.times(unit, power)),
            None => Ok(unit),
        }
    }

    fn symbol(&mut self) -> Result<Unit, &'static str> {
        let n = self.rest.iter().take_while(|c| is_letter(**c)).count();
        let word: String = self.rest[..n].iter().collect();
        self.rest = &self.rest[n..];
        lookup(&word)
    }

    /// A number without a sign: `10`, `1.5`, `1e-3`.
    fn number(&mut self) -> Result<f64, &'static str> {
        let mut n = self.rest.iter().take_while(|c| c.is_ascii_digit()).count();
        let digits_from = |at: usize, rest: &[char]| {
            rest.get(at..).map_or(0, |r| r.iter().take_while(|c| c.is_ascii_digit()).count())
        };
        if self.rest.get(n) == Some(&'.') && digits_from(n + 1, self.rest) > 0 {
            n += 1 + digits_from(n + 1, self.rest);
        }
        if matches!(self.rest.get(n), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.rest.get(n + 1), Some('-' | '+')));
            let digits = digits_from(n + 1 + sign, self.rest);
            n += if digits > 0 { 1 + sign + digits } else { 0 };
        }
        let text: String = self.rest[..n].iter().collect();
        self.rest = &self.rest[n..];
        text.parse().map_err(|_| "not known")
    }

    fn power(&mut self, is_symbol: bool) -> Result<Option<f64>, &'static str> {
        if let Some(power) = self.superscripts()? {
            return whole_or_half(power).map(Some);
        }
        if self.takes("**") || self.takes("^") {
            self.blanks();
            let in_brackets = self.takes("(");
            let mut power = self.signed()?;
            if in_brackets {
                if self.takes("/") {
                    power /= self.signed()?;
                }
                if !self.takes(")") {
                    return Err("not known");
                }
            }
            return whole_or_half(power).map(Some);
        }
        // As in m2 and s-1.
        let sign = usize::from(matches!(self.rest.first(), Some('-' | '+')));
        if is_symbol && self.rest.get(sign).is_some_and(char::is_ascii_digit) {
            let power = self.signed()?;
            return match power.fract() == 0.0 {
                true => whole_or_half(power).map(Some),
                false => Err("not known"),
            };
        }
        Ok(None)
    }

    fn signed(&mut self) -> Result<f64, &'static str> {
        let sign = if self.takes("-") {
            -1.0
        } else {
            self.takes("+");
            1.0
        };
        match self.rest.first() {
            Some(c) if c.is_ascii_digit() => Ok(sign * self.number()?),
            _ => Err("not known"),
        }
    }

    fn superscripts(&mut self) -> Result<Option<f64>, &'static str> {
        const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
        let minus = self.rest.first() == Some(&'⁻');
        let digits: Vec<usize> = self.rest[usize::from(minus)..]
            .iter()
            .map_while(|c| DIGITS.iter().position(|d| d == c))
            .collect();
        if digits.is_empty() {
            return if minus { Err("not known") } else { Ok(None) };
        }
        self.rest = &self.rest[usize::from(minus) + digits.len()..];
        let value = digits.iter().fold(0.0, |value, digit| value * 10.0 + *digit as f64);
        Ok(Some(if minus { -value } else { value }))
    }
}

/// Powers are whole or half, and not larger than any that is meant.
fn whole_or_half(power: f64) -> Result<f64, &'static str> {
    match (power * 2.0).fract() == 0.0 && power.abs() <= 30.0 {
        true => Ok(power),
        false => Err("not known"),
    }
}

fn lookup(word: &str) -> Result<Unit, &'static str> {
    if let Some(why) = refused(word) {
        return Err(why);
    }
    let rows = || {
        SYMBOLS.iter().flat_map(|(names, factor, powers, prefixed)| {
            names.iter().map(move |name| (*name, *factor, powers.map(f64::from), *prefixed))
        })
    };
    let is_long = |name: &str| name.chars().count() > 3 && name.is_ascii();
    let names =
        |name: &str, word: &str| word == name || is_long(name) && word.strip_suffix('s') == Some(name);
    if let Some((_, factor, powers, _)) = rows().find(|row| names(row.0, word)) {
        return Ok(Unit { factor, powers });
    }
    for (short, long, ten) in PREFIXES {
        for (prefix, wants_long) in [(long, true), (short, false)] {
            let Some(rest) = word.strip_prefix(prefix) else { continue };
            let fits = |row: &(&str, f64, [f64; 7], bool)| {
                row.3 && is_long(row.0) == wants_long && names(row.0, rest)
            };
            if let Some((_, factor, powers, _)) = rows().find(fits) {
                return Ok(Unit { factor: ten * factor, powers });
            }
        }
    }
    Err("not known")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) {
        let (one, other) = (Unit::parse(a), Unit::parse(b));
        let (one, other) = (one.unwrap_or_else(|e| panic!("{a}: {e}")), other.unwrap());
        assert!((one.factor / other.factor - 1.0).abs() < 1e-12, "{a}: {one:?}, {b}: {other:?}");
        assert_eq!(one.powers, other.powers, "{a}, {b}");
    }

    #[test]
    fn one_unit_may_be_written_in_many_ways() {
        for way in ["kg m-2 s-1", "kg/m^2/s", "kg*m**-2*s**-1", "kg.m-2.s-1", "kg m⁻² s⁻¹", "kg/(m^2 s)"]
        {
            same(way, "1e3 g m-2 s-1");
        }
        same("V/m", "N/C");
        same("volts / meter", "kg m s-3 A-1");
        same("µm", "\u{3bc}m");
        same("micrometers", "um");
        same("nanoseconds", "ns");
        same("T^(1/2)", "T**0.5");
        same("1/cm^3", "1e6 m-3");
        same("%", "0.01");
        same("1", "dimensionless");
        same("kcal/mol", "4184 J mol-1");
        same("hPa", "mbar");
        same("daN", "10 N");
        same("min", "60 s");
    }

    #[test]
    fn what_is_not_known_or_not_linear_or_has_two_meanings_is_no_unit() {
        for (text, why) in [("degC", "not linear"), ("dB", "not linear"), ("J/degC", "not linear")] {
            assert_eq!(Unit::parse(text), Err(why), "{text}");
        }
        for text in [
            "",
            " ",
            "furlong",
            "m//s",
            "m/",
            "/m",
            "m^",
            "m^x",
            "(m",
            "m)",
            "m^(1/3)",
            "m^99",
            "seconds since 1970-01-01",
            "m_e c",
            "kT",
            "au",
            "mu",
            "me",
            "m - s",
            "-1",
            "0",
            "1e999 m",
            "m^1e9",
            "((((((((",
            "km/",
            "Kelvin",
            "mm2.5",
        ] {
            assert_eq!(Unit::parse(text), Err("not known"), "{text}");
        }
        assert!(Unit::parse(&"m".repeat(65)).is_err());
    }

    #[test]
    fn no_symbol_with_a_prefix_is_another_symbol() {
        let all: Vec<_> = SYMBOLS.iter().flat_map(|row| row.0.iter().map(move |name| (*name, row))).collect();
        for (name, row) in &all {
            for (short, _, _) in PREFIXES.iter().filter(|_| row.3) {
                let word = format!("{short}{name}");
                assert!(all.iter().all(|(other, _)| *other != word), "{word} is {name} with a prefix, too");
            }
        }
    }
}
