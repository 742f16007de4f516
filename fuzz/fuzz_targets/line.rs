//! `cargo fuzz run line`; what it does stands in `src/line.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| forebay_fuzz::line(data));
