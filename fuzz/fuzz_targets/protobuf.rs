#![no_main]

#[path = "../../crates/steersman-wire/tests/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::protobuf(data));
