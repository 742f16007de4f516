//! `cargo fuzz run recover`; what it does stands in `src/recover.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| forebay_fuzz::recover(data));
