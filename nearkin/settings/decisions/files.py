"""Files of decisions, with the columns `id_a`, `id_b`, `decision`, `by` and `at`.

They are JSON lines, CSV, Excel workbooks or parquet.
"""

import csv
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.parsers.expat import ExpatError
from zipfile import BadZipFile

from nearkin.errors import UsageError
from nearkin.runtime.appended_lines import append_line, format_row, require_header
from nearkin.runtime.dialect import SAMPLE_BYTES, detect_dialect, find_named_delimiter
from nearkin.runtime.excel_workbook import Value, Workbook
from nearkin.runtime.excel_writer import format_value
from nearkin.runtime.file_locks import lock_exclusively
from nearkin.runtime.files import require_file_path
from nearkin.runtime.suggestions import did_you_mean
from nearkin.settings.decisions.decision import Decision, Decisions, Verdict

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

COLUMNS = ("id_a", "id_b", "decision", "by", "at")
REQUIRED = frozenset({"id_a", "id_b", "decision"})
JSON_LINES = (".jsonl", ".ndjson")
CSV = ".csv"
TSV = ".tsv"
EXCEL = ".xlsx"
PARQUET = (".parquet", ".pq")
FORMATS = "a name that ends with .jsonl, .ndjson, .csv, .tsv, .xlsx, .parquet or .pq"
SAME_WORDS = ("same", "duplicate", "yes", "true", "1")
"""The words that say that two documents are the same, in any case."""
DIFFERENT_WORDS = ("different", "distinct", "no", "false", "0")
"""The words that say that two documents are different, in any case."""
MAX_VALUE_BYTES = 1 << 27
"""The largest value of a workbook, in bytes."""
ID_LIMIT = 1 << 30
"""The largest number of characters of a value in a CSV file."""
MAX_TABLE_BYTES = 1 << 32
"""The largest size of the values of a parquet file, in bytes."""
MAX_LINE_BYTES = 1 << 24
"""The largest line of a file of JSON lines, in bytes. A longer line is something else."""


def read_decisions(path: str | Path) -> Decisions:
    """Reads a file of decisions. Of two decisions about one pair, the later one counts.

    Args:
        path: File of JSON lines, CSV, Excel or parquet, by its name. The delimiter and the
            encoding of CSV are detected as those of inputs are. It has the columns `id_a`,
            `id_b` and `decision`, and optionally `by` and `at` (a time as in RFC 3339, for example
            `2026-05-01T10:30:00Z`). A decision is `same`, `duplicate`, `yes`, `true` or `1`, or
            `different`, `distinct`, `no`, `false` or `0`, in any case. A row without one is not
            decided. Other columns are ignored.

    Raises:
        UsageError: If the file does not exist or cannot be read, a row is not valid (the message
            names it), or decisions contradict each other.
    """
    path = Path(path)
    parsed = map(_parse_row, _read_rows(path))
    return Decisions.resolve(filter(None, parsed), str(path))


def holds_decisions(names: Sequence[str]) -> bool:
    """Returns whether a file with some columns is one of decisions."""
    return set(names) >= REQUIRED


@dataclass
class DecisionFile:
    """A file of decisions to which each further one is appended at once.

    Attributes:
        path: The file, of JSON lines or CSV.
        decisions: The decisions that count.
    """

    path: Path
    decisions: Decisions
    _size: int = 0
    """The size of the file when it was read or written last."""

    @classmethod
    def open(cls, path: Path) -> "DecisionFile":
        """Opens a file of decisions, or names one that the first decision creates."""
        suffix = path.suffix.lower()
        if suffix not in (*JSON_LINES, CSV):
            raise UsageError(
                f"decisions cannot be appended to {path}; give a name that ends with .jsonl or .csv"
            )
        require_file_path(path)
        if not path.exists() or path.stat().st_size == 0:
            return cls(path, Decisions())
        size = path.stat().st_size
        if suffix == CSV:
            require_header(path, COLUMNS, "decisions")
        return cls(path, read_decisions(path), size)

    def append(self, decision: Decision) -> None:
        """Appends a decision, and waits until it is on the disk. It replaces an earlier one.

        Decisions that another process has appended meanwhile are read first.
        """
        with self.path.open("ab") as lock:
            # closing it releases the lock
            lock_exclusively(lock.fileno())
            # the position of the file is that from before the wait for the lock
            if self.path.stat().st_size != self._size:
                self.decisions = read_decisions(self.path)
            self._append(self.decisions.with_time(decision))
            self._size = self.path.stat().st_size

    def _append(self, decision: Decision) -> None:
        """Appends a decision with its time to the file, which is locked."""
        extended = self.decisions.with_decision(decision, str(self.path))
        values = _format_values(decision)
        if self.path.suffix.lower() == CSV:
            row = [values[name] for name in COLUMNS]
            append_line(self.path, format_row(row), format_row(COLUMNS))
        else:
            append_line(self.path, f"{format_line(decision)}\n".encode())
        self.decisions = extended


def format_line(decision: Decision) -> str:
    """Returns a decision with a time as a line of JSON.

    Examples:
        >>> from datetime import UTC
        >>> at = datetime(2026, 5, 1, tzinfo=UTC)
        >>> json.loads(format_line(Decision("a", "b", Verdict.SAME, "ada", at)))["at"]
        '2026-05-01T00:00:00.000000+00:00'
    """
    return json.dumps(_format_values(decision))


def _format_values(decision: Decision) -> dict[str, str]:
    """Returns the values of a row."""
    assert decision.at is not None
    return {
        "id_a": decision.id_a,
        "id_b": decision.id_b,
        "decision": str(decision.verdict),
        "by": decision.by or "",
        "at": decision.at.isoformat(timespec="microseconds"),
    }


class _Row(NamedTuple):
    """A row of a file, as it was read."""

    place: str
    """The place of the row, for messages."""
    values: Mapping[str, object]


def _read_rows(path: Path) -> Iterator[_Row]:
    """Yields the rows of a file."""
    suffix = path.suffix.lower()
    try:
        if suffix in JSON_LINES:
            yield from _read_json_lines(path)
        elif suffix in (CSV, TSV):
            yield from _read_csv(path)
        elif suffix == EXCEL:
            yield from _read_workbook(path)
        elif suffix in PARQUET:
            yield from _read_parquet(path)
        else:
            raise UsageError(f"the format of {path} is unknown; decisions are in {FORMATS}")
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 ({error.reason}); convert it") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def _read_json_lines(path: Path) -> Iterator[_Row]:
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
            if not line.strip():
                continue
            place = f"line {number} of {path}"
            if len(line) > MAX_LINE_BYTES:
                raise UsageError(
                    f"{place} has more than {MAX_LINE_BYTES:,} bytes, which no decision has; "
                    "name a file of decisions"
                )
            try:
                values = json.loads(line)
            except (ValueError, RecursionError) as error:
                if not line.endswith(b"\n"):
                    raise UsageError(
                        f"{place} is not JSON ({error}) and incomplete, as after a crash while "
                        "it was written; delete the line, whose decision was not confirmed"
                    ) from error
                raise UsageError(
                    f"{place} is not JSON ({error}); correct or delete the line"
                ) from error
            if not isinstance(values, dict):
                raise UsageError(f"{place} is not a JSON object; correct or delete the line")
            yield _Row(place, values)


def _read_csv(path: Path) -> Iterator[_Row]:
    previous_limit = csv.field_size_limit(ID_LIMIT)
    try:
        with path.open("rb") as binary:
            dialect = detect_dialect(binary.read(SAMPLE_BYTES), ",", None, None)
        with path.open(encoding=dialect.encoding, newline="") as file:
            first = file.readline().removeprefix("\ufeff")
            # The line names the delimiter for Excel.
            skipped = [] if find_named_delimiter(first) is None else [first]
            lines = file if skipped else chain([first], file)
            reader = csv.reader(lines, delimiter=dialect.delimiter, strict=True)
            try:
                names = next(reader, [])
                _require_columns(names, path)
                for row in reader:
                    place = f"line {len(skipped) + reader.line_num} of {path}"
                    if len(row) not in (0, len(names)):
                        raise UsageError(
                            f"{place} has {len(row)} values and the header {len(names)}; correct "
                            "the line"
                        )
                    if row:
                        yield _Row(place, dict(zip(names, row, strict=True)))
            except csv.Error as error:
                raise UsageError(
                    f"line {len(skipped) + reader.line_num} of {path} is not CSV ({error}); "
                    "correct the line"
                ) from error
    finally:
        csv.field_size_limit(previous_limit)


def _read_workbook(path: Path) -> Iterator[_Row]:
    with path.open("rb") as file:
        try:
            workbook = Workbook(file, str(path), MAX_VALUE_BYTES)
            names: dict[int, str] = {}
            for line, values in workbook.rows(workbook.sheets[0]):
                if names:
                    yield _Row(f"row {line} of {path}", _format_cells(names, values))
                else:
                    names = {column: format_value(value) for column, value in values.items()}
                    _require_columns(list(names.values()), path)
        except UsageError:
            raise
        except (ValueError, LookupError, ExpatError, BadZipFile, zlib.error) as error:
            raise UsageError(f"{path} is not a complete Excel workbook ({error})") from error
    if not names:
        _require_columns([], path)


def _format_cells(names: Mapping[int, str], values: Mapping[int, Value]) -> dict[str, object]:
    """Returns the values of a row as texts, empty ones for cells without a value."""
    return {name: format_value(values.get(column, "")) for column, name in names.items()}


def _read_parquet(path: Path) -> Iterator[_Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            _require_columns(file.schema_arrow.names, path)
            _require_few_bytes(file.metadata, path)
        table = pq.read_table(path)
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())[:120]
        raise UsageError(f"{path} is not a parquet file ({reason})") from error
    try:
        rows = table.select([name for name in COLUMNS if name in table.column_names]).to_pylist()
    except (ArithmeticError, LookupError, ValueError, pa.ArrowException) as error:
        # times beyond those of Python, unknown time zones, and texts that are not UTF-8
        raise UsageError(
            f"{path} has a value that cannot be read ({error}); correct its columns "
            f"{', '.join(COLUMNS)}"
        ) from error
    for number, values in enumerate(rows, 1):
        yield _Row(f"row {number} of {path}", values)


def _require_few_bytes(metadata: "FileMetaData", path: Path) -> None:
    """Requires that a file of parquet has no more decoded bytes than decisions have."""
    groups = range(metadata.num_row_groups)
    size = sum(metadata.row_group(group).total_byte_size for group in groups)
    if size > MAX_TABLE_BYTES:
        raise UsageError(
            f"{path} has {size:,} bytes of values, and a file of decisions has at most "
            f"{MAX_TABLE_BYTES:,}; leave out other columns, or divide it"
        )


def _require_columns(names: Sequence[str], path: Path) -> None:
    """Requires the columns of decisions, each once."""
    for name in COLUMNS:
        if names.count(name) > 1:
            raise UsageError(f"{path} has two columns {name!r}; delete or rename one of them")
    if not holds_decisions(names):
        raise UsageError(
            f"{path} has the columns {', '.join(names)}; decisions have the columns id_a, id_b and "
            "decision, and optionally by and at"
        )


def parse_verdict(word: str) -> Verdict | None:
    """Returns the verdict that a word stands for, or None if it is unknown.

    Examples:
        >>> parse_verdict("Yes"), parse_verdict("distinct"), parse_verdict("maybe")
        (<Verdict.SAME: 'same'>, <Verdict.DIFFERENT: 'different'>, None)
    """
    word = word.strip().lower()
    if word in SAME_WORDS:
        return Verdict.SAME
    return Verdict.DIFFERENT if word in DIFFERENT_WORDS else None


def _parse_row(row: _Row) -> Decision | None:
    """Returns the decision of a row, or None if it is empty."""
    word = row.values.get("decision")
    if isinstance(word, bool):
        word = str(word)
    elif "decision" not in row.values or not (word is None or isinstance(word, str)):
        word = _require_text(row, "decision")
    if word is None or not word.strip():
        return None
    verdict = parse_verdict(word)
    if verdict is None:
        raise UsageError(
            f"{row.place} has the unknown decision {word!r}; write "
            f"{' or '.join(Verdict)}{did_you_mean(word, Verdict)}"
        )
    by = row.values.get("by")
    if by is not None and not isinstance(by, str):
        raise UsageError(f"{row.place} has {by!r} in by, which is not a text; write a name")
    try:
        return Decision(
            _require_text(row, "id_a"),
            _require_text(row, "id_b"),
            verdict,
            by or None,
            _parse_time(row),
        )
    except UsageError as error:
        if str(error).startswith(row.place):
            raise
        raise UsageError(f"{row.place}: {error}") from error


def _require_text(row: _Row, name: str) -> str:
    """Returns a value as text. A whole number is the id that a column of numbers has."""
    value = row.values.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        problem = "has no value" if value is None else f"has {value!r}, which is not a text,"
        raise UsageError(f"{row.place} {problem} in {name}; correct or delete the row")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{row.place} has a value in {name} that is not valid Unicode ({error.reason}); "
            "correct or delete the row"
        ) from error
    return value


def _parse_time(row: _Row) -> datetime | None:
    """Returns the time of a row, or None without one."""
    value = row.values.get("at")
    if value is None or value == "":
        return None
    if isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value)
    except ValueError:
        pass
    raise UsageError(
        f"{row.place} has {value!r} in at, which is not a time; write it as 2026-05-01T10:30:00Z"
    )
