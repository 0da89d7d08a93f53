//! Frames that the daemon has sent, in order, including those read while a question was on the terminal.

use std::collections::VecDeque;
use std::io;

use super::connect::DaemonConnection;

/// A connection to the daemon and the frames received on it that nobody has handled yet.
#[derive(Debug)]
pub struct FrameQueue {
    /// The connection to the daemon.
    pub connection: DaemonConnection,
    received: VecDeque<(u8, Vec<u8>)>,
}

impl FrameQueue {
    /// Creates an empty queue for `connection`.
    pub fn new(connection: DaemonConnection) -> FrameQueue {
        FrameQueue {
            connection,
            received: VecDeque::new(),
        }
    }

    /// Returns the next complete frame without reading from the socket.
    ///
    /// # Errors
    /// The bytes received are not a frame.
    pub fn next_frame(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        match self.received.pop_front() {
            Some(frame) => Ok(Some(frame)),
            None => self.connection.buffered_frame(),
        }
    }

    /// Shows every frame that was received but not handled yet to `inspect`.
    ///
    /// # Errors
    /// The bytes received are not a frame.
    pub fn inspect_waiting(&mut self, mut inspect: impl FnMut(u8, &[u8])) -> io::Result<()> {
        while let Some(frame) = self.connection.buffered_frame()? {
            self.received.push_back(frame);
        }
        for (kind, body) in &self.received {
            inspect(*kind, body);
        }
        Ok(())
    }

    /// Reads once from the socket, queues every complete frame and shows each to `inspect`. Returns `false` at
    /// end of file.
    ///
    /// # Errors
    /// The socket failed, or the bytes received are not a frame.
    pub fn receive(&mut self, mut inspect: impl FnMut(u8, &[u8])) -> io::Result<bool> {
        if !self.connection.fill()? {
            return Ok(false);
        }
        while let Some((kind, body)) = self.connection.buffered_frame()? {
            inspect(kind, &body);
            self.received.push_back((kind, body));
        }
        Ok(true)
    }
}
