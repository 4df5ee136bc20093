//! Compiles the protocol. protox reads it, so no protoc is needed for it.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let descriptors = protox::compile(["proto/fabric.proto"], ["proto"])?;
    println!("cargo:rerun-if-changed=proto/fabric.proto");
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
