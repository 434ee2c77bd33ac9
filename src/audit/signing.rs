//! Keys for checkpoints: Ed25519, in the text forms of C2SP signed-note.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};

use super::checkpoint::{Checkpoint, Note, Signature, is_key_name};

/// What a secret key's text begins with.
const SECRET: &str = "PRIVATE+KEY+";
/// Ed25519, among the kinds of keys that notes know.
const KIND: u8 = 1;

/// A text that is no key, or a note that the key did not sign.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A key's name is empty, long, or has a space or a plus in it.
    #[error("a key's name has neither spaces nor '+' in it, and 1 to 256 bytes")]
    Name,
    /// The text is not that of a key.
    #[error("{0}")]
    Text(&'static str),
    /// The system gave no randomness.
    #[error("the system gave no randomness")]
    Randomness,
    /// A note carries no signature of the key.
    #[error("the checkpoint in line {line} carries no signature of '{key}'")]
    Unsigned {
        /// Where the note begins.
        line: usize,
        /// The key's name.
        key: String,
    },
    /// A note's signature is not what the key signs.
    #[error("the signature of '{key}' is not one of the checkpoint in line {line}")]
    Forged {
        /// Where the note begins.
        line: usize,
        /// The key's name.
        key: String,
    },
}

/// Signs checkpoints.
pub struct SecretKey {
    name: String,
    key: SigningKey,
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the key.
        f.debug_struct("SecretKey")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl SecretKey {
    /// A new key of this name.
    ///
    /// # Errors
    /// When it may not be called so, or the system gives no randomness.
    pub fn generate(name: &str) -> Result<Self, KeyError> {
        if !is_key_name(name) {
            return Err(KeyError::Name);
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|_| KeyError::Randomness)?;
        Ok(Self::from_seed(name, seed))
    }

    fn from_seed(name: &str, seed: [u8; 32]) -> Self {
        let (name, key) = (name.to_owned(), SigningKey::from_bytes(&seed));
        Self { name, key }
    }

    /// Reads a key from its text.
    ///
    /// # Errors
    /// When it is not one.
    pub fn read(text: &str) -> Result<Self, KeyError> {
        let wrong = KeyError::Text("it is no secret key that `checkpoint --new-key` wrote");
        let rest = text.trim_end().strip_prefix(SECRET).ok_or(wrong.clone())?;
        let (name, id, seed) = parts(rest).ok_or(wrong.clone())?;
        let key = Self::from_seed(name, seed);
        let public = key.public();
        (public.id == id).then_some(key).ok_or(wrong)
    }

    /// The key as text. Whoever has it can sign.
    #[must_use]
    pub fn text(&self) -> String {
        let rest = text(&self.name, self.public().id, &self.key.to_bytes());
        format!("{SECRET}{rest}")
    }

    /// The key that checks what this one signs.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey::of(&self.name, self.key.verifying_key())
    }

    /// Signs a checkpoint.
    #[must_use]
    pub fn sign(&self, checkpoint: &Checkpoint) -> Signature {
        let text = checkpoint.to_string();
        Signature {
            key: self.name.clone(),
            id: self.public().id,
            bytes: self.key.sign(text.as_bytes()).to_bytes().to_vec(),
        }
    }
}

/// Checks signatures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicKey {
    name: String,
    id: [u8; 4],
    key: VerifyingKey,
}

impl PublicKey {
    fn of(name: &str, key: VerifyingKey) -> Self {
        let hash = Sha256::new()
            .chain_update(name)
            .chain_update([b'\n', KIND])
            .chain_update(key.as_bytes())
            .finalize();
        let mut id = [0; 4];
        id.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        let name = name.to_owned();
        Self { name, id, key }
    }

    /// What the key is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads a key from its text.
    ///
    /// # Errors
    /// When it is not one.
    pub fn read(text: &str) -> Result<Self, KeyError> {
        let wrong = KeyError::Text("it is no public key, as in NAME+01234567+base64");
        let (name, id, key) = parts(text.trim_end()).ok_or(wrong.clone())?;
        let key = VerifyingKey::from_bytes(&key).map_err(|_| wrong.clone())?;
        let public = Self::of(name, key);
        (public.id == id).then_some(public).ok_or(wrong)
    }

    /// Demands that a note carries a signature of this key, and that it is one of this note.
    /// Signatures of other keys say nothing.
    ///
    /// # Errors
    /// When there is none, or it is not.
    pub fn check(&self, note: &Note) -> Result<(), KeyError> {
        let (line, key) = (note.line, self.name.clone());
        let text = note.checkpoint.to_string();
        let mut own = note.signatures.iter();
        let Some(found) = own.find(|s| s.key == self.name && s.id == self.id) else {
            return Err(KeyError::Unsigned { line, key });
        };
        let signature = ed25519_dalek::Signature::from_slice(&found.bytes);
        let right = signature
            .and_then(|signature| self.key.verify_strict(text.as_bytes(), &signature))
            .is_ok();
        right.then_some(()).ok_or(KeyError::Forged { line, key })
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(&self.name, self.id, self.key.as_bytes()))
    }
}

/// `NAME+hex of the id+base64 of kind and key`.
fn text(name: &str, id: [u8; 4], key: &[u8; 32]) -> String {
    let all = STANDARD.encode([[KIND].as_slice(), key].concat());
    format!("{name}+{:08x}+{all}", u32::from_be_bytes(id))
}

fn parts(text: &str) -> Option<(&str, [u8; 4], [u8; 32])> {
    let (name, rest) = text.split_once('+').filter(|(name, _)| is_key_name(name))?;
    let (hex, encoded) = rest.split_once('+')?;
    let id = u32::from_str_radix(hex, 16).ok()?;
    if format!("{id:08x}") != hex {
        return None;
    }
    let all = STANDARD.decode(encoded).ok()?;
    let (kind, key) = all.split_first()?;
    let key = key.try_into().ok()?;
    (*kind == KIND).then_some((name, id.to_be_bytes(), key))
}
