//! See `bmc::fuzzing::redfish`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bmc::fuzzing::redfish(bytes));
