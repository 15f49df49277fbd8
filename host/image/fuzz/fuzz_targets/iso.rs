//! See `exercise.rs`.
#![no_main]

#[path = "../exercise.rs"]
#[expect(dead_code, reason = "each target takes its own part of it")]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::iso(bytes));
