//! `cargo fuzz run interface`; what it does stands in `src/interface.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| forebay_fuzz::interface(data));
