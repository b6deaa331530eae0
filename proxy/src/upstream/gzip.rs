//! Undoing a compression that nobody asked for.
//!
//! The gateway asks vendors for `identity`. Some, or a proxy before them, compress all the same. What
//! comes out can be a thousand times what goes in, so the output is bounded.

use std::error::Error;
use std::io::Write;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;

/// Why compressed bytes cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum GunzipError {
    /// Not gzip, damaged, or cut short.
    #[error("the answer's compression is damaged")]
    Damaged(#[source] std::io::Error),
    /// More came out than the limit.
    #[error("the answer is larger than {limit} bytes when unpacked")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
}

/// Unpacks a stream piece by piece.
#[derive(Debug)]
pub struct Gunzip {
    decoder: MultiGzDecoder<Bounded>,
}

#[derive(Debug)]
struct Bounded {
    unpacked: Vec<u8>,
    left: usize,
    limit: usize,
}

/// Marks the error that [`Bounded`] raises.
#[derive(Debug, thiserror::Error)]
#[error("limit reached")]
struct LimitReached;

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len()) else {
            return Err(std::io::Error::other(LimitReached));
        };
        self.left = left;
        self.unpacked.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Gunzip {
    /// Unpacks `limit` bytes at most over the whole stream.
    pub fn new(limit: usize) -> Self {
        Self {
            decoder: MultiGzDecoder::new(Bounded {
                unpacked: Vec::new(),
                left: limit,
                limit,
            }),
        }
    }

    /// What `packed` adds; may be empty.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, or the limit is passed.
    pub fn push(&mut self, packed: &[u8]) -> Result<Bytes, GunzipError> {
        let result = self
            .decoder
            .write_all(packed)
            .and_then(|()| self.decoder.flush());
        self.unpacked(result)
    }

    /// The rest, once all packed bytes were pushed.
    ///
    /// # Errors
    ///
    /// The stream is cut short, or the limit is passed.
    pub fn finish(mut self) -> Result<Bytes, GunzipError> {
        let result = self.decoder.try_finish();
        self.unpacked(result)
    }

    fn unpacked(&mut self, result: std::io::Result<()>) -> Result<Bytes, GunzipError> {
        let bounded = self.decoder.get_mut();
        match result {
            Ok(()) => Ok(std::mem::take(&mut bounded.unpacked).into()),
            Err(error)
                if error
                    .get_ref()
                    .is_some_and(<dyn Error + Send + Sync>::is::<LimitReached>) =>
            {
                Err(GunzipError::TooLarge {
                    limit: bounded.limit,
                })
            }
            Err(error) => Err(GunzipError::Damaged(error)),
        }
    }
}

/// Unpacks a whole body.
///
/// # Errors
///
/// The bytes are damaged or cut short, or more than `limit` bytes come out.
pub fn gunzip(packed: &[u8], limit: usize) -> Result<Bytes, GunzipError> {
    let mut stream = Gunzip::new(limit);
    let mut whole = stream.push(packed)?.to_vec();
    whole.extend_from_slice(&stream.finish()?);
    Ok(whole.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn pack(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_stream_comes_out_as_its_pieces_come_in() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"data: one\n\n").unwrap();
        encoder.flush().unwrap();
        let first = std::mem::take(encoder.get_mut());
        encoder.write_all(b"data: two\n\n").unwrap();
        let second = encoder.finish().unwrap();
        let mut stream = Gunzip::new(100);
        assert_eq!(stream.push(&first).unwrap(), "data: one\n\n");
        let mut rest = stream.push(&second).unwrap().to_vec();
        rest.extend_from_slice(&stream.finish().unwrap());
        assert_eq!(rest, b"data: two\n\n");
    }

    #[test]
    fn a_bomb_is_stopped_at_the_limit() {
        let packed = pack(&vec![0; 10_000_000]);
        let error = gunzip(&packed, 1_000_000).unwrap_err();
        assert!(matches!(error, GunzipError::TooLarge { limit: 1_000_000 }));
    }

    #[test]
    fn a_cut_body_is_an_error() {
        let packed = pack(b"hello, hello, hello");
        assert_eq!(gunzip(&packed, 100).unwrap(), "hello, hello, hello");
        let cut = &packed[..packed.len() - 5];
        assert!(matches!(gunzip(cut, 100), Err(GunzipError::Damaged(_))));
        assert!(matches!(
            gunzip(b"plain", 100),
            Err(GunzipError::Damaged(_))
        ));
    }
}
