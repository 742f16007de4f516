//! What is written in the text form is read as it was.

use super::*;
use crate::record::Cell;

fn written(meta: &ArrayMeta, bytes: &[u8], cut: usize) -> String {
    let mut out = format!("{FIRST}\n{}", section("array", &ArrayHead::new("a", meta)).unwrap());
    let mut lines = ElementLines::new(meta);
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    lines.put(first, &mut out);
    lines.put(second, &mut out);
    lines.end(&mut out);
    out + END + "\n" + LAST + "\n"
}

fn read(text: &str) -> Result<Vec<u8>> {
    let mut reader = SectionReader::new(text.as_bytes())?;
    let Some(Section::Array(head)) = reader.section()? else { panic!("{text}") };
    let found = reader.elements(&head.meta()?)?;
    assert_eq!(reader.section()?, None);
    Ok(found)
}

#[test]
fn an_array_comes_back_to_the_bit_in_whatever_parts_it_was_written() {
    for dtype in DType::all() {
        for extents in [&[][..], &[0], &[5], &[3, 40], &[2, 0, 3], &[2, 3, 4]] {
            for order in [Order::C, Order::F] {
                let meta = ArrayMeta { dtype, shape: Shape::new(extents).unwrap(), order };
                let byte = |i: u64| if dtype == DType::Bool { (i % 2) as u8 } else { (i * 37 % 251) as u8 };
                let bytes: Vec<u8> = (0..meta.bytes().unwrap()).map(byte).collect();
                let text = written(&meta, &bytes, 2 * dtype.size());
                assert_eq!(read(&text).unwrap(), bytes, "{meta} {order:?}:\n{text}");
            }
        }
    }
}

#[test]
fn texts_are_written_as_texts_and_what_is_none_as_bytes() {
    let meta = ArrayMeta::new(DType::Str, Shape::new(&[3, 4]).unwrap());
    let bytes = b"a\"\n\0\xc3\xa4b\0\xff\0c\0";
    let text = written(&meta, bytes, 5);
    assert!(text.contains("\n\"a\\\"\\n\"\n\"äb\"\nxff006300\nend\n"), "{text}");
    assert_eq!(read(&text).unwrap(), bytes);
}

#[test]
fn rows_come_back_as_they_were() {
    let vectors = ArrayMeta::new(DType::F64, Shape::new(&[2]).unwrap());
    let columns = [DType::U64, DType::F64, DType::Str, DType::Bytes].map(ArrayMeta::from);
    let columns = [&columns[..], &[vectors]].concat();
    let array = |nan: u64| Cell::Blob([nan.to_le_bytes(), (-0.0f64).to_le_bytes()].concat());
    let rows = [
        vec![
            Cell::unsigned(u64::MAX),
            Cell::Real(-0.0),
            Cell::Text("ä\n".into()),
            Cell::Blob(vec![0, 255]),
            array(0x7ff8_0000_0000_0001),
        ],
        vec![
            Cell::Int(-1),
            Cell::Real(f64::NEG_INFINITY),
            Cell::Text(String::new()),
            Cell::Blob(Vec::new()),
            array(0),
        ],
        vec![Cell::Null; 5],
    ];
    let text = rows.iter().map(|cells| row(cells)).collect::<String>();
    let mut reader = SectionReader::new(format!("{FIRST}\n{text}{END}\n").leak().as_bytes()).unwrap();
    for cells in &rows {
        let found = reader.row(&columns).unwrap().unwrap();
        assert_eq!(format!("{found:?}"), format!("{cells:?}"));
    }
    assert_eq!(reader.row(&columns).unwrap(), None);
}

#[test]
fn what_an_array_is_of_a_mesh_or_a_species_comes_back_to_the_bit_and_the_version_before_is_read() {
    let meta = ArrayMeta::new(DType::F64, Shape::new(&[2]).unwrap());
    let constant = crate::Constant { value: 9.1e-31, units: "kg".into() };
    let mesh = Mesh { name: "a".into(), spacing: vec![0.1], position: vec![0.5], ..Mesh::default() };
    let species = Species { name: "e".into(), constants: [("mass".to_owned(), constant)].into() };
    let head = ArrayHead { mesh: Some(mesh), species: Some(species), ..ArrayHead::new("a", &meta) };
    for first in [FIRST, BEFORE] {
        let text = format!("{first}\n{}", section("array", &head).unwrap());
        let found = SectionReader::new(text.as_bytes()).unwrap().section().unwrap();
        assert_eq!(found, Some(Section::Array(head.clone())));
    }
}

#[test]
fn what_is_no_such_text_is_refused_with_its_line() {
    let array = r#"array {"name": "a", "dtype": "i8", "shape": [2]}"#;
    for (text, said) in [
        ("".to_owned(), "line 1: the text is cut off"),
        ("other\n".into(), "line 1: the text does not begin"),
        (format!("{FIRST}\n"), "line 2: the text is cut off"),
        (format!("{FIRST}\nfrob {{}}\n"), "line 2: \"frob\" begins no section"),
        (format!("{FIRST}\n{array}\n1 2 3\nend\n"), "line 3: the array has more elements"),
        (format!("{FIRST}\n{array}\n1\nend\n"), "line 4: the array ends after 1 of 2 bytes"),
        (format!("{FIRST}\n{array}\n1 x\nend\n"), "line 3: \"x\" is no element of dtype i8"),
        (format!("{FIRST}\n{array}\n1\n"), "line 4: the text is cut off"),
    ] {
        let e = read(&text).unwrap_err();
        assert!(e.text().contains(said), "{text:?}: {e}");
    }
    for shape in ["[4611686018427387904]", "[2, 1000000000]"] {
        let huge = format!(r#"array {{"name": "a", "dtype": "str", "shape": {shape}}}"#);
        let e = read(&format!("{FIRST}\n{huge}\n\"a\"\nend\n")).unwrap_err();
        assert!(e.text().starts_with("line 3: "), "{e}");
    }
    let huge = r#"array {"name": "a", "dtype": "f64", "shape": [4611686018427387904]}"#;
    assert!(read(&format!("{FIRST}\n{huge}\n1\nend\n")).unwrap_err().text().contains("2^63"));
}
