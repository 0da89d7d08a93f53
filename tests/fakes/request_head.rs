//! Reads the head of an HTTP request.

use std::collections::HashMap;
use std::io::BufRead;

/// The head of a request.
pub struct RequestHead {
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// By their names in lower case.
    pub headers: HashMap<String, String>,
}

impl RequestHead {
    pub fn read(reader: &mut impl BufRead) -> std::io::Result<RequestHead> {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default().to_owned();
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        Ok(RequestHead {
            method,
            target,
            headers,
        })
    }
}
