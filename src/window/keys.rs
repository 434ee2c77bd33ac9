//! Idempotency keys, and what was written under each.

use std::collections::HashMap;

use crate::log::Seq;

use super::ordered::{Keyed, Ordered};

/// The first entry that a key wrote, and how many entries the request wrote.
pub(super) type Wrote = (Seq, u32);

/// Keys that are a name and a number, as those of imports (`import:17`), are kept as the number under
/// the name: a long import has more of them than messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    numbered: HashMap<String, Ordered<Numbered>>,
    others: HashMap<String, Wrote>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Numbered {
    number: u64,
    wrote: Wrote,
}

impl Keyed for Numbered {
    type Key = u64;

    fn key(&self) -> u64 {
        self.number
    }
}

/// A key as name and number, where they give it back as it is.
fn split(key: &str) -> Option<(&str, u64)> {
    let (name, digits) = key.rsplit_once(':')?;
    let number: u64 = digits.parse().ok()?;
    let canonical = digits.starts_with(|c: char| matches!(c, '1'..='9')) || digits == "0";
    canonical.then_some((name, number))
}

impl Keys {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, key: &str) -> Option<Wrote> {
        let Some((name, number)) = split(key) else {
            return self.others.get(key).copied();
        };
        let found = self.numbered.get(name)?.from(number).next()?;
        (found.number == number).then_some(found.wrote)
    }

    /// Notes what a key wrote, unless it is there already.
    pub fn note(&mut self, key: &str, wrote: Wrote) {
        if self.get(key).is_some() {
            return;
        }
        self.len = self.len.saturating_add(1);
        let Some((name, number)) = split(key) else {
            self.others.insert(key.to_owned(), wrote);
            return;
        };
        let item = Numbered { number, wrote };
        match self.numbered.get_mut(name) {
            Some(of_name) => of_name.insert(item),
            None => {
                let of_name = self.numbered.entry(name.to_owned()).or_default();
                of_name.insert(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{Keys, Seq};

    proptest! {
        #[test]
        fn the_first_that_a_key_wrote_is_found_by_the_key_as_it_was_given(
            keys in prop::collection::vec("(a|b|a:)?:?(0|\\+)?[0-9]{0,2}(x|18446744073709551615|18446744073709551616)?", 0..60),
        ) {
            let (mut kept, mut model) = (Keys::default(), BTreeMap::new());
            for (seq, key) in (0_u64..).zip(&keys) {
                kept.note(key, (Seq(seq), 1));
                model.entry(key.clone()).or_insert((Seq(seq), 1));
                prop_assert_eq!(kept.len(), model.len());
                for key in &keys {
                    prop_assert_eq!(kept.get(key), model.get(key).copied());
                }
            }
        }
    }
}
