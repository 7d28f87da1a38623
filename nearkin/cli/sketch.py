"""`nearkin lab sketch`."""

from contextlib import closing
from functools import partial
from pathlib import Path

from nearkin.cli import options as o
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_inputs, print_json, print_warnings, require_documents
from nearkin.cli.standard_files import StandardFiles, with_standard_files
from nearkin.cli.standard_streams import print_line, write_to_stdout
from nearkin.runtime.number_format import format_count
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.sizes import AUTOMATIC
from nearkin.settings.table import OutputSettings, SignatureSettings


def write_signature_rows(path: Path) -> None:
    """Writes the signatures of a file to standard output, one JSON object a line.

    Each object has the fingerprint of the Spec, because signatures of different Specs cannot be
    compared.
    """
    import orjson
    import pyarrow as pa

    from nearkin.stages.sketch.signature_file import FINGERPRINT

    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        fingerprint = reader.schema.metadata[FINGERPRINT].decode()
        for number in range(reader.num_record_batches):
            rows = reader.get_batch(number).to_pylist()
            lines = [orjson.dumps({**row, "spec": fingerprint}) + b"\n" for row in rows]
            write_to_stdout(b"".join(lines))


@with_option_groups
@partial(with_standard_files, result="signatures.arrow", write_rows=write_signature_rows)
def sketch(
    *,
    given: GivenOptions,
    standard: StandardFiles,
    inputs: o.StandardInputs,
    columns: o.ColumnOptions,
    reading: o.ReadOptions,
    spec: SignatureSettings,
    output: OutputSettings,
    memory: o.ReadMemory = AUTOMATIC,
    workers: int | None = None,
) -> None:
    """Write signatures of documents into a file.

    It is an Arrow file that contains their Spec. Its columns are id, signature and shingles.

    Examples:
        nearkin lab sketch docs.parquet --out docs.signatures.arrow

        nearkin lab sketch "crawl/*.jsonl.zst" --shingle chars:5 --out crawl.signatures.arrow
    """
    with file_imports():
        from nearkin.runs.job import SpecJob
        from nearkin.runs.sketch import require_signature_output, run_sketch
        from nearkin.runtime.files import Readers

    out = output.out
    requested_columns = columns.to_columns(memory=memory)
    require_signature_output(out, inputs, overwrite=output.overwrite)
    o.require_apart_from_files(out, spec)
    with closing(o.open_progress(quiet=output.quiet)) as progress:
        job = SpecJob(
            tuple(standard.read_inputs(inputs, requested_columns)),
            out,
            requested_columns,
            o.parameters_of(spec),
            workers=workers_or_cores(workers),
            overwrite=output.overwrite,
            on_error=reading.on_error,
            selection=reading.selection,
            readers=Readers(output.readable_by),
        )
        summary = run_sketch(job, progress)
    print_warnings(summary.warnings)
    reasons = ", ".join(summary.reasons)
    require_documents(
        summary.documents, summary.rejected, f"nothing was written; reasons: {reasons}"
    )
    if output.json:
        print_json(summary.to_json())
        return
    if not output.quiet:
        print_inputs(summary.account)
    print_line(
        f"{format_count(summary.documents, 'signature')} in {standard.name_output(out)} "
        f"({format_count(summary.rejected, 'row')} rejected)"
    )
