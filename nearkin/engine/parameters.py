"""The parameters that `nearkin.dedup`, `nearkin.pairs` and `nearkin.spark.dedup` share."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, cast

from nearkin.corpus import Columns
from nearkin.corpus.columns import DEFAULT_BITS
from nearkin.corpus.fingerprints import parse_ignored
from nearkin.corpus.inputs import Selection
from nearkin.engine.fields import (
    fingerprint_sizes,
    make_spec_of_fields,
    name_contents,
    parse_fields,
    with_sizes,
)
from nearkin.engine.keywords import FurtherParameters, RunParameters
from nearkin.engine.options import RunOptions
from nearkin.engine.spec_of_columns import resolve_spec
from nearkin.errors import UsageError
from nearkin.runtime.dialect import parse_delimiter, parse_encoding
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.sizes import AUTOMATIC, parse_memory
from nearkin.runtime.suggestions import require_choice
from nearkin.settings.acceptance.parser import SIMILAR
from nearkin.settings.choices import MissingBlock
from nearkin.settings.keywords import ReadKeywords
from nearkin.settings.spec import (
    FINGERPRINT,
    IDF_JACCARD,
    KEYED,
    Spec,
    parse_shingle,
    require_fingerprint_bits,
)
from nearkin.settings.table import (
    SPEC_KEYWORDS,
    ClusterSettings,
    ResourceSettings,
    SearchSettings,
    names_of,
    require_compatible,
)
from nearkin.stages.sketch.resources import SpecResources

OPTIONS_OF_RUN = frozenset((*names_of(SearchSettings, ClusterSettings, ResourceSettings), "fields"))
"""The parameters that are fields of RunOptions."""
THRESHOLDS = ("threshold", "distance")
"""The parameters of which an acceptance takes the place."""
OPTIONS_OF_SPEC = frozenset(SPEC_KEYWORDS)
"""The parameters from which a Spec is made, except its measure."""


def given_parameters(
    further: FurtherParameters,
    *,
    text: str | Sequence[str] | None,
    threshold: float | None,
    preset: str | None,
    keep: str | Callable[..., object] | None,
) -> RunParameters:
    """Returns the keywords that a call of a function gives. None is not given."""
    first = {"text": text, "threshold": threshold, "preset": preset, "keep": keep}
    given = {name: value for name, value in first.items() if value is not None}
    return cast(RunParameters, {**given, **further})


def columns_of(parameters: RunParameters, id: str | None) -> Columns:
    """Returns the columns that parameters name.

    Args:
        id: Column of ids, or None.

    Raises:
        UsageError: If several kinds of content are named.
    """
    rules = parse_fields(parameters.get("fields") or ())
    if rules:
        require_compatible("fields", parameters)
        return Columns(
            text=None,
            fields=tuple(rule.content for rule in rules),
            ignored_fingerprints=parse_ignored(
                parameters.get("ignore_fingerprint"), fingerprint_sizes(rules)
            ),
            id=id,
            **_reading_of(parameters),
        )
    contents: dict[str, Any] = {
        name: parameters.get(name) for name in ("text", "tokens", "vector", "fingerprint")
    }
    given = {name: value for name, value in contents.items() if value is not None}
    if len(given) > 1:
        named = " and ".join(name_setting(name, value) for name, value in given.items())
        raise UsageError(f"{named} exclude each other; give one of them")
    texts = text_columns_of(parameters.get("text"))
    if not given:
        texts = ("text",)
    fingerprint = parameters.get("fingerprint")
    bits = _bits_of(parameters)
    require_fingerprint_for_bits(bits, fingerprint)
    return Columns(
        text=texts[0] if texts else None,
        joined=texts[1:],
        tokens=parameters.get("tokens"),
        vector=parameters.get("vector"),
        fingerprint=fingerprint,
        bits=DEFAULT_BITS if bits is None else bits,
        ignored_fingerprints=parse_ignored(
            parameters.get("ignore_fingerprint"),
            () if fingerprint is None else (bits or DEFAULT_BITS,),
        ),
        id=id,
        **_reading_of(parameters),
    )


def _reading_of(parameters: RunParameters) -> dict[str, Any]:
    """Returns the fields of columns that say how files of text are read."""
    return {
        "delimiter": parse_delimiter(parameters.get("delimiter")),
        "encoding": parse_encoding(parameters.get("encoding")),
        "main_text": parameters.get("main_text", False),
        "lines": parameters.get("lines", False),
    }


def _bits_of(parameters: RunParameters) -> int | None:
    """Returns the number of bits of a fingerprint, which a given Spec decides too."""
    spec = parameters.get("spec")
    if spec is not None and spec.unit == FINGERPRINT and parameters.get("bits") is None:
        return spec.n
    return parameters.get("bits")


def require_fingerprint_for_bits(bits: int | None, fingerprint: str | None) -> None:
    """Requires that a number of bits is one of fingerprints, and possible.

    Args:
        bits: Number of bits of a fingerprint, or None if it is not given.
        fingerprint: Column of fingerprints, or None.

    Raises:
        UsageError: If there are no fingerprints, or they cannot have so many bits.
    """
    if bits is None:
        return
    if fingerprint is None:
        raise UsageError(
            f"{name_setting('bits', bits)} is the number of bits of a fingerprint, and no column "
            f"of fingerprints is named; leave it out, or give {name_setting('fingerprint')}"
        )
    require_fingerprint_bits(bits)


def text_columns_of(text: str | Sequence[str] | None) -> tuple[str, ...]:
    """Returns the columns of texts that a parameter names.

    Args:
        text: A column, several columns, or None.

    Raises:
        UsageError: If no column is named, or one twice.
    """
    if text is None:
        return ()
    if isinstance(text, str):
        return (text,)
    names = tuple(text)
    if not all(names) or not names or len(set(names)) < len(names):
        raise UsageError(f"{name_setting('text')} {list(names)} is not a list of different columns")
    return names


def resources_of(parameters: RunParameters) -> SpecResources:
    """Returns the hash key and the data that the Spec refers to, without that of files."""
    tables = {name: parameters.get(name) for name in ("frequencies", "cut")}
    loaded: dict[str, Any] = {
        name: table for name, table in tables.items() if not isinstance(table, Path)
    }
    return SpecResources(parameters.get("key"), **loaded)


def memory_of(parameters: RunParameters) -> int:
    """Returns the memory bound of a run in bytes."""
    return parse_memory(parameters.get("memory", AUTOMATIC))


def with_contents(parameters: RunParameters, columns: Columns) -> RunParameters:
    """Returns parameters whose fields name the kinds and the sizes that the inputs have."""
    if not columns.fields:
        return parameters
    return {**parameters, "fields": name_contents(parameters["fields"], columns.fields)}


def make_run_options(spec: Spec, parameters: RunParameters) -> RunOptions:
    """Returns the options of a run.

    Raises:
        UsageError: If both a distance and a threshold are given, or one of them beside an
            acceptance that replaces it, or an option is not valid.
    """
    given_names = {name for name, value in parameters.items() if value is not None}
    require_one_threshold(given_names, parameters.get("accept") or SIMILAR)
    distance = parameters.get("distance")
    if distance is not None and parameters.get("threshold") is not None:
        raise UsageError(
            "distance= and threshold= exclude each other: the distance replaces the threshold; "
            "give one of them"
        )
    missing_block = parameters.get("missing_block", MissingBlock.NONE)
    if missing_block != MissingBlock.NONE and parameters.get("block_by") is None:
        raise UsageError(
            f"{name_setting('missing_block', missing_block)} has no effect without "
            f"{name_setting('block_by')}; leave it out, or name the column of blocks"
        )
    given: dict[str, Any] = {
        name: value for name, value in parameters.items() if name in OPTIONS_OF_RUN
    }
    given |= {
        "memory": memory_of(parameters),
        "workers": workers_or_cores(parameters.get("workers")),
    }
    return RunOptions(spec=spec, **given)


def require_one_threshold(given: Collection[str], accept: str) -> None:
    """Requires that the similarity of duplicates is not given twice.

    Args:
        given: Names of the parameters that were given.

    Raises:
        UsageError: If a threshold is given beside an expression, which replaces it.
    """
    if accept.strip() == SIMILAR:
        return
    for name in THRESHOLDS:
        if name in given:
            raise UsageError(
                f"{name_setting(name)} and {name_setting('accept', accept)} exclude each other: "
                "the expression decides alone; write the similarity in it, for example jaccard >= "
                "0.8"
            )


def selection_of(reading: ReadKeywords) -> Selection:
    """Returns the rules that decide which files of folders are read."""
    include = reading.get("include", ())
    exclude = reading.get("exclude", ())
    return Selection(
        reading.get("hidden", False),
        reading.get("follow_links", False),
        tuple(include),
        tuple(exclude),
    )


def spec_of(parameters: RunParameters, columns: Columns) -> Spec:
    """Returns the Spec of a run: the given one, or one that the options of the Spec make.

    Weights `tfidf` are left out if the document frequencies are not given, because they are counted
    later.

    Raises:
        UsageError: If options contradict each other or the columns.
    """
    measure = parameters.get("measure")
    spec = parameters.get("spec")
    given = [name for name in SPEC_KEYWORDS if parameters.get(name) is not None]
    rules = with_sizes(parse_fields(parameters.get("fields") or ()), columns.fields)
    if rules and spec is None:
        accept = parameters.get("accept") or SIMILAR
        return make_spec_of_fields(rules, accept, _spec_fields(parameters))
    if rules and spec is not None and not given:
        return spec
    if spec is not None:
        if given:
            raise UsageError(
                f"spec= and {given[0]}={parameters.get(given[0])!r} exclude each other; change the "
                f"Spec, for example with dataclasses.replace"
            )
        return resolve_spec(columns, measure, spec)
    for name in ("vector", "fingerprint"):
        require_compatible(name, {**parameters, name: getattr(columns, name)})
    return resolve_spec(columns, measure, **_spec_fields(parameters))


def parse_steps(steps: str | Sequence[str]) -> tuple[str, ...]:
    """Returns normalization steps, for example of `nfkc,lower`."""
    steps = steps.split(",") if isinstance(steps, str) else steps
    return tuple(step.strip() for step in steps if step.strip())


def _spec_fields(parameters: RunParameters) -> dict[str, Any]:
    """Returns the fields of the Spec that parameters decide."""
    names = ("stem", "scheme", "k", "slot_bits", "seed", "base_hash")
    values: dict[str, Any] = {name: parameters.get(name) for name in names}
    values["version"] = parameters.get("spec_version")
    shingle = parameters.get("shingle")
    if shingle is not None:
        values["unit"], values["n"] = parse_shingle(shingle)
    normalise = parameters.get("normalise")
    if normalise is not None:
        values["normalise"] = parse_steps(normalise)
    key = parameters.get("key")
    if key is not None:
        base_hash = parameters.get("base_hash")
        if base_hash not in (None, KEYED):
            raise UsageError(
                f"{name_setting('base_hash', base_hash)} and {name_setting('key')} exclude each "
                f"other: keyed hashing is {KEYED}"
            )
        values |= {"base_hash": KEYED, "key_id": key.id}
    values.update(_frequency_fields(parameters))
    return {name: value for name, value in values.items() if value is not None}


def _frequency_fields(parameters: RunParameters) -> dict[str, str]:
    """Returns the fields of the Spec that name data counted before."""
    weights = parameters.get("weights")
    frequencies = parameters.get("frequencies")
    resources = resources_of(parameters)
    if weights is not None:
        require_choice("weights", weights, ("tf", "tfidf"))
    measure = parameters.get("measure")
    if weights is not None and measure != "simhash":
        raise UsageError(
            f"{name_setting('weights', weights)} requires {name_setting('measure', 'simhash')}, "
            f"and the measure is "
            f"{measure or 'jaccard'}"
        )
    fields = {} if resources.cut is None else {"cut": resources.cut.fingerprint}
    if weights == "tf":
        fields["weights"] = "tf"
    if weights == "tfidf" and resources.frequencies is not None:
        fields["weights"] = "tfidf"
    if frequencies is not None and weights != "tfidf" and measure != IDF_JACCARD:
        raise UsageError(
            f"{name_setting('frequencies')} has no effect with measure {measure or 'jaccard'}; "
            f"leave it out, or give {name_setting('measure', IDF_JACCARD)} or "
            f"{name_setting('weights', 'tfidf')}"
        )
    if resources.frequencies is not None:
        fields["frequencies"] = resources.frequencies.fingerprint
    return fields
