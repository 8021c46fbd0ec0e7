//! sample.rs - the same in Rust, with the crate `freehold`.
#[global_allocator]
static GLOBAL: freehold::Freehold = freehold::Freehold;

fn main() {
    let blocks: Vec<Vec<u8>> = (1..=1000).map(|n| vec![0; n]).collect();
    assert!(blocks.iter().all(|block| freehold::owns(block.as_ptr())));
    let live = freehold::stats().live_bytes;
    println!("Rust on freehold {}: {live} bytes live", freehold::version());
}
