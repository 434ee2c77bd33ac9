//! What the targets that import share.

use ctxlog::audit::verify;
use ctxlog::engine::Store;
use ctxlog::formats::Transcript;
use ctxlog::formats::input::{Piece, pieces};

/// The largest record that is read.
pub const LIMIT: usize = 1 << 16;

/// The records of a file with these bytes.
pub fn records(data: &[u8]) -> impl Iterator<Item = Piece> {
    pieces(data, "fuzz", LIMIT).map(|piece| piece.expect("memory reads"))
}

/// What a reader gives is imported, verifies, and adds nothing when it is imported again.
pub fn import(transcripts: Vec<Transcript>) {
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
