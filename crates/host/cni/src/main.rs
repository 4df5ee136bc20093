//! The program `weir-cni`: environment and standard input in, standard output and exit status out.

use std::io::{Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut input = Vec::new();
    let (text, status) = match std::io::stdin().read_to_end(&mut input) {
        Ok(_) => match weir_cni::run(|name| std::env::var_os(name), &input) {
            Ok(text) => (text, ExitCode::SUCCESS),
            Err(text) => (text, ExitCode::FAILURE),
        },
        Err(error) => {
            eprintln!("weir-cni: standard input: {error}");
            return ExitCode::FAILURE;
        }
    };
    // A runtime that has closed the pipe reads the exit status.
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => status,
        Err(_) => ExitCode::FAILURE,
    }
}
