//! Relational tables with typed columns and units.

use forebay_types::Result;
use forebay_types::control::Column;
use forebay_types::record::Cell;
use serde_json::{Map, Value};

use crate::snapshot::pending;

/// How a table is made.
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// Its columns; empty to open an existing table.
    pub columns: Vec<Column>,
    /// Whether rows belong to the step they were made in and go when a restart goes back.
    pub history: bool,
}

/// Rows as they were read.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Rows {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The cells, row by row.
    pub rows: Vec<Vec<Cell>>,
}

/// A table of a run. Cheap to clone.
#[derive(Clone)]
pub struct Table {
    _private: (),
}

impl Table {
    /// Its name.
    pub fn name(&self) -> &str {
        ""
    }

    /// Its columns.
    pub fn columns(&self) -> &[Column] {
        &[]
    }

    /// Whether rows go when a restart goes back.
    pub fn history(&self) -> bool {
        false
    }

    /// Adds rows, each with a cell for every column in their order. Pipelined; durable at flush.
    pub fn insert(&self, rows: &[Vec<Cell>]) -> Result<()> {
        let _ = rows;
        pending()
    }

    /// Reads rows, in the order they came, where an SQL condition with `?` holds (empty: all);
    /// all columns, or those named.
    pub fn select(&self, columns: &[&str], condition: &str, args: &[Value]) -> Result<Rows> {
        let _ = (columns, condition, args);
        pending()
    }

    /// Changes rows where the condition holds; returns how many.
    pub fn update(&self, set: Map<String, Value>, condition: &str, args: &[Value]) -> Result<u64> {
        let _ = (set, condition, args);
        pending()
    }

    /// Removes rows where the condition holds; returns how many.
    pub fn delete(&self, condition: &str, args: &[Value]) -> Result<u64> {
        let _ = (condition, args);
        pending()
    }

    /// Number of rows.
    pub fn len(&self) -> Result<u64> {
        pending()
    }
}
