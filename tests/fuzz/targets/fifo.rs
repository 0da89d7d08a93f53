//! Events of shells, as the daemon reads them from the FIFO.

use aish::daemon::shell_events::ShellEventDecoder;
use aish::protocol::ShellId;
use aish::session::shell_registry::{ShellEvent, ShellRegistry};

use crate::fuzz::mutator::pieces;
use crate::fuzz::{Shape, Target};

pub const TARGET: Target = Target {
    name: "fifo",
    run,
    shape: Shape::Bytes,
    usual_size: 4 << 10,
    tokens: &[
        "aish1 ",
        "aish1 1-a 1 1 1 5\nbye\x001",
        "aish1 1-a 1 1 2 4\n",
        "aish1 1-a 1 2 2 4\n",
        "\n",
        "\0",
        "cmd\0",
        "bye\0",
        "hello\0",
        "secrets\0",
        "\x1f",
        "1-a",
        "1700000000.25",
        "inf",
        "-inf",
        "NaN",
        "1e400",
        "-1",
        "+1",
        "A_KEY=value",
        "00000000000000000000001",
        " 1 1 1 ",
    ],
};

fn decode(decoder: &mut ShellEventDecoder, pieces: &[&[u8]]) -> Vec<(ShellId, ShellEvent)> {
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut |shell, event| {
            events.push((shell.clone(), event))
        });
    }
    events
}

fn run(input: &[u8]) -> bool {
    let mut decoder = ShellEventDecoder::default();
    let whole = decode(&mut decoder, &[input]);
    let pieces = pieces(input);
    assert_eq!(decode(&mut ShellEventDecoder::default(), &pieces), whole);
    // Whatever was written, a later event is read: an incomplete chunk takes less than three chunks with it.
    let bye = "\n".repeat(3 * 4096) + "aish1 after 9 1 1 5\nbye\x007";
    let after = decode(&mut decoder, &[bye.as_bytes()]);
    let (shell, event) = after.last().expect("an event");
    assert_eq!((shell.as_str(), event), ("after", &ShellEvent::Bye));
    let mut shells = ShellRegistry::new(None, Vec::new(), None);
    for (shell, event) in &whole {
        assert!(ShellId::parse(shell.as_str()).is_ok());
        // Values of variables would add up in the redactor of the process.
        if !matches!(event, ShellEvent::SecretVariables(_)) {
            shells.take(shell, event.clone(), None);
        }
        assert!(shells.since(shell, "", 0, 1000).len() <= 64);
    }
    !whole.is_empty()
}
