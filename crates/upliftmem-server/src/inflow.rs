//! A large request body: it comes into a file first, so that it needs no memory, and so that a sender that is slow keeps nobody
//! from writing.

use std::{
    fs::File,
    io::{BufRead, BufReader, Cursor, Seek, SeekFrom, Write},
};

use axum::body::Body;
use futures_util::StreamExt;

use crate::error::{ApiError, Code, Result};

/// Bytes that are kept in memory before a file is made, and that go into it together.
const TOGETHER: usize = 1 << 20;

/// All of a body, to be read from its beginning; refused if it has more bytes than this.
pub(crate) async fn spooled(body: Body, most: usize) -> Result<Box<dyn BufRead + Send>> {
    let mut pieces = body.into_data_stream();
    let mut spool = Spool::default();
    let mut seen = 0_usize;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| {
            let text = format_args!("the body ended early: {error}; nothing was imported, send it again");
            ApiError::new(Code::InvalidRequest, text)
        })?;
        seen = seen.saturating_add(piece.len());
        if seen > most {
            let text = format_args!("the body is above import_bytes_max = {most}; send it in parts");
            return Err(ApiError::new(Code::BodyTooLarge, text));
        }
        spool.waiting.extend_from_slice(&piece);
        if spool.waiting.len() >= TOGETHER {
            spool = spool.written().await?;
        }
    }
    if spool.file.is_none() {
        return Ok(Box::new(Cursor::new(spool.waiting)));
    }
    spool.written().await?.reader()
}

/// What has come so far: in a file without a name, and not there yet.
#[derive(Default)]
struct Spool {
    file: Option<File>,
    waiting: Vec<u8>,
}

impl Spool {
    /// The same with nothing waiting.
    async fn written(mut self) -> Result<Self> {
        let work = move || {
            let mut file = match self.file.take() {
                Some(file) => file,
                None => tempfile::tempfile()?,
            };
            file.write_all(&self.waiting)?;
            self.waiting.clear();
            self.file = Some(file);
            Ok::<_, std::io::Error>(self)
        };
        tokio::task::spawn_blocking(work)
            .await
            .map_err(std::io::Error::other)
            .flatten()
            .map_err(|error| no_room(&error))
    }

    fn reader(self) -> Result<Box<dyn BufRead + Send>> {
        let Some(mut file) = self.file else {
            return Ok(Box::new(Cursor::new(self.waiting)));
        };
        file.seek(SeekFrom::Start(0)).map_err(|error| no_room(&error))?;
        Ok(Box::new(BufReader::new(file)))
    }
}

fn no_room(error: &std::io::Error) -> ApiError {
    tracing::error!(%error, "a body could not be kept in a temporary file");
    ApiError::new(
        Code::Unavailable,
        "the server has no room for a temporary file; try again later",
    )
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;

    use super::*;

    #[tokio::test]
    async fn what_comes_in_pieces_is_read_whole_up_to_the_limit() {
        for (pieces, size) in [(0, 0), (3, 10), (5, TOGETHER / 2), (2, 2 * TOGETHER)] {
            let all: Vec<u8> = (0..pieces * size).map(|place| (place % 251) as u8).collect();
            let body = || {
                let pieces: Vec<std::io::Result<Bytes>> = all
                    .chunks(size.max(1))
                    .map(|piece| Ok(Bytes::copy_from_slice(piece)))
                    .collect();
                Body::from_stream(futures_util::stream::iter(pieces))
            };
            let mut read = Vec::new();
            let mut reader = spooled(body(), all.len()).await.unwrap();
            reader.read_to_end(&mut read).unwrap();
            assert!(read == all, "{pieces} pieces of {size} bytes");
            if !all.is_empty() {
                let refused = spooled(body(), all.len() - 1).await.err().unwrap();
                assert_eq!(refused.code, Code::BodyTooLarge);
            }
        }
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_refused() {
        let pieces = [
            Ok(Bytes::from_static(b"{}\n")),
            Err(std::io::Error::other("gone")),
        ];
        let body = Body::from_stream(futures_util::stream::iter(pieces));
        let refused = spooled(body, 100).await.err().unwrap();
        assert!(refused.message.contains("ended early"), "{}", refused.message);
    }
}
