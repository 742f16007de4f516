//! Bytes of nobody in particular as the records of a run and as requests and replies of calls:
//! `cargo +nightly fuzz run record`.
#![no_main]

use forebay_types::call::{get_call, get_outcome};
use forebay_types::codec::Writer;
use forebay_types::record::{Notice, Record};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((number, record)) = Record::decode(bytes) {
        let mut again = Writer::new();
        record.encode(number, &mut again);
        assert!(Record::decode(&again.finish()).is_ok(), "what was understood can be said again");
    }
    let _ = Notice::decode(bytes);
    let mut items = Vec::new();
    for before in [0, 64] {
        let _ = get_call(bytes, before, &mut items);
        let _ = get_outcome(bytes, before, &mut items);
    }
});
