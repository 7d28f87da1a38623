"""Files of records for tests (WARC, Avro, ORC and tar), which other libraries write."""

import io
import json
import tarfile
from pathlib import Path

import fastavro
import pyarrow as pa
from pyarrow import orc
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

TEXTS = [" ".join(f"w{i // 2}x{j}" for j in range(60)) + f" {i}" for i in range(6)]
"""Texts of which each two consecutive ones are near-duplicates."""
PAGE = (
    "<html><head><title>t</title></head><body><nav><a href='/'>Home</a> <a href='/b'>Menu</a></nav>"
    "<article><p>{}</p></article><footer>Imprint</footer></body></html>"
)


def write_wet(path: Path, texts: list[str] = TEXTS, *, gzip: bool = True) -> Path:
    """Writes texts as conversion records, after a record of the type warcinfo."""
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=gzip)
        writer.write_record(writer.create_warcinfo_record(path.name, {"software": "test"}))
        for number, text in enumerate(texts):
            record = writer.create_warc_record(
                f"http://example.com/{number}",
                "conversion",
                payload=io.BytesIO(text.encode()),
                warc_content_type="text/plain",
            )
            writer.write_record(record)
    return path


def write_responses(path: Path, responses: list[tuple[str, str, bytes]]) -> Path:
    """Writes responses, each with its status, its content type and its content."""
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for number, (status, kind, content) in enumerate(responses):
            http = StatusAndHeaders(status, [("Content-Type", kind)], protocol="HTTP/1.1")
            record = writer.create_warc_record(
                f"http://example.com/{number}",
                "response",
                payload=io.BytesIO(content),
                http_headers=http,
            )
            writer.write_record(record)
    return path


def write_avro(path: Path, texts: list[str] = TEXTS, codec: str = "deflate") -> Path:
    """Writes texts with ids and numbers, two in a block."""
    schema = {
        "type": "record",
        "name": "Document",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "text", "type": ["null", "string"]},
            {"name": "rank", "type": "long"},
        ],
    }
    rows = [{"id": f"d{i}", "text": text, "rank": i} for i, text in enumerate(texts)]
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, codec=codec, sync_interval=500)
    return path


def write_orc(path: Path, texts: list[str] = TEXTS) -> Path:
    """Writes texts with ids and numbers."""
    rows = [{"rank": i, "id": f"d{i}", "text": text} for i, text in enumerate(texts)]
    orc.write_table(pa.Table.from_pylist(rows), path, compression="zstd")
    return path


def write_tar(path: Path, texts: list[str] = TEXTS, mode: str = "w") -> Path:
    """Writes samples of a text, a JSON object and a picture."""
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for number, text in enumerate(texts):
            members = {
                "txt": text.encode(),
                "json": json.dumps({"caption": text, "id": f"d{number}"}).encode(),
                "jpg": bytes(700),
            }
            for extension, content in members.items():
                member = tarfile.TarInfo(f"shard/{number:04}.{extension}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return path
