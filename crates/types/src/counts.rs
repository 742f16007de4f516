//! Numbers of things in messages.

use std::fmt::Display;

/// `1 rank`, `2 ranks`: a number with the word for one of what it counts, which takes an s for more.
///
/// ```
/// use forebay_types::counted;
/// assert_eq!([counted(0, "row"), counted(1, "row"), counted(2, "row")], ["0 rows", "1 row", "2 rows"]);
/// ```
pub fn counted(n: impl Display, one: &str) -> String {
    let n = n.to_string();
    let end = if n == "1" { "" } else { "s" };
    format!("{n} {one}{end}")
}
