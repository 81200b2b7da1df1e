//! Lines of bounded length from a stream that is not trusted.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// What the stream brought next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, without its line feed.
    Whole(Vec<u8>),
    /// The beginning of a line that is longer than allowed. What follows of it comes as the next line.
    TooLong(Vec<u8>),
}

/// Reads lines and never holds more than the longest allowed one.
pub(crate) struct Lines<R> {
    stream: BufReader<R>,
    partial: Vec<u8>,
    length_max: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(stream: R, length_max: usize) -> Self {
        Self {
            stream: BufReader::with_capacity(64 << 10, stream),
            partial: Vec::new(),
            length_max,
        }
    }

    /// What came after the last line feed.
    pub(crate) fn rest(self) -> Vec<u8> {
        self.partial
    }

    /// The next line; none at the end of the stream. Half a line at the end was never said.
    ///
    /// A call that is dropped loses nothing: what it had read is still here for the next.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let available = self.stream.fill_buf().await?;
            if available.is_empty() {
                return Ok(None);
            }
            let end = available.iter().position(|&byte| byte == b'\n');
            let piece = &available[..end.unwrap_or(available.len())];
            let room = self.length_max - self.partial.len();
            if piece.len() > room {
                self.partial.extend_from_slice(&piece[..room]);
                self.stream.consume(room);
                return Ok(Some(Line::TooLong(std::mem::take(&mut self.partial))));
            }
            self.partial.extend_from_slice(piece);
            let used = piece.len() + usize::from(end.is_some());
            self.stream.consume(used);
            if end.is_some() {
                return Ok(Some(Line::Whole(std::mem::take(&mut self.partial))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn all(bytes: &[u8], length_max: usize) -> Vec<Line> {
        let mut lines = Lines::new(bytes, length_max);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(line);
        }
        found
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.into())
    }

    #[tokio::test]
    async fn half_a_line_at_the_end_was_never_said() {
        assert_eq!(all(b"one\n\ntwo", 8).await, [whole("one"), whole("")]);
        assert_eq!(all(b"", 8).await, []);
    }

    #[tokio::test]
    async fn a_line_of_the_longest_length_passes_and_one_more_byte_does_not() {
        assert_eq!(all(b"1234\n", 4).await, [whole("1234")]);
        assert_eq!(
            all(b"12345\nok\n", 4).await,
            [Line::TooLong(b"1234".into()), whole("5"), whole("ok")]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn lines_do_not_depend_on_how_the_bytes_arrive(
            texts in prop::collection::vec("[a-z]{0,12}", 1..20),
            chunk in 1..9_usize,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let bytes: String = texts.iter().map(|text| format!("{text}\n")).collect();
                let (mut writer, reader) = tokio::io::duplex(chunk);
                let writing = tokio::spawn(async move { writer.write_all(bytes.as_bytes()).await });
                let mut lines = Lines::new(reader, 12);
                for text in &texts {
                    assert_eq!(lines.next().await.unwrap(), Some(whole(text)));
                }
                assert_eq!(lines.next().await.unwrap(), None);
                writing.await.unwrap().unwrap();
            });
        }
    }
}
