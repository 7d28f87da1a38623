"""`nearkin index`: an online index from the command line."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearkin.cli import options as o
from nearkin.cli.backup import backup, restore
from nearkin.cli.commands import make_group
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_facts, print_json, print_warnings, require_documents
from nearkin.cli.saved_runs import require_as_saved
from nearkin.runtime.number_format import format_count
from nearkin.runtime.number_range import (
    COUNT,
    COUNT_OR_NONE,
    OPEN_SHARE,
    SHARE_ABOVE_0,
    NumberRange,
)
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.sizes import AUTOMATIC
from nearkin.runtime.visible_text import make_visible
from nearkin.settings.setting import (
    ADVANCED,
    INPUT,
    OUTPUT,
    RUN,
    SIMILARITY,
    Need,
    Setting,
    setting,
)
from nearkin.settings.table import IndexKeySettings, varied

if TYPE_CHECKING:
    import numpy as np

    from nearkin.index.documents import Document
    from nearkin.index.index import Index
    from nearkin.index.settings import SettingsFields
    from nearkin.runs.loading import AddedDocuments
    from nearkin.service.client.clients import Client

index = make_group("index", "Build, search, change and maintain an online index.")

Store = Annotated[
    str,
    Setting(
        "URL of the store: memory://, sqlite:///file.db, redis://…, postgresql://…, aerospike://…",
        INPUT,
        metavar="URL",
    ),
]
StoreOrServer = Annotated[
    str | None,
    Setting(
        "URL of the store, as other commands have it; or name the server of the index.",
        INPUT,
        metavar="URL",
        excludes={"server": "an index is opened by its store or by its server"},
    ),
]
Scope = Annotated[
    str,
    Setting(
        "Scope, for example a tenant. Documents of different scopes are never compared.", INPUT
    ),
]
ScopesToSearch = Annotated[
    list[str] | None,
    Setting(
        "Scope that is searched. May be repeated: the matches then name their scopes.",
        INPUT,
        shown_default="default",
    ),
]
ScopeOfDecisions = Annotated[str, Setting("Scope of the decisions.", INPUT, need=Need("decisions"))]
DecisionScope = Annotated[
    str,
    Setting("Scope of the decisions.", INPUT),
]
Target = Annotated[
    str,
    Setting("URL of an empty store for the new index.", OUTPUT, metavar="URL"),
]
Postings = Annotated[
    str,
    Setting(
        "Documents that a search finds: leaders (representatives only) or all.",
        ADVANCED,
        values=("leaders", "all"),
    ),
]
KeptFolder = Annotated[
    Path | None,
    Setting(
        "Folder for the documents that are not resolved to another one, and for matches.parquet.",
        OUTPUT,
        metavar="DIR",
    ),
]
NewKeyFile = Annotated[
    str,
    Setting("Secret hash key of the new index: a FILE, or env:NAME.", ADVANCED, metavar="FILE"),
]


OF_THE_INDEX = "that of the index"
"""The default of the options of `index rebuild`, on its help page."""


def server_excluding(*names: str) -> Setting:
    """Returns the setting for the server of an index, which excludes those that the server has."""
    excluded = ("key_file", "spec_resources", *names)
    return Setting(
        "URL of the server of the index. Its token is read from NEARKIN_TOKEN.",
        INPUT,
        metavar="URL",
        excludes=dict.fromkeys(excluded, "the server has its own"),
    )


def threshold_of(default: str) -> Setting:
    """Returns the setting for the threshold of an index."""
    return varied(
        "threshold",
        "Minimum similarity at which a document is resolved to another, in (0, 1].",
        shown_default=default,
    )


def time_to_live(effect: str) -> Setting:
    """Returns the setting for a time to live."""
    return Setting(f"Time after which {effect}, for example 90d.", RUN, metavar="TIME")


def vector_threshold_of(default: str) -> Setting:
    """Returns the setting for the threshold of the vectors of an index."""
    return Setting(
        "Minimum cosine of vectors in an index of texts and vectors, in (0, 1].",
        SIMILARITY,
        metavar="SHARE",
        shown_default=default,
        range=SHARE_ABOVE_0,
    )


def combination_of(default: str) -> Setting:
    """Returns the setting for the thresholds that must be reached."""
    return Setting(
        "Thresholds that two documents must reach in an index of texts and vectors.",
        SIMILARITY,
        metavar="either|both",
        shown_default=default,
    )


@contextmanager
def open_index(url: str, resources: IndexKeySettings, **fields: Any) -> Iterator["Index"]:
    """Opens an index, and creates it if it does not exist. It is closed at the end."""
    with file_imports():
        from nearkin.index.index import Index
        from nearkin.stages.sketch.resources import SpecResources

    secret = SpecResources(o.read_key(resources.key_file))
    folder = resources.spec_resources
    with Index.open(
        url, resources=secret, spec_resources=folder, warm_up=False, **fields
    ) as opened:
        yield opened


@contextmanager
def open_existing_index(url: str, resources: IndexKeySettings, **fields: Any) -> Iterator["Index"]:
    """Opens an index that must exist, so that a mistyped name does not create an empty one."""
    with open_index(url, resources, must_exist=True, **fields) as opened:
        yield opened


@contextmanager
def _open_index_or_server(
    store: str | None, server: str | None, resources: IndexKeySettings, **fields: Any
) -> "Iterator[Index | Client]":
    """Opens an existing index, or the client of its server."""
    from nearkin.errors import UsageError

    if store is not None and server is None:
        with open_existing_index(store, resources, **fields) as opened:
            yield opened
    elif server is not None and store is None:
        from nearkin.service.client.clients import Client

        with Client(server) as client:
            yield client
    else:
        raise UsageError("give the index: --store URL, or --server URL")


def _decided(scope: str, decisions: Path | None) -> "dict[str, Mapping[str, Path]]":
    """Returns the arguments by which an index is opened with the decisions of a scope."""
    return {} if decisions is None else {"decisions": {scope: decisions}}


def _print_added(added: "AddedDocuments", *, as_json: bool) -> None:
    """Prints how many documents of files were added, and warns about skipped files."""
    print_warnings(added.warnings)
    print_facts(added.to_dict(), as_json=as_json)
    require_documents(added.documents, added.rejected, "nearkin dedup lists the reasons")


@index.command()
@with_option_groups
def build(
    *,
    given: GivenOptions,
    inputs: o.Inputs,
    store: Store,
    columns: o.ColumnOptions,
    reading: o.SelectionOptions,
    scope: Scope = "default",
    threshold: Annotated[float | None, threshold_of("0.8")] = None,
    distance: Annotated[
        int | None,
        varied(
            "distance",
            "Maximum Hamming distance in bits at which a document is resolved to another "
            "(simhash only). Replaces --threshold.",
        ),
    ] = None,
    related: float | None = setting(
        None,
        "Minimum similarity of related documents, above 0 and below the threshold. Upserts name "
        "them, and resolve no document to them.",
        SIMILARITY,
        metavar="SHARE",
        range=OPEN_SHARE,
    ),
    passages: int | None = setting(
        None,
        "Store fingerprints of passages of at least this number of words, with which documents "
        "that share a passage with a text are found.",
        SIMILARITY,
        metavar="N",
        range=NumberRange(2, 1048576),
    ),
    vector_threshold: Annotated[float | None, vector_threshold_of("0.95")] = None,
    combine: Annotated[str | None, combination_of("either")] = None,
    spec: o.UncountedSpecOptions,
    recall: float = 0.95,
    bands: int | None = None,
    rows: int | None = None,
    settings: Path | None = None,
    preset: str | None = None,
    postings: Postings = "leaders",
    spec_resources: Path | None = None,
    memory: o.ReadMemory = AUTOMATIC,
    json: bool = False,
) -> None:
    """Fill an empty index from a saved run, or from files.

    Documents of a saved run are not sketched again. With --text and --vector, documents are
    compared by both.

    Examples:
        nearkin dedup crawl/ --save-signatures --out deduped/ && nearkin index build deduped/ --store sqlite:///kin.db

        nearkin index build "crawl/*.parquet" --id id --store sqlite:///kin.db

        nearkin index build docs.csv --id id --measure simhash --distance 3 --store sqlite:///kin.db

        nearkin index build logs/ --settings settings.toml --store sqlite:///kin.db
    """  # noqa: E501
    with file_imports():
        from nearkin.errors import UsageError
        from nearkin.runs.loading import NewIndex, add_files, load_run
        from nearkin.runs.saved import SavedRun

    if distance is not None and spec.measure is None:
        spec = replace(spec, measure="simhash")
    saved = SavedRun.find(tuple(inputs))
    both_columns = columns.to_both_columns(memory=memory)
    if both_columns is None and not (vector_threshold is None and combine is None):
        raise UsageError(
            "--vector-threshold and --combine are for an index of texts and vectors; name both "
            "columns with --text and --vector"
        )
    if saved is not None:
        require_as_saved(given, inputs, columns, spec)
        of_files = (
            *("threshold", "distance", "related", "passages", "memory", "spec_resources"),
            *("settings", "preset", "recall", "bands", "rows"),
        )
        given.require_unused(of_files, f"on the saved run {saved.folder}")
        loaded = load_run(saved, store, scope, o.read_key(spec.key_file), postings)
        print_facts(loaded, as_json=json)
        return
    if spec_resources is not None and spec.measure != "idf-jaccard":
        raise UsageError(
            f"--spec-resources {spec_resources} has no effect without --measure idf-jaccard; leave "
            "it out, or give this measure"
        )
    fields: SettingsFields = {"postings": postings}
    if both_columns is not None:
        of_one_kind = {"distance": distance, "related": related, "passages": passages}
        for name, value in of_one_kind.items():
            if value is not None:
                raise UsageError(
                    f"{name_setting(name, value)} is for an index of one kind of documents; leave "
                    "it out, or name one column"
                )
        fields["combine"] = combine or "either"
    else:
        fields |= {
            "distance": distance,
            "related": related,
            "passages": passages,
            "recall": recall,
            "bands": bands,
            "rows": rows,
        }
    parameters = o.parameters_of(spec)
    added = add_files(
        tuple(inputs),
        both_columns or columns.to_columns(memory=memory),
        store,
        scope,
        parameters.get("key"),
        NewIndex(parameters, threshold, fields, vector_threshold),
        spec_resources=spec_resources,
        selection=reading.selection,
    )
    _print_added(added, as_json=json)


@index.command()
@with_option_groups
def add(
    *,
    inputs: o.InputFiles,
    store: Store,
    resources: IndexKeySettings,
    reading: o.SelectionOptions,
    scope: Scope = "default",
    columns: o.DocumentColumnOptions,
    memory: o.ReadMemory = AUTOMATIC,
    kept: KeptFolder = None,
    decisions: Path | None = None,
    blocklist: o.IndexBlocklist = None,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Upsert the documents of files into an index.

    Each document is new, or is resolved to a representative that it resembles.

    Examples:
        nearkin index add today.jsonl --id id --store sqlite:///kin.db

        nearkin index add today.jsonl --id id --store sqlite:///kin.db --kept news/

        nearkin index add today.parquet --text body --vector embedding --store sqlite:///both.db
    """
    with file_imports():
        from nearkin.errors import UsageError
        from nearkin.runs.loading import add_files
        from nearkin.runs.matching import MatchOutput, add_files_with_matches

    both_columns = columns.to_both_columns(memory=memory)
    add_documents: Callable[..., AddedDocuments] = add_files
    if kept is not None:
        if both_columns is not None:
            raise UsageError(
                f"--kept {kept} cannot be combined with texts and vectors; leave it out, or name "
                "one column"
            )
        output = MatchOutput(kept, overwrite=overwrite)
        add_documents = partial(add_files_with_matches, output=output)
    elif overwrite:
        raise UsageError("--overwrite has no effect without --kept; leave it out")
    added = add_documents(
        tuple(inputs),
        both_columns or columns.to_columns(memory=memory),
        store,
        scope,
        secret=o.read_key(resources.key_file),
        spec_resources=resources.spec_resources,
        selection=reading.selection,
        decisions=decisions,
        blocklist=blocklist,
    )
    _print_added(added, as_json=json)


@index.command()
@with_option_groups
def match(
    *,
    inputs: o.InputFiles,
    store: Store,
    resources: IndexKeySettings,
    reading: o.SelectionOptions,
    out: Path,
    scope: Scope = "default",
    columns: o.DocumentColumnOptions,
    memory: o.ReadMemory = AUTOMATIC,
    overwrite: bool = False,
    readable_by: str = "owner",
    json: bool = False,
) -> None:
    """Find the documents of files that repeat one of an index. Nothing is added to it.

    The output has the documents without a match, and matches.parquet.

    Examples:
        nearkin index match today.jsonl --id id --store sqlite:///kin.db --out news/
    """
    with file_imports():
        from nearkin.errors import UsageError
        from nearkin.runs.matching import MatchOutput, match_files
        from nearkin.runtime.files import Readers

    if columns.to_both_columns(memory=memory) is not None:
        raise UsageError("index match searches by one column; leave out --text or --vector")
    matched = match_files(
        tuple(inputs),
        columns.to_columns(memory=memory),
        store,
        scope,
        MatchOutput(out, overwrite=overwrite, readers=Readers(readable_by)),
        secret=o.read_key(resources.key_file),
        spec_resources=resources.spec_resources,
        selection=reading.selection,
    )
    print_warnings(matched.warnings)
    print_facts(matched.to_dict(), as_json=json)
    require_documents(matched.documents, matched.rejected, f"see {out / 'rejected.jsonl'}")


def _read_query(file: Path | None, vector: Path | None) -> "Document":
    """Returns the document of a search."""
    from nearkin.errors import UsageError
    from nearkin.index.documents import TextAndVector

    if file is None and vector is None:
        raise UsageError("there is nothing to search for; give a text file, or --vector FILE")
    text = None if file is None else _read_text(file)
    if vector is None:
        assert text is not None
        return text
    numbers = _read_vector(vector)
    return numbers if text is None else TextAndVector(text=text, vector=numbers)


def _read_text(file: Path) -> str:
    from nearkin.errors import UsageError

    try:
        if str(file) == "-":
            return typer.get_text_stream("stdin").read()
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"cannot read {file} as text: {reason}; give a text file") from error


def _read_vector(file: Path) -> "np.ndarray":
    import orjson

    from nearkin.errors import UsageError

    advice = "give a file with a JSON list of numbers, for example [0.1, -0.7, 0.2]"
    try:
        values = orjson.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not JSON"
        raise UsageError(f"cannot read {file} as a vector: {reason}; {advice}") from error
    if not isinstance(values, list) or not values or not all(map(_is_number, values)):
        raise UsageError(f"cannot read {file} as a vector: it is not a list of numbers; {advice}")
    import numpy as np

    # The index refuses numbers that are too large, which become infinite.
    with np.errstate(over="ignore"):
        return np.array(values, np.float32)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@index.command()
@with_option_groups
def query(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="Text file, or - for standard input.", metavar="FILE")
    ] = None,
    store: StoreOrServer = None,
    server: Annotated[str | None, server_excluding()] = None,
    resources: IndexKeySettings,
    vector: Path | None = setting(
        None,
        "File with the vector of the document, as a JSON list of numbers.",
        INPUT,
        metavar="FILE",
        names_columns=True,
    ),
    scope: ScopesToSearch = None,
    top: int = setting(10, "Maximum number of matches.", OUTPUT, range=COUNT),
    members: bool = setting(
        False, "Also compare the stored members of the representatives that match.", OUTPUT
    ),
    json: bool = False,
) -> None:
    """List the representatives that resemble a text. The most similar come first.

    An index of vectors is searched by --vector, and one of texts and vectors by either or both.

    Examples:
        nearkin index query page.txt --store sqlite:///kin.db

        nearkin index query page.txt --vector page.json --store sqlite:///both.db

        nearkin index query page.txt --scope acme --scope globex --server https://kin.example
    """
    document = _read_query(file, vector)
    scopes = scope or ["default"]
    with _open_index_or_server(store, server, resources) as opened:
        searched = scopes if len(scopes) > 1 else scopes[0]
        matches = opened.query(searched, document, top, members=members)
    if json:
        print_json({"matches": [match.to_dict() for match in matches]})
        return
    from nearkin.runtime.number_format import format_similarity

    for match in matches:
        similarity = format_similarity(match.similarity, digits=4)
        remark = "  not exact: only symbols, punctuation, order or repetitions differ"
        scope_of_match = "" if match.scope is None else f"  scope {match.scope}"
        shown = f"{similarity}  {match.id}  cluster {match.cluster}{scope_of_match}"
        typer.echo(make_visible(shown + (remark if match.exact is False else "")))
    if not matches:
        which = "this scope" if len(scopes) == 1 else "these scopes"
        typer.echo(f"no document of {which} resembles the text")


@index.command()
@with_option_groups
def remove(
    *,
    given: GivenOptions,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of the documents.")] = None,
    ids_file: Path | None = setting(
        None,
        "File of ids: CSV or Parquet with the column id, or one id on each line.",
        INPUT,
        metavar="FILE",
    ),
    all: bool = setting(False, "Delete all documents of the scope.", INPUT),
    store: StoreOrServer = None,
    server: Annotated[str | None, server_excluding("decisions")] = None,
    resources: IndexKeySettings,
    scope: Scope = "default",
    decisions: Path | None = None,
    json: bool = False,
) -> None:
    """Delete documents. The cluster of a removed representative elects another one.

    They are deleted in portions, between which the index serves others. An interrupted command can be repeated.

    Examples:
        nearkin index remove d17 d42 --store sqlite:///kin.db

        nearkin index remove --ids-file withdrawn.txt --store sqlite:///kin.db

        nearkin index remove --all --scope acme --store sqlite:///kin.db

        nearkin index remove --all --scope acme --server https://kin.example
    """  # noqa: E501
    with file_imports():
        from nearkin.corpus.ids import read_ids
        from nearkin.errors import UsageError

    if sum((bool(ids), ids_file is not None, all)) != 1:
        raise UsageError("give ids, a file of them with --ids-file, or --all with --scope")
    if all and "scope" not in given:
        raise UsageError(f"--all deletes a whole scope; name it, for example with --scope {scope}")
    names = (ids or []) if ids_file is None else read_ids(ids_file, "id")
    with _open_index_or_server(store, server, resources, **_decided(scope, decisions)) as opened:
        removed = opened.remove_scope(scope) if all else opened.remove_many(scope, names)
    not_there = 0 if all else len(set(names)) - removed
    print_facts({"removed": removed, "not_there": not_there}, as_json=json)


@index.command()
@with_option_groups
def history(
    *,
    id: Annotated[
        str | None, typer.Argument(help="Id of a document. By default, of all documents.")
    ] = None,
    store: StoreOrServer = None,
    server: Annotated[str | None, server_excluding("history")] = None,
    resources: IndexKeySettings,
    scope: str | None = setting(
        None, "Scope of the changes. By default, all scopes.", INPUT, metavar="S"
    ),
    after: str | None = setting(
        None,
        "Cursor of a change: those after it are listed. By default, all that are kept.",
        INPUT,
        metavar="CURSOR",
    ),
    out: Path | None = setting(
        None,
        "File for the changes: .parquet, .csv, .tsv, .jsonl, .xlsx or .arrow. By default, they are "
        "printed as JSON lines.",
        OUTPUT,
        short="-o",
        metavar="PATH",
    ),
    history: str | None = setting(
        None,
        "Time for which changes are kept from now on, for example 30d. 0s ends the history.",
        RUN,
        metavar="TIME",
    ),
) -> None:
    """List what happened to documents of an index.

    The index must keep a history, which --history begins.

    Examples:
        nearkin index history --history 30d --store sqlite:///kin.db

        nearkin index history d17 --store sqlite:///kin.db

        nearkin index history --scope acme --out changes.parquet --server https://kin.example
    """
    with file_imports():
        import pyarrow as pa

        from nearkin.runs.index_history import HISTORY, iterate_history
        from nearkin.runs.table_files import (
            publish_table,
            require_new_table,
            to_plain_rows,
            write_json_lines,
        )

    if out is not None:
        require_new_table(out, "out")
    kept = o.parse_seconds(history, "--history")
    fields = {} if kept is None else {"history": kept}
    with _open_index_or_server(store, server, resources, **fields) as opened:
        if kept == 0:
            return
        batches = iterate_history(opened, after, scope, id)
        if out is not None:
            publish_table(pa.Table.from_batches(batches, HISTORY), out, "nearkin index history")
            return
        for batch in batches:
            lines = BytesIO()
            write_json_lines(lines, to_plain_rows(batch))
            sys.stdout.write(lines.getvalue().decode())


@index.command()
@with_option_groups
def info(*, store: Store, resources: IndexKeySettings, json: bool = False) -> None:
    """Show the settings of an index, and its number of documents."""
    with open_existing_index(store, resources) as opened:
        print_facts({**opened.stats(), "durability": opened.durability}, as_json=json)


@index.command()
@with_option_groups
def check(
    *,
    store: Store,
    resources: IndexKeySettings,
    decisions: Path | None = None,
    scope: ScopeOfDecisions = "default",
    json: bool = False,
) -> None:
    """Check that an index is consistent, and verify its matches.

    The exit code is 1 if it is not consistent.
    """
    from nearkin.index.maintenance import check_index

    with open_existing_index(store, resources, **_decided(scope, decisions)) as opened:
        finding = check_index(opened)
    if json:
        print_json(finding.to_dict())
    else:
        verdict = "sound" if finding.sound else "not sound"
        documents = format_count(finding.records, "document")
        typer.echo(f"{documents}, {format_count(finding.postings, 'posting')}: {verdict}")
        for problem in (*finding.problems, *finding.sharing):
            typer.echo(make_visible(f"  {problem.scope} {problem.id}: {problem.what}"))
        if finding.stray:
            typer.echo(f"  {finding.stray:,} postings without a document")
        if finding.was_written:
            typer.echo(
                "  other processes wrote meanwhile: the counts and stray postings were not checked"
            )
    if not finding.sound:
        raise typer.Exit(1)


@index.command()
@with_option_groups
def compact(
    *,
    store: Store,
    resources: IndexKeySettings,
    decisions: Path | None = None,
    scope: ScopeOfDecisions = "default",
    json: bool = False,
) -> None:
    """Merge clusters whose representatives are near-duplicates.

    Such clusters arise from the order of arrival, or from two processes that write at the same time.
    """  # noqa: E501
    from nearkin.index.maintenance import merge_clusters

    with open_existing_index(store, resources, **_decided(scope, decisions)) as opened:
        print_facts(merge_clusters(opened), as_json=json)


@index.command("scope")
@with_option_groups
def configure_scope(
    *,
    scope: Annotated[str, typer.Argument(help="Scope, for example a tenant.", metavar="SCOPE")],
    store: StoreOrServer = None,
    server: Annotated[str | None, server_excluding()] = None,
    resources: IndexKeySettings,
    threshold: Annotated[float | None, threshold_of(OF_THE_INDEX)] = None,
    record_ttl: Annotated[
        str | None, time_to_live("documents that were not seen are deleted")
    ] = None,
    bucket_ttl: Annotated[
        str | None, time_to_live("representatives that were not seen leave their buckets")
    ] = None,
    max_documents: int | None = setting(
        None, "Maximum number of documents.", RUN, range=COUNT_OR_NONE
    ),
    max_bytes: str | None = setting(
        None, "Maximum size of the ids and contents of the documents, such as 5GB.", RUN
    ),
    reset: bool = setting(
        False, "Leave out earlier settings of the scope. By default, those not given stay.", RUN
    ),
    json: bool = False,
) -> None:
    """Set or show the settings and quotas of a scope.

    Examples:
        nearkin index scope acme --threshold 0.9 --max-documents 100000 --store sqlite:///kin.db

        nearkin index scope acme --server https://kin.example
    """
    from nearkin.index.scope_settings import ScopeSettings

    values = {
        "threshold": threshold,
        "record_ttl": o.parse_seconds(record_ttl, "--record-ttl"),
        "bucket_ttl": o.parse_seconds(bucket_ttl, "--bucket-ttl"),
        "max_documents": max_documents,
        "max_bytes": max_bytes,
    }
    given = {name: value for name, value in values.items() if value is not None}
    with _open_index_or_server(store, server, resources) as opened:
        status = opened.scope_status(scope)
        if given or reset:
            kept = {} if reset else asdict(status.settings)
            status = opened.configure_scope(scope, ScopeSettings(**{**kept, **given}))
    facts = asdict(status)
    print_facts({**facts.pop("settings"), **facts}, as_json=json)


@index.command()
@with_option_groups
def decide(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            help="File of decisions: JSON lines, CSV or parquet, with id_a, id_b and decision.",
            metavar="FILE",
        ),
    ],
    store: Store,
    resources: IndexKeySettings,
    scope: DecisionScope = "default",
    json: bool = False,
) -> None:
    """Store decisions about pairs of documents in an index. They are followed at once.

    Every process with the index follows them from then on, and so do copies of the index.

    Examples:
        nearkin index decide decisions.jsonl --store sqlite:///kin.db --scope web
    """
    from nearkin.settings.decisions import read_decisions

    read = list(read_decisions(file))
    with open_existing_index(store, resources) as opened:
        stored = opened.decide(scope, read)
    print_facts({"decisions": len(read), "stored": stored}, as_json=json)


@index.command()
@with_option_groups
def decisions(
    *,
    store: Store,
    resources: IndexKeySettings,
    scope: DecisionScope = "default",
) -> None:
    """Print the decisions of an index as JSON lines. `nearkin dedup --decisions` reads them.

    Examples:
        nearkin index decisions --store sqlite:///kin.db --scope web > decisions.jsonl
    """
    from nearkin.settings.decisions.files import format_line

    with open_existing_index(store, resources) as opened:
        stored = opened.decisions(scope)
    for pair in sorted(stored.of_pairs):
        typer.echo(format_line(stored.of_pairs[pair]))


@index.command()
@with_option_groups
def expire(
    *,
    store: Store,
    resources: IndexKeySettings,
    record_ttl: Annotated[
        str | None, time_to_live("documents that were not seen are deleted")
    ] = None,
    bucket_ttl: Annotated[
        str | None, time_to_live("representatives that were not seen leave their buckets")
    ] = None,
    trust_clock: bool = setting(
        False,
        "Sweep even if most documents are due at once, because the clock of the machine is right.",
        RUN,
    ),
    json: bool = False,
) -> None:
    """Delete entries that outlived their time to live.

    Examples:
        nearkin index expire --store sqlite:///kin.db --record-ttl 90d --bucket-ttl 14d
    """
    times = {
        "record_ttl": o.parse_seconds(record_ttl, "--record-ttl"),
        "bucket_ttl": o.parse_seconds(bucket_ttl, "--bucket-ttl"),
    }
    with open_existing_index(store, resources, **times) as opened:
        print_facts(opened.expire(trust_clock=trust_clock), as_json=json)


@index.command()
@with_option_groups
def export(
    *,
    store: Store,
    resources: IndexKeySettings,
    out: Annotated[
        Path,
        Setting("Parquet file.", OUTPUT, short="-o", metavar="FILE"),
    ],
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Write all documents of an index into a parquet file. Migrate can load it elsewhere."""
    from nearkin.index.exports import is_export
    from nearkin.runs.output import require_file_output, require_suffix
    from nearkin.runtime.files import disk_errors, make_folders

    require_suffix(out, ".parquet", "an exported index")
    require_file_output(out, is_export, "an exported index", overwrite=overwrite)
    with open_existing_index(store, resources) as opened:
        with disk_errors(out.parent):
            make_folders(out.parent)
        print_facts({"documents": opened.export(out), "out": str(out)}, as_json=json)


@index.command()
@with_option_groups
def migrate(
    *,
    store: Annotated[
        str,
        Setting(
            "URL of the store of the index, or the parquet file of an export.", INPUT, metavar="URL"
        ),
    ],
    target: Target,
    resources: IndexKeySettings,
    json: bool = False,
) -> None:
    """Copy an index into another store. Ids, clusters and times stay.

    Examples:
        nearkin index migrate --store sqlite:///kin.db --to postgresql://nearkin@db/kin
    """
    from nearkin.runs.loading import migrate as copy_index

    secret = o.read_key(resources.key_file)
    documents = copy_index(store, target, secret, resources.spec_resources)
    print_facts({"documents": documents}, as_json=json)


@index.command()
@with_option_groups
def rebuild(
    *,
    store: Store,
    resources: IndexKeySettings,
    target: str | None = setting(
        None, "URL of an empty store for the new index.", OUTPUT, metavar="URL"
    ),
    cut_over: bool = setting(
        False, "Move the index to the new store. Processes that have it open follow.", RUN
    ),
    cut_back: bool = setting(
        False, "Move the index back to --store, or end an interrupted move.", RUN
    ),
    threshold: Annotated[float | None, threshold_of(OF_THE_INDEX)] = None,
    vector_threshold: Annotated[float | None, vector_threshold_of(OF_THE_INDEX)] = None,
    combine: Annotated[str | None, combination_of(OF_THE_INDEX)] = None,
    shingle: Annotated[str | None, varied("shingle", shown_default=OF_THE_INDEX)] = None,
    k: Annotated[int | None, varied("k", shown_default=OF_THE_INDEX)] = None,
    slot_bits: Annotated[int | None, varied("slot_bits", shown_default=OF_THE_INDEX)] = None,
    spec_version: int | None = setting(
        None,
        "Version of the format, by which texts are read: 2, or 1 for that of older releases.",
        ADVANCED,
        shown_default=OF_THE_INDEX,
        range=NumberRange(1, 2),
    ),
    new_key_file: str | None = setting(
        None,
        "Another secret hash key for the new index: a FILE, or env:NAME.",
        ADVANCED,
        metavar="FILE",
    ),
    decisions: Path | None = None,
    scope: ScopeOfDecisions = "default",
    json: bool = False,
) -> None:
    """Build an index again, with another Spec or threshold. The texts are those of an index in use, and the two are compared.

    Args:
        k: Number of slots or bits of a signature of the new index, or None for the current one.
        slot_bits: Number of bits that are kept of a slot, or None for the current one.

    Examples:
        nearkin index rebuild --store sqlite:///kin.db --to sqlite:///next.db --shingle chars:5 --threshold 0.7

        nearkin index rebuild --store sqlite:///kin.db --to sqlite:///next.db --shingle chars:5 --cut-over

        nearkin index rebuild --store sqlite:///kin.db --cut-back
    """  # noqa: E501
    from nearkin.errors import UsageError
    from nearkin.index.migration import cutover
    from nearkin.settings.spec import parse_shingle

    changes: dict[str, int | str] = {}
    if shingle is not None:
        changes["unit"], changes["n"] = parse_shingle(shingle)
    if k is not None:
        changes["k"] = k
    if slot_bits is not None:
        changes["slot_bits"] = slot_bits
    if spec_version is not None:
        changes["version"] = spec_version
    secret = o.read_key(resources.key_file)
    folder = resources.spec_resources
    if cut_back:
        change_options = (target, threshold, vector_threshold, combine, new_key_file, decisions)
        if cut_over or changes or any(value is not None for value in change_options):
            raise UsageError(
                "--cut-back and options of a new index exclude each other; give only --store, the "
                "URL that the index was moved from"
            )
        print_facts(cutover.cut_back(store, secret, folder), as_json=json)
        return
    if target is None:
        raise UsageError(
            "missing option --to URL; give an empty store, or --cut-back to undo a move"
        )
    new_secret = o.read_key(new_key_file)
    facts = cutover.rebuild(
        store,
        target,
        changes,
        threshold,
        secret,
        folder,
        cuts_over=cut_over,
        new_secret=new_secret,
        vector_threshold=vector_threshold,
        combine=combine,
        **_decided(scope, decisions),
    )
    print_facts(facts, as_json=json)


@index.command("rotate-key")
@with_option_groups
def rotate_key(
    *,
    store: Store,
    target: Annotated[
        str,
        Setting(
            "URL of an empty store, or of an unfinished copy of the index.", OUTPUT, metavar="URL"
        ),
    ],
    new_key_file: NewKeyFile,
    skip_without_text: bool = setting(
        False, "Leave out documents whose text was not stored.", RUN, shown_default="an error"
    ),
    unfinished: bool = setting(
        False, "Do not open the new index yet. Repeating the command copies what has changed.", RUN
    ),
    json: bool = False,
) -> None:
    """Copy an index into one with another secret key. All its scopes are copied, and the old key is not needed.

    Repeat the command to continue an interrupted copy.

    Examples:
        nearkin index rotate-key --store sqlite:///kin.db --to sqlite:///next.db --new-key-file new.key --unfinished

        nearkin index rotate-key --store sqlite:///kin.db --to sqlite:///next.db --new-key-file new.key
    """  # noqa: E501
    from nearkin.index.migration.key_rotation import rotate_key as rotate_index_key
    from nearkin.settings.keys import HashKey

    facts = rotate_index_key(
        store,
        target,
        HashKey.read(new_key_file),
        skip_without_text=skip_without_text,
        finish=not unfinished,
    )
    print_facts(facts, as_json=json)


index.command()(backup)
index.command()(restore)
