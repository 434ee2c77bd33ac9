//! Tests of what only the inside can bring about.
