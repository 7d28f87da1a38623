"""Commands whose input is a saved run: their options must be those that made it."""

from typing import TYPE_CHECKING

from nearkin.cli.given_options import GivenOptions
from nearkin.cli.options import ColumnOptions
from nearkin.runtime.setting_names import flag_of

if TYPE_CHECKING:
    from nearkin.runs.saved import SavedRun


READING = ("hidden", "follow_links", "include", "exclude", "delimiter", "encoding", "main_text")
"""The options for reading files, which are those of the saved run."""


def require_as_saved(
    given: GivenOptions, inputs: list[str], columns: ColumnOptions, spec: object
) -> None:
    """Requires that given options do not contradict the input, if it is a saved run."""
    from nearkin.errors import UsageError
    from nearkin.runs.saved import SavedRun

    saved = SavedRun.find(tuple(inputs))
    if saved is None:
        return
    given.require_unused(READING, f"on the saved run {saved.folder}, whose inputs are known")
    values = {**vars(columns), **vars(spec)}
    for name, saved_value in _options_of_saved_run(saved).items():
        value = values.get(name)
        if name not in given or _to_comparable_text(name, value) == _to_comparable_text(
            name, saved_value
        ):
            continue
        option = flag_of(name)
        made_with = f"no {option}"
        if saved_value is not None:
            made_with = f"{option} {saved_value}"
        raise UsageError(
            f"{option} {value} contradicts the saved run {saved.folder}, which was made with "
            f"{made_with}; leave it out, or run on the inputs of the saved run"
        )


def _options_of_saved_run(saved: "SavedRun") -> dict[str, object]:
    """Returns the values of the options from which a saved run was made, by parameter name."""
    from nearkin.settings.spec import KEYED

    spec = saved.spec
    columns = saved.record.require_files(saved.folder).columns
    text = columns["text"]
    if text is not None:
        text = ",".join([text, *columns.get("joined", ())])
    base_hash = None if spec.base_hash == KEYED else spec.base_hash
    return {
        "text": text,
        "tokens": columns["tokens"],
        "vector": columns["vector"],
        "fingerprint": columns.get("fingerprint"),
        "bits": columns.get("bits"),
        "id_column": columns["id"],
        "lines": columns.get("lines", False),
        "measure": spec.measure,
        "shingle": spec.shingle,
        "normalise": ",".join(spec.normalise),
        "stem": spec.stem,
        "scheme": spec.scheme,
        "k": spec.k,
        "slot_bits": spec.slot_bits,
        "seed": spec.seed,
        "base_hash": base_hash,
        "spec_version": spec.version,
        "weights": spec.weights,
        "frequencies": None,
    }


def _to_comparable_text(name: str, value: object) -> str:
    """Returns the value of an option as a text. Equal requests have equal texts.

    The order of normalization steps does not matter.
    """
    if name == "normalise":
        return ",".join(sorted(step.strip() for step in str(value).split(",") if step.strip()))
    return str(value)
