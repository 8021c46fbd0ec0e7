//! Builds freehold.c, the library in one file. It lies in `vendor` of a published crate, and is made
//! from `src` in a clone of the repository.
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        other => panic!("{command:?}: {other:?}; expected success"),
    }
}

/// The folder with freehold.c.
fn source(here: &Path, out: &Path) -> PathBuf {
    let vendor = here.join("vendor");
    if vendor.join("freehold.c").exists() {
        println!("cargo:rerun-if-changed=vendor");
        return vendor;
    }
    let root = here.join("../../..");
    for part in ["src", "include", "tools/amalgamate.py"] {
        println!("cargo:rerun-if-changed={}", root.join(part).display());
    }
    run(Command::new("python3")
        .arg("-B")
        .arg(root.join("tools/amalgamate.py"))
        .arg(out));
    out.to_owned()
}

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where it is"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where to build"));
    println!("cargo:rerun-if-changed=build.rs");
    let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    assert_eq!(os, "linux", "freehold is for Linux");
    let folder = source(&here, &out);
    let mut build = cc::Build::new();
    build
        .file(folder.join("freehold.c"))
        .std("gnu11")
        .opt_level(2)
        .warnings(false)
        .flag("-fvisibility=hidden")
        .flag("-fexceptions")
        .flag_if_supported("-fno-plt");
    for name in ["malloc", "calloc", "realloc", "free"] {
        build.flag(format!("-fno-builtin-{name}"));
    }
    if env::var_os("CARGO_FEATURE_SECURE").is_some() {
        build.define("FH_SECURE", "1");
    }
    let objects = build.compile_intermediates();
    if env::var_os("CARGO_FEATURE_OVERRIDE").is_none() {
        // malloc and its kin stay the C library's: no name but fh_* leaves the object
        let objcopy = env::var_os("OBJCOPY").unwrap_or_else(|| "objcopy".into());
        for object in &objects {
            run(Command::new(&objcopy)
                .args(["--wildcard", "--keep-global-symbol=fh_*"])
                .arg(object));
        }
    }
    let mut archive = cc::Build::new();
    for object in &objects {
        archive.object(object);
    }
    if env::var_os("CARGO_FEATURE_OVERRIDE").is_some() {
        // also if nothing else calls for the object
        archive.link_lib_modifier("+whole-archive");
    }
    archive.compile("freehold");
}
