//! A file without a name that nobody can change any more: what a child reads its component or artifact from. What was checked
//! is what is mapped.

use std::fs::File;
use std::io::{self, Write};

/// An unchangeable copy of `bytes`. The offset of the file stands at its begin.
pub fn sealed(bytes: &[u8]) -> io::Result<File> {
    let mut open = Open::new()?;
    open.write_all(bytes)?;
    open.seal()
}

/// One that can still be written.
pub struct Open {
    writer: File,
    #[cfg(not(target_os = "linux"))]
    reader: File,
}

#[cfg(target_os = "linux")]
impl Open {
    pub fn new() -> io::Result<Self> {
        use rustix::fs::MemfdFlags;

        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let writer = File::from(rustix::fs::memfd_create("stagegate-sandbox", flags)?);
        Ok(Self { writer })
    }

    pub fn seal(mut self) -> io::Result<File> {
        use rustix::fs::SealFlags;

        io::Seek::rewind(&mut self.writer)?;
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&self.writer, seals)?;
        Ok(self.writer)
    }
}

/// Opened twice and then without a name: once for writing, which ends before anyone gets the other.
#[cfg(not(target_os = "linux"))]
impl Open {
    pub fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("stagegate-{}", uuid::Uuid::new_v4().simple()));
        let mut options = std::fs::OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let writer = options.write(true).create_new(true).open(&path)?;
        let reader = File::open(&path);
        std::fs::remove_file(&path)?;
        Ok(Self {
            writer,
            reader: reader?,
        })
    }

    pub fn seal(self) -> io::Result<File> {
        Ok(self.reader)
    }
}

impl Write for Open {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
