//! Transcripts: any bytes, read as every format, import without a panic and verify.
#![no_main]

use ctxlog::audit::verify;
use ctxlog::engine::Store;
use ctxlog::formats::{
    Transcript, anthropic, claude_code, input::Piece, input::pieces, openai_chat,
};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 1 << 16;

fn import(transcripts: Vec<Transcript>) {
    let store = Store::in_memory();
    for (n, transcript) in transcripts.iter().enumerate() {
        store
            .import(&n.to_string(), transcript, Vec::new(), &mut |_| {})
            .expect("what a reader gives imports");
    }
    for listed in store.list().expect("a listing") {
        let verified = verify(&store, &listed, &mut |_, _| {}).expect("a verdict");
        assert!(verified.ok, "{:?}", verified.problems);
    }
}

fn whole(data: &[u8]) -> impl Iterator<Item = Piece> {
    pieces(data, "fuzz", LIMIT).map(|piece| piece.expect("memory reads"))
}

fuzz_target!(|data: &[u8]| {
    import(openai_chat::read(whole(data)));
    import(anthropic::read(whole(data)));
    import(claude_code::read(data, "fuzz", LIMIT).expect("memory reads"));
});
