//! The descriptors of a child: its own, and those that it was started with. Must not close one.

use std::io;
use std::os::fd::BorrowedFd;

/// The descriptors of a child.
pub struct Descriptors<'a> {
    /// Which it may read and write.
    pub own: Vec<BorrowedFd<'a>>,
    /// Those of whoever started the host, who left them open: the host makes none that a child gets. See [`inherited`].
    pub inherited: Vec<u32>,
}

/// The descriptors beyond the three standard ones. To be asked before any is made.
///
/// # Errors
/// No `/proc`, without which no artifact is mapped either.
#[cfg(target_os = "linux")]
pub fn inherited() -> io::Result<Vec<u32>> {
    let folder = std::path::PathBuf::from(format!("/proc/{}/fd", std::process::id()));
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        // Listing the folder takes a descriptor, too, which is gone afterwards.
        if let Some(number) = number
            && number > 2
            && std::fs::read_link(entry.path())? != folder
        {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

/// Only the filter needs to know them.
#[cfg(not(target_os = "linux"))]
pub fn inherited() -> io::Result<Vec<u32>> {
    Ok(Vec::new())
}
