#!/usr/bin/env python3
"""Writes recorded exchanges with providers as JSON Lines, which tests/broker/estimates.rs reads.

    python3 tests/broker/cassettes.py DIR... > $AISH_RECORDINGS/exchanges.jsonl

Reads each YAML file below the directories that has the `interactions` of go-vcr or VCR.py. A line is an exchange with a JSON
object as its request and an answer of status 200: `file`, `url`, `request` (the object), `answer` (the body as text). Needs PyYAML.
"""

import gzip
import json
import pathlib
import sys

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def body_text(message):
    """Returns the body of a request or an answer, in whichever form the recorder keeps it."""
    if "parsed_body" in message:
        return json.dumps(message["parsed_body"], ensure_ascii=False)
    body = message.get("body") or ""
    if isinstance(body, dict):
        body = body.get("string") or ""
    if isinstance(body, str):
        return body
    if body[:2] == b"\x1f\x8b":
        body = gzip.decompress(body)
    return body.decode("utf-8", "replace")


def exchanges(path):
    """Yields the exchanges of a file; none, if it is not a recording."""
    try:
        cassette = yaml.load(path.read_bytes(), LOADER)
    except (yaml.YAMLError, UnicodeDecodeError):
        return
    interactions = cassette.get("interactions") if isinstance(cassette, dict) else None
    for interaction in interactions or []:
        request, response = interaction.get("request"), interaction.get("response")
        if not request or not response:
            continue
        status = response.get("code") or (response.get("status") or {}).get("code")
        try:
            body = json.loads(body_text(request))
            answer = body_text(response)
        except (OSError, TypeError, ValueError):
            continue
        if status == 200 and isinstance(body, dict):
            url = request.get("url") or request.get("uri")
            yield {"file": str(path), "url": url, "request": body, "answer": answer}


for directory in sys.argv[1:]:
    for path in sorted(pathlib.Path(directory).rglob("*.yaml")):
        for exchange in exchanges(path):
            json.dump(exchange, sys.stdout, ensure_ascii=False)
            print()
