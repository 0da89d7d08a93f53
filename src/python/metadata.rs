//! Inline metadata of a Python file: <https://packaging.python.org/en/latest/specifications/inline-script-metadata/>. Pure.

use toml_edit::{DocumentMut, Item};

/// Maximum number of characters of a requirement.
const MAX_REQUIREMENT: usize = 500;

/// Declaration of a file about its interpreter and packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptMetadata {
    /// Versions of Python, such as `>=3.11`.
    pub requires_python: Option<String>,
    /// Packages.
    pub dependencies: Vec<PackageRequirement>,
}

/// One package that a file needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageRequirement {
    /// The requirement as written: `matplotlib>=3.9`.
    pub text: String,
    /// The name of the package.
    pub name: String,
    /// The URL, file or repository that the package comes from, if it does not come from the package index.
    pub direct: Option<String>,
}

/// Reads the `script` block of a file; a file without one has no metadata.
///
/// # Errors
/// One line that describes the fault in the block.
pub fn parse(source: &str) -> Result<ScriptMetadata, String> {
    let Some(block) = script_block(source)? else {
        return Ok(ScriptMetadata::default());
    };
    let table: DocumentMut = block.parse().map_err(|e: toml_edit::TomlError| {
        let line = e.message().lines().next().unwrap_or_default().to_owned();
        format!("the block `# /// script` is not valid TOML: {line}")
    })?;
    let requires_python = match table.get("requires-python") {
        None => None,
        Some(value) => {
            let text = value.as_str().ok_or("requires-python is not a string")?;
            python_matches(text, (3, 0, 0))?;
            Some(text.trim().to_owned())
        }
    };
    let mut dependencies = Vec::new();
    let listed = match table.get("dependencies") {
        None => None,
        Some(value) => Some(
            value
                .as_array()
                .ok_or("dependencies is not a list of strings")?,
        ),
    };
    for value in listed.into_iter().flatten() {
        let text = value
            .as_str()
            .ok_or("dependencies is not a list of strings")?;
        dependencies.push(requirement(text)?);
    }
    let known = ["requires-python", "dependencies", "tool"];
    if let Some((key, _)) = table.iter().find(|(key, _)| !known.contains(key)) {
        return Err(format!(
            "the block `# /// script` has an unknown key: {key}"
        ));
    }
    // Settings of uv can name other indexes and sources, which nobody would be asked about.
    let uv = table.get("tool").and_then(|tool| tool.get("uv"));
    if uv.is_some_and(|uv| !matches!(uv, Item::None)) {
        return Err("the block `# /// script` has settings of uv (tool.uv), which aish does not follow; remove them".into());
    }
    Ok(ScriptMetadata {
        requires_python,
        dependencies,
    })
}

/// Returns the text of the `script` block without its comment signs.
fn script_block(source: &str) -> Result<Option<String>, String> {
    let lines: Vec<&str> = source.lines().collect();
    let mut starts = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.trim_end() == "# /// script");
    let Some((start, _)) = starts.next() else {
        return Ok(None);
    };
    let is_comment = |line: &&&str| line.starts_with("# ") || line.trim_end() == "#";
    let body: Vec<&str> = lines
        .iter()
        .skip(start + 1)
        .take_while(is_comment)
        .copied()
        .collect();
    // The last one: a line of a multi-line string may look like the end.
    let Some(end) = body.iter().rposition(|line| line.trim_end() == "# ///") else {
        let line = start + 1;
        return Err(format!(
            "the block `# /// script` in line {line} has no end: add a line `# ///`"
        ));
    };
    if starts.any(|(other, _)| other > start + end + 1) {
        return Err("the file has two blocks `# /// script`; join them".into());
    }
    let mut text = String::new();
    for line in body.iter().take(end) {
        text.push_str(line.strip_prefix("# ").unwrap_or(""));
        text.push('\n');
    }
    Ok(Some(text))
}

/// Checks a requirement. Only the forms of a name with versions and of a name with a URL pass: everything else would be
/// an option, a path or a repository to the installer.
fn requirement(given: &str) -> Result<PackageRequirement, String> {
    let text = given.trim();
    let fault = |what: &str| {
        let shown: String = text.chars().take(80).collect();
        format!("the dependency {shown:?} {what}")
    };
    if text.chars().count() > MAX_REQUIREMENT || text.chars().any(char::is_control) {
        return Err(fault("is too long or has control characters"));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let length = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(length);
    let ends_well = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if !ends_well(name.chars().next()) || !ends_well(name.chars().next_back()) {
        return Err(fault(
            "does not begin with the name of a package; write it as NAME or NAME>=VERSION",
        ));
    }
    let mut rest = rest.trim_start();
    if let Some(inside) = rest.strip_prefix('[') {
        let (extras, after) = inside
            .split_once(']')
            .ok_or_else(|| fault("has an open bracket"))?;
        if !extras
            .chars()
            .all(|c| is_name(c) || c == ',' || c.is_whitespace())
        {
            return Err(fault("has extras that are not names"));
        }
        rest = after.trim_start();
    }
    let name = name.to_owned();
    if let Some(url) = rest.strip_prefix('@') {
        let url = url.trim().split(" ;").next().unwrap_or_default().trim();
        if url.is_empty() || url.contains(char::is_whitespace) {
            return Err(fault("has no address after the @"));
        }
        let direct = Some(url.to_owned());
        return Ok(PackageRequirement {
            text: text.to_owned(),
            name,
            direct,
        });
    }
    let (versions, marker) = rest.split_once(';').unwrap_or((rest, ""));
    let versions = versions.trim();
    let versions = versions
        .strip_prefix('(')
        .and_then(|v| v.strip_suffix(')'))
        .unwrap_or(versions);
    let is_version = |c: char| c.is_ascii_alphanumeric() || ".*+!_-".contains(c);
    let fits = versions.trim().is_empty()
        || versions.split(',').all(|part| {
            let part = part.trim();
            let version = part.trim_start_matches(['<', '>', '=', '!', '~']).trim();
            version.len() < part.len() && !version.is_empty() && version.chars().all(is_version)
        });
    let is_marker = |c: char| c.is_ascii_alphanumeric() || " '\"().,<>=!~_-+*".contains(c);
    if !fits || !marker.chars().all(is_marker) {
        return Err(fault(
            "is not a name with versions, such as NAME or NAME>=1.2,<2",
        ));
    }
    Ok(PackageRequirement {
        text: text.to_owned(),
        name,
        direct: None,
    })
}

/// Whether a version of Python satisfies a specifier such as `>=3.10,<3.14`.
///
/// # Errors
/// The specifier has a form that is not known.
pub fn python_matches(specifier: &str, version: (u32, u32, u32)) -> Result<bool, String> {
    let fault = || {
        let shown: String = specifier.chars().take(80).collect();
        format!("requires-python {shown:?} is not a version specifier, such as >=3.11")
    };
    let have = [version.0, version.1, version.2];
    let mut matches = true;
    for part in specifier.split(',') {
        let part = part.trim();
        let version = part.trim_start_matches(['<', '>', '=', '!', '~']);
        let operator = part.strip_suffix(version).unwrap_or_default();
        let (version, is_prefix) = match version.trim().strip_suffix(".*") {
            Some(prefix) => (prefix, true),
            None => (version.trim(), false),
        };
        let numbers: Vec<u32> = version
            .split('.')
            .map(|n| n.parse().map_err(|_| fault()))
            .collect::<Result<_, _>>()?;
        if numbers.len() > 3 {
            return Err(fault());
        }
        let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
        let want = [number(0), number(1), number(2)];
        let starts = |count: usize| have.iter().zip(&want).take(count).all(|(a, b)| a == b);
        let is_equal = match is_prefix {
            true => starts(numbers.len()),
            false => have == want,
        };
        matches &= match operator {
            ">=" if !is_prefix => have >= want,
            "<=" if !is_prefix => have <= want,
            ">" if !is_prefix => have > want,
            "<" if !is_prefix => have < want,
            "~=" if !is_prefix && numbers.len() > 1 => have >= want && starts(numbers.len() - 1),
            "==" => is_equal,
            "!=" => !is_equal,
            _ => return Err(fault()),
        };
    }
    Ok(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependencies(list: &str) -> Result<Vec<PackageRequirement>, String> {
        let source = format!("# /// script\n# dependencies = [{list}]\n# ///\n");
        parse(&source).map(|metadata| metadata.dependencies)
    }

    #[test]
    fn block_is_read() {
        let source = "#!/usr/bin/env python3\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"rich[jupyter]>=13,<15 ; python_version < '3.13'\",\n#\n#   \"numpy\",\n# ]\n# ///\n# not part\nx = 1\n";
        let metadata = parse(source).unwrap();
        assert_eq!(metadata.requires_python.as_deref(), Some(">=3.11"));
        let names: Vec<&str> = metadata
            .dependencies
            .iter()
            .map(|d| d.name.as_str())
            .collect();
        assert_eq!(names, ["rich", "numpy"]);
        assert!(metadata.dependencies.iter().all(|d| d.direct.is_none()));
        assert_eq!(
            parse("# /// other\n# x = 1\n# ///\n").unwrap(),
            ScriptMetadata::default()
        );
    }

    #[test]
    fn invalid_blocks_are_explained() {
        for (source, reason) in [
            ("# /// script\n# dependencies = []\nx = 1\n", "has no end"),
            (
                "# /// script\n# dependencies = [\n# ///\n",
                "not valid TOML",
            ),
            (
                "# /// script\n# dependencies = \"x\"\n# ///\n",
                "not a list",
            ),
            ("# /// script\n# dependencies = [1]\n# ///\n", "not a list"),
            (
                "# /// script\n# requires-python = 3\n# ///\n",
                "not a string",
            ),
            (
                "# /// script\n# requires-python = \"new\"\n# ///\n",
                "version specifier",
            ),
            (
                "# /// script\n# dependency = []\n# ///\n",
                "unknown key: dependency",
            ),
            (
                "# /// script\n# [tool.uv]\n# index = []\n# ///\n",
                "tool.uv",
            ),
            (
                "# /// script\n# ///\nx = 1\n# /// script\n# ///\n",
                "two blocks",
            ),
        ] {
            let fault = parse(source).expect_err(source);
            assert!(fault.contains(reason), "{source}: {fault}");
        }
    }

    #[test]
    fn what_an_installer_reads_as_an_option_or_a_path_is_refused() {
        for text in [
            "--index-url=https://x",
            "-r other.txt",
            "-e .",
            ".",
            "./wheel.whl",
            "/tmp/x",
            "git+https://x/y",
            "https://x/y.whl",
            "a; $(x)",
            "a b",
            "a>=1 --hash=x",
            "a>=",
            "a[b",
            "a @",
            "a @ x y",
            "",
            "a-",
            "a\\u0000",
        ] {
            let list = format!("\"{text}\"");
            assert!(dependencies(&list).is_err(), "{text}");
        }
    }

    #[test]
    fn direct_references_are_told_apart() {
        for (text, url) in [
            ("a @ https://h/a-1.whl", "https://h/a-1.whl"),
            ("a@git+https://h/a", "git+https://h/a"),
            (
                "a[b] @ file:///tmp/a.whl ; os_name == 'posix'",
                "file:///tmp/a.whl",
            ),
        ] {
            let found = dependencies(&format!("\"{text}\"")).unwrap();
            assert_eq!(
                (found[0].name.as_str(), found[0].direct.as_deref()),
                ("a", Some(url))
            );
        }
    }

    #[test]
    fn versions_of_python_are_compared() {
        for (specifier, expected) in [
            (">=3.11", true),
            (">=3.12", false),
            (">=3.9,<3.12", true),
            ("<3.11", false),
            ("==3.11.*", true),
            ("!=3.11.*", false),
            ("==3.11.7", true),
            ("~=3.10", true),
            ("~=3.11.2", true),
            ("~=3.10.0", false),
            ("> 3.11.6", true),
            ("<=3.11", false),
        ] {
            assert_eq!(
                python_matches(specifier, (3, 11, 7)),
                Ok(expected),
                "{specifier}"
            );
        }
        for specifier in ["3.11", ">=3.x", "", ">=3.11.*", "~=3", ">=3.1.1.1", "=>3"] {
            assert!(
                python_matches(specifier, (3, 11, 7)).is_err(),
                "{specifier}"
            );
        }
    }
}
