//! Any bytes, read as `vercel-uimessages`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("vercel-uimessages");
