//! The loop, end to end, on a store in memory.

use ctxlog::engine::Store;
use ctxlog::log::{Iteration, Message, Part};
use ctxlog::strategy::SlidingWindow;

#[test]
fn an_old_result_leaves_and_comes_back() {
    let store = Store::in_memory();
    let chat = store
        .conversation("a")
        .unwrap()
        .with_strategy(SlidingWindow::new(2))
        .unwrap();
    chat.append(Message::system("S")).unwrap();
    chat.append(Message::person("U1")).unwrap();
    let mut results = Vec::new();
    for i in 0..4 {
        let call = chat.call().unwrap();
        assert_eq!(call.iteration, Iteration(i + 1));
        chat.append(Message::calls(vec![Part::call("c", "t", "{}")]))
            .unwrap();
        results.push(chat.append(Message::tool("c", "out")).unwrap().message());
    }
    let call = chat.call().unwrap();
    assert_eq!(call.visits.len(), 1);
    assert!(!call.window.contains(results[0]));
    assert!(call.window.contains(results[3]));
    assert_eq!(chat.window_at(Iteration(5)).unwrap(), call.window);
    chat.restore(results[0]).unwrap();
    assert!(chat.window().unwrap().contains(results[0]));
    let again = chat.call().unwrap();
    assert!(
        again.window.contains(results[0]),
        "it may not leave before one call has seen it"
    );
    let next = chat.call().unwrap();
    assert!(!next.window.contains(results[0]));
}
