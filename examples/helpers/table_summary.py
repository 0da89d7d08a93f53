"""Summary of a table in a CSV file."""

import csv
import datetime
from collections import Counter
from pathlib import Path
from typing import Optional

__aish__ = {"csv_summary": {"read_only": True}}

MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}
# Distinct texts that are counted for each column; more are only said to be many.
MAX_DISTINCT = 10_000


def csv_summary(path: Path, delimiter: Optional[str] = None, max_rows: int = 1_000_000) -> dict:
    """Summarizes a CSV file: its columns with types, missing values, minimum, maximum and mean.

    Args:
        path: The file; its first row names the columns.
        delimiter: The character between cells; found out by default.
        max_rows: Number of rows that are read.
    """
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        sample = file.read(64 * 1024)
        file.seek(0)
        rows = csv.reader(file, delimiter=delimiter or _delimiter(sample))
        header = next(rows, None)
        if header is None:
            raise ValueError(f"{path} is empty")
        columns = [_Column(name.strip() or f"column {i + 1}") for i, name in enumerate(header)]
        count = ragged = 0
        for row in rows:
            if not row:
                continue
            if count == max_rows:
                break
            count += 1
            ragged += len(row) != len(columns)
            for i, column in enumerate(columns):
                column.add(row[i].strip() if i < len(row) else "")
    summary = {"rows": count, "columns": [column.summary() for column in columns]}
    if count == max_rows:
        summary["note"] = f"only the first {max_rows} rows were read"
    if ragged:
        summary["rows_with_another_number_of_cells"] = ragged
    return summary


def _delimiter(sample):
    first = sample.splitlines()[0] if sample else ""
    return max(",;\t|", key=first.count)


class _Column:
    """The values of a column so far. A type holds as long as every value has it."""

    def __init__(self, name):
        self.name = name
        self.missing = 0
        self.values = 0
        self.types = ["integer", "number", "date", "boolean"]
        self.total = 0.0
        self.minimum = self.maximum = None
        self.texts = Counter()

    def add(self, text):
        if text.lower() in MISSING:
            self.missing += 1
            return
        self.values += 1
        self.types = [kind for kind in self.types if _parsed(kind, text) is not None]
        if len(self.texts) < MAX_DISTINCT or text in self.texts:
            self.texts[text] += 1
        number = _parsed("number", text)
        if number is not None:
            self.total += number
        key = number if number is not None else text
        # Numbers are compared until a value that is none comes.
        if self.minimum is None or type(key) is type(self.minimum):
            self.minimum = key if self.minimum is None else min(self.minimum, key)
            self.maximum = key if self.maximum is None else max(self.maximum, key)

    def summary(self):
        kind = self.types[0] if self.types and self.values else "text" if self.values else "empty"
        summary = {"name": self.name, "type": kind, "missing": self.missing}
        if kind in ("integer", "number"):
            convert = int if kind == "integer" else float
            summary.update(min=convert(self.minimum), max=convert(self.maximum), mean=round(self.total / self.values, 6))
        elif kind != "empty":
            if kind == "date":
                summary.update(min=min(self.texts), max=max(self.texts))
            many = len(self.texts) >= MAX_DISTINCT
            summary["distinct"] = f"{MAX_DISTINCT} or more" if many else len(self.texts)
            summary["most_common"] = [[text[:80], n] for text, n in self.texts.most_common(3)]
        return summary


def _parsed(kind, text):
    try:
        if kind == "integer":
            return int(text) if "_" not in text else None
        if kind == "number":
            value = float(text) if "_" not in text else None
            return value if value is not None and abs(value) != float("inf") else None
        if kind == "date":
            return datetime.date.fromisoformat(text[:10]) if len(text) >= 10 else None
    except ValueError:
        return None
    return True if text.lower() in ("true", "false", "yes", "no") else None
