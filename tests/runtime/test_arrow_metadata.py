"""Tests of the facts in the metadata of Arrow messages, and of damaged metadata."""

import random

import pyarrow as pa
import pytest

from nearkin.runtime.arrow_metadata import RECORD_BATCH, SCHEMA, MessageFacts, read_facts


def messages_of(batch: pa.RecordBatch, compression: str | None = None) -> list[pa.Message]:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return list(pa.ipc.MessageReader.open_stream(sink.getvalue()))


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_facts_are_those_that_pyarrow_reads(rows: int, compression: str | None) -> None:
    batch = pa.record_batch({"text": ["x" * 50] * rows}, pa.schema([("text", pa.string())]))
    schema, data = messages_of(batch, compression)
    assert read_facts(schema.metadata.to_pybytes()) == MessageFacts(SCHEMA, 0, 0, compressed=False)
    facts = read_facts(data.metadata.to_pybytes())
    assert facts == MessageFacts(
        RECORD_BATCH, rows, data.body.size, compressed=compression is not None
    )


def test_message_of_a_dictionary_is_of_another_kind() -> None:
    batch = pa.record_batch({"text": pa.array(["a", "b", "a"]).dictionary_encode()})
    _, dictionary, data = messages_of(batch)
    facts = read_facts(dictionary.metadata.to_pybytes())
    assert facts.kind not in (SCHEMA, RECORD_BATCH)
    assert (facts.rows, facts.body_size) == (0, dictionary.body.size)
    assert read_facts(data.metadata.to_pybytes()).rows == 3


def test_damaged_metadata_is_a_value_error_or_has_plausible_numbers() -> None:
    batch = pa.record_batch({"text": ["some", "text"]})
    metadata = messages_of(batch)[1].metadata.to_pybytes()
    rng = random.Random(1)
    outcomes = set()
    for _ in range(2000):
        damaged = bytearray(metadata[: rng.randrange(len(metadata) + 1)])
        for _ in range(rng.randrange(4)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        try:
            facts = read_facts(bytes(damaged))
        except ValueError:
            outcomes.add("refused")
            continue
        outcomes.add("read")
        assert facts.kind != RECORD_BATCH or min(facts.rows, facts.body_size) >= 0
    assert outcomes == {"refused", "read"}


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\xff" * 4, b"\xff" * 64])
def test_bytes_that_are_not_metadata_are_a_value_error(metadata: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        read_facts(metadata)
