//! The wait of a thread that follows the kernel's notifications and ends when it is signalled.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Waits until one of the files is readable or the time is over; without a time for as long as it takes. Returns
/// whether the thread has to end: whether `end` is readable. A signal may end the wait earlier.
pub(crate) fn has_to_end(end: &OwnedFd, files: &[RawFd], time: Option<Duration>) -> bool {
    let poll = |fd: &RawFd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
    let mut files: Vec<libc::pollfd> = [end.as_raw_fd()].iter().chain(files).map(poll).collect();
    let time = time.map(|time| libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(time.subsec_nanos() as i32),
    });
    let timeout = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both pointers are valid during the call.
    unsafe { libc::ppoll(files.as_mut_ptr(), files.len() as libc::nfds_t, timeout, std::ptr::null()) };
    files[0].revents != 0
}

/// Whether a file is readable now.
pub(crate) fn is_readable(fd: RawFd) -> bool {
    let mut file = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid element.
    unsafe { libc::poll(&raw mut file, 1, 0) > 0 }
}
