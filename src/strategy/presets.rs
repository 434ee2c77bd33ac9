//! Presets: the numbers of systems that others know, under their names. A preset is written out
//! before anything else is done with it, so that a log names the strategy and what it does. The guard
//! is never off: where a system would have split a pair or lost the request, its preset does not.

/// Options by name.
type Set = &'static [(&'static str, &'static str)];

/// A preset's name, its strategy, and the options it sets where a spec does not.
const PRESETS: &[(&str, &str, Set)] = &[
    (
        "sisu",
        "head-tail",
        &[("window", "12"), ("head", "1"), ("unit", "message")],
    ),
    (
        "agentfootprint",
        "sliding-window",
        &[("unit", "group"), ("pin-results", "2"), ("notice", "auto")],
    ),
    (
        "agentfootprint-budget",
        "token-budget",
        &[
            ("low", "1"),
            ("keep", "6"),
            ("measure", "reported"),
            ("pin-results", "2"),
            ("notice", "auto"),
        ],
    ),
    ("entelix", "buffer", &[("unit", "message")]),
];

/// A spec with a preset written out: its own options, then what the preset sets beside them. Any
/// other spec as it is.
pub(super) fn written_out(spec: &str) -> String {
    let (name, given) = spec.split_once(':').unwrap_or((spec, ""));
    let Some((_, strategy, options)) = PRESETS.iter().find(|(preset, ..)| *preset == name) else {
        return spec.to_owned();
    };
    let sets = |key: &str| {
        let mut keys = given
            .split(',')
            .filter_map(|o| Some(o.split_once('=')?.0.trim()));
        keys.any(|k| k == key)
    };
    let more = options.iter().filter(|(key, _)| !sets(key));
    let more = more.map(|(key, value)| format!("{key}={value}"));
    let given = given
        .split(',')
        .filter(|o| !o.is_empty())
        .map(str::to_owned);
    let all: Vec<String> = given.chain(more).collect();
    format!("{strategy}:{}", all.join(","))
}

/// The names of the presets with what each stands for.
pub fn presets() -> impl Iterator<Item = (&'static str, String)> {
    PRESETS.iter().map(|(name, ..)| (*name, written_out(name)))
}
