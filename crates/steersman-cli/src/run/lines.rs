//! The output of a process, line by line.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// A longer line is shown as several.
const BYTES_MAX: usize = 64 << 10;

/// Splits an output into lines.
pub(super) struct Lines<R> {
    output: BufReader<R>,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(output: R) -> Self {
        Self { output: BufReader::new(output), line: Vec::new() }
    }

    /// The next line. `None` at the end, or if the output cannot be read.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            let bytes = self.output.fill_buf().await.unwrap_or_default();
            if bytes.is_empty() {
                return (!self.line.is_empty()).then(|| self.take());
            }
            let newline = bytes.iter().position(|byte| *byte == b'\n');
            let room = BYTES_MAX - self.line.len();
            let taken = newline.unwrap_or(bytes.len()).min(room);
            self.line.extend_from_slice(&bytes[..taken]);
            let is_whole = newline == Some(taken);
            self.output.consume(taken + usize::from(is_whole));
            if is_whole || self.line.len() == BYTES_MAX {
                return Some(self.take());
            }
        }
    }

    fn take(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        String::from_utf8_lossy(line).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn split(output: &[u8]) -> Vec<String> {
        let (mut lines, mut found) = (Lines::new(output), Vec::new());
        while let Some(line) = lines.next().await {
            found.push(line);
        }
        found
    }

    #[tokio::test]
    async fn output_is_split_into_lines_of_bounded_size() {
        assert_eq!(split(b"one\r\n\ntwo\nrest").await, ["one", "", "two", "rest"]);
        assert_eq!(split(b"").await, [""; 0]);
        assert_eq!(split(b"\xff\n").await, ["\u{fffd}"]);
        let long = split(&vec![b'x'; BYTES_MAX + 1]).await;
        assert_eq!(long.iter().map(String::len).collect::<Vec<_>>(), [BYTES_MAX, 1]);
    }
}
