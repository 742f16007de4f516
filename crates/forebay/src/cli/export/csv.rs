//! Tables and histories as RFC 4180 has them: the names of the columns, then a line for each row. What has no value is
//! nothing, an empty text is `""`. The elements of an array have a column each: `v_0`, `v_1`, of two axes `m_0_0`, `m_0_1`.

use super::super::choice::{RowsOf, Spread, histories};
use super::{Exporting, wrong};
use forebay::{Cell, Error, Result, TableOptions};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A table, or a history.
enum Tabular {
    Table(String),
    History(String),
}

fn chosen(job: &Exporting) -> Result<Vec<Tabular>> {
    let tables = job.run.tables()?.into_iter().filter(|name| job.choice.takes(name)).map(Tabular::Table);
    let mut all: Vec<Tabular> = tables.collect();
    all.extend(histories(job.run)?.into_iter().filter(|title| job.choice.takes(title)).map(Tabular::History));
    if !job.choice.outside() {
        return Err(Error::bad(
            "--steps chooses snapshots, and csv has tables only; leave it out, or export --to text",
        ));
    }
    match all.is_empty() {
        true => Err(job.choice.nothing(job.place)),
        false => Ok(all),
    }
}

/// What it is called unless somebody says it: one table is a file, several are a directory.
pub fn target(job: &Exporting) -> Result<PathBuf> {
    Ok(match &chosen(job)?[..] {
        [one] => PathBuf::from(file_name(one, &[])),
        _ => PathBuf::from(format!("{}_csv", job.stem())),
    })
}

/// Whether a directory is one of these.
pub fn is_ours(dir: &Path) -> bool {
    let is_csv = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|e| e.path().extension().is_some_and(|ending| ending == "csv"))
    };
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.all(is_csv))
}

/// A name that is free, and leads nowhere else.
fn file_name(source: &Tabular, taken: &[String]) -> String {
    let (Tabular::Table(name) | Tabular::History(name)) = source;
    let plain: String = name.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
    let mut stem = plain.trim_start_matches('.').to_owned();
    while stem.is_empty() || taken.iter().any(|t| *t == format!("{stem}.csv")) {
        stem.push('_');
    }
    format!("{stem}.csv")
}

/// Writes a file, or a directory of them.
pub fn write(job: &Exporting, path: &Path) -> Result<Value> {
    let all = chosen(job)?;
    let mut rows = 0;
    if let [one] = &all[..] {
        rows += write_one(job, one, path)?;
    } else {
        std::fs::create_dir(path).map_err(|e| Error::io(format!("cannot make {}", path.display()), e))?;
        let mut taken = Vec::new();
        for one in &all {
            let name = file_name(one, &taken);
            rows += write_one(job, one, &path.join(&name))?;
            taken.push(name);
        }
    }
    Ok(json!({"tables": all.len(), "rows": rows}))
}

fn write_one(job: &Exporting, source: &Tabular, path: &Path) -> Result<u64> {
    let mut file = BufWriter::new(File::create(path).map_err(|e| wrong(path, e))?);
    let mut rows = 0;
    match source {
        Tabular::Table(name) => {
            let table = job.run.table(name, TableOptions::default())?;
            let spread = Spread::new(&table, |name, indices| {
                indices.iter().fold(name.to_owned(), |name, index| format!("{name}_{index}"))
            })?;
            check_names(name, &spread.names)?;
            let names: Vec<Cell> = spread.names.iter().cloned().map(Cell::Text).collect();
            line(&mut file, &names).map_err(|e| wrong(path, e))?;
            let mut all = RowsOf::new(&table);
            while let Some(cells) = all.next()? {
                job.interrupt.check()?;
                line(&mut file, &spread.cells(cells)).map_err(|e| wrong(path, e))?;
                rows += 1;
            }
        }
        Tabular::History(title) => {
            let columns = job.run.history(title)?;
            let names: Vec<Cell> = columns.iter().map(|c| Cell::Text(c.name.clone())).collect();
            line(&mut file, &names).map_err(|e| wrong(path, e))?;
            for row in 0..columns[0].len() {
                job.interrupt.check()?;
                let cells: Vec<Cell> = columns.iter().map(|c| c.cell(row)).collect();
                line(&mut file, &cells).map_err(|e| wrong(path, e))?;
                rows += 1;
            }
        }
    }
    file.flush().map_err(|e| wrong(path, e))?;
    Ok(rows)
}

/// Elements of arrays have names of their own; two columns of one name are told apart by nobody.
fn check_names(table: &str, names: &[String]) -> Result<()> {
    let mut seen = BTreeSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        None => Ok(()),
        Some(twice) => Err(Error::bad(format!(
            "the table {table:?} would have two columns {twice:?}, for the elements of an array have a column each; \
             export --to text keeps arrays whole"
        ))),
    }
}

fn line(file: &mut impl Write, cells: &[Cell]) -> std::io::Result<()> {
    let texts: Vec<String> = cells.iter().map(cell).collect();
    let mut text = texts.join(",");
    text.push_str("\r\n");
    file.write_all(text.as_bytes())
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Int(v) => v.to_string(),
        Cell::Unsigned(v) => v.to_string(),
        // What has no value and what is no number are one in a column of floats.
        Cell::Real(v) if v.is_nan() => String::new(),
        Cell::Real(v) => format!("{v:?}"),
        Cell::Text(v) if v.is_empty() || v.contains(['"', ',', '\n', '\r']) || v.trim() != v => {
            format!("\"{}\"", v.replace('"', "\"\""))
        }
        Cell::Text(v) => v.clone(),
        Cell::Blob(v) => v.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_by_whoever_reads_csv() {
        let mut out = Vec::new();
        let cells = [
            Cell::Null,
            Cell::Unsigned(u64::MAX),
            Cell::Real(0.1),
            Cell::Real(f64::NAN),
            Cell::Text("a,\"b\"".into()),
            Cell::Text(String::new()),
            Cell::Blob(vec![0, 255]),
        ];
        line(&mut out, &cells).unwrap();
        assert_eq!(out, b",18446744073709551615,0.1,,\"a,\"\"b\"\"\",\"\",0x00ff\r\n");
    }

    #[test]
    fn a_table_gets_a_file_beside_others_and_nowhere_else() {
        let name = |title: &str, taken: &[String]| file_name(&Tabular::History(title.to_owned()), taken);
        assert_eq!(name("../a/b", &[]), "_a_b.csv");
        assert_eq!(name("a", &["a.csv".to_owned()]), "a_.csv");
        assert_eq!(name("..", &[]), "_.csv");
    }
}
