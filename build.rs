//! Links the program with packed relative relocations (`DT_RELR`), which take 12 KB instead of 1 MB, where linker and loader know
//! them; glibc does since version 2.36 (https://sourceware.org/glibc/wiki/Release/2.36).

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

const ARGUMENT: &str = "-Wl,-z,pack-relative-relocs";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    // What runs on another system cannot be tried here.
    if is_glibc && env::var("HOST") == env::var("TARGET") && runs_here() == Some(true) {
        println!("cargo::rustc-link-arg-bins={ARGUMENT}");
    }
}

/// Whether an empty program that is linked with the argument, as this one will be, can be started.
fn runs_here() -> Option<bool> {
    let dir = env::var_os("OUT_DIR")?;
    let [source, program] = ["empty.rs", "empty"].map(|name| Path::new(&dir).join(name));
    std::fs::write(&source, "fn main() {}").ok()?;
    let mut rustc = Command::new(env::var_os("RUSTC")?);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = std::ffi::OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
    rustc.arg("-C").arg(format!("link-arg={ARGUMENT}"));
    rustc.arg("-o").arg(&program).arg(&source);
    let mut runs = true;
    for command in [&mut rustc, &mut Command::new(&program)] {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        runs = runs && quiet.status().ok()?.success();
    }
    Some(runs)
}
