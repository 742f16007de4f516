//! ZIP archives without compression, as `numpy.savez` makes them: written with the sizes known beforehand, and read
//! whatever their bytes are.
//!
//! ```text
//!  local header, name, bytes | ... | central directory: name, size, CRC-32, offset of each | end, that of ZIP64 too
//! ```

use forebay::{Error, Result};
use forebay_types::Crc32;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END_64: u32 = 0x0606_4b50;
const LOCATOR_64: u32 = 0x0706_4b50;
/// Version 4.5, which has ZIP64.
const VERSION: u16 = 45;
/// Names are UTF-8.
const UTF8: u16 = 1 << 11;
/// The first of January 1980, as archives write it: they do not depend on the clock.
const DATE: u16 = 1 << 5 | 1;
/// The largest number of a field of 32 bits; it says that the number stands among the fields of ZIP64.
const FULL: u32 = u32::MAX;
/// Longest end of an archive: its comment has up to 65535 bytes.
const LONGEST_END: u64 = 22 + 65_535;
/// Most bytes of a directory.
const MOST_DIRECTORY: u64 = 256 << 20;

struct Written {
    name: String,
    size: u64,
    crc: u32,
    at: u64,
}

/// An archive in the making.
pub struct ArchiveWriter {
    file: BufWriter<File>,
    done: Vec<Written>,
    at: u64,
    crc: Crc32,
}

impl ArchiveWriter {
    /// Begins it.
    pub fn new(file: File) -> ArchiveWriter {
        ArchiveWriter {
            file: BufWriter::with_capacity(1 << 20, file),
            done: Vec::new(),
            at: 0,
            crc: Crc32::default(),
        }
    }

    /// Begins a member of so many bytes.
    pub fn begin(&mut self, name: &str, size: u64) -> std::io::Result<()> {
        let length = u16::try_from(name.len()).map_err(|_| std::io::ErrorKind::InvalidInput)?;
        self.done.push(Written { name: name.to_owned(), size, crc: 0, at: self.at });
        self.crc = Crc32::default();
        let mut head = Vec::with_capacity(64 + name.len());
        head.extend(LOCAL.to_le_bytes());
        for field in [VERSION, UTF8, 0, 0, DATE] {
            head.extend(field.to_le_bytes());
        }
        // The checksum is written when it is known.
        for field in [0, FULL, FULL] {
            head.extend(field.to_le_bytes());
        }
        head.extend(length.to_le_bytes());
        head.extend(20u16.to_le_bytes());
        head.extend(name.as_bytes());
        sizes(&mut head, &[size, size]);
        self.put(&head)
    }

    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Writes bytes of the member that was begun.
    pub fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.crc.update(bytes);
        self.put(bytes)
    }

    /// Ends the member.
    pub fn end(&mut self) -> std::io::Result<()> {
        let Some(one) = self.done.last_mut() else { return Ok(()) };
        one.crc = self.crc.sum();
        let (crc, at) = (one.crc, one.at + 14);
        let behind = self.at;
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(&crc.to_le_bytes())?;
        self.file.seek(SeekFrom::Start(behind)).map(|_| ())
    }

    /// Writes the directory.
    pub fn finish(mut self) -> std::io::Result<File> {
        let begin = self.at;
        let mut directory = Vec::new();
        for one in &self.done {
            directory.extend(CENTRAL.to_le_bytes());
            for field in [VERSION, VERSION, UTF8, 0, 0, DATE] {
                directory.extend(field.to_le_bytes());
            }
            for field in [one.crc, FULL, FULL] {
                directory.extend(field.to_le_bytes());
            }
            for field in [one.name.len() as u16, 28, 0, 0, 0] {
                directory.extend(field.to_le_bytes());
            }
            // Readable by all, as files are.
            directory.extend((0o100_644u32 << 16).to_le_bytes());
            directory.extend(FULL.to_le_bytes());
            directory.extend(one.name.as_bytes());
            sizes(&mut directory, &[one.size, one.size, one.at]);
        }
        let (count, length) = (self.done.len() as u64, directory.len() as u64);
        let end = begin + length;
        directory.extend(END_64.to_le_bytes());
        directory.extend(44u64.to_le_bytes());
        directory.extend(VERSION.to_le_bytes());
        directory.extend(VERSION.to_le_bytes());
        directory.extend([0; 8]);
        for field in [count, count, length, begin] {
            directory.extend(field.to_le_bytes());
        }
        directory.extend(LOCATOR_64.to_le_bytes());
        directory.extend(0u32.to_le_bytes());
        directory.extend(end.to_le_bytes());
        directory.extend(1u32.to_le_bytes());
        directory.extend(END.to_le_bytes());
        directory.extend([0; 4]);
        for _ in 0..2 {
            directory.extend(u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes());
        }
        directory.extend(u32::try_from(length).unwrap_or(FULL).to_le_bytes());
        directory.extend(u32::try_from(begin).unwrap_or(FULL).to_le_bytes());
        directory.extend(0u16.to_le_bytes());
        self.put(&directory)?;
        self.file.into_inner().map_err(std::io::IntoInnerError::into_error)
    }
}

/// The field of ZIP64 with these sizes.
fn sizes(out: &mut Vec<u8>, all: &[u64]) {
    out.extend(1u16.to_le_bytes());
    out.extend((8 * all.len() as u16).to_le_bytes());
    all.iter().for_each(|n| out.extend(n.to_le_bytes()));
}

/// A member of an archive.
#[derive(Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    size: u64,
    crc: u32,
    at: u64,
}

/// An archive that is read.
pub struct Archive {
    file: File,
    length: u64,
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut wide = [0; 8];
    wide[..size].copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
    Some(u64::from_le_bytes(wide))
}

fn damaged(why: &str) -> Error {
    Error::bad(format!("this is no ZIP archive that can be read: {why}; save it with numpy.savez"))
}

impl Archive {
    /// Begins to read.
    pub fn new(file: File) -> Result<Archive> {
        let length = file.metadata().map_err(|e| Error::io("cannot look at the archive", e))?.len();
        Ok(Archive { file, length })
    }

    fn bytes(&self, at: u64, length: u64) -> Result<Vec<u8>> {
        if at.checked_add(length).is_none_or(|end| end > self.length) {
            return Err(damaged("it is cut off"));
        }
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, at).map_err(|e| Error::io("cannot read the archive", e))?;
        Ok(bytes)
    }

    /// What is in it.
    pub fn members(&self) -> Result<Vec<Member>> {
        let from = self.length.saturating_sub(LONGEST_END);
        let tail = self.bytes(from, self.length - from)?;
        let end =
            tail.windows(4).rposition(|w| w == END.to_le_bytes()).ok_or_else(|| damaged("it has no end"))?;
        let field = |at, size| number(&tail, end + at, size).ok_or_else(|| damaged("it is cut off"));
        let (mut count, mut length, mut begin) = (field(10, 2)?, field(12, 4)?, field(16, 4)?);
        if field(20, 2)? > (tail.len() - end - 22) as u64 {
            return Err(damaged("it is cut off"));
        }
        let locator = (from + end as u64).checked_sub(20).map(|at| self.bytes(at, 20)).transpose()?;
        if let Some(l) = locator.filter(|l| l[..4] == LOCATOR_64.to_le_bytes()) {
            let at = number(&l, 8, 8).unwrap_or(u64::MAX);
            let end = self.bytes(at, 56)?;
            if end[..4] != END_64.to_le_bytes() {
                return Err(damaged("its end is not where it should be"));
            }
            let field = |at| number(&end, at, 8).unwrap_or(u64::MAX);
            (count, length, begin) = (field(32), field(40), field(48));
        }
        if length > MOST_DIRECTORY {
            return Err(damaged("its directory is larger than 256 MiB"));
        }
        let directory = self.bytes(begin, length)?;
        let (mut members, mut at) = (Vec::new(), 0);
        for _ in 0..count {
            let (member, next) = self.member(&directory, at)?;
            members.push(member);
            at = next;
        }
        Ok(members)
    }

    fn member(&self, directory: &[u8], at: usize) -> Result<(Member, usize)> {
        let field = |offset, size| {
            number(directory, at + offset, size).ok_or_else(|| damaged("its directory is cut off"))
        };
        if field(0, 4)? != u64::from(CENTRAL) {
            return Err(damaged("its directory is damaged"));
        }
        let (flags, method) = (field(8, 2)?, field(10, 2)?);
        let (names, extra, comment) =
            (field(28, 2)? as usize, field(30, 2)? as usize, field(32, 2)? as usize);
        let cut = || damaged("its directory is cut off");
        let name = directory.get(at + 46..at + 46 + names).ok_or_else(cut)?;
        let more = directory.get(at + 46 + names..at + 46 + names + extra).ok_or_else(cut)?;
        let name = String::from_utf8(name.to_vec()).map_err(|_| damaged("a name is not UTF-8"))?;
        if flags & 1 != 0 || method != 0 {
            let how = if flags & 1 != 0 { "encrypted" } else { "compressed" };
            return Err(Error::bad(format!(
                "{name:?} is {how}, which is not read; save it with numpy.savez in place of numpy.savez_compressed"
            )));
        }
        let (mut packed, mut size, mut offset) = (field(20, 4)?, field(24, 4)?, field(42, 4)?);
        // Of the field of ZIP64 only those numbers are there that are full elsewhere, in this order.
        let mut wide = field_64(more);
        for narrow in [&mut size, &mut packed, &mut offset] {
            if *narrow == u64::from(FULL) {
                *narrow = wide.next().ok_or_else(|| damaged("a size is lacking"))?;
            }
        }
        if packed != size {
            return Err(damaged("two sizes of one member differ"));
        }
        let member = Member { name, size, crc: field(16, 4)? as u32, at: offset };
        Ok((member, at + 46 + names + extra + comment))
    }

    /// The bytes of a member.
    pub fn read(&self, member: &Member) -> Result<Vec<u8>> {
        let head = self.bytes(member.at, 30)?;
        if head[..4] != LOCAL.to_le_bytes() {
            return Err(damaged("a member is not where its directory says"));
        }
        let field = |at| number(&head, at, 2).unwrap_or(0);
        let begin = member.at + 30 + field(26) + field(28);
        let bytes = self.bytes(begin, member.size)?;
        let mut crc = Crc32::default();
        crc.update(&bytes);
        match crc.sum() == member.crc {
            true => Ok(bytes),
            false => Err(damaged(&format!("{:?} has another checksum", member.name))),
        }
    }
}

/// The numbers of the field of ZIP64 among others.
fn field_64(mut fields: &[u8]) -> impl Iterator<Item = u64> {
    let mut found = Vec::new();
    while let (Some(id), Some(length)) = (number(fields, 0, 2), number(fields, 2, 2)) {
        let end = (4 + length as usize).min(fields.len());
        if id == 1 {
            found = fields[4.min(end)..end].chunks_exact(8).filter_map(|n| number(n, 0, 8)).collect();
        }
        fields = &fields[end..];
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.zip");
        let mut writer = ArchiveWriter::new(File::create(&path).unwrap());
        for (name, bytes) in members {
            writer.begin(name, bytes.len() as u64).unwrap();
            bytes.chunks(3).for_each(|part| writer.write(part).unwrap());
            writer.end().unwrap();
        }
        writer.finish().unwrap();
        std::fs::read(&path).unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let reader = Archive::new(file)?;
        let members = reader.members()?;
        members.into_iter().map(|m| Ok((m.name.clone(), reader.read(&m)?))).collect()
    }

    #[test]
    fn what_is_written_is_read_and_a_flipped_byte_is_found() {
        let members: [(&str, &[u8]); 3] = [("a/ä.npy", b"1234567"), ("empty", b""), ("b", &[7; 100])];
        let bytes = archive(&members);
        let found = read(&bytes).unwrap();
        assert_eq!(found, members.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())));
        let at = bytes.windows(7).position(|w| w == b"1234567").unwrap();
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        assert!(read(&bad).unwrap_err().text().contains("\"a/ä.npy\" has another checksum"));
    }

    #[test]
    fn whatever_is_done_to_an_archive_it_is_read_or_refused() {
        let bytes = archive(&[("a.npy", b"1234567"), ("b", &[7; 30])]);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bad = bytes.clone();
                bad[at] = value;
                let _ = read(&bad);
            }
        }
    }
}
