"""`nearkin index`: an online index from the command line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearkin.cli import options as o

if TYPE_CHECKING:
    from nearkin.index.index import Index

index = typer.Typer(no_args_is_help=True, help="An online index: build, add, query, remove, look after.")

Store = Annotated[
    str, typer.Option("--store", help="memory://, sqlite:///file.db, redis://…, postgresql://…, aerospike://…", metavar="URL")
]
Scope = Annotated[str, typer.Option("--scope", help="Tenant or group; nothing crosses scopes.")]
Url = Annotated[
    str, typer.Argument(help="Of the store: sqlite:///file.db, redis://…, postgresql://…, aerospike://…", metavar="URL")
]
MaybeThreshold = Annotated[
    float | None, typer.Option("--threshold", help="Similarity from which a document is resolved to another.  [default: 0.8]")
]
Postings = Annotated[str, typer.Option("--postings", help="leaders, or all (query finds every neighbour).")]


@contextmanager
def opened(url: str, key_file: str | None = None, **fields: Any) -> Iterator["Index"]:
    """An index, closed at the end."""
    from nearkin.index.index import Index
    from nearkin.keys import HashKey
    from nearkin.sketch.resources import SpecResources

    secret = None if key_file is None else HashKey.read(key_file)
    with Index.open(url, resources=SpecResources(secret), **fields) as found:
        yield found


@contextmanager
def existing(url: str, key_file: str | None = None, **fields: Any) -> Iterator["Index"]:
    """As `opened`, but not made where there is none: a mistyped name is no empty index."""
    from nearkin.errors import UsageError
    from nearkin.index.stores.sqlite import file_of

    if url.startswith("sqlite:") and not file_of(url).is_file():
        raise UsageError(f"there is no index at {url}: no such file")
    with opened(url, key_file, **fields) as found:
        yield found


def say_added(found: dict[str, Any], json: bool) -> None:
    """Shows what became of the documents of files, and what was skipped among them."""
    o.show_warnings(found.pop("warnings"))
    say(found, json)
    o.require_documents(found["documents"], found["rejected"], "nearkin dedup lists the reasons")


def say(facts: dict[str, Any], json: bool) -> None:
    """Facts as JSON, or a line each."""
    if json:
        o.print_json(facts)
        return
    for name, value in facts.items():
        typer.echo(f"{name.replace('_', ' ')}: {value:,}" if isinstance(value, int) else f"{name.replace('_', ' ')}: {value}")


@index.command()
def build(
    context: typer.Context,
    inputs: o.Inputs,
    store: Store,
    scope: Scope = "default",
    text: o.Text = None,
    tokens: o.Tokens = None,
    vector: o.Vector = None,
    id_column: o.Id = None,
    measure: o.Measure = None,
    threshold: MaybeThreshold = None,
    shingle: o.Shingle = "words:3",
    normalise: o.Normalise = o.NORMALISE,
    k: o.K = None,
    slot_bits: o.SlotBits = None,
    postings: Postings = "leaders",
    key_file: o.KeyFile = None,
    memory: o.ReadMemory = o.MEMORY,
    json: o.Json = False,
) -> None:
    """Fill an empty index from a run saved with signatures (nothing is sketched again), or from files.

    Examples:

        nearkin dedup crawl/ --save-signatures --out deduped/ && nearkin index build deduped/ --store sqlite:///kin.db

        nearkin index build "crawl/*.parquet" --id id --store sqlite:///kin.db
    """
    from nearkin.engine.options import parse_size
    from nearkin.loading import add_files, load_run
    from nearkin.runs.saved import SavedRun

    options = o.SpecOptions.of(context.params)
    saved = SavedRun.find(tuple(inputs))
    if saved is not None:
        o.require_as_saved(context, inputs)
        say(load_run(saved, store, scope, options.asked().secret, postings), json)
        return
    columns = o.columns(text, tokens, vector, id_column, ()).with_memory(parse_size(memory))
    say_added(add_files(tuple(inputs), columns, options.asked(), store, scope, threshold, postings), json)


@index.command()
def add(
    inputs: o.Inputs,
    store: Store,
    scope: Scope = "default",
    text: o.Text = None,
    vector: o.Vector = None,
    id_column: o.Id = None,
    tables: o.SpecTables = None,
    key_file: o.KeyFile = None,
    memory: o.ReadMemory = o.MEMORY,
    json: o.Json = False,
) -> None:
    """Upsert the documents of files into an index: each is new, or resolved to what it resembles.

    Examples:

        nearkin index add today.jsonl --id id --store sqlite:///kin.db
    """
    from nearkin.engine.options import parse_size
    from nearkin.keys import HashKey
    from nearkin.loading import add_files
    from nearkin.runs.spec_request import SpecRequest

    asked = SpecRequest(secret=None if key_file is None else HashKey.read(key_file))
    columns = o.columns(text, None, vector, id_column, ()).with_memory(parse_size(memory))
    say_added(add_files(tuple(inputs), columns, asked, store, scope, None, None, tables), json)


@index.command()
def query(
    file: Annotated[Path, typer.Argument(help="A text; - for standard input.")],
    store: Store,
    scope: Scope = "default",
    top: Annotated[int, typer.Option(help="Matches to show.")] = 10,
    tables: o.SpecTables = None,
    key_file: o.KeyFile = None,
    json: o.Json = False,
) -> None:
    """The stored documents that a text resembles, most similar first; nothing is written.

    Examples:

        nearkin index query page.txt --store sqlite:///kin.db
    """
    from dataclasses import asdict

    from nearkin.errors import UsageError

    try:
        document = typer.get_text_stream("stdin").read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read as text: {error}") from error
    with existing(store, key_file, tables=tables) as found:
        matches = found.query(scope, document, top)
    if json:
        o.print_json({"matches": [asdict(match) for match in matches]})
        return
    for match in matches:
        typer.echo(f"{match.similarity:.4f}  {match.id}  cluster {match.cluster}")
    if not matches:
        typer.echo("nothing in this scope resembles it")


@index.command()
def remove(
    ids: Annotated[list[str], typer.Argument(help="Of the documents.")],
    store: Store,
    scope: Scope = "default",
    tables: o.SpecTables = None,
    key_file: o.KeyFile = None,
    json: o.Json = False,
) -> None:
    """Erase documents; those that one stood for elect another representative."""
    with existing(store, key_file, tables=tables) as found:
        gone = [name for name in ids if found.remove(scope, name)]
    say({"removed": len(gone), "not_there": len(ids) - len(gone)}, json)


@index.command()
def info(url: Url, tables: o.SpecTables = None, key_file: o.KeyFile = None, json: o.Json = False) -> None:
    """What an index is, and how much is in it."""
    with existing(url, key_file, tables=tables) as found:
        say({**found.stats(), "durability": found.durability}, json)


@index.command()
def check(url: Url, tables: o.SpecTables = None, key_file: o.KeyFile = None, json: o.Json = False) -> None:
    """Whether everything in an index is where it should be, every match verified again. Exits with 1 if not."""
    from nearkin.index.maintenance import check_index as look

    with existing(url, key_file, tables=tables) as found:
        result = look(found)
    if json:
        o.print_json(result.to_dict())
    else:
        typer.echo(f"{result.records:,} documents, {result.postings:,} postings: {'sound' if result.sound else 'not sound'}")
        for problem in result.problems:
            typer.echo(f"  {problem.scope} {problem.id}: {problem.what}")
        if result.stray:
            typer.echo(f"  {result.stray:,} postings of no document")
    if not result.sound:
        raise typer.Exit(1)


@index.command()
def compact(url: Url, tables: o.SpecTables = None, key_file: o.KeyFile = None, json: o.Json = False) -> None:
    """Merge clusters whose representatives verify by now: what an order of arrival, or two processes at once, left apart."""
    from nearkin.index.maintenance import merge_clusters as merge

    with existing(url, key_file, tables=tables) as found:
        say(merge(found), json)


@index.command()
def expire(
    url: Url,
    record_ttl: Annotated[str | None, typer.Option(help="Documents not seen for so long go, as 90d.")] = None,
    bucket_ttl: Annotated[str | None, typer.Option(help="Representatives not seen for so long leave their buckets.")] = None,
    trust_clock: Annotated[
        bool, typer.Option("--trust-clock", help="Sweep although most documents are due at once: the machine's clock is right.")
    ] = False,
    tables: o.SpecTables = None,
    key_file: o.KeyFile = None,
    json: o.Json = False,
) -> None:
    """Take out what was not seen for longer than its time to live.

    Examples:

        nearkin index expire sqlite:///kin.db --record-ttl 90d --bucket-ttl 14d
    """
    times = {"record_ttl": o.seconds(record_ttl, "--record-ttl"), "bucket_ttl": o.seconds(bucket_ttl, "--bucket-ttl")}
    with existing(url, key_file, tables=tables, **times) as found:
        say(found.expire(trust_clock=trust_clock), json)


@index.command()
def export(
    url: Url,
    out: Annotated[Path, typer.Option(help="The parquet file.")],
    overwrite: o.Overwrite = False,
    tables: o.SpecTables = None,
    key_file: o.KeyFile = None,
    json: o.Json = False,
) -> None:
    """All documents of an index as parquet, to be looked at, or loaded elsewhere with migrate."""
    from nearkin.index.exports import is_export
    from nearkin.runs.output import require_file_output
    from nearkin.runtime.files import disk_errors, make_folders

    require_file_output(out, is_export, "an exported index", overwrite=overwrite)
    with disk_errors(out.parent):
        make_folders(out.parent)
    with existing(url, key_file, tables=tables) as found:
        say({"documents": found.export(out), "out": str(out)}, json)


@index.command()
def migrate(
    source: Annotated[str, typer.Argument(help="URL of an index, or the parquet file of an export.")],
    target: Annotated[str, typer.Argument(help="URL of an empty store.")],
    tables: o.SpecTables = None,
    key_file: o.KeyFile = None,
    json: o.Json = False,
) -> None:
    """Copy an index into another store as it is: ids, clusters, times.

    Examples:

        nearkin index migrate sqlite:///kin.db postgresql://nearkin@db/kin
    """
    from nearkin.keys import HashKey
    from nearkin.loading import migrate as move

    secret = None if key_file is None else HashKey.read(key_file)
    say({"documents": move(source, target, secret, tables)}, json)


@index.command()
def rebuild(
    source: Annotated[str, typer.Argument(help="URL of the live index.")],
    target: Annotated[str | None, typer.Argument(help="URL of an empty store beside it.")] = None,
    cut_over: Annotated[
        bool, typer.Option("--cut-over", help="Then the index moves there; processes that have it open go over.")
    ] = False,
    cut_back: Annotated[
        bool, typer.Option("--cut-back", help="Back to SOURCE, which it was moved from; or ends a move that was broken off.")
    ] = False,
    threshold: MaybeThreshold = None,
    shingle: Annotated[str | None, typer.Option(help="words:N or chars:N.")] = None,
    k: o.K = None,
    slot_bits: o.SlotBits = None,
    tables: o.SpecTables = None,
    key_file: o.KeyFile = None,
    new_key_file: Annotated[
        str | None, typer.Option(help="Another secret key for the new index: a FILE, or env:NAME.", metavar="FILE")
    ] = None,
    json: o.Json = False,
) -> None:
    """Build an index of another Spec or threshold beside a live one, from its texts, ids kept, and compare the two.

    Examples:

        nearkin index rebuild sqlite:///kin.db sqlite:///next.db --shingle chars:5 --threshold 0.7

        nearkin index rebuild sqlite:///kin.db sqlite:///next.db --shingle chars:5 --cut-over

        nearkin index rebuild sqlite:///kin.db --cut-back
    """
    from nearkin.errors import UsageError
    from nearkin.index.migration import cutover
    from nearkin.keys import HashKey
    from nearkin.spec import parse_shingle

    unit = {} if shingle is None else dict(zip(("unit", "n"), parse_shingle(shingle), strict=True))
    given = {"k": k, "slot_bits": slot_bits}
    changes = {**unit, **{name: value for name, value in given.items() if value is not None}}
    secret = None if key_file is None else HashKey.read(key_file)
    if cut_back:
        if target is not None or cut_over or changes or threshold is not None or new_key_file is not None:
            raise UsageError("--cut-back goes with the URL that the index was moved from, and nothing else")
        say(cutover.cut_back(source, secret, tables), json)
        return
    if target is None:
        raise UsageError(f"give the URL of an empty store beside {source}, or --cut-back")
    new_secret = None if new_key_file is None else HashKey.read(new_key_file)
    result = cutover.rebuild(source, target, changes, threshold, secret, tables, cuts_over=cut_over, new_secret=new_secret)
    say(result, json)


@index.command("rotate-key")
def rotate_key(
    source: Annotated[str, typer.Argument(help="URL of the index.")],
    target: Annotated[str, typer.Argument(help="URL of an empty store beside it, or of an unfinished copy.")],
    new_key_file: Annotated[str, typer.Option(help="Secret key of the new index: a FILE, or env:NAME.", metavar="FILE")],
    skip_without_text: Annotated[
        bool, typer.Option("--skip-without-text", help="Leave out documents whose text was not kept.  [default: an error]")
    ] = False,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Do not open the new index: the same command again brings what came since.")
    ] = False,
    json: o.Json = False,
) -> None:
    """Copy an index, every scope of it, into one with another secret key. The old key is not needed.

    An interrupted copy continues when the same command is given again.

    Examples:

        nearkin index rotate-key sqlite:///kin.db sqlite:///next.db --new-key-file new.key --unfinished

        nearkin index rotate-key sqlite:///kin.db sqlite:///next.db --new-key-file new.key
    """
    from nearkin.index.migration.key_rotation import rotate_key as rotate
    from nearkin.keys import HashKey

    secret = HashKey.read(new_key_file)
    say(rotate(source, target, secret, skip_without_text=skip_without_text, finish=not unfinished), json)
