"""Writes models.txt, the catalogue of prices and context windows.

    pip install genai-prices==0.2.3
    git clone https://github.com/anomalyco/models.dev
    python3 src/broker/catalog/update.py models.dev > src/broker/catalog/models.txt

Prices and the patterns of names come from genai-prices, limits of the answer and missing windows from models.dev. Fails
if a pattern or a price cannot be written in the catalogue's format; checks every name that it knows against the matching
of genai-prices.
"""

import argparse
import importlib.metadata
import pathlib
import re
import subprocess
import sys
import tomllib
from datetime import date

from genai_prices import types as t
from genai_prices.data import providers

# Section of the catalogue: provider of genai-prices, provider of models.dev.
SECTIONS = {
    "openai": ("openai", "openai"),
    "anthropic": ("anthropic", "anthropic"),
    "gemini": ("google", "google"),
    "mistral": ("mistral", "mistral"),
    "deepseek": ("deepseek", "deepseek"),
    "moonshot": ("moonshotai", "moonshotai"),
    "xai": ("x-ai", "xai"),
    "groq": ("groq", "groq"),
    "cerebras": ("cerebras", "cerebras"),
    "together": ("together", "togetherai"),
    "fireworks": ("fireworks", "fireworks-ai"),
    "openrouter": ("openrouter", "openrouter"),
}
# Of the many models of OpenRouter, those of these makers.
MAKERS = ("anthropic", "deepseek", "google", "meta-llama", "mistralai", "moonshotai", "openai", "qwen", "x-ai", "z-ai")
CLASSES = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
NOT_SPEECH = r"^(?!.*-[tT][tT][sS](?:$|-))"


def expand(regex):
    """Turns a regular expression into patterns, where `*` is any text and `#` a digit."""
    body = regex.removeprefix("^")
    end = "" if body.endswith("$") else "*"
    body = body.removesuffix("$")
    body = re.sub(r"\\d\{(\d+)\}", lambda m: "#" * int(m[1]), body)
    body = body.replace(r"\d", "#").replace(r"\.", ".")
    forms = [body]
    while any("[" in form for form in forms):
        split = [re.match(r"(.*?)\[([^\]]+)\](.*)", form) for form in forms]
        forms = [m[1] + char + m[3] for m in split for char in m[2]]
    for form in forms:
        assert re.fullmatch(r"[\w#./@-]+", form), regex
    assert regex.startswith("^"), regex
    return [form + end for form in forms]


def patterns(clause):
    match clause:
        case t.ClauseEquals():
            found = [clause.equals]
        case t.ClauseStartsWith():
            found = [clause.starts_with + "*"]
        case t.ClauseEndsWith():
            found = ["*" + clause.ends_with]
        case t.ClauseContains():
            found = ["*" + clause.contains + "*"]
        case t.ClauseRegex():
            found = expand(clause.regex)
        case t.ClauseOr():
            return [p for part in clause.or_ for p in patterns(part)]
        case t.ClauseAnd(and_=[first, t.ClauseRegex(regex=regex)]) if regex == NOT_SPEECH:
            return patterns(first) + ["!*-tts", "!*-tts-*"]
        case _:
            raise ValueError(f"unknown clause {clause}")
    for pattern in found:
        assert not re.search(r"[\s!]", pattern), pattern
    return [pattern.lower() for pattern in found]


def number(value):
    return "-" if value is None else f"{value.normalize():f}".replace("0.", ".", 1) if 0 < value < 1 else f"{value.normalize():f}"


def rates(price):
    starts = {tier.start for c in CLASSES for tier in getattr(getattr(price, c), "tiers", [])}

    def at(value, start):
        if not isinstance(value, t.TieredPrices):
            return value
        applicable = [tier.price for tier in value.tiers if tier.start <= start]
        return applicable[-1] if applicable else value.base

    def row(start):
        values = [number(at(getattr(price, c), start)) for c in CLASSES]
        while values[-1] == "-":
            values.pop()
        return " ".join(values)

    return " ".join([row(-1)] + [f">{start} {row(start)}" for start in sorted(starts)])


def conditions(model, today):
    prices = model.prices if isinstance(model.prices, list) else [t.ConditionalPrice(prices=model.prices)]
    out = []
    for price in prices:
        if price.prices.input_mtok is None or price.prices.output_mtok is None:
            return []
        match price.constraint:
            case None:
                out = [rates(price.prices)]
            case t.StartDateConstraint(start_date=start):
                # A price that has begun replaces everything before it.
                if start <= today:
                    out = [rates(price.prices)]
                else:
                    out.append(f"{start} {rates(price.prices)}")
            case t.TimeOfDateConstraint(start_time=start, end_time=end):
                out.append(f"{start:%H:%M}-{end:%H:%M} {rates(price.prices)}")
            case other:
                raise ValueError(f"unknown condition {other}")
    return out


def limits(directory, provider):
    found = {}
    root = pathlib.Path(directory, "providers", provider, "models")
    for file in sorted(root.rglob("*.toml")):
        model = tomllib.loads(file.read_text())
        if base := model.get("base_model"):
            model = tomllib.loads(pathlib.Path(directory, "models", f"{base}.toml").read_text()) | model
        if limit := model.get("limit"):
            found[str(file.relative_to(root).with_suffix("")).lower()] = limit
    return found


def matches(pattern, name):
    regex = "".join({"*": ".*", "#": "[0-9]"}.get(char, re.escape(char)) for char in pattern)
    return re.fullmatch(regex, name) is not None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models_dev", help="a checkout of models.dev")
    directory = parser.parse_args().models_dev
    today = date.today()
    commit = subprocess.check_output(["git", "-C", directory, "log", "-1", "--format=%h of %cs"], text=True).strip()
    lines = [
        f"# Written by update.py on {today}; do not edit.",
        f"# Prices: genai-prices {importlib.metadata.version('genai-prices')} (MIT). Limits: models.dev {commit} (MIT).",
    ]
    for section, (source, dev) in SECTIONS.items():
        lines.append(f"[{section}]")
        provider = next(p for p in providers if p.id == source)
        known = limits(directory, dev)
        rows = []
        for model in provider.models:
            found = patterns(model.match)
            words = [w for w in found if not w.startswith("!")]
            excluded = [w for w in found if w.startswith("!")]
            # Shorter patterns may cover longer ones.
            words = [w for w in dict.fromkeys(words) if not any(w != o and matches(o, w) and "#" not in o for o in words)]
            names = [model.id, *(w.rstrip("*") for w in words)]
            limit = next((known[n] for n in names if n in known), {})
            window = model.context_window or limit.get("context") or "-"
            price = conditions(model, today)
            row = "\t".join([" ".join(words + list(dict.fromkeys(excluded))), str(window), str(limit.get("output") or "-"), "; ".join(price)])
            rows.append((model, words, [w[1:] for w in excluded], row))
        probes = {m.id for m, *_ in rows} | set(known)
        probes |= {w.replace("*", "-x").replace("#", "1") for _, ws, _, _ in rows for w in ws}
        probes |= {p + s for p in set(probes) for s in ("-20260101", "-2026-01-01", "-latest", "-preview", "-tts", "x")}
        for probe in sorted({p.lower() for p in probes}):
            def is_row(row):
                return any(matches(w, probe) for w in row[1]) and not any(matches(w, probe) for w in row[2])

            ours = next((row[0].id for row in rows if is_row(row)), None)
            theirs = next((m.id for m in provider.models if m.is_match(probe)), None)
            if ours != theirs:
                sys.exit(f"{section}: {probe} is {ours}, not {theirs}")
        # A row without a price hides the rows after it, so it stays.
        lines += [row for model, *_, row in rows if section != "openrouter" or model.id.split("/")[0] in MAKERS]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
