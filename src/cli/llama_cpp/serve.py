"""Serves a GGUF file on loopback for aish: `serve.py --model FILE --alias NAME --context N --port N`.

The server lives as long as its standard input stays open. aish holds the
other end, so the server ends with it, however aish ends.
"""

import argparse
import os
import signal
import threading


def end_with_stdin():
    """Ends the process, at once, when the other end of standard input is closed."""
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description="Serves a GGUF file on 127.0.0.1.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()

    # Before anything slow, so that a load that takes long can be ended too.
    threading.Thread(target=end_with_stdin, daemon=True).start()

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.model_alias = {args.alias}
    # The chat template of the file.
    params.use_jinja = True
    params.n_ctx = args.context
    params.n_parallel = 1
    params.cache_ram_mib = 0
    params.hostnames = ["127.0.0.1"]
    params.port = args.port
    # Web pages can reach loopback too: they may read nothing, least of all the prompts in /slots.
    params.cors_origins = ""
    params.cors_credentials = False
    params.endpoint_slots = False
    params.ui = False
    server = xllamacpp.Server(params)
    print("listening on", server.listening_address, flush=True)

    # The library may have taken the signals over; the default ends the process at once.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
