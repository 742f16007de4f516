//! `cargo fuzz run record`; what it does stands in `src/record.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| forebay_fuzz::record(data));
