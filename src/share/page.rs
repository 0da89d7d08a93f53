//! A share as one page: HTML without scripts, readable without its style sheet, and without anything from elsewhere.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::object::ShareObject;
use super::replay::SharedRecording;
use super::segments::visible;
use super::snapshot::{SharedMessage, SharedRole, Snapshot};

/// The style sheet, within the page. Its digest is part of the page's policy.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:1rem/1.6 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}\
article{margin:1.5rem 0}\
header,footer{opacity:.75}\
h2{font-size:.85rem;margin:0 0 .25rem;opacity:.75}\
pre,code{font-family:ui-monospace,monospace;font-size:.9em}\
pre{white-space:pre-wrap;padding:.75rem;border:1px solid;border-radius:.4rem}\
div{overflow-x:auto}\
table{border-collapse:collapse}\
td{min-width:5rem;padding:.25rem .5rem;border:1px solid;vertical-align:top}\
thead{font-weight:600}";

/// Policy of the page. The link to a recording is a download, which a sandbox refuses without `allow-downloads`. The server of
/// aish sends the policy as a header too; S3 sends none.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox allow-downloads";

/// Writes the page of the share `id`. `folder` is the address under which others read it, if that is known.
pub fn render(snapshot: &Snapshot, id: &str, folder: Option<&str>) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="referrer" content="no-referrer";
                meta name="robots" content="noindex";
                // frame-ancestors and sandbox do not work here, only in a header.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
                title { (visible(&snapshot.title)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (visible(&snapshot.title)) }
                    p { "A conversation with a model in a shell, shared with aish." }
                }
                main {
                    @for message in &snapshot.messages { (article(message)) }
                    @if !snapshot.recordings.is_empty() { (recordings(&snapshot.recordings, id, folder)) }
                }
                footer {
                    @let removed = snapshot.removed.words();
                    @if !removed.is_empty() {
                        p { "Left out or replaced: " (removed.join(", ")) "." }
                    }
                }
            }
        }
    };
    page.into_string()
}

fn article(message: &SharedMessage) -> Markup {
    let name = visible(&message.name);
    html! {
        article {
            @match message.role {
                SharedRole::User => { h2 { "Prompt" } p { (lines(&message.text)) } }
                SharedRole::Assistant => { h2 { "Answer of " (name) } (PreEscaped(&message.text)) }
                SharedRole::Tool => { h2 { "Tool " (name) } pre { (visible(&message.text)) } }
                SharedRole::Command => { h2 { "Command" } pre { (visible(&message.text)) } }
            }
        }
    }
}

fn recordings(all: &[SharedRecording], id: &str, folder: Option<&str>) -> Markup {
    html! {
        section {
            h2 { "Recordings of the terminal" }
            p {
                "Each shows what a terminal has printed from the first to the last command of the session. To play one, run "
                code { "asciinema play" }
                " (3.0 or later) with the address of its link, or with the downloaded file."
            }
            @for (at, recording) in all.iter().enumerate() {
                @let number = at + 1;
                @let name = ShareObject::Recording(number).name(id);
                article {
                    p {
                        a href=(name) rel="noopener noreferrer nofollow" { "Recording " (number) }
                        ", " (duration_words(recording.duration_ms))
                    }
                    @if let Some(folder) = folder {
                        pre { "asciinema play " (visible(&format!("{folder}{name}"))) }
                    }
                    details {
                        summary { "Text of recording " (number) }
                        pre { (visible(&recording.text)) }
                        @if recording.is_cut { p { "The rest is in the recording." } }
                    }
                }
            }
        }
    }
}

/// Returns a duration in words: minutes, or seconds if it is less than a minute.
pub fn duration_words(ms: u64) -> String {
    match ms {
        ..60_000 => format!("{} s", ms.div_ceil(1000)),
        ms => format!("{} min", ms.div_ceil(60_000)),
    }
}

fn lines(text: &str) -> Markup {
    html! {
        @for (at, line) in text.lines().enumerate() {
            @if at > 0 { br; }
            (visible(line))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::own_names::OwnNames;
    use crate::safety::redact::Redactor;
    use crate::share::answer::answer_html;
    use crate::share::cleaner::Cleaner;
    use crate::share::snapshot::RemovedCounts;

    fn page(role: SharedRole, text: &str) -> String {
        page_of(role, text, false)
    }

    fn page_of(role: SharedRole, text: &str, is_cut_off: bool) -> String {
        let (names, redactor) = (OwnNames::default(), Redactor::default());
        let mut cleaner = Cleaner::new(&names, &redactor);
        let snapshot = Snapshot {
            title: text.to_owned(),
            messages: vec![SharedMessage {
                role,
                name: text.to_owned(),
                text: match role {
                    SharedRole::Assistant => answer_html(text, !is_cut_off, &mut cleaner),
                    _ => text.to_owned(),
                },
            }],
            recordings: vec![SharedRecording {
                duration_ms: 61_000,
                text: text.to_owned(),
                is_cut: true,
                cast_sha256: String::new(),
                cast: Vec::new(),
            }],
            removed: RemovedCounts::default(),
        };
        render(&snapshot, "0", None)
    }

    #[test]
    fn hostile_text_stays_text() {
        let roles = [
            SharedRole::User,
            SharedRole::Assistant,
            SharedRole::Tool,
            SharedRole::Command,
        ];
        for role in roles {
            for text in [
                "<script>alert(1)</script>",
                "<img src=x onerror=alert(1)>",
                "<style>@import 'http://evil.example'</style>",
                "[a](javascript:alert(1))",
                "[a](JAVASCRIPT:alert(1)) [b]( data:text/html,x) [c](vbscript:x) [d](//evil.example)",
                "![pixel](http://evil.example/p.png)",
                "[a](http://x.example/\"onmouseover=alert(1))",
                "```<script>\n</code></pre><script>\n```",
                "<svg/onload=alert(1)>",
                "</title><script>x</script>",
            ] {
                let page = page(role, text);
                let lower = page.to_lowercase();
                for bad in [
                    "<script",
                    "<img",
                    "<svg",
                    "href=\"javascript",
                    "href=\"data",
                    "\"onmouseover",
                    "@import 'http",
                ] {
                    let is_shown = lower.contains(bad)
                        && !(bad == "@import 'http" && lower.contains("&lt;style&gt;"));
                    assert!(!is_shown, "{role:?} {text:?}: {bad} in {page}");
                }
            }
        }
    }

    #[test]
    fn hidden_characters_are_visible() {
        let page = page(SharedRole::Assistant, "a\u{202e}b\u{9b}c\u{7}");
        assert!(page.contains("a⟨U+202E⟩b⟨U+009B⟩c⟨U+0007⟩"), "{page}");
    }

    #[test]
    fn proposed_commands_are_code() {
        let page = page(
            SharedRole::Assistant,
            "Try *one*:\n\nCMD: ls *.log && x=<y\n- CMD: pwd\n\nDone.\n",
        );
        let expected = "<p>Try <em>one</em>:</p>\n<pre><code>ls *.log &amp;&amp; x=&lt;y</code></pre><pre><code>pwd</code></pre><p>Done.</p>";
        assert!(page.contains(expected), "{page}");
        // Of an answer that was cut off, the last one may be incomplete.
        let text = "CMD: pwd\nCMD: rm -rf /tmp/build";
        let page = page_of(SharedRole::Assistant, text, true);
        let expected = "<pre><code>pwd</code></pre><p>CMD: rm -rf /tmp/build</p>";
        assert!(page.contains(expected), "{page}");
    }

    #[test]
    fn markdown_becomes_elements() {
        let page = page(
            SharedRole::Assistant,
            "# T\n\n- a *b* `c`\n\n[x](https://x.example/?a=1&b=2) [h](https://x.example/\u{200b}a)\n\n3. c\n4. d\n\n[![p](https://x.example/p.png)](https://x.example/)\n\n| h |\n| - |\n| d |\n\n~~old~~, ~/a:~/b, host:~/c",
        );
        for part in [
            "<h3>T</h3>",
            "<ul><li>a <em>b</em> <code>c</code></li>\n</ul>",
            "<ol start=\"3\"><li>c</li>\n<li>d</li>\n</ol>",
            "<a href=\"https://x.example/\" rel=\"noopener noreferrer nofollow\">p</a>",
            "tabindex=\"0\"><table><thead><tr><td>h</td></tr></thead><tr><td>d</td></tr></table></div>",
            "<a href=\"https://x.example/?a=1&amp;b=2\" rel=\"noopener noreferrer nofollow\">x</a>",
            "<p><del>old</del>, ~/a:~/b, host:~/c</p>",
            "<a href=\"https://x.example/%E2%80%8Ba\" rel",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
