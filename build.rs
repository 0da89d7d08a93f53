//! Links the program with packed relative relocations (`DT_RELR`), which take 40 KB instead of 1 MB: every start reads them, and a
//! client lives only for one answer. glibc loads them since version 2.36 (https://sourceware.org/glibc/wiki/Release/2.36).

use std::env;
use std::process::Command;

/// The first version of glibc that loads them.
const FIRST: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    // The system that builds tells nothing about another one.
    if is_glibc && env::var("HOST") == env::var("TARGET") && glibc() >= Some(FIRST) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of the system's glibc.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
