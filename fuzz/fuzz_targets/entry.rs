//! Stored bytes of an entry: any bytes give an error or an entry that seals to the same bytes.
#![no_main]

use ctxlog::log::{entry, payload};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(sealed) = entry::open(data) {
        let again = entry::seal(sealed.entry.clone()).expect("what was read can be written");
        assert_eq!(again.hash, sealed.hash);
        assert_eq!(again.bytes, data);
    }
    // Most random bytes fail the checksum: give the body decoder a chance as well.
    let _ = entry::open(&entry::with_checksum(data));
    let secret = payload::Secret([0; 32]);
    let _ = payload::decode_message(data, &secret, &mut |_| Ok(None));
    let _ = payload::blobs_of(data);
});
