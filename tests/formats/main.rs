//! Every recorded file, by its format: what it holds against what the page beside the files counts.

mod archives;
mod bedrock;
mod bodies;
#[path = "../common/mod.rs"]
mod common;
mod corners;
mod counts;
mod driver;
mod fixtures;
mod frameworks;
mod gemini;
mod given;
mod laws;
mod linked;
mod lists;
mod mistral;
mod rendered;
mod responses;
mod rules;

use common::data as files;
