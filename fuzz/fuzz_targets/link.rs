//! `cargo fuzz run link`; what it does stands in `src/link.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| forebay_fuzz::link(data));
