//! `cargo fuzz run neutral`; what it does stands in `src/neutral.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| forebay_fuzz::neutral(data));
