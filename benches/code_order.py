#!/usr/bin/env python3
"""Writes src/code_order.ld: which functions stand together in a release build (build.rs says why).

python3 benches/code_order.py

Needs valgrind, nm and script(1). Runs a client, a recorder and a daemon in callgrind, which tells the functions that they call. Names of
sections are written as the shortest beginning that few other functions share: a list of whole names would be three times as long,
and outdated with the next change. Hashes in names are left out.
"""

import bisect
import collections
import glob
import http.client
import http.server
import json
import os
import re
import socket
import subprocess
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HELPER = os.path.join(ROOT, "target", "release", "aish-helper")
OUTPUT = os.path.join(ROOT, "src", "code_order.ld")

# Parts of the program in the order in which they are placed. What every process runs comes first, and what only a daemon runs that has
# been used comes last.
EVERY, RECORDER, CLIENT, FRESH, SERVING, USED = range(6)
# How much other code a beginning may bring along, as a part of the code that is wanted.
MAX_OTHER = {EVERY: 0.2, RECORDER: 0.2, CLIENT: 0.2, FRESH: 0.2, SERVING: 0.2, USED: 0.5}
MIN_BEGINNING = 6
# Code that only a daemon runs is placed with the first of these parts that runs it.
DAEMON = {"fresh": FRESH, "serving": SERVING, "used": USED}

ANSWER = (
    "# Title\n\nSome **bold** words, `code` and a list:\n\n- one\n- two\n\n```rust\nfn main() {}\n```\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\nThe end of it.\n"
) * 20
OUTPUT_SCRIPT = "seq 200; printf '\\033[31mred\\033[m \\033[?1049hx\\033[?1049l'"


class Model(http.server.BaseHTTPRequestHandler):
    """A model server with one answer, in the format of chat completions."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for word in re.findall(r"\s*\S+|\s+$", ANSWER):
            self.event({"delta": {"content": word}})
        self.event({"delta": {}, "finish_reason": "stop"})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, choice):
        text = json.dumps({"choices": [choice]})
        self.wfile.write(f"data: {text}\n\n".encode())

    def log_message(self, *_):
        pass


def main():
    # With symbols, in a way that changes no other crate: another profile gives them other hashes, by which the compiler orders functions,
    # and so decides otherwise which ones are part of others and which of the same ones is kept.
    build = ["cargo", "rustc", "--locked", "--release", "--bin", "aish-helper", "--", "-C", "strip=none"]
    subprocess.run(build, cwd=ROOT, check=True)
    symbols = Symbols()
    with tempfile.TemporaryDirectory() as directory:
        run_all(directory)
        called = {part: symbols.called(directory, part) for part in ("recorder", "client", "fresh", "serving", "used")}
    with open(OUTPUT, "w", encoding="ascii") as file:
        file.write(linker_script(called, symbols.sizes))


def run_all(directory):
    """Runs each part of the program in callgrind, which writes `DIRECTORY/PART.PID`."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.makedirs(f"{directory}/home/config")
    with open(f"{directory}/home/config/config.toml", "w", encoding="utf-8") as file:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        file.write(f'[models.fake]\nprovider = "chat"\nbase_url = "{url}"\nmodel = "fake"\n')
    environment = {
        "AISH_HOME": f"{directory}/home",
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "TERM": "xterm-256color",
    }

    def start(part, arguments, terminal=False):
        tool = "valgrind -q --tool=callgrind --demangle=no --dump-instr=yes --compress-pos=no --trace-children=yes"
        command = f"{tool} --callgrind-out-file={directory}/{part}.%p {HELPER} {arguments}"
        # script(1) gives its command a terminal.
        words = ["script", "-qec", command, "/dev/null"] if terminal else ["sh", "-c", command]
        # script(1) ends its command when its own input ends; a client reads to the end of an input that is not a terminal.
        stdin = subprocess.PIPE if terminal else subprocess.DEVNULL
        return subprocess.Popen(words, env=environment, stdin=stdin, stdout=subprocess.PIPE)

    def run(*arguments, **options):
        with start(*arguments, **options) as process:
            output = process.stdout.read()
        if process.returncode:
            raise SystemExit(f"{arguments} has failed")
        return output

    for part in ("fresh", "serving", "used"):
        daemon = start(part, "daemon --detach")
        if daemon.stdout.readline() != b"ready\n":
            raise SystemExit("the daemon did not start")
        run("client", "status")
        if part == "serving":
            with socket.create_server(("127.0.0.1", 0)) as listener:
                port = listener.getsockname()[1]
            run(part, f"serve --port {port}")
            token = run(part, "serve token show")
            request_all(port, token.decode().strip())
        if part == "used":
            for terminal in (False, True):
                run("client", "ask --shell order --offer -- hello", terminal=terminal)
            run("recorder", f'record -- sh -c "{OUTPUT_SCRIPT}"', terminal=True)
        run("client", "stop")
        # It writes its file when it ends.
        daemon.communicate()
    server.shutdown()


def request_all(port, token):
    """Asks the server of a daemon for what a page asks for first."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    for method, path in (("GET", "/"), ("POST", "/v1/sessions"), ("GET", "/v1/sessions"), ("GET", "/v1/models")):
        body = "{}" if method == "POST" else None
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept-Encoding": "gzip"}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        response.read()
        if response.status >= 400:
            raise SystemExit(f"{method} {path}: {response.status}")


class Symbols:
    """The functions of the program."""

    def __init__(self):
        lines = subprocess.run(["nm", "-S", HELPER], capture_output=True, text=True, check=True).stdout.splitlines()
        self.sizes, self.address = collections.Counter(), {}
        # Functions with the same code are one, with several names.
        self.names, end = collections.defaultdict(set), {}
        for line in lines:
            words = line.split()
            if len(words) == 4 and words[2] in "tTwW":
                start, size, name = int(words[0], 16), int(words[1], 16), words[3]
                self.sizes[section(name)] += size
                self.address[name] = start
                self.names[start].add(section(name))
                end[start] = start + max(size, 1)
        self.starts = sorted(end)
        self.ends = [end[start] for start in self.starts]

    def called(self, directory, part):
        """Returns the sections of the functions that the processes of a part have run."""
        found = set()
        for path in glob.glob(f"{directory}/{part}.*"):
            for address in self.instructions(path):
                at = bisect.bisect_right(self.starts, address) - 1
                if at >= 0 and address < self.ends[at]:
                    found.update(self.names[self.starts[at]])
        if len(found) < 100:
            raise SystemExit(f"callgrind has found too few functions: {part}")
        return found

    def instructions(self, path):
        """Returns the addresses of instructions in a file of callgrind, as they are in the program; other programs give none."""
        # By their object. It knows the functions of the section .text only; others belong to no object.
        found, first = {HELPER: set(), "???": set()}, {HELPER: {}, "???": {}}
        # Names are written once, and then told by their number.
        objects, names, current, is_call, function = {}, {}, "", False, ""
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                match = re.fullmatch(r"(c?)(ob|fn)=\((\d+)\)(?: (.*))?", line.rstrip("\n"))
                if match:
                    callee, what, number, name = match.groups()
                    table = objects if what == "ob" else names
                    if name:
                        table[number] = name
                    if what == "ob" and not callee:
                        current = objects[number]
                    elif not callee:
                        # A number after the name gives the depth of a recursion.
                        function = re.sub(r"'\d+$", "", names[number])
                elif line.startswith("0x") and current in found and not is_call:
                    address = int(line.split()[0], 16)
                    found[current].add(address)
                    first[current][function] = min(address, first[current].get(function, address))
                is_call = line.startswith("calls=")
        addresses = set()
        for part, functions in first.items():
            # Addresses of an object count from its beginning, those of no object from zero.
            known = functions.keys() & self.address.keys()
            start = collections.Counter(functions[name] - self.address[name] for name in known).most_common(1)
            addresses.update(address - at for address in found[part] for at, _ in start)
        return addresses


def section(name):
    """Returns the name of a function's section without `.text.` and without hashes."""
    name = re.sub(r"\.llvm\.\d+$", "", name)
    if name.startswith("_ZN"):
        return re.sub(r"17h[0-9a-f]{16}E.*$", "17h", name)
    # The hash of a crate (https://doc.rust-lang.org/rustc/symbol-mangling/v0.html). A `*` in its place would match most other names.
    hidden = lambda match: f"Cs{'?' * len(match[1])}_"
    return re.sub(r"Cs([0-9A-Za-z]+)_(?=\d)", hidden, name) if name.startswith("_R") else name


def linker_script(called, size):
    part = {}
    for name in set().union(*called.values()) & size.keys():
        by = {kind for kind, names in called.items() if name in names}
        if "recorder" in by:
            part[name] = RECORDER if by == {"recorder"} else EVERY
        elif "client" in by:
            part[name] = CLIENT
        else:
            part[name] = next(kind for word, kind in DAEMON.items() if word in by)
    names = sorted(size)
    before = [0]
    for name in names:
        before.append(before[-1] + size[name])
    lines, placed = [], set()
    for name in sorted(part, key=lambda name: (part[name], name)):
        if name in placed:
            continue
        for length in range(min(MIN_BEGINNING, len(name)), len(name) + 1):
            beginning = name[:length]
            first = bisect.bisect_left(names, beginning)
            end = bisect.bisect_left(names, beginning + "\x7f")
            wanted = sum(size[other] for other in names[first:end] if part.get(other) == part[name])
            if before[end] - before[first] - wanted <= MAX_OTHER[part[name]] * wanted:
                break
        placed.update(names[first:end])
        # Functions that the compiler takes for cold are in `.text.unlikely.NAME`.
        lines.append(f"*(.text*.{beginning.rstrip('*')}*)\n")
    head = "/* Written by benches/code_order.py, not by hand. build.rs says what it is for. */\n"
    return f"{head}SECTIONS {{ .text.often : {{\n{''.join(lines)}}} }} INSERT BEFORE .text;\n"


if __name__ == "__main__":
    main()
