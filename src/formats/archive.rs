//! Logs of Inspect as it packs them (`.eval`): a zip archive that holds what is said of the whole log, and
//! each sample, as a file of JSON. They are read as one text, a record after the other.
//!
//! An archive may be made to burst whoever opens it. So no more is unpacked of a file than it declares,
//! no file may declare more than a record may have, and files may not lie within each other: what comes
//! out is bounded by the size of the archive.

use std::io::{self, BufRead, Read, Seek};

use zip::ZipArchive;
use zip::result::ZipError;

/// What zip archives begin with.
pub const MAGIC: &[u8] = b"PK\x03\x04";

/// What is said of the whole log; the second is there from the start, the first at the end.
const WHOLE: [&str; 2] = ["header.json", "_journal/start.json"];

/// Where samples lie.
const SAMPLES: &[u8] = b"samples/";

/// The records of a packed log, as text.
#[derive(Debug)]
pub struct Archive<R> {
    zip: ZipArchive<R>,
    /// The files that are still to be read.
    due: std::vec::IntoIter<usize>,
    limit: usize,
    text: Vec<u8>,
    at: usize,
}

impl<R: Read + Seek> Archive<R> {
    /// Opens an archive whose records may have up to `limit` bytes. `None` where it holds no log.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, or made to hold more than it is large.
    pub fn open(file: R, limit: usize) -> io::Result<Option<Self>> {
        let damaged = |error: ZipError| unreadable("the archive", &error);
        let mut zip = ZipArchive::new(file).map_err(damaged)?;
        if zip.has_overlapping_files().map_err(damaged)? {
            let what = "files in it lie within each other, as Inspect writes none; unpack it with \
                        another tool, and import its files of JSON";
            return Err(refused(what.to_owned()));
        }
        let whole = WHOLE
            .iter()
            .find_map(|name| zip.index_for_name_raw(name.as_bytes()));
        let is_sample = |name: &[u8]| name.starts_with(SAMPLES) && name.ends_with(b".json");
        let samples = zip.file_names_raw().enumerate();
        let samples = samples.filter_map(|(index, name)| is_sample(name).then_some(index));
        let due: Vec<usize> = whole.into_iter().chain(samples).collect();
        Ok((!due.is_empty()).then(|| Self {
            zip,
            due: due.into_iter(),
            limit,
            text: Vec::new(),
            at: 0,
        }))
    }

    /// Reads the next file; says whether there was one.
    fn unpack(&mut self) -> io::Result<bool> {
        (self.text, self.at) = (Vec::new(), 0);
        let Some(index) = self.due.next() else {
            return Ok(false);
        };
        let entry = self.zip.by_index(index);
        let entry = entry.map_err(|error| unreadable("a file of it", &error))?;
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        let declared = entry.size();
        if declared > u64::try_from(self.limit).unwrap_or(u64::MAX) {
            return Err(refused(format!(
                "{name} in it has {declared} bytes, above the limit of {} bytes a record; raise the \
                 limit (--max-record) to read it",
                self.limit
            )));
        }
        let mut entry = entry.take(declared.saturating_add(1));
        let read = entry.read_to_end(&mut self.text);
        read.map_err(|error| unreadable(&name, &error))?;
        if u64::try_from(self.text.len()).ok() != Some(declared) {
            return Err(refused(format!(
                "{name} in it is not of the {declared} bytes that it says; unpack it, and import the \
                 files that are whole"
            )));
        }
        self.text.push(b'\n');
        Ok(true)
    }
}

fn refused(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn unreadable(name: &str, error: &dyn std::fmt::Display) -> io::Error {
    refused(format!(
        "{name} cannot be unpacked ({error}); unpack it with another tool, and import its files of JSON"
    ))
}

impl<R: Read + Seek> Read for Archive<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut from = self.fill_buf()?;
        let read = from.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: Read + Seek> BufRead for Archive<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at >= self.text.len() && self.unpack()? {}
        Ok(self.text.get(self.at..).unwrap_or_default())
    }

    fn consume(&mut self, read: usize) {
        self.at = self.at.saturating_add(read);
    }
}
