//! Output as a sequence of terminal functions, each with its place in the output, and back.
//!
//! Exports contain only what the emulator understands, re-encoded. So titles, clipboard writes (OSC 52), images, queries
//! that make a terminal answer, and modes of keyboard and mouse are left out, known or not.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use avt::parser::{
    AnsiMode, CtcOp, DecMode, EdScope, ElScope, Function, Parser, SgrOp, SgrOps, TbcScope,
};
use avt::{Charset, Color};

/// Parses output, and returns the place in the output of each function.
#[derive(Debug, Default)]
pub struct FunctionParser {
    parser: Parser,
    /// An incomplete character, and its place.
    held: Vec<u8>,
    held_at: u64,
}

impl FunctionParser {
    /// A parser at the start of the output.
    pub fn new() -> FunctionParser {
        FunctionParser::default()
    }

    /// Parses `bytes`, which are at `at` in the output. A printed character comes with the place of its first byte.
    pub fn push(&mut self, bytes: &[u8], at: u64, take: &mut dyn FnMut(u64, Function)) {
        if self.held.is_empty() {
            return self.push_whole(bytes, at, take);
        }
        let mut joined = std::mem::take(&mut self.held);
        joined.extend_from_slice(bytes);
        self.push_whole(&joined, self.held_at, take);
    }

    fn push_whole(&mut self, bytes: &[u8], mut at: u64, take: &mut dyn FnMut(u64, Function)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (valid, invalid, held) = match std::str::from_utf8(rest) {
                Ok(text) => (text, 0, 0),
                Err(error) => {
                    let valid = rest.get(..error.valid_up_to()).unwrap_or_default();
                    let valid = std::str::from_utf8(valid).unwrap_or_default();
                    match error.error_len() {
                        Some(length) => (valid, length, 0),
                        None => (valid, 0, rest.len() - valid.len()),
                    }
                }
            };
            for c in valid.chars() {
                self.feed(c, at, take);
                at += c.len_utf8() as u64;
            }
            if held > 0 {
                self.held = rest.get(valid.len()..).unwrap_or_default().to_vec();
                self.held_at = at;
                return;
            }
            if invalid > 0 {
                self.feed(char::REPLACEMENT_CHARACTER, at, take);
                at += invalid as u64;
            }
            rest = rest.get(valid.len() + invalid..).unwrap_or_default();
        }
    }

    fn feed(&mut self, c: char, at: u64, take: &mut dyn FnMut(u64, Function)) {
        let parser = &mut self.parser;
        match catch_unwind(AssertUnwindSafe(|| parser.feed(c))) {
            Ok(Some(function)) if is_drawing(&function) => take(at, function),
            Ok(_) => {}
            Err(_) => self.parser = Parser::new(),
        }
    }
}

/// Returns whether a function changes the screen.
fn is_drawing(function: &Function) -> bool {
    match function {
        Function::Osc(_) | Function::Xtwinops(_) => false,
        // The emulator would print DEL, which terminals ignore.
        Function::Print(c) => !c.is_control(),
        Function::Sgr(ops) => !ops.as_slice().is_empty(),
        Function::Sm(modes) | Function::Rm(modes) => !modes.as_slice().is_empty(),
        Function::Decset(modes) | Function::Decrst(modes) => !modes.as_slice().is_empty(),
        _ => true,
    }
}

/// Appends output that has the effect of `function`.
pub fn write_function(function: &Function, out: &mut String) {
    use Function::*;
    let mut csi = |text: std::fmt::Arguments<'_>| {
        out.push_str("\x1b[");
        // Writing to memory does not fail.
        let _ = out.write_fmt(text);
    };
    match function {
        Print(c) => out.push(*c),
        Sgr(ops) => write_sgr(ops, out),
        Lf => out.push('\n'),
        Cr => out.push('\r'),
        Bs => out.push('\x08'),
        Ht => out.push('\t'),
        So => out.push('\x0e'),
        Si => out.push('\x0f'),
        Cup(row, col) => csi(format_args!("{row};{col}H")),
        El(scope) => csi(format_args!(
            "{}K",
            match scope {
                ElScope::ToRight => 0,
                ElScope::ToLeft => 1,
                ElScope::All => 2,
            }
        )),
        Ed(scope) => csi(format_args!(
            "{}J",
            match scope {
                EdScope::Below => 0,
                EdScope::Above => 1,
                EdScope::All => 2,
                EdScope::SavedLines => 3,
            }
        )),
        Cuu(n) => csi(format_args!("{n}A")),
        Cud(n) => csi(format_args!("{n}B")),
        Cuf(n) => csi(format_args!("{n}C")),
        Cub(n) => csi(format_args!("{n}D")),
        Cnl(n) => csi(format_args!("{n}E")),
        Cpl(n) => csi(format_args!("{n}F")),
        Cha(n) => csi(format_args!("{n}G")),
        Cht(n) => csi(format_args!("{n}I")),
        Cbt(n) => csi(format_args!("{n}Z")),
        Il(n) => csi(format_args!("{n}L")),
        Dl(n) => csi(format_args!("{n}M")),
        Dch(n) => csi(format_args!("{n}P")),
        Ich(n) => csi(format_args!("{n}@")),
        Ech(n) => csi(format_args!("{n}X")),
        Rep(n) => csi(format_args!("{n}b")),
        Su(n) => csi(format_args!("{n}S")),
        Sd(n) => csi(format_args!("{n}T")),
        Vpa(n) => csi(format_args!("{n}d")),
        Vpr(n) => csi(format_args!("{n}e")),
        Decstbm(top, bottom) => csi(format_args!("{top};{bottom}r")),
        Ctc(CtcOp::Set) => csi(format_args!("W")),
        Ctc(CtcOp::ClearCurrentColumn) => csi(format_args!("2W")),
        Ctc(CtcOp::ClearAll) => csi(format_args!("5W")),
        Tbc(TbcScope::CurrentColumn) => csi(format_args!("0g")),
        Tbc(TbcScope::All) => csi(format_args!("3g")),
        Decstr => csi(format_args!("!p")),
        Scosc => csi(format_args!("s")),
        Scorc => csi(format_args!("u")),
        Sm(modes) => modes
            .as_slice()
            .iter()
            .for_each(|m| csi(format_args!("{}h", ansi_mode(*m)))),
        Rm(modes) => modes
            .as_slice()
            .iter()
            .for_each(|m| csi(format_args!("{}l", ansi_mode(*m)))),
        Decset(modes) => modes
            .as_slice()
            .iter()
            .for_each(|m| csi(format_args!("?{}h", dec_mode(*m)))),
        Decrst(modes) => modes
            .as_slice()
            .iter()
            .for_each(|m| csi(format_args!("?{}l", dec_mode(*m)))),
        Decaln => out.push_str("\x1b#8"),
        Decsc => out.push_str("\x1b7"),
        Decrc => out.push_str("\x1b8"),
        Hts => out.push_str("\x1bH"),
        Nel => out.push_str("\x1bE"),
        Ri => out.push_str("\x1bM"),
        Ris => out.push_str("\x1bc"),
        Gzd4(charset) => out.push_str(match charset {
            Charset::Drawing => "\x1b(0",
            Charset::Ascii => "\x1b(B",
        }),
        G1d4(charset) => out.push_str(match charset {
            Charset::Drawing => "\x1b)0",
            Charset::Ascii => "\x1b)B",
        }),
        Osc(_) | Xtwinops(_) => {}
    }
}

fn ansi_mode(mode: AnsiMode) -> u16 {
    match mode {
        AnsiMode::Insert => 4,
        AnsiMode::NewLine => 20,
    }
}

fn dec_mode(mode: DecMode) -> u16 {
    match mode {
        DecMode::CursorKeys => 1,
        DecMode::Origin => 6,
        DecMode::AutoWrap => 7,
        DecMode::TextCursorEnable => 25,
        DecMode::AltScreenBuffer => 1047,
        DecMode::SaveCursor => 1048,
        DecMode::SaveCursorAltScreenBuffer => 1049,
    }
}

fn write_sgr(ops: &SgrOps, out: &mut String) {
    out.push_str("\x1b[");
    for (at, op) in ops.as_slice().iter().enumerate() {
        if at > 0 {
            out.push(';');
        }
        use SgrOp::*;
        let code = match op {
            SetForegroundColor(color) => {
                write_color(*color, 30, out);
                continue;
            }
            SetBackgroundColor(color) => {
                write_color(*color, 40, out);
                continue;
            }
            Reset => "0",
            SetBoldIntensity => "1",
            SetFaintIntensity => "2",
            SetItalic => "3",
            SetUnderline => "4",
            SetBlink => "5",
            SetInverse => "7",
            SetStrikethrough => "9",
            ResetIntensity => "22",
            ResetItalic => "23",
            ResetUnderline => "24",
            ResetBlink => "25",
            ResetInverse => "27",
            ResetStrikethrough => "29",
            ResetForegroundColor => "39",
            ResetBackgroundColor => "49",
        };
        out.push_str(code);
    }
    out.push('m');
}

/// Appends the parameters of a colour; `base` is 30 for the foreground and 40 for the background.
pub fn write_color(color: Color, base: u8, out: &mut String) {
    let written = match color {
        Color::Indexed(c @ 0..8) => write!(out, "{}", base + c),
        Color::Indexed(c @ 8..16) => write!(out, "{}", base + 52 + c),
        Color::Indexed(c) => write!(out, "{};5;{c}", base + 8),
        Color::RGB(c) => write!(out, "{};2;{};{};{}", base + 8, c.r, c.g, c.b),
    };
    // Writing to memory does not fail.
    let _ = written;
}

#[cfg(test)]
mod tests;
