//! Bytes as the text form of a run: what is read can be written, and is read again as the same.

use forebay_types::ArrayMeta;
use forebay_types::control::Column;
use forebay_types::neutral::{ArrayHead, END, ElementLines, FIRST, LAST, Section, SectionReader, section};

pub fn neutral(bytes: &[u8]) {
    let Ok(mut reader) = SectionReader::new(bytes) else { return };
    while let Ok(Some(part)) = reader.section() {
        match part {
            Section::DataSet(head) | Section::Array(head) => {
                let Ok(meta) = head.meta() else { return };
                let Ok(elements) = reader.elements(&meta) else { return };
                let mut text = format!("{FIRST}\n");
                text += &section("array", &ArrayHead { set: 0, ..head }).expect("JSON");
                let mut lines = ElementLines::new(&meta);
                lines.put(&elements, &mut text);
                lines.end(&mut text);
                text += &format!("{END}\n{LAST}\n");
                let mut again = SectionReader::new(text.as_bytes()).expect("a text");
                assert!(matches!(again.section(), Ok(Some(Section::Array(_)))), "{text}");
                assert_eq!(again.elements(&meta).as_ref(), Ok(&elements), "{text}");
                assert_eq!(again.section(), Ok(None), "{text}");
            }
            Section::Table(head) | Section::History(head) => {
                let metas: Result<Vec<ArrayMeta>, _> = head.columns.iter().map(Column::meta).collect();
                let Ok(metas) = metas else { return };
                while let Ok(Some(_)) = reader.row(&metas) {}
            }
            Section::Run(_) | Section::Snapshot(_) => {}
        }
    }
}
