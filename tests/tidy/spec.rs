//! spec/wire.md says what the code does: numbers that stand in both are compared.

use crate::judge;
use crate::tree::{File, files};

const PAGE: &str = "spec/wire.md";

fn file(path: &str) -> &'static File {
    files().iter().find(|f| f.path == path).unwrap_or_else(|| panic!("{path} is not tracked"))
}

/// Constants of a type in a source file: `pub const NAME: u16 = 0x10;`.
fn constants(path: &str, kind: &str) -> Vec<(String, u64)> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let named = |line: &str| {
        let (name, value) = line.trim().strip_prefix("pub const ")?.split_once(&format!(": {kind} = "))?;
        Some((name.to_owned(), number(value.trim_end_matches(';'))?))
    };
    file(path).text.lines().filter_map(named).collect()
}

/// `STEP_BEGIN` -> `StepBegin`.
fn camel(name: &str) -> String {
    let word = |w: &str| w.chars().take(1).chain(w.to_lowercase().chars().skip(1)).collect::<String>();
    name.split('_').map(word).collect()
}

#[test]
fn every_kind_of_record_has_its_row() {
    let page = file(PAGE);
    let mut breaches = Vec::new();
    for (name, number) in constants("crates/types/src/record.rs", "u16") {
        let row = format!("| {number} | {} |", camel(&name));
        if !page.text.contains(&row) {
            breaches.push(format!("{PAGE} has no row `{row} ...`: draw the record there"));
        }
    }
    judge("every kind of record is drawn:", breaches);
}

#[test]
fn every_dtype_has_its_code() {
    // A row of the table: `F16 = 16: "f16", Float(f16), "<f2";`
    let row = |line: &str| {
        let (_, row) = line.trim().split_once(" = ")?;
        let (code, row) = row.split_once(": \"")?;
        Some((code.parse::<u32>().ok()?.to_string(), row.split_once('"')?.0.to_owned()))
    };
    let known: Vec<_> = file("crates/types/src/dtype.rs").text.lines().filter_map(row).collect();
    assert!(known.len() >= 16, "the table of dtypes is written otherwise: {known:?}");
    let cells = |of: &dyn Fn(&(String, String)) -> &String| {
        known.iter().map(|row| format!("| {} ", of(row))).collect::<String>() + "|"
    };
    let rows = [cells(&|row| &row.0), cells(&|row| &row.1)];
    let lacking = rows.into_iter().filter(|row| !file(PAGE).lines().any(|(_, l)| l == row));
    let breaches = lacking.map(|row| format!("{PAGE} has no row `{row}`: write it there")).collect();
    judge("every dtype has its code:", breaches);
}

#[test]
fn every_kind_of_frame_has_its_row() {
    let page = file(PAGE);
    let mut breaches = Vec::new();
    let control = constants("crates/link/src/frame.rs", "u16").into_iter().map(|(n, k)| (n, k.to_string()));
    let calls = constants("crates/types/src/call.rs", "u16").into_iter().map(|(n, k)| (n, format!("{k:#x}")));
    for (name, number) in control.chain(calls) {
        if !page.lines().any(|(_, l)| l.starts_with(&format!("| {number} | "))) {
            breaches.push(format!("{PAGE} has no row for the frame {name} of kind {number}"));
        }
    }
    judge("every kind of frame is drawn:", breaches);
}

#[test]
fn the_version_drawn_is_the_version_spoken() {
    let spoken = constants("crates/types/src/control.rs", "u32");
    let (_, version) = spoken.iter().find(|(n, _)| n == "WIRE_VERSION").expect("control.rs has WIRE_VERSION");
    assert!(
        file(PAGE).text.contains(&format!("Version **{version}**")),
        "{PAGE} does not say \"Version **{version}**\": draw the new version, then change the number"
    );
}

#[test]
fn constants_read_as_names() {
    assert_eq!(camel("STEP_BEGIN"), "StepBegin");
    assert!(constants("crates/types/src/record.rs", "u16").contains(&("PUT".into(), 1)));
}
