//! Every recorded file, by its format: what it holds against what the page beside the files counts.

mod corners;
mod counts;
#[path = "../common/data.rs"]
mod files;
mod fixtures;
mod frameworks;
mod laws;
mod rules;
