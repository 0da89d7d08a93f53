//! Links the program so that it takes less room, with what linker and loader know here:
//!
//! - packed relative relocations (`DT_RELR`) take 12 KB instead of 1 MB; glibc knows them since version 2.36
//!   (https://sourceware.org/glibc/wiki/Release/2.36);
//! - in a release build, the functions that unwind the stack come from the static library of the compiler: each process has 0.1 MB less
//!   than with `libgcc_s.so`, and starts sooner;
//! - in a release build, the code that a client, a recorder and a fresh daemon run is placed together (`src/code_order.ld`). The kernel maps
//!   64 KiB around each page that is used: otherwise two thirds of the memory of a client were code that it does not run.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

const PACKED_RELOCATIONS: &str = "-Wl,-z,pack-relative-relocs";
const STATIC_UNWINDER: &str = "-Wl,--whole-archive,-l:libgcc_eh.a,--no-whole-archive";
const CODE_ORDER: &str = "src/code_order.ld";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={CODE_ORDER}");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    // What runs on another system cannot be tried here.
    if !is_glibc || env::var("HOST") != env::var("TARGET") {
        return;
    }
    let mut arguments = vec![PACKED_RELOCATIONS.to_owned()];
    if is("PROFILE", "release") {
        arguments.push(STATIC_UNWINDER.to_owned());
        // Unoptimized code has so many functions that the linker would compare them with the list for minutes.
        if !is("OPT_LEVEL", "0") {
            let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
            arguments.push(format!("-T{root}/{CODE_ORDER}"));
        }
    }
    for argument in arguments {
        if runs_here(&argument) == Some(true) {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}

/// Whether an empty program that is linked with an argument, as this one will be, can be started.
fn runs_here(argument: &str) -> Option<bool> {
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
    rustc.arg("-C").arg(format!("link-arg={argument}"));
    rustc.arg("-o").arg(&program).arg(&source);
    let mut runs = true;
    for command in [&mut rustc, &mut Command::new(&program)] {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        runs = runs && quiet.status().ok()?.success();
    }
    Some(runs)
}
