//! Builds the site of the documents: `weir-book DIRECTORY`.

use anyhow::{Result, bail};
use std::path::Path;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [site] = &arguments[..] else { bail!("one argument: the directory of the site") };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let pages = weir_book::build(&root, Path::new(site))?;
    println!("{pages} pages: {site}/index.html");
    Ok(())
}
