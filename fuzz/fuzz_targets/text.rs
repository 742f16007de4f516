//! `cargo fuzz run text`; what it does stands in `src/text.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| forebay_fuzz::text(data));
