"""The settings of an index from those of a run: a settings file, a preset, or options of a Spec.

It is apart from `nearkin.index.settings`, because most processes that open an index give none of
them and need not load what reads them.
"""

from collections.abc import Mapping
from typing import Any, cast

from nearkin.corpus import Columns
from nearkin.engine.keywords import RunParameters
from nearkin.engine.parameters import spec_of
from nearkin.engine.settings_file import Settings
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean
from nearkin.settings.table import KEYWORDS, SPEC_KEYWORDS

OF_SPEC = ("measure", *(name for name in SPEC_KEYWORDS if name != "bits"))
"""The settings that make the Spec of an index."""
OF_SEARCH = ("threshold", "distance", "recall", "bands", "rows", "probes", "related")
"""The settings of a run that an index has, too."""
DEFAULTS = {"relation": "similarity", **{name: one.default for name, one in KEYWORDS.items()}}
"""The defaults of the settings of a run."""
OF_RUNS = (
    *("accept", "max_lost", "fields", "same", "url", "across", "block_by", "second_measure"),
    *("max_df", "tables", "verify", "relation"),
)
"""The settings that decide what near-duplicates are, and that an index does not have."""


def require_of_index(run: Settings) -> None:
    """Requires that an index has all settings of a run that decide what near-duplicates are.

    Raises:
        UsageError: If one cannot.
    """
    for name in OF_RUNS:
        value = run.values.get(name)
        if value is not None and value != DEFAULTS.get(name):
            raise UsageError(
                f"{run.source}: the setting {name!r} ({value!r}) decides which documents of a run "
                "are near-duplicates, and an index does not have it; delete it, and compare the "
                "files with nearkin dedup --against and the URL of the index"
            )


def settings_of_run(
    run: Settings,
    given: Mapping[str, object],
    replaced: Mapping[str, object],
    *,
    has_spec: bool,
) -> dict[str, Any]:
    """Returns the settings of an index that follow from those of a run and from options of a Spec.

    Settings that decide what is kept of a cluster, and how files are read, have no meaning here.

    Args:
        given: Options of a Spec, which replace those of `run`.
        replaced: Settings of the index that a caller gave, which replace those of `run`.

    Raises:
        UsageError: If a value of `run` decides what near-duplicates are and an index does not have
            it, or a Spec is given twice.
    """
    require_of_index(run)
    for name in given:
        if name not in OF_SPEC:
            raise UsageError(
                f"unknown setting {name!r}{did_you_mean(name, OF_SPEC)}; the settings of an index "
                f"are the fields of IndexSettings, and those of its Spec {', '.join(OF_SPEC)}"
            )
    settings: dict[str, Any] = {
        name: value
        for name, value in run.values.items()
        if name in OF_SEARCH and name not in replaced
    }
    of_spec = {name: value for name, value in run.values.items() if name in OF_SPEC}
    of_spec |= {name: value for name, value in given.items() if value is not None}
    if not of_spec:
        return settings
    if has_spec:
        name, value = next(iter(of_spec.items()))
        raise UsageError(
            f"{name_setting('spec')} and {name_setting(name, cast(str, value))} exclude each "
            "other: both say how documents are compared; leave out one of them"
        )
    if {**settings, **replaced}.get("distance") is not None:
        of_spec.setdefault("measure", "simhash")
    if of_spec.get("measure") == "cosine":
        raise UsageError(
            "an index of vectors needs their number of dimensions, which settings of a run do not "
            f"say; leave out {name_setting('measure', 'cosine')}, and give a Spec of vectors, or "
            "the dimensions as a setting of the index"
        )
    return {**settings, "spec": spec_of(cast(RunParameters, of_spec), Columns())}
