"""The words of a server as `calibctl show` prints them."""
from __future__ import annotations

from html import escape

from calibd.v1 import reading_pb2

# The layout of calibctl: the width of a line, and the column where the words begin.
_WIDTH = 100
INDENT = 10
# calibctl replaces control characters in the same way.
_CONTROLS = dict.fromkeys([*range(0x20), 0x7f], "?")


def wrapped(line: str, indent: int) -> str:
    """The line with breaks at spaces, as calibctl makes them. indent: of the words of all lines."""
    lines = [line[:indent]]
    for i, word in enumerate(line[indent:].split(" ")):
        if i and len(lines[-1]) + 1 + len(word) > _WIDTH:
            lines.append(" " * indent + word)
        else:
            lines[-1] += f" {word}" if i else word
    return "\n".join(lines)


def _plain(text: str) -> str:
    """The text without control characters."""
    return text.translate(_CONTROLS)


def _table_rows(table: reading_pb2.Table) -> list[list[str]]:
    """The titles and the rows of a table."""
    return [[_plain(title) for title in table.columns],
            *([_plain(cell) for cell in row.cells] for row in table.rows)]


def table_text(table: reading_pb2.Table) -> str:
    """The table as `calibctl show` prints it."""
    rows = _table_rows(table)
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.rjust(width) if k else cell.ljust(width)
                       for k, (cell, width) in enumerate(zip(row, widths))).rstrip(" ") for row in rows]
    return "\n".join([*lines, f"... {table.left_out} more"] if table.left_out else lines)


def table_html(table: reading_pb2.Table) -> str:
    rows = _table_rows(table)
    lines = ["".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
             for tag, row in zip(["th", *["td"] * len(rows)], rows)]
    more = f"<div>... {table.left_out} more</div>" if table.left_out else ""
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>{more}"


def reading_lines(reading: reading_pb2.Reading) -> list[tuple[str, str]]:
    """The titles and the words of a reading, in its order."""
    return [(field.name.replace("_", " "), _plain(getattr(reading, field.name).text))
            for field in reading.DESCRIPTOR.fields
            if field.message_type is not None and reading.HasField(field.name)]


def reading_text(name: str, reading: reading_pb2.Reading) -> str:
    """The text of `calibctl show`."""
    lines = reading_lines(reading)
    lines[:1] = [(title, f"{name}: {words}") for title, words in lines[:1]]
    return "\n".join(wrapped(f"{title:<{INDENT}}{words}", INDENT) for title, words in lines)
