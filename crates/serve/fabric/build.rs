//! Compiles the protocols. protox reads them, so no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let descriptors =
        protox::compile(["proto/fabric.proto", "proto/binding.proto", "proto/etcd/rpc.proto"], ["proto"])?;
    println!("cargo:rerun-if-changed=proto");
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
