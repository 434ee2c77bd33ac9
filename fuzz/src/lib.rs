//! What the targets that import share.

use ctxlog::audit::verify;
use ctxlog::engine::Store;
use ctxlog::formats::Format;
pub use libfuzzer_sys;

/// The largest record that is read.
const LIMIT: usize = 1 << 16;

/// The target of a format: any bytes, read as it, import.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::import($name, data));
    };
}

/// What a reader gives is imported, verifies, and adds nothing when it is imported again.
pub fn import(format: &str, mut data: &[u8]) {
    let format = Format::from_name(format).expect("a format");
    let transcripts = format.read(&mut data, "fuzz", LIMIT).expect("memory reads");
    let store = Store::in_memory();
    for (n, transcript) in transcripts.iter().enumerate() {
        let take = || store.import(&n.to_string(), transcript, Vec::new(), &mut |_| {});
        take().expect("what a reader gives imports");
        assert_eq!(take().expect("it imports again").added, 0);
    }
    for listed in store.list().expect("a listing") {
        let verified = verify(&store, &listed, &mut |_, _| {}).expect("a verdict");
        assert!(verified.ok, "{:?}", verified.problems);
    }
}
