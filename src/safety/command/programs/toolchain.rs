//! Names of the parts of a compiler for another system.

/// Parts of a compiler, of which there is one for each system that is compiled for: `arm-none-eabi-gcc`.
pub(super) const TOOLCHAIN: [&str; 13] = [
    "ar", "as", "g++", "gcc", "gdb", "ld", "nm", "objcopy", "objdump", "ranlib", "readelf", "size",
    "strip",
];

/// Architectures with which the names of such parts begin, without versions.
const ARCHITECTURES: &[&str] = &[
    "aarch",
    "alpha",
    "arc",
    "arm",
    "avr",
    "bfin",
    "hppa",
    "i",
    "ia",
    "lm",
    "loongarch",
    "m",
    "microblaze",
    "mips",
    "msp",
    "nios",
    "or",
    "powerpc",
    "ppc",
    "riscv",
    "rx",
    "s",
    "sh",
    "sparc",
    "tricore",
    "v",
    "wasm",
    "x",
    "xtensa",
];

/// Whether a part of a name is an architecture: `x86_64`, `armv7l`, `mips64el`.
pub(super) fn is_architecture(part: &str) -> bool {
    const ENDINGS: [&str; 12] = [
        "", "a", "be", "be_ilp", "c", "eb", "el", "hf", "k", "l", "le", "x",
    ];
    ARCHITECTURES.iter().any(|name| {
        let is_bare = name.len() > 2;
        let rest = part
            .strip_prefix(name)
            .filter(|rest| is_bare || rest.starts_with(|c: char| c.is_ascii_digit()));
        rest.is_some_and(|rest| {
            let rest = rest.trim_start_matches('v');
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
            ENDINGS.contains(&rest.trim_end_matches(|c: char| c.is_ascii_digit()))
        })
    })
}
