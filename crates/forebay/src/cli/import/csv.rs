//! A table from a file of RFC 4180: the first line has the names, and the types are those of all values. It is read
//! twice: for the types, and for the rows.

use super::Importing;
use forebay::{Cell, Column, Error, Result, TableOptions};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Largest integer up to which a float holds all.
const EXACT: u64 = 1 << 53;

/// A value as it stands there.
#[derive(Debug, PartialEq)]
struct Field {
    text: String,
    is_quoted: bool,
}

impl Field {
    fn has_value(&self) -> bool {
        self.is_quoted || !self.text.is_empty()
    }
}

/// Lines of a file, of which a quoted value may have several.
struct Records<R> {
    from: R,
    line: u64,
}

impl<R: BufRead> Records<R> {
    fn new(from: R) -> Records<R> {
        Records { from, line: 0 }
    }

    fn wrong(&self, why: &str) -> Error {
        Error::bad(format!("line {}: {why}; write it as RFC 4180 has it, in UTF-8, with commas", self.line))
    }

    fn next(&mut self) -> Result<Option<Vec<Field>>> {
        let (mut text, mut quotes) = (String::new(), 0);
        loop {
            let begin = text.len();
            let read = self.from.read_line(&mut text).map_err(|e| match e.kind() {
                std::io::ErrorKind::InvalidData => self.wrong("it is not UTF-8"),
                _ => Error::io("cannot read it", e),
            })?;
            self.line += 1;
            quotes += text[begin..].bytes().filter(|b| *b == b'"').count();
            let is_open = quotes % 2 == 1;
            match (read, is_open) {
                (0, true) => return Err(self.wrong("a quotation mark is not closed")),
                (0, false) if text.is_empty() => return Ok(None),
                (_, true) => {}
                (_, false) => break,
            }
        }
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        self.fields(text).map(Some)
    }

    fn fields(&self, mut rest: &str) -> Result<Vec<Field>> {
        let mut fields = Vec::new();
        loop {
            let (field, behind) = match rest.strip_prefix('"') {
                None => {
                    let end = rest.find(',').unwrap_or(rest.len());
                    if rest[..end].contains('"') {
                        return Err(
                            self.wrong("a quotation mark stands within a value that has none in front")
                        );
                    }
                    (Field { text: rest[..end].to_owned(), is_quoted: false }, &rest[end..])
                }
                Some(mut inside) => {
                    let mut text = String::new();
                    loop {
                        let end =
                            inside.find('"').ok_or_else(|| self.wrong("a quotation mark is not closed"))?;
                        text.push_str(&inside[..end]);
                        inside = &inside[end + 1..];
                        match inside.strip_prefix('"') {
                            Some(more) => {
                                text.push('"');
                                inside = more;
                            }
                            None => break,
                        }
                    }
                    (Field { text, is_quoted: true }, inside)
                }
            };
            fields.push(field);
            match behind.strip_prefix(',') {
                Some(more) => rest = more,
                None if behind.is_empty() => return Ok(fields),
                None => {
                    return Err(self.wrong("something stands behind a quotation mark that closes a value"));
                }
            }
        }
    }
}

/// Which types the values of a column can have.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    signed: bool,
    unsigned: bool,
    float: bool,
}

impl Kinds {
    fn see(&mut self, field: &Field) {
        if !field.has_value() {
            return;
        }
        let text = &field.text;
        let digits = text.trim_start_matches(['-', '+']);
        // 007 is a name and no number.
        let is_padded =
            digits.strip_prefix('0').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let is_plain = !field.is_quoted && !is_padded;
        let is_integer = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let exact = !is_integer || digits.parse::<u64>().is_ok_and(|n| n <= EXACT);
        self.signed &= is_plain && text.parse::<i64>().is_ok();
        self.unsigned &= is_plain && text.parse::<u64>().is_ok();
        self.float &= is_plain && exact && text.parse::<f64>().is_ok();
    }

    fn dtype(self) -> &'static str {
        match self {
            Kinds { signed: true, .. } => "i64",
            Kinds { unsigned: true, .. } => "u64",
            Kinds { float: true, .. } => "f64",
            _ => "str",
        }
    }
}

fn cell(field: Field, dtype: &str) -> Option<Cell> {
    if !field.has_value() {
        return Some(Cell::Null);
    }
    Some(match dtype {
        "i64" => Cell::Int(field.text.parse().ok()?),
        "u64" => Cell::unsigned(field.text.parse().ok()?),
        "f64" => Cell::Real(field.text.parse().ok()?),
        _ => Cell::Text(field.text),
    })
}

/// Imports it.
pub fn read(job: &mut Importing, path: &Path) -> Result<()> {
    let name = job.name_of(path);
    job.check_table(&name)?;
    let open = || -> Result<Records<BufReader<File>>> {
        let file = File::open(path).map_err(|e| Error::io("cannot read it", e))?;
        Ok(Records::new(BufReader::with_capacity(1 << 20, file)))
    };
    let mut records = open()?;
    let names = heads(&mut records)?;
    let mut kinds = vec![Kinds { signed: true, unsigned: true, float: true }; names.len()];
    let mut has_values = vec![false; names.len()];
    while let Some(fields) = records.next()? {
        job.interrupt.check()?;
        if fields.len() != names.len() {
            return Err(records.wrong(&format!(
                "it has {} values, and there are {} columns",
                fields.len(),
                names.len()
            )));
        }
        for (at, field) in fields.iter().enumerate() {
            kinds[at].see(field);
            has_values[at] |= field.has_value();
        }
    }
    let dtypes: Vec<&str> =
        kinds.iter().zip(&has_values).map(|(kinds, has)| if *has { kinds.dtype() } else { "f64" }).collect();
    let column = |(name, dtype): (&String, &&str)| Column {
        name: name.clone(),
        dtype: (*dtype).to_owned(),
        ..Default::default()
    };
    let columns: Vec<Column> = names.iter().zip(&dtypes).map(column).collect();
    let table = job.run.table(&name, TableOptions { columns, history: false })?;
    let mut records = open()?;
    records.next()?;
    job.fill(&table, &name, || {
        let Some(fields) = records.next()? else { return Ok(None) };
        let row: Option<Vec<Cell>> =
            fields.into_iter().zip(&dtypes).map(|(field, dtype)| cell(field, dtype)).collect();
        let row = row.filter(|r| r.len() == names.len());
        let row = row.ok_or_else(|| records.wrong("the file was changed while it was read"))?;
        Ok(Some((None, row)))
    })
}

/// The names of the columns.
fn heads(records: &mut Records<impl BufRead>) -> Result<Vec<String>> {
    let first = records
        .next()?
        .ok_or_else(|| Error::bad("the file is empty; its first line has the names of the columns"))?;
    let mut names: Vec<String> = first.into_iter().map(|field| field.text.trim().to_owned()).collect();
    if let Some(first) = names.first_mut() {
        *first = first.trim_start_matches('\u{feff}').to_owned();
    }
    if names.iter().any(String::is_empty) {
        return Err(records.wrong("a column has no name"));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<Vec<Field>>> {
        let mut records = Records::new(text.as_bytes());
        std::iter::from_fn(|| records.next().transpose()).collect()
    }

    fn field(text: &str, is_quoted: bool) -> Field {
        Field { text: text.to_owned(), is_quoted }
    }

    #[test]
    fn values_are_read_as_they_are_written_with_quotation_marks_or_without() {
        let found = all("a,\"b \"\"c\"\"\",\r\n\"two\nlines\",\"\",1\n").unwrap();
        assert_eq!(found[0], [field("a", false), field("b \"c\"", true), field("", false)]);
        assert_eq!(found[1], [field("two\nlines", true), field("", true), field("1", false)]);
        for (bad, said) in [
            ("\"a", "line 2: a quotation mark is not closed"),
            ("a\"\"b,1", "within a value"),
            ("\"a\"b", "behind a quotation mark"),
        ] {
            assert!(all(bad).unwrap_err().text().contains(said), "{bad}");
        }
    }

    #[test]
    fn the_type_of_a_column_is_one_that_keeps_every_value() {
        let dtype = |texts: &[&str]| {
            let mut kinds = Kinds { signed: true, unsigned: true, float: true };
            texts.iter().for_each(|text| kinds.see(&field(text, false)));
            kinds.dtype()
        };
        assert_eq!(dtype(&["1", "-2", ""]), "i64");
        assert_eq!(dtype(&["1", "18446744073709551615"]), "u64");
        assert_eq!(dtype(&["1", "2.5", "-inf", "nan", "1e3"]), "f64");
        assert_eq!(dtype(&["1", "x"]), "str");
        assert_eq!(dtype(&["007"]), "str");
        assert_eq!(dtype(&["0", "0.5"]), "f64");
        // A float would not keep it.
        assert_eq!(dtype(&["0.5", "18446744073709551615"]), "str");
        assert_eq!(dtype(&["-1", "18446744073709551615"]), "str");
    }
}
