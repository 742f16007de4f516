//! `cargo fuzz run ring`; what it does stands in `src/ring.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| forebay_fuzz::ring(data));
