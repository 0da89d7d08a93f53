//! Cuts the text of a terminal into the outputs of known commands. Pure.
//!
//! The text has no marks, so it is cut by what the daemon knows: the command lines, their order, their directories, and how many
//! lines were entered between them that it does not know. The line of a command is where its text follows a prompt; the
//! prompt is recognized because it precedes other commands too. The text between the line of a command and the
//! next prompt is its output. Rows of a prompt above its last one are those that all prompts on the screen have in common.
//!
//! In doubt it returns no output: the text of an unknown command, or of one typed with a leading space to keep it out of the
//! history, must never be returned as the output of another. So the first line that is not recorded must be found by its
//! fingerprint: its prompt may look like no other on the screen.

mod assign;
mod current;
mod doubts;
mod earlier;
mod echo;
mod prompt;
mod redrawn;
mod region;
mod text;
mod unrecorded;

use self::assign::Prompts;
use self::earlier::OwnLine;
use self::echo::{Echo, echoes};
use self::prompt::PromptLine;
use self::text::{Expected, SearchedScreen};
pub use self::unrecorded::{LineFingerprint, UnrecordedLine};

/// Number of commands before the wanted one that are looked for, to recognize the prompt.
const NEIGHBOURS: usize = 12;
/// Maximum number of lines with the text of a command that are considered, the last ones. An output can repeat a command line
/// without end, and each is compared with the others.
const MAX_ECHOES: usize = 300;

/// One row of a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScreenRow {
    /// The text; trailing blanks are kept if the terminal reports them.
    pub text: String,
    /// The terminal wrapped the line here: it continues in the next row.
    pub wrapped: bool,
}

/// The scrollback and the screen of a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Screen {
    /// The rows, the oldest first.
    pub rows: Vec<ScreenRow>,
    /// The width.
    pub columns: usize,
    /// Older rows exist or were dropped.
    pub is_cut: bool,
    /// [`ScreenRow::wrapped`] is what the terminal reports, not a guess from full rows.
    pub tells_wraps: bool,
    /// The terminal has confirmed that it shows the shell's terminal device. Without that, it may be another window, whose
    /// variables the shell has inherited.
    pub is_confirmed: bool,
    /// Of each character only the low byte was told: [`low_byte`].
    pub is_lossy: bool,
    /// The mark that zsh puts after an output without a line end: `#` for root, `%` for others.
    pub end_mark: char,
}

/// A command whose line may be on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownCommand<'a> {
    /// The command line. A secret in it is replaced by a mark such as `[REDACTED:token]`.
    pub text: &'a str,
    /// The directory in which it was started.
    pub cwd: &'a str,
    /// Its exit code.
    pub exit: i32,
    /// The lines that were entered after it, up to the next known command, and are not known; `None` if nobody counted.
    pub unrecorded_after: Option<&'a [UnrecordedLine]>,
    /// Where zsh put the prompt after it.
    pub open_line: &'a OpenLine,
}

/// How zsh treats an output without a line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenLine {
    /// It marks the end and puts the prompt on its own row (PROMPT_CR and PROMPT_SP). The mark is the user's own one, as it is
    /// shown (PROMPT_EOL_MARK), or that of the screen.
    Marked(Option<String>),
    /// It draws the prompt over the last line (no PROMPT_SP).
    Overdrawn,
    /// The prompt follows the last line on the same row (no PROMPT_CR).
    Continued,
}

impl Default for OpenLine {
    fn default() -> Self {
        Self::Marked(None)
    }
}

impl OpenLine {
    /// Returns the mark as a screen shows it; `None` if zsh prints none.
    fn mark(&self, screen: &SearchedScreen<'_>) -> Option<String> {
        let Self::Marked(own) = self else {
            return None;
        };
        let mark = match own {
            Some(own) => text::shown(screen, own),
            None => screen.end_mark.to_string(),
        };
        // Blanks at the end of a row are left out before it is compared.
        let mark = mark.trim_end();
        (!mark.is_empty()).then(|| mark.to_owned())
    }
}

/// Known facts about the command line that runs now, the last one on the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunningLine<'a> {
    /// The line as it was typed.
    pub text: Option<&'a str>,
    /// Words that are most likely part of it.
    pub words: Option<&'a str>,
    /// The directory of the shell.
    pub cwd: &'a str,
}

/// The output of a command, cut out of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenOutput {
    /// The lines, without trailing blanks. Lines that the terminal wrapped are joined.
    pub lines: Vec<String>,
    /// The beginning is no longer in the scrollback.
    pub is_tail: bool,
    /// Lines may be missing, or not belong to it.
    pub is_partial: bool,
    /// Characters beyond Latin-1 may be wrong: some look like others.
    pub is_lossy: bool,
}

/// A command line that was found, with the text around it.
#[derive(Debug, Clone)]
struct Found<'a> {
    echo: Echo,
    prompt: PromptLine<'a>,
    /// The text of the command; empty for the one that runs now.
    command: &'a str,
    /// The row above it may be another prompt, whose line is not recorded.
    follows_unrecorded: bool,
    /// The command whose output is above it; `None` if it is not known or another line was entered after it.
    command_above: Option<&'a str>,
}

/// Returns the character that is reported by a terminal which keeps the low byte of each character only; `None` for one that is lost.
pub fn low_byte(c: char) -> Option<char> {
    let [low, ..] = u32::from(c).to_le_bytes();
    // 0xff is in the second cell of a wide character.
    let shown = char::from(low);
    (!shown.is_control() && low != 0xff).then_some(shown)
}

/// Returns the output of the command number `wanted` of `commands`, counted from the last one, which is 1. `commands` are in the
/// order in which they ran.
///
/// Returns `None` if the line of the command cannot be told for sure, and soon after `is_cancelled` says that nobody waits for it.
pub fn cut(
    screen: &Screen,
    commands: &[KnownCommand<'_>],
    running: RunningLine<'_>,
    wanted: usize,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<ScreenOutput> {
    let screen = &SearchedScreen::new(screen, is_cancelled);
    let known = commands.len().checked_sub(wanted)?;
    let first = known.saturating_sub(NEIGHBOURS);
    let text = commands.get(known)?.text;
    let all = commands;
    let commands = commands.get(first..)?;
    let cwds: Vec<String> = commands
        .iter()
        .map(|command| text::shown(screen, command.cwd))
        .collect();
    let cwd = text::shown(screen, running.cwd);
    // Newest first, as everywhere below.
    let mut candidates: Vec<Vec<Found<'_>>> = commands
        .iter()
        .zip(&cwds)
        .rev()
        .map(|(command, cwd)| {
            let found = echoes(screen, &Expected::new(screen, command.text));
            let at = |echo| Found::new(screen, echo, command.text, cwd);
            let mut found: Vec<Found<'_>> = found.into_iter().filter_map(at).collect();
            found.drain(..found.len().saturating_sub(MAX_ECHOES));
            found
        })
        .collect();
    let shares_rows = commands
        .iter()
        .any(|command| *command.open_line == OpenLine::Continued);
    let mut current = current::find(screen, &candidates, all, running, &cwd, shares_rows)?;
    if !current.is_certain && running.text.is_some() && !screen.is_confirmed {
        return None;
    }
    if shares_rows {
        for found in candidates.iter_mut().flatten() {
            let current = std::iter::once(&current.found.prompt);
            found.prompt.split_output(current);
        }
    }
    let prompts = Prompts::new(&current.found, &candidates);
    let with_text = candidates.get(wanted - 1)?.clone();
    // Rows that show the command, of which the lowest is chosen.
    let shown: Vec<Echo> = with_text
        .iter()
        .filter(|found| prompts.has(&current.found, found))
        .map(|found| found.echo)
        .collect();
    // Rows that show each of the commands after the prompt of the line that runs now.
    let with_prompt = doubts::with_prompt(&current.found, &candidates);
    // The first row that may show the command or an older one.
    let with_older = candidates.get(wanted - 1..)?.iter().flatten();
    let topmost = with_older.map(|found| found.echo.first_row).min();
    // Rows that show one of the commands after a prompt.
    let entered: Vec<(usize, &str, &str)> = (candidates.iter().flatten())
        .filter(|found| assign::follows_prompt(&current.found, found))
        .map(|found| (found.echo.first_row, found.prompt.text, found.command))
        .collect();
    let (mut matched, rows_after) =
        unrecorded::assign(screen, &current.found, &prompts, commands, candidates);
    let found =
        std::iter::once(Some(&mut current.found)).chain(matched.iter_mut().map(Option::as_mut));
    let above = all.iter().rev().map(Some).chain(std::iter::repeat(None));
    for (found, above) in found.zip(above) {
        if let (Some(found), Some(above)) = (found, above) {
            let follows = above.unrecorded_after.is_some_and(<[_]>::is_empty);
            found.follows_unrecorded = !follows;
            found.command_above = follows.then_some(above.text);
        }
    }
    let lines: Vec<&Found<'_>> = std::iter::once(&current.found)
        .chain(matched.iter().flatten())
        .collect();
    // The next command whose line was found, and the known ones between the two.
    let newer = matched.get(..wanted - 1)?;
    let position = newer.iter().rposition(Option::is_some);
    let next = position.and_then(|at| newer.get(at)?.as_ref());
    let next = next.unwrap_or(&current.found);
    let (height, mut is_doubtful) = region::height(screen, &lines, next);
    let missed = wanted - 1 - position.map_or(0, |at| at + 1);
    let at = commands.len() - wanted;
    let command = commands.get(at)?;
    let between = unrecorded::between(commands.get(at..=at + missed)?)?;
    let own = matched.get(wanted - 1)?.as_ref();
    // The command has removed its own line, and all that was above it.
    let is_cleared =
        screen.is_confirmed && clears(text) && topmost.is_none_or(|row| row >= next.echo.first_row);
    let mut start = match own {
        Some(found) => found.echo.last_row + 1,
        // Nothing is above the next prompt but the rest of this output, if no other prompt is.
        None if (screen.is_cut || is_cleared)
            && current.is_certain
            && between.is_empty()
            && lines.len() == wanted =>
        {
            0
        }
        None => return None,
    };
    let mut end = next.echo.first_row.checked_sub(height)?.max(start);
    let mut is_partial = false;
    if own.is_some() && earlier::may_be_taken(all, known, &matched, wanted) {
        // A line with its text that was entered after it is not its own.
        let after = rows_after.get(wanted - 1).copied().flatten();
        let end = after.map_or(end, |row| row.clamp(start, end));
        match earlier::own_line(screen, start..end, &with_text, &lines, next) {
            OwnLine::Taken => {}
            OwnLine::Below(row) => (start, is_partial) = (row, true),
            OwnLine::Unknown => return None,
        }
    }
    if own.is_some_and(|own| start < end && region::is_broken_right_prompt(screen, own, start)) {
        (start, is_partial) = (start + 1, true);
    }
    let mut rest = next.prompt.output_before;
    let mut before = None;
    let mut abandoned = None;
    if between.is_empty() {
        let text = match position {
            Some(_) => Some(next.command),
            None => running.text,
        };
        let rows = start..next.echo.first_row;
        let redrawn = redrawn::find(screen, rows, &lines, next, text, height);
        if redrawn.is_doubtful && own.is_none() {
            return None;
        }
        if let Some(row) = redrawn.first_row {
            end = end.min(row);
            rest = None;
            // The row that may have been one of the prompt is this line.
            is_doubtful &= height > 0 || position.is_some();
        }
        is_partial |= redrawn.is_doubtful;
        before = redrawn.before;
    }
    let mut rows = screen.rows.get(start..end)?.to_vec();
    // A command that shows the screen or a transcript repeats its own line, and the lower one was taken.
    let older = matched.get(wanted..)?.iter().flatten().next();
    let same_text = unrecorded::count_of(all, text);
    let repeats_itself =
        own.is_some_and(|own| region::repeats(screen, own, older, &lines, &shown, same_text));
    let found = matched.get(wanted..)?.iter().map(Option::as_ref);
    let before_it = all.get(..known)?.iter().rev();
    let before_it = before_it.zip(found.chain(std::iter::repeat(None)));
    let since = (all.get(known..)?, with_prompt.get(..wanted)?, newer);
    let is_ambiguous = own.is_some_and(|own| {
        doubts::is_ambiguous(screen, text, before_it, &shown, own)
            || doubts::may_be_older_run(screen, since, own)
            || earlier::lacks_a_run(all, known, &matched, wanted)
                && earlier::has_later_line(own, &with_text, &lines)
    });
    is_partial = is_partial
        || is_doubtful
        || is_ambiguous
        || *command.open_line == OpenLine::Overdrawn
        || next.prompt.is_doubtful
        || own.is_some_and(|own| {
            region::may_hide_output(screen, own, &lines)
                || echo::may_hold_output(&Expected::new(screen, text), own.echo)
        })
        // A transient prompt that Ctrl-L has moved leaves the line that runs now above it.
        || (position.is_none() && current::occurs_in(screen, running, start..end));
    let drop_long_form = |rows: &mut Vec<ScreenRow>| {
        let is_long = |row: &mut ScreenRow| height == 0 && redrawn::is_long_form(row, next);
        rows.pop_if(is_long).is_some()
    };
    match own {
        None if !region::prompt_rows(&rows, &lines, next).is_empty() => return None,
        None if before
            .as_ref()
            .is_some_and(|before| before.begins_any(&rows)) =>
        {
            return None;
        }
        None => {}
        // Nothing was entered in between, but Ctrl-L, or a widget that prints, leaves the prompt behind.
        Some(_) if between.is_empty() => {
            let height_there = height.max(region::height(screen, lines.get(1..)?, next).0);
            let before = before.as_ref();
            let left =
                region::left_behind(screen, start..end, &lines, before, next, height, command);
            is_partial |= left.is_doubtful;
            if let Some(row) = left.bare {
                rows.truncate((row - start).saturating_sub(height_there));
                is_partial |= drop_long_form(&mut rows);
                rest = None;
            }
            // A job of a line that is not recorded may have printed behind the prompt.
            let lines_of = |command: &KnownCommand<'_>| {
                let lines = command.unrecorded_after;
                lines.is_none_or(|lines| lines.iter().any(|line| *line != UnrecordedLine::Blank))
            };
            let has_private = left.unsure_line.is_some()
                && (all.get(..known)?.iter().any(lines_of)
                    || region::has_unknown_line(screen, 0..start, &lines, next));
            let line = match has_private {
                true => left.line.into_iter().chain(left.unsure_line).min(),
                false => left.line,
            };
            abandoned = line.map(|row| {
                let above =
                    before.and_then(|prompt| redrawn::top_of_prompt(screen, start..row, prompt));
                above.unwrap_or(row.saturating_sub(height_there))
            });
            is_partial |= region::drop_prompt_rows(&mut rows, screen, next, height);
        }
        Some(_) => {
            let rows_between = start..next.echo.first_row;
            let (line, is_early) =
                unrecorded::first_line(screen, rows_between, &lines, next, &between)?;
            is_partial |= is_early;
            rows.truncate((line - start).saturating_sub(height));
            // A transient prompt had another form before the line was entered.
            let text = screen.rows.get(line).map_or("", |row| &row.text);
            let frame = Some(text).filter(|text| redrawn::closes_frame(text));
            let frame = frame.and_then(|text| PromptLine::new(text, next.prompt.cwd));
            let top = frame.and_then(|text| redrawn::top_of_prompt(screen, start..line, &text));
            rows.truncate(top.map_or(rows.len(), |row| row - start));
            is_partial |= drop_long_form(&mut rows);
            rest = None;
        }
    }
    if own.is_some() {
        let inside = start..start + rows.len();
        let mut inside = entered.iter().filter(|(row, ..)| inside.contains(row));
        // This line of the command is a later one than that which was found.
        let of_command = entered.iter().filter(|(.., other)| *other == text).count();
        if inside.clone().any(|(.., other)| *other == text) {
            return None;
        }
        // A row with the text of the next command may be its line, even if this command has that text.
        let is_next = |other: &str| position.is_some() && other == next.command;
        let other =
            inside.find(|(_, prompt, other)| is_next(other) || !region::names(text, prompt, other));
        if let Some((row, ..)) = other {
            // The command has printed it, or it follows a prompt and is not known.
            if of_command > same_text {
                return None;
            }
            rows.truncate((row - start).saturating_sub(height));
            (is_partial, rest) = (true, None);
        }
    }
    if let Some(row) = abandoned {
        rows.truncate(row.saturating_sub(start));
        drop_long_form(&mut rows);
        rest = None;
    }
    let below = match start + rows.len() {
        row if row == next.echo.first_row => next.prompt.text,
        row => screen.rows.get(row).map_or("", |row| &row.text),
    };
    // Where a row ends one character short of the edge, a line may end there too.
    is_partial |= !screen.tells_wraps
        && (rows.iter().rev().skip(1)).any(|row| row.wrapped && row.text.ends_with(' '));
    is_partial |= doubts::drop_wrapped_prompt(&mut rows, screen, &lines, (next, height), below);
    is_partial |=
        rest.is_none() && doubts::may_end_with_prompt_row(&rows, screen, &lines, height, command);
    let mark = command.open_line.mark(screen);
    is_partial |= region::has_doubtful_mark(&rows, screen, mark.as_deref());
    rows.extend(rest.map(|text| ScreenRow {
        text: text.to_owned(),
        wrapped: false,
    }));
    if clears(text) {
        // The rest of the screen, unchanged.
        let is_blank = |row: &ScreenRow| row.text.trim().is_empty();
        let blank = rows.iter().take_while(|row| is_blank(row)).count();
        rows.drain(..blank);
    }
    let lines = region::joined(&rows, screen, mark.as_deref());
    if (own.is_none() || repeats_itself || is_ambiguous) && lines.is_empty() {
        return None;
    }
    let output = ScreenOutput {
        is_lossy: screen.is_lossy,
        lines,
        is_tail: own.is_none() || repeats_itself,
        is_partial,
    };
    // The search was not finished.
    (!screen.is_cancelled()).then_some(output)
}

/// Whether a command line has the name of a program that clears the screen and the scrollback.
fn clears(command: &str) -> bool {
    let programs = command.split(['\n', ';', '&', '|', '(', '{']);
    programs.into_iter().any(|program| {
        let before = [
            "then", "do", "else", "command", "builtin", "time", "sudo", "exec", "!",
        ];
        let mut words = program
            .split_whitespace()
            .skip_while(|word| before.contains(word));
        match words.next() {
            Some("clear" | "reset") => true,
            Some("tput") => words.any(|word| ["clear", "reset", "cup", "smcup"].contains(&word)),
            _ => false,
        }
    })
}

/// Returns the text before a command line without the blanks with which the command begins.
fn without_leading_blanks<'t>(mut text: &'t str, command: &str) -> Option<&'t str> {
    for _ in command.chars().take_while(|c| *c == ' ') {
        text = text.strip_suffix(' ')?;
    }
    Some(text)
}

impl<'a> Found<'a> {
    /// Returns `None` if the text before the command is not a prompt.
    fn new(
        screen: &'a SearchedScreen<'_>,
        echo: Echo,
        command: &'a str,
        cwd: &'a str,
    ) -> Option<Found<'a>> {
        let row = screen.rows.get(echo.prompt_row)?;
        let prompt = row.text.get(..echo.prompt_end)?;
        let prompt = PromptLine::new(without_leading_blanks(prompt, command)?, cwd)?;
        Some(Found {
            echo,
            prompt,
            command,
            follows_unrecorded: false,
            command_above: None,
        })
    }
}

#[cfg(test)]
mod tests;
