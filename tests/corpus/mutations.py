"""Damages files of every format, deduplicates each in a child process, and prints what went wrong.

A program of its own, so that the forked children start from a process that has loaded everything
and has no other threads: `python -m tests.corpus.mutations --format avro --count 100 --seed 1`.

The rows that a run keeps must be rows of the undamaged file, or those that the format's own reader
finds in the damaged one. If that reader fails, a run that rejects nothing has lost something.
"""

import argparse
import bz2
import contextlib
import csv
import gzip
import io
import json
import lzma
import os
import random
import re
import resource
import shutil
import sys
import tarfile
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq
import zstandard

from tests.killing import in_child

ROWS = 40
IPC_MAGIC_BYTES = 8
"""The number of bytes before the stream that an Arrow file contains."""
MEMORY = 512 << 20
"""The memory of a run, in bytes."""
TRACEBACK = 71
"""The exit code of a child with a traceback."""
EXIT_CODES = frozenset({0, 1, 2, 3})
"""The exit codes of docs/reference/errors.md that a damaged file may cause."""

Row = dict[str, Any]
Reader = Callable[[bytes], Iterator[Row]]
Run = Callable[[list[str], Path], tuple[int, int]]
"""Runs a command line, writes what it says to a file, and returns its exit code and how many bytes
its memory grew by."""


def make_rows() -> list[Row]:
    """Returns rows whose texts have no words in common."""
    return [
        {
            "id": number,
            "text": " ".join(f"word{number}x{place}" for place in range(12)),
            "score": None if number % 5 == 0 else number / 8,
            "tags": [f"tag{place}" for place in range(number % 4)],
        }
        for number in range(ROWS)
    ]


def _table() -> pa.Table:
    return pa.Table.from_pylist(make_rows())


def _write_parquet(compression: str, *, checksums: bool) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(
        _table(),
        buffer,
        row_group_size=ROWS // 2,
        compression=compression,
        write_page_checksum=checksums,
    )
    return buffer.getvalue()


def _read_parquet(content: bytes) -> Iterator[Row]:
    file = pq.ParquetFile(io.BytesIO(content), page_checksum_verification=True)
    yield from _read_all(file.num_row_groups, file.read_row_group)


def _read_all(count: int, read: Callable[[int], "pa.Table | pa.RecordBatch"]) -> Iterator[Row]:
    """Yields the rows of all parts that can be read, and raises the last error then."""
    failure = None
    for number in range(count):
        try:
            yield from _checked(read(number))
        except Exception as error:  # noqa: BLE001 (what libraries raise for damage is of any type)
            failure = error
    if failure is not None:
        raise failure


def _checked(table: "pa.Table | pa.RecordBatch") -> list[Row]:
    """Returns the rows of a part whose buffers are sound. Invalid texts are left as bytes."""
    schema = pa.schema([(field.name, _without_texts(field.type)) for field in table.schema])
    binary = table.cast(schema)
    binary.validate(full=True)
    return [{name: _decoded(value) for name, value in row.items()} for row in binary.to_pylist()]


def _without_texts(type: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type):
        return pa.list_(_without_texts(type.value_type))
    return pa.binary() if pa.types.is_string(type) else type


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _write_ipc(*, stream: bool) -> bytes:
    buffer = io.BytesIO()
    table = _table()
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(buffer, table.schema) as writer:
        writer.write_table(table, max_chunksize=ROWS // 2)
    return buffer.getvalue()


def _read_ipc_file(content: bytes) -> Iterator[Row]:
    """Yields the rows of a file, or those of the stream inside it if its index is damaged."""
    try:
        reader = pa.ipc.open_file(pa.py_buffer(content))
    except pa.ArrowInvalid:
        yield from _read_ipc_stream(content[IPC_MAGIC_BYTES:])
        raise
    yield from _read_all(reader.num_record_batches, reader.get_batch)


def _read_ipc_stream(content: bytes) -> Iterator[Row]:
    batches = []
    failure = None
    try:
        for batch in pa.ipc.open_stream(pa.py_buffer(content)):
            batches.append(batch)
    except (pa.ArrowException, OSError) as error:
        failure = error
    yield from _read_all(len(batches), batches.__getitem__)
    if failure is not None:
        raise failure


def _write_feather() -> bytes:
    buffer = io.BytesIO()
    feather.write_feather(_table(), buffer, compression="zstd", chunksize=ROWS // 2)
    return buffer.getvalue()


def _write_orc() -> bytes:
    buffer = io.BytesIO()
    orc.write_table(_table(), buffer, compression="zlib")
    return buffer.getvalue()


def _read_orc(content: bytes) -> Iterator[Row]:
    file = orc.ORCFile(io.BytesIO(content))
    yield from _read_all(file.nstripes, file.read_stripe)


def _write_avro(codec: str) -> bytes:
    fields = [
        {"name": "id", "type": "long"},
        {"name": "text", "type": "string"},
        {"name": "score", "type": ["null", "double"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ]
    buffer = io.BytesIO()
    schema = {"type": "record", "name": "row", "fields": fields}
    fastavro.writer(buffer, schema, make_rows(), codec=codec, sync_interval=800)
    return buffer.getvalue()


def _read_avro(content: bytes) -> Iterator[Row]:
    for row in fastavro.reader(io.BytesIO(content)):
        assert isinstance(row, dict)
        yield row


def _write_json_lines() -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in make_rows())


def _read_json_lines(content: bytes) -> Iterator[Row]:
    failure = None
    for line in filter(bytes.strip, content.split(b"\n")):
        try:
            yield json.loads(line)
        except ValueError as error:
            failure = error
    if failure is not None:
        raise failure


def _write_json_array() -> bytes:
    return json.dumps(make_rows()).encode()


def _read_json_array(content: bytes) -> Iterator[Row]:
    text = content.decode(errors="replace")
    at = text.find("{")
    while at >= 0:
        with contextlib.suppress(ValueError):
            yield json.JSONDecoder().raw_decode(text, at)[0]
        at = text.find("{", at + 1)
    json.loads(content)


def _write_csv() -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["id", "text"])
    writer.writerows([row["id"], row["text"]] for row in make_rows())
    return buffer.getvalue().encode()


def _read_csv(content: bytes) -> Iterator[Row]:
    """Yields the rows of the whole table, and further ones of its lines alone.

    Bytes are read as characters.
    """
    text = content.decode("latin-1")
    rows: list[Row] = []
    failure = None
    names: list[str] = []
    try:
        table = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        names.extend(table.fieldnames or ())
        rows.extend(table)
    except csv.Error as error:
        failure = error
    yield from rows
    header, _, body = text.partition("\r\n")
    names = names or header.split(",")
    for line in body.split("\r\n"):
        with contextlib.suppress(csv.Error):
            yield from (
                row for row in csv.DictReader([line], names, strict=True) if row not in rows
            )
    if failure is not None:
        raise failure


def _write_tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for row in make_rows():
            for extension, content in (("txt", row["text"].encode()), ("cls", b"%d" % row["id"])):
                member = tarfile.TarInfo(f"{row['id']:04}.{extension}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _read_tar(content: bytes) -> Iterator[Row]:
    sample: Row = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            key, _, extension = member.name.partition(".")
            if sample and sample["__key__"] != key:
                yield sample
                sample = {}
            source = archive.extractfile(member)
            sample["__key__"] = key
            sample[extension] = b"" if source is None else source.read()
    if sample:
        yield sample


def _write_warc() -> bytes:
    records = []
    for row in make_rows():
        body = (
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n" + row["text"]
        ).encode()
        head = (
            "WARC/1.0\r\nWARC-Type: response\r\n"
            f"WARC-Target-URI: http://site.example/{row['id']}\r\n"
            f"WARC-Record-ID: <urn:uuid:{row['id']:032}>\r\n"
            "WARC-Date: 2026-01-01T00:00:00Z\r\n"
            "Content-Type: application/http; msgtype=response\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        records.append(head.encode() + body + b"\r\n\r\n")
    return b"".join(records)


def _read_warc(content: bytes) -> Iterator[Row]:
    """Yields everything between the beginnings of records. Line breaks after a body are no part.

    If the beginning of the next record is damaged, a record ends where its length says, provided
    that line breaks follow.
    """
    failed = False
    for record in re.split(rb"(?=WARC/1\.\d\r\n)", content):
        head, _, body = record.partition(b"\r\n\r\n")
        if record:
            yield {"head": head, "body": body.strip(b"\r\n")}
            failed |= b"Content-Length: %d" % (len(body) - 4) not in head
        length = re.search(rb"\r\nContent-Length: (\d{1,9})$", head)
        end = int(length[1]) if length else len(body)
        if body[end : end + 4] == b"\r\n\r\n" and body[end:].strip(b"\r\n"):
            yield {"head": head, "body": body[:end].strip(b"\r\n")}
    if failed:
        raise ValueError("a record is not as long as it says")


def _read_text(content: bytes) -> Iterator[Row]:
    yield {"text": content.decode()}


@dataclass(frozen=True)
class Format:
    """A format, and how it is written and read without nearkin.

    Attributes:
        extension: The end of the file name.
        content: An undamaged file.
        read: Yields the rows of a file, or raises an exception of any kind.
        unpack: Decompresses a file.
        options: Options of the run.
    """

    extension: str
    content: bytes
    read: Reader
    unpack: Callable[[bytes], bytes] = bytes
    options: tuple[str, ...] = ()

    def rows_of(self, content: bytes) -> tuple[list[str], bool]:
        """Returns the rows of a file that can be read, as text, and whether reading failed."""
        rows: list[str] = []
        try:
            for row in self.read(self.unpack(content)):
                rows.append(repr(row))
        except Exception:  # noqa: BLE001 (what libraries raise for damage is of any type)
            return rows, True
        return rows, False


def _list_formats() -> dict[str, Format]:
    lines = _write_json_lines()
    table = _write_csv()
    archive = _write_tar()
    tar_options = ("--text", "txt")
    return {
        "parquet": Format("parquet", _write_parquet("snappy", checksums=True), _read_parquet),
        "parquet-plain": Format("parquet", _write_parquet("none", checksums=False), _read_parquet),
        "parquet-zstd": Format("parquet", _write_parquet("zstd", checksums=False), _read_parquet),
        "arrow": Format("arrow", _write_ipc(stream=False), _read_ipc_file),
        "arrows": Format("arrows", _write_ipc(stream=True), _read_ipc_stream),
        "feather": Format("feather", _write_feather(), _read_ipc_file),
        "orc": Format("orc", _write_orc(), _read_orc),
        "avro": Format("avro", _write_avro("null"), _read_avro),
        "avro-deflate": Format("avro", _write_avro("deflate"), _read_avro),
        "jsonl": Format("jsonl", lines, _read_json_lines),
        "jsonl-gzip": Format("jsonl.gz", gzip.compress(lines), _read_json_lines, gzip.decompress),
        "jsonl-zstd": Format(
            "jsonl.zst",
            zstandard.ZstdCompressor(write_checksum=True).compress(lines),
            _read_json_lines,
            _unpack_zstd,
        ),
        "jsonl-xz": Format("jsonl.xz", lzma.compress(lines), _read_json_lines, lzma.decompress),
        "json": Format("json", _write_json_array(), _read_json_array),
        "csv": Format("csv", table, _read_csv),
        "csv-bzip2": Format("csv.bz2", bz2.compress(table), _read_csv, bz2.decompress),
        "tar": Format("tar", archive, _read_tar, options=tar_options),
        "tar-gzip": Format(
            "tar.gz", gzip.compress(archive), _read_tar, gzip.decompress, tar_options
        ),
        "warc": Format("warc", _write_warc(), _read_warc),
        "warc-gzip": Format("warc.gz", gzip.compress(_write_warc()), _read_warc, gzip.decompress),
        "text": Format("txt", make_rows()[1]["text"].encode(), _read_text),
    }


def _unpack_zstd(content: bytes) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True) as reader:
        return reader.read()


FORMATS = _list_formats()


def damage(content: bytes, chance: random.Random) -> bytes:
    """Returns a file with one to three changes."""
    damaged = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(damaged) or 1)
        size = chance.choice((1, 4, 8, 64, 512))
        match chance.randrange(7):
            case 0 | 1 if damaged:
                damaged[at] ^= 1 << chance.randrange(8)
            case 2:
                damaged[at : at + size] = chance.randbytes(len(damaged[at : at + size]))
            case 3:
                damaged[at : at + size] = bytes([chance.choice((0, 255))]) * size
            case 4:
                del damaged[at : at + size]
            case 5:
                damaged[at:at] = damaged[at : at + size]
            case _:
                del damaged[at:]
    return bytes(damaged)


def _command(chosen: Format, path: Path) -> list[str]:
    """Returns the command that deduplicates a file, with OUT for its output."""
    return ["dedup", str(path), "--out", "OUT", "--memory", f"{MEMORY}B", *chosen.options]


def _run_here(line: list[str], said: Path) -> tuple[int, int]:
    """Runs a command in this process, so that its children have loaded what they need.

    Returns its exit code, and no growth of memory.
    """
    from nearkin.cli.app import run

    with (
        said.open("w") as output,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        return run(line), 0


def _run_in_child(line: list[str], said: Path) -> tuple[int, int]:
    """Returns the exit code of a run, or minus a signal, and the growth of memory in bytes."""
    grown = said.with_suffix(".memory")
    grown.unlink(missing_ok=True)

    def body() -> int:
        from nearkin.cli.app import run

        handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            code = run(line)
        except Exception:  # noqa: BLE001 (a traceback is what is looked for)
            traceback.print_exc()
            code = TRACEBACK
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        grown.write_text(str((after - before) << 10))
        return code

    code = in_child(body)
    return code, int(grown.read_text()) if grown.exists() else 0


def find_fault(
    chosen: Format, content: bytes, folder: Path, run: Run = _run_in_child
) -> str | None:
    """Deduplicates a damaged file.

    Returns:
        What is wrong with the result, or None.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / f"a.{chosen.extension}"
    path.write_bytes(content)
    out = folder / "out"
    said = folder / "said"
    line = [str(out) if word == "OUT" else word for word in _command(chosen, path)]
    code, grown = run(line, said)
    text = said.read_text(errors="replace")
    if code not in EXIT_CODES or "Traceback" in text:
        return f"ended with {code}: {text[-2000:]}"
    if grown > MEMORY:
        return f"took {grown >> 20} MiB"
    found, failed = chosen.rows_of(content)
    if code != 0 or not (out / "run.json").exists():
        return None if failed or text else f"ended with {code} and said nothing"
    counts = json.loads((out / "run.json").read_text())["counts"]
    removed = counts["removed"] + counts["empty"]
    rejections = (out / "rejected.jsonl").read_text()
    kept: list[str] = []
    for file in sorted((out / "kept").rglob("*")):
        if file.is_file():
            rows, kept_failed = chosen.rows_of(file.read_bytes())
            if kept_failed and not failed:
                return f"the kept file cannot be read after {len(rows)} rows"
            kept += rows
    original, _ = chosen.rows_of(chosen.content)
    foreign = [row for row in kept if row not in original and row not in found]
    # the checksum of a stream that is cut is missing, too
    is_said = "may be changed" in rejections or "runcated" in rejections
    if foreign and not is_said:
        return f"{len(foreign)} kept rows are of no reader, such as {foreign[0]}; {rejections}"
    # a record of WARC whose type is damaged is skipped as one of an unknown type, which is said
    is_said |= "skipped" in text
    if not content:
        # nothing can be lost of an empty file, which is one empty text if its suffix is unknown
        return None
    if not counts["rejected"] and not is_said and failed and len(kept) + removed < len(original):
        return f"nothing was rejected, and the file cannot be read; {counts}"
    if not counts["rejected"] and not is_said and len(kept) + removed < len(found):
        return f"{len(found)} rows became {len(kept)} and {removed} removed ones"
    return None


def main() -> int:
    """Prints each fault with the seed that shows it again; returns 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=FORMATS, nargs="*", default=list(FORMATS))
    parser.add_argument("--count", type=int, default=10, help="mutations of each format")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first mutation")
    arguments = parser.parse_args()
    faults = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        for name in arguments.format:
            chosen = FORMATS[name]
            # the first run loads and compiles what runs need before they are forked
            fault = find_fault(chosen, chosen.content, Path(folder) / "case", _run_here)
            if fault is not None:
                raise AssertionError(f"{name} undamaged: {fault}")
            for seed in range(arguments.seed, arguments.seed + arguments.count):
                content = damage(chosen.content, random.Random(f"{name} {seed}"))
                fault = find_fault(chosen, content, Path(folder) / "case")
                if fault is not None:
                    faults += 1
                    sys.stdout.write(f"--format {name} --seed {seed} --count 1: {fault}\n")
                    sys.stdout.flush()
    count = arguments.count * len(arguments.format)
    sys.stdout.write(f"{faults} faults of {count} mutations\n")
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
