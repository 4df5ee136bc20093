//! A disk that is full. The limit on the size of files is the process's own, so this test has a
//! process to itself.

use std::io::ErrorKind;
use weir_results::{FileError, FlowRecord, Group, Results, ResultsDirectory, SizeBins};
use weir_units::MachineId;

/// Files may grow to `bytes` from here on; more is an error and not a signal.
fn limit_files(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: both calls take values or a pointer to a live local, and change this process alone.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_nothing_half_written() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = ResultsDirectory::prepare(temporary.path(), false).unwrap();
    let small = Results {
        hosts: vec!["h1".to_owned(), "h2".to_owned()],
        groups: vec![Group { name: "web".to_owned(), transport: "dctcp".to_owned() }],
        ..Results::default()
    };
    directory.write(&small, &SizeBins::default()).unwrap();
    let flows = (0..100_000).map(|id| FlowRecord::new(id, MachineId(0), MachineId(1))).collect();
    let large = Results { flows, ..small.clone() };

    limit_files(100_000);
    let error = directory.write(&large, &SizeBins::default()).unwrap_err();
    limit_files(libc::RLIM_INFINITY);

    let FileError::Io { what, path, cause } = &error else { panic!("{error}") };
    assert_eq!(
        (*what, path.as_path(), cause.kind()),
        ("write", &*temporary.path().join("flows.csv"), ErrorKind::FileTooLarge)
    );
    let left: Vec<String> = std::fs::read_dir(temporary.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!left.iter().any(|name| name.starts_with('.') || name == "result.json"), "{left:?}");
    assert!(matches!(Results::is_complete(temporary.path()), Ok(false)));
    // With room again, the same directory takes the run.
    directory.write(&large, &SizeBins::default()).unwrap();
    assert_eq!(Results::read(temporary.path()).unwrap(), large);
}
