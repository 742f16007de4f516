//! Bytes as an interface file: what is read has signatures that are read again, and extents that have a value or none.

use forebay_idl::{Kind, Library};
use forebay_types::Signature;

pub fn interface(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(library) = Library::parse("f.fbi", text) else { return };
    for routine in &library.routines {
        for published in [&routine.plain, &routine.native] {
            let said = published.signature.to_string();
            assert_eq!(Signature::parse(&said).as_ref(), Ok(&published.signature), "{said}");
            assert_eq!(published.signature.params().len(), published.sources.len(), "{said}");
        }
        for arg in &routine.args {
            let Kind::Array(array) = &arg.kind else { continue };
            for e in &array.extents {
                let _ = (routine.text(e), e.eval(&|at| at as i64 - 2), e.eval(&|_| i64::MAX));
            }
        }
    }
}
