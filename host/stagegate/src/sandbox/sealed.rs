//! A file without a name that nobody can change any more: what a child reads its component or artifact from. What was checked
//! is what is mapped.

use std::fs::File;
use std::io::{self, Write as _};

/// An unchangeable copy of `bytes`. The offset of the file stands at its begin.
#[cfg(target_os = "linux")]
pub fn sealed(bytes: &[u8]) -> io::Result<File> {
    use std::io::Seek as _;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    let descriptor = memfd_create("stagegate-sandbox", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(descriptor);
    file.write_all(bytes)?;
    file.rewind()?;
    fcntl_add_seals(
        &file,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
    Ok(file)
}

/// A copy of `bytes` that has no name, opened for reading only: the writing end is closed before anyone gets this one.
#[cfg(not(target_os = "linux"))]
pub fn sealed(bytes: &[u8]) -> io::Result<File> {
    let path = std::env::temp_dir().join(format!("stagegate-{}", uuid::Uuid::new_v4().simple()));
    let mut options = std::fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut writer = options.write(true).create_new(true).open(&path)?;
    let written = writer.write_all(bytes);
    let reader = File::open(&path);
    std::fs::remove_file(&path)?;
    written?;
    reader
}
