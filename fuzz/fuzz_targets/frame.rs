//! `cargo fuzz run frame`; what it does stands in `src/frame.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| forebay_fuzz::frame(data));
