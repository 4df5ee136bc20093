//! The modes of files that this process makes.
//!
//! Problem: with a umask of 000, which some containers and daemons have, all users have write permission for reports,
//! logs and directories. Approach: the umask of the process excludes that before the first file is made. The
//! group's permissions stay as the user has set them, since a umask of 002 shares reports with the group.
//!
//! Worked example: 000 becomes 002, and a report has mode 664; 022 and 077 stay.

/// Write permission for users other than the owner and the group.
const OTHERS_WRITE: libc::mode_t = 0o002;

/// Excludes write permission for others from all files that this process makes from now on. It is called before there
/// are threads, since the umask is the process's.
pub(crate) fn exclude_write_by_others() {
    // SAFETY: plain system calls, which cannot fail. The first one is the only way to read the umask.
    unsafe {
        let umask = libc::umask(0o077);
        libc::umask(umask | OTHERS_WRITE);
    }
}
