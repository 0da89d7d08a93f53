//! How the indentation of a model's text becomes that of the file: one rule that explains every line.

/// Widths of an indentation step that are tried, the most usual first.
const WIDTHS: [usize; 8] = [4, 2, 8, 3, 1, 6, 5, 7];

/// Indentations of the model, and those that the file has in their place.
type KnownIndents = Vec<(Vec<u8>, Vec<u8>)>;

/// A rule for indentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IndentRule {
    /// The file has these characters before the indentation of the model.
    Add(Vec<u8>),
    /// The model has these characters before the indentation of the file.
    Remove(Vec<u8>),
    /// The model has the first characters where the file has the second ones, with the same alignment after them.
    Swap(Vec<u8>, Vec<u8>),
    /// The file mixes tabs and spaces, so that only the columns are the same, with a tab of `width` columns. The style of a
    /// new line is that of a known line with the same indentation, or else tabs.
    Columns {
        /// Columns of a tab.
        width: usize,
        /// Indentations that were seen.
        known: KnownIndents,
    },
    /// The model indents with tabs, the file with `width` spaces, at `levels` more steps.
    TabsToSpaces {
        /// Spaces of a step.
        width: usize,
        /// Steps that the file has more.
        levels: isize,
    },
    /// The model indents with `width` spaces, the file with tabs, at `levels` more steps.
    SpacesToTabs {
        /// Spaces of a step.
        width: usize,
        /// Steps that the file has more.
        levels: isize,
    },
}

/// Splits a line into its indentation and the rest.
pub(super) fn split_indent(line: &[u8]) -> (&[u8], &[u8]) {
    let length = line
        .iter()
        .take_while(|b| matches!(b, b' ' | b'\t'))
        .count();
    line.split_at(length)
}

impl IndentRule {
    /// Returns the rule that turns the first indentation of each pair into the second. `model` has the indentations of all
    /// lines of the model, `file` those of all lines of the file in order: they decide where the pairs allow several rules.
    pub fn explaining(
        pairs: &[(&[u8], &[u8])],
        model: &[&[u8]],
        file: &[&[u8]],
    ) -> Option<IndentRule> {
        let (from, to) = pairs.first()?;
        let explains = |rule: &IndentRule| {
            pairs
                .iter()
                .all(|(from, to)| rule.apply(from).as_deref() == Some(to))
        };
        let uses = |byte: u8| model.iter().any(|indent| indent.contains(&byte));
        // Tabs before spaces, or spaces before tabs, would mix two styles.
        let mixes = |added: &[u8]| {
            added.contains(&b'\t') && uses(b' ') && !added.contains(&b' ')
                || added.contains(&b' ') && uses(b'\t') && !added.contains(&b'\t')
        };
        let mut rules = Vec::new();
        if let Some(added) = to.strip_suffix(*from)
            && !mixes(added)
        {
            rules.push(IndentRule::Add(added.to_vec()));
        }
        if let Some(removed) = from.strip_suffix(*to) {
            rules.push(IndentRule::Remove(removed.to_vec()));
        }
        let spaces = |width| {
            steps_between(from, to, width, true)
                .map(|levels| IndentRule::TabsToSpaces { width, levels })
        };
        let tabs = |width| {
            steps_between(from, to, width, false)
                .map(|levels| IndentRule::SpacesToTabs { width, levels })
        };
        rules.extend(preferred(file).filter_map(spaces));
        rules.extend(preferred(model).filter_map(tabs));
        let same = from
            .iter()
            .rev()
            .zip(to.iter().rev())
            .take_while(|(a, b)| a == b)
            .count();
        let start = |indent: &[u8]| {
            indent
                .get(..indent.len() - same)
                .unwrap_or_default()
                .to_vec()
        };
        rules.push(IndentRule::Swap(start(from), start(to)));
        let level = rules.iter().find(|rule| rule.is_level() && explains(rule));
        let found = level
            .or_else(|| rules.iter().find(|rule| explains(rule)))
            .cloned();
        found.or_else(|| {
            let same = |width: &usize| {
                pairs
                    .iter()
                    .all(|(from, to)| columns(from, *width) == columns(to, *width))
            };
            let width = WIDTHS.into_iter().filter(|width| *width > 1).find(same)?;
            let known = pairs
                .iter()
                .map(|(from, to)| (from.to_vec(), to.to_vec()))
                .collect();
            Some(IndentRule::Columns { width, known })
        })
    }

    /// Whether the rule is the plain one: only the style or only the number of steps differs.
    pub fn is_level(&self) -> bool {
        match self {
            IndentRule::TabsToSpaces { levels, .. } | IndentRule::SpacesToTabs { levels, .. } => {
                *levels == 0
            }
            IndentRule::Swap(..) => false,
            _ => true,
        }
    }

    /// Returns the indentation in the style of the file, or nothing if the rule does not apply to it.
    pub fn apply(&self, indent: &[u8]) -> Option<Vec<u8>> {
        match self {
            IndentRule::Add(added) => Some([added, indent].concat()),
            IndentRule::Remove(removed) => indent.strip_prefix(&removed[..]).map(<[u8]>::to_vec),
            IndentRule::Columns { width, known } => {
                let mut matching = known
                    .iter()
                    .filter(|(from, _)| from == indent)
                    .map(|(_, to)| to);
                if let Some(first) = matching.next()
                    && matching.all(|other| other == first)
                {
                    return Some(first.clone());
                }
                let columns = columns(indent, *width);
                let mut tabs = vec![b'\t'; columns / width];
                tabs.extend(std::iter::repeat_n(b' ', columns % width));
                Some(tabs)
            }
            IndentRule::Swap(theirs, ours) => indent
                .strip_prefix(&theirs[..])
                .map(|rest| [ours, rest].concat()),
            IndentRule::TabsToSpaces { width, levels } => {
                let (tabs, spaces) = tabs_and_spaces(indent)?;
                let steps = tabs.checked_add_signed(*levels)?;
                Some(vec![b' '; steps * width + spaces])
            }
            IndentRule::SpacesToTabs { width, levels } => {
                let (0, spaces) = tabs_and_spaces(indent)? else {
                    return None;
                };
                let steps = (spaces / width).checked_add_signed(*levels)?;
                let mut tabs = vec![b'\t'; steps];
                tabs.extend(std::iter::repeat_n(b' ', spaces % width));
                Some(tabs)
            }
        }
    }
}

/// Returns the column in which the text of a line begins. A tab has eight columns.
pub(in crate::workspace) fn depth(line: &[u8]) -> usize {
    columns(split_indent(line).0, 8)
}

/// Returns the column after an indentation.
fn columns(indent: &[u8], width: usize) -> usize {
    indent.iter().fold(0, |column, byte| match byte {
        b'\t' => (column / width + 1) * width,
        _ => column + 1,
    })
}

/// Returns the number of tabs and of spaces of an indentation in which no tab follows a space.
fn tabs_and_spaces(indent: &[u8]) -> Option<(usize, usize)> {
    let tabs = indent.iter().take_while(|b| **b == b'\t').count();
    let spaces = indent.get(tabs..)?;
    (!spaces.contains(&b'\t')).then_some((tabs, spaces.len()))
}

fn steps_between(from: &[u8], to: &[u8], width: usize, to_spaces: bool) -> Option<isize> {
    let (from_tabs, from_spaces) = tabs_and_spaces(from)?;
    let (to_tabs, to_spaces_count) = tabs_and_spaces(to)?;
    let (from_steps, to_steps) = if to_spaces {
        (from_tabs, to_spaces_count.checked_sub(from_spaces)? / width)
    } else {
        (from_spaces / width, to_tabs)
    };
    isize::try_from(to_steps)
        .ok()?
        .checked_sub_unsigned(from_steps)
}

/// Returns the widths, first the one by which these indentations grow most often.
fn preferred(indents: &[&[u8]]) -> impl Iterator<Item = usize> {
    let mut counts = [0_usize; 9];
    let mut before = 0;
    for indent in indents {
        let Some((0, spaces)) = tabs_and_spaces(indent) else {
            continue;
        };
        if let Some(count) = spaces
            .checked_sub(before)
            .and_then(|step| counts.get_mut(step))
        {
            *count += 1;
        }
        before = spaces;
    }
    let grown = counts.iter().enumerate().skip(1).rev();
    let most = grown.max_by_key(|(_, count)| **count);
    let most = most
        .filter(|(_, count)| **count > 0)
        .map(|(width, _)| width);
    most.into_iter().chain(WIDTHS)
}
