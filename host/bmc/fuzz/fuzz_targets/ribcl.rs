//! See `bmc::fuzzing::ribcl`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bmc::fuzzing::ribcl(bytes));
