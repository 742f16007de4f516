//! Bytes as a source of each language: it is translated or refused, and what C made of it has the lines it had.

use forebay_directives::{Language, translate, warnings};

pub fn directives(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for language in [Language::C, Language::Cplusplus, Language::Fortran, Language::FixedFortran] {
        warnings(text, "f", language);
        match translate(text, "f", language) {
            Ok(Some(made)) => assert!(!made.is_empty()),
            Ok(None) => (),
            Err(faults) => {
                assert!(faults.iter().all(|fault| !fault.to_string().starts_with("f:0:")), "{faults:?}")
            }
        }
    }
}
