"""The function `nearkin.profile`: what documents are like, and what to run over them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from nearkin.engine.advice import Advice, describe_advice
from nearkin.engine.keywords import RunParameters
from nearkin.engine.parameters import columns_of
from nearkin.quality.plan.data_kind import DataProfile
from nearkin.quality.plan.observe import SAMPLE_SIZE, observe_corpus
from nearkin.quality.plan.tune import tune
from nearkin.runs.temporary_runs import open_corpus
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.settings.keywords import ReadKeywords
from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of


@dataclass(frozen=True, repr=False)
class Profile:
    """A description of documents, with the call to run next over them.

    Attributes:
        documents: Number of documents.
        texts: Description of a sample of the texts.
        warnings: Reasons for which the settings of a run without options cannot work well.
        advice: What to run next, and why.
        call: The advised call, as Python code.
    """

    documents: int
    texts: DataProfile
    warnings: tuple[str, ...]
    advice: Advice
    call: str

    def __repr__(self) -> str:
        return f"<Profile: {self.documents:,} documents. {self.advice.reason}: {self.call}>"


@check_arguments
def profile(
    data: Any,
    *,
    text: str | Sequence[str] | None = None,
    id: str | None = None,
    sample: int = SAMPLE_SIZE,
    workers: int | None = None,
    **reading: Unpack[ReadKeywords],
) -> Profile:
    """Describes texts from a sample, and advises what to run over them, as `nearkin tune FILES`.

    Args:
        data: The documents, as for `dedup`.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`.
        id: Column of ids, which the advised call contains.
        sample: Number of sampled documents, all pairs of which are compared.
        workers: Number of threads. By default, the cores that the process may use.
        **reading: The options of reading, which `nearkin.settings.table` describes.

    Raises:
        UsageError: If a parameter is not valid, the data cannot be read, or there are fewer than
            two documents.
        RunError: If a file cannot be read.

    Examples:
        >>> names = ["Anna Miller, 3 Elm street", "Ben Novak, 17 Oak street", "Ida Kim"]
        >>> profile(names)
        <Profile: 3 documents. nearkin can choose settings for short texts: nk.choose(data)>
    """
    content: RunParameters = {"text": text}
    columns = columns_of({**content, **reading}, id)
    corpus = open_corpus(data, reading)
    distribution = observe_corpus(
        corpus, columns, measure_of(Spec()), sample, workers=workers_or_cores(workers)
    )
    tuning = tune(distribution=distribution)
    assert distribution.profile is not None
    return Profile(
        distribution.documents,
        distribution.profile,
        tuple(tuning.warnings),
        tuning.advice,
        describe_advice(tuning.advice, corpus, columns),
    )
