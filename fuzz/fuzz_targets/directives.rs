//! `cargo fuzz run directives`; what it does stands in `src/directives.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| forebay_fuzz::directives(data));
