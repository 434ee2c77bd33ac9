//! Any bytes, read as any format, import without a panic and verify. The first line names the format;
//! where it names none, its first byte chooses.
#![no_main]

use ctxlog::formats::Format;
use ctxlog_fuzz::{LIMIT, import};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|byte| *byte == b'\n');
    let (name, mut file) = data.split_at(end.map_or(data.len(), |end| end + 1));
    let named = std::str::from_utf8(name).ok().map(str::trim_end);
    let chosen = usize::from(name.first().copied().unwrap_or_default());
    let format = named.and_then(Format::from_name);
    let format = format.or_else(|| Format::all().nth(chosen % Format::all().count()));
    let read = format.map(|format| format.read(&mut file, "fuzz", LIMIT));
    import(read.expect("a format").expect("memory reads"));
});
