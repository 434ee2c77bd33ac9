//! Later.
pub const PENDING: &str = "pending";
pub const SHAPES: &[(&str, &str, &str)] = &[];
