//! `cargo fuzz run handshake`; what it does stands in `src/handshake.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| forebay_fuzz::handshake(data));
