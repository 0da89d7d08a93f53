//! The header of a GGUF file: whether it is one, and how large the context window of its model is.
//!
//! The file may come from anywhere. Nothing is allocated by a length in the file, and the header is read only up to
//! [`MAX_HEADER`] bytes.

use std::io::{self, BufRead, Read};

/// Maximum size of a header; the vocabulary of a large model takes about 10 MB.
const MAX_HEADER: u64 = 256 << 20;
/// Maximum number of values of a header; models have about 50.
const MAX_VALUES: u64 = 100_000;
/// Maximum number of tensors; models have up to some thousand.
const MAX_TENSORS: u64 = 1_000_000;
/// Maximum number of dimensions of a tensor.
const MAX_DIMENSIONS: u32 = 8;
/// Where the data of tensors begins is a multiple of this, unless the header says otherwise.
const ALIGNMENT: u64 = 32;
/// Maximum length of a key, by the format.
const MAX_KEY: u64 = 65_535;
/// Maximum length of the name of an architecture.
const MAX_ARCHITECTURE: u64 = 64;
/// Maximum depth of nested arrays.
const MAX_DEPTH: u32 = 4;
/// Maximum number of context lengths that are kept until the architecture is known.
const MAX_LENGTHS: usize = 8;

/// The first bytes of a GGUF file.
pub const MAGIC: [u8; 4] = *b"GGUF";

/// Properties of a model that aish needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GgufHeader {
    /// Architecture, such as `qwen3`.
    pub architecture: String,
    /// Number of tokens that the model was trained for.
    pub context_length: Option<u64>,
    /// Number of files that the model is split into.
    pub parts: u64,
    /// The file is longer than this, unless its end is missing: where the data of its last tensor begins.
    pub last_tensor: u64,
}

/// Reads the header of a GGUF file.
///
/// # Errors
/// The reason why it is not a model that llama.cpp loads, phrased to follow "the file".
pub fn read_header(file: impl BufRead) -> Result<GgufHeader, String> {
    Header {
        file: file.take(MAX_HEADER),
    }
    .read()
}

/// A value of the header.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Number(u64),
    Text(String),
    Other,
}

struct Header<R> {
    file: io::Take<R>,
}

impl<R: BufRead> Header<R> {
    fn read(&mut self) -> Result<GgufHeader, String> {
        if self.bytes::<4>()? != MAGIC {
            return Err("is not a GGUF file".into());
        }
        let version = u32::from_le_bytes(self.bytes()?);
        if !matches!(version, 2 | 3) {
            return Err(format!(
                "has version {version} of GGUF; llama.cpp reads 2 and 3"
            ));
        }
        let tensors = self.u64()?;
        if tensors > MAX_TENSORS {
            return Err(format!("has a header of {tensors} tensors"));
        }
        let count = self.u64()?;
        if count > MAX_VALUES {
            return Err(format!("has a header of {count} values"));
        }
        let mut architecture = None;
        let mut lengths: Vec<(String, u64)> = Vec::new();
        let (mut parts, mut alignment) = (1, ALIGNMENT);
        for _ in 0..count {
            let key = self.text(MAX_KEY)?;
            let kind = u32::from_le_bytes(self.bytes()?);
            match (key.as_str(), self.value(kind)?) {
                ("general.architecture", Value::Text(name)) => architecture = Some(name),
                ("split.count", Value::Number(n)) => parts = n.max(1),
                ("general.alignment", Value::Number(n)) => alignment = n.max(1),
                (key, Value::Number(n)) => {
                    if let Some(name) = key.strip_suffix(".context_length")
                        && lengths.len() < MAX_LENGTHS
                    {
                        lengths.push((name.to_owned(), n));
                    }
                }
                _ => {}
            }
        }
        let architecture = architecture.ok_or("does not name its architecture")?;
        let length = lengths.into_iter().find(|(name, _)| *name == architecture);
        let mut offset = 0;
        for _ in 0..tensors {
            offset = self.tensor_offset()?.max(offset);
        }
        let end = MAX_HEADER - self.file.limit();
        let data = end.div_ceil(alignment).saturating_mul(alignment);
        Ok(GgufHeader {
            architecture,
            context_length: length.map(|(_, n)| n).filter(|n| *n > 0),
            parts,
            last_tensor: match tensors {
                0 => end,
                _ => data.saturating_add(offset),
            },
        })
    }

    /// Reads the description of a tensor and returns where its data begins, relative to the data of all.
    fn tensor_offset(&mut self) -> Result<u64, String> {
        let length = self.u64()?;
        self.skip(length)?;
        let dimensions = u32::from_le_bytes(self.bytes()?);
        if dimensions > MAX_DIMENSIONS {
            return Err(format!("has a tensor of {dimensions} dimensions"));
        }
        // The dimensions, and the type.
        self.skip(u64::from(dimensions) * 8 + 4)?;
        self.u64()
    }

    /// Reads a value; one that is of no use is skipped.
    fn value(&mut self, kind: u32) -> Result<Value, String> {
        Ok(match kind {
            4 => Value::Number(u32::from_le_bytes(self.bytes()?).into()),
            5 => number(i32::from_le_bytes(self.bytes()?).into()),
            10 => Value::Number(self.u64()?),
            11 => number(i64::from_le_bytes(self.bytes()?)),
            2 => Value::Number(u16::from_le_bytes(self.bytes()?).into()),
            8 => {
                let length = self.u64()?;
                if length > MAX_ARCHITECTURE {
                    self.skip(length)?;
                    return Ok(Value::Other);
                }
                Value::Text(self.text_of(length)?)
            }
            9 => {
                self.skip_array(0)?;
                Value::Other
            }
            _ => {
                self.skip(size(kind)?)?;
                Value::Other
            }
        })
    }

    fn skip_array(&mut self, depth: u32) -> Result<(), String> {
        let kind = u32::from_le_bytes(self.bytes()?);
        let count = self.u64()?;
        match kind {
            // Each element takes 8 bytes or more, so that the end of the header ends the loop.
            8 => (0..count).try_for_each(|_| {
                let length = self.u64()?;
                self.skip(length)
            }),
            9 if depth < MAX_DEPTH => (0..count).try_for_each(|_| self.skip_array(depth + 1)),
            9 => Err("has arrays in arrays in its header".into()),
            _ => self.skip(size(kind)?.saturating_mul(count)),
        }
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// Reads a length and a text of at most `max` bytes.
    fn text(&mut self, max: u64) -> Result<String, String> {
        match self.u64()? {
            length if length <= max => self.text_of(length),
            length => Err(format!("has a header with a name of {length} bytes")),
        }
    }

    fn text_of(&mut self, length: u64) -> Result<String, String> {
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(length).read_to_end(&mut bytes);
        if read.map_err(unreadable)? as u64 != length {
            return Err(truncated());
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).map_err(unreadable)?;
        Ok(bytes)
    }

    fn skip(&mut self, length: u64) -> Result<(), String> {
        if length > self.file.limit() {
            return Err(truncated());
        }
        let skipped = io::copy(&mut (&mut self.file).take(length), &mut io::sink());
        match skipped.map_err(unreadable)? {
            n if n == length => Ok(()),
            _ => Err(truncated()),
        }
    }
}

/// Size of a value of fixed size.
fn size(kind: u32) -> Result<u64, String> {
    match kind {
        0 | 1 | 7 => Ok(1),
        2 | 3 => Ok(2),
        4..=6 => Ok(4),
        10..=12 => Ok(8),
        _ => Err(format!("has a header with values of type {kind}")),
    }
}

/// A negative number counts as none.
fn number(n: i64) -> Value {
    u64::try_from(n).map_or(Value::Other, Value::Number)
}

fn truncated() -> String {
    "has a header that does not end".into()
}

fn unreadable(e: io::Error) -> String {
    match e.kind() {
        io::ErrorKind::UnexpectedEof => truncated(),
        _ => format!("cannot be read: {e}"),
    }
}

#[cfg(test)]
mod tests;
