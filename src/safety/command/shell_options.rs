//! The options of a shell: which argument is the text of `-c`, and whether the shell runs its input.

/// Code that a shell runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ShellOptions {
    /// The first operand: the text of `-c`, or a file.
    pub operand: usize,
    /// The first operand is a text.
    pub has_text: bool,
    /// The shell runs its input.
    pub reads_input: bool,
    /// A file or a text is run when the shell starts.
    pub has_startup: bool,
}

impl ShellOptions {
    /// Reads the arguments of a shell, without its name.
    pub fn read(arguments: &[String]) -> ShellOptions {
        let mut options = ShellOptions::default();
        // `-n` only checks the syntax; an option that may take it back counts as doing so.
        let mut is_checked = false;
        let mut at = 0;
        while let Some(argument) = arguments.get(at).filter(|a| a.starts_with(['-', '+'])) {
            at += 1;
            if matches!(argument.as_str(), "--" | "-") {
                break;
            }
            let takes_back = argument.starts_with("--") || argument.contains(['+', 'o', 'O']);
            is_checked = argument == "-n" || is_checked && !takes_back;
            if let Some(name) = argument.strip_prefix("--") {
                let startup = name.starts_with("rcfile") || name.starts_with("init-");
                options.has_startup |= startup;
                options.has_text |= name == "command";
                at += usize::from(startup || name == "emulate") * usize::from(!name.contains('='));
                continue;
            }
            // Each `o` and `O` of a cluster takes the next argument, except with zsh, where the name may be attached.
            let letters = || argument.chars().skip(1);
            options.has_text |= letters().any(|c| c == 'c');
            options.reads_input |= letters().any(|c| c == 's');
            for _ in letters().filter(|c| matches!(c, 'o' | 'O')) {
                let is_name = |next: &String| !next.starts_with(['-', '+']);
                at += usize::from(arguments.get(at).is_some_and(is_name));
            }
        }
        options.operand = at;
        let file = arguments.get(at).map(String::as_str);
        let is_input = |file: &str| {
            matches!(file, "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") || file.starts_with('-')
        };
        options.reads_input |= file.is_none_or(is_input);
        options.reads_input &= !options.has_text && !is_checked;
        options
    }
}
