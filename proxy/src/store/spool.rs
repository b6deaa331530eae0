//! The append-only log that a record is in before its response ends.
//!
//! Problem: a call's cost must survive the process being killed at any instant, yet no response may
//! wait for a disk. Idea: one `write(2)` hands the record to the operating system, which keeps it
//! whatever happens to the process; the database follows in its own time and the log is then
//! removed. Limits: there is no `fsync` here, so a power loss or a kernel crash can take what the
//! database has not committed yet (some milliseconds).
//!
//! A record is `length (u32) | CRC-32 of the body (u32) | body`, both little-endian. Segments are
//! numbered files; a new one starts every [`SEGMENT_BYTES`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A segment that has reached this size is followed by a new one.
const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes before a record's body.
pub(super) const HEADER: usize = 8;

/// A place in the log: everything before it is older.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) segment: u64,
    pub(super) offset: u64,
}

/// The writing end of the log.
#[derive(Debug)]
pub(super) struct Spool {
    dir: PathBuf,
    /// `None` before the first record of a segment, so that an idle process leaves no file.
    file: Option<File>,
    head: Position,
}

impl Spool {
    /// Opens the log in `dir`, to continue after every segment that is there.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let last = segments(dir)?.last().copied().unwrap_or(0);
        Ok(Self {
            dir: dir.to_owned(),
            file: None,
            head: Position {
                segment: last + 1,
                offset: 0,
            },
        })
    }

    /// Where the next record will begin.
    pub(super) const fn head(&self) -> Position {
        self.head
    }

    /// Appends a framed record (see [`frame`]) whole, or not at all.
    ///
    /// # Errors
    ///
    /// The operating system did not take all of it: the disk is full, or failing.
    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        if self.head.offset >= SEGMENT_BYTES {
            self.start_segment();
        }
        let file = match &mut self.file {
            Some(file) => file,
            empty => empty.insert(create_segment(&self.dir, self.head.segment)?),
        };
        match write_once(file, record) {
            Ok(()) => {
                self.head.offset += record.len() as u64;
                Ok(())
            }
            Err(error) => {
                // What was written of the record must not stand before the next one.
                if file.set_len(self.head.offset).is_err() {
                    self.start_segment();
                }
                Err(error)
            }
        }
    }

    /// Begins a new segment: what is there so far can be removed.
    pub(super) fn start_segment(&mut self) {
        self.file = None;
        self.head = Position {
            segment: self.head.segment + 1,
            offset: 0,
        };
    }
}

/// Puts the header before a body that begins at byte [`HEADER`] of `record`.
///
/// # Errors
///
/// The body is longer than a `u32` can say.
pub(super) fn frame(record: &mut [u8]) -> io::Result<()> {
    let Some((header, body)) = record.split_at_mut_checked(HEADER) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (first, second) = header.split_at_mut(4);
    first.copy_from_slice(&length.to_le_bytes());
    second.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    Ok(())
}

fn write_once(file: &mut File, record: &[u8]) -> io::Result<()> {
    loop {
        match file.write(record) {
            Ok(n) if n == record.len() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::StorageFull.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.log"))
}

fn create_segment(dir: &Path, number: u64) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(segment_path(dir, number))
}

/// Creates `dir` for this user alone, where it does not exist.
///
/// # Errors
///
/// The directory cannot be created.
pub(super) fn create_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// The numbers of the segments in `dir`, oldest first.
///
/// # Errors
///
/// The directory cannot be read.
pub(super) fn segments(dir: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|n| n.strip_suffix(".log"));
        numbers.extend(number.and_then(|n| n.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The bytes of all segments in `dir`, oldest first or not.
pub(super) fn bytes_in(dir: &Path) -> u64 {
    let sizes = segments(dir).into_iter().flatten();
    sizes
        .filter_map(|n| fs::metadata(segment_path(dir, n)).ok())
        .map(|meta| meta.len())
        .sum()
}

/// Removes the segments before number `end`.
///
/// # Errors
///
/// A file cannot be removed; older ones are gone.
pub(super) fn remove_before(dir: &Path, end: u64) -> io::Result<()> {
    for number in segments(dir)? {
        if number < end {
            fs::remove_file(segment_path(dir, number))?;
        }
    }
    Ok(())
}

/// Sets a damaged segment aside, where no later start reads it again.
///
/// # Errors
///
/// The file cannot be renamed.
pub(super) fn set_aside(dir: &Path, number: u64) -> io::Result<PathBuf> {
    let to = dir.join(format!("{number:06}.damaged"));
    fs::rename(segment_path(dir, number), &to)?;
    Ok(to)
}

/// What stands at a place in a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// A body that is not what was written.
    Damaged,
    /// A whole body.
    Record(&'a [u8]),
    /// The process was killed, or the disk filled up, within this record. Nothing follows.
    Torn,
}

/// The records of a segment from `offset` up to `end`.
#[derive(Debug)]
pub(super) struct Records {
    bytes: Vec<u8>,
    at: usize,
}

impl Records {
    /// Reads segment `number`; a segment that does not exist has no records.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn read(dir: &Path, number: u64, offset: u64, end: Option<u64>) -> io::Result<Self> {
        let mut bytes = Vec::new();
        match File::open(segment_path(dir, number)) {
            Ok(mut file) => {
                file.seek(SeekFrom::Start(offset))?;
                let most = end.map_or(u64::MAX, |end| end.saturating_sub(offset));
                file.take(most).read_to_end(&mut bytes)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Self { bytes, at: 0 })
    }

    /// The next record; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Found<'_>> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Some(self.torn());
        };
        let Some((crc, rest)) = rest.split_first_chunk::<4>() else {
            return Some(self.torn());
        };
        let length = u32::from_le_bytes(*length) as usize;
        if rest.len() < length {
            return Some(self.torn());
        }
        let start = self.at + HEADER;
        self.at = start + length;
        let body = self.bytes.get(start..self.at)?;
        Some(if crc32fast::hash(body) == u32::from_le_bytes(*crc) {
            Found::Record(body)
        } else {
            Found::Damaged
        })
    }

    fn torn(&mut self) -> Found<'static> {
        self.at = self.bytes.len();
        Found::Torn
    }
}
