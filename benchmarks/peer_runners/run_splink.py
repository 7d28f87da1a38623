"""Runs splink as its tutorial does: Jaro-Winkler levels for each field, trained without labels.

All pairs are compared, so that no pair is lost to a blocking rule. The parameters are estimated by
random sampling and by expectation maximisation, which needs records that agree in a field.
"""

import logging
import sys
from collections.abc import Sequence

import pandas as pd
import splink.comparison_library as comparisons
from record_pairs import field_names, has_two_sources, read_column, read_records
from shared import write
from splink import Linker, SettingsCreator, block_on
from splink.backends.duckdb import DuckDBAPI
from splink.internals.exceptions import EMTrainingException

MATCH_PROBABILITY = 0.95
SHORT_VALUES = 12
"""The number of distinct values up to which a field is compared for equality alone."""

TRAINING_FIELDS = 3
"""The number of fields whose agreement selects the pairs for training. Where the training of a
field fails, the next one is taken."""
LEAST_AGREEMENTS = 100
"""The number of pairs that agree in a field from which the field is used for training."""


def count_agreements(frames: Sequence[pd.DataFrame], name: str) -> int:
    """Returns the number of compared pairs of records with the same value of a field.

    Args:
        frames: Records of one source, which are compared with each other, or of two.
        name: Name of the field.
    """
    counts = [frame[name].value_counts() for frame in frames]
    if len(counts) == 2:
        return int((counts[0] * counts[1]).sum())
    return int((counts[0] * (counts[0] - 1) // 2).sum())


def main(corpus: str, out: str, _work: str) -> None:
    """Finds pairs in records.

    Args:
        corpus: Folder of Parquet files with an id and fields.
        out: Path of the Parquet file of pairs.
        _work: Not used.
    """
    logging.getLogger("splink").setLevel(logging.ERROR)
    records = read_records(corpus)
    fields = field_names(records)
    sources = read_column(corpus, "source")
    frame = pd.DataFrame([{"unique_id": id, **record} for id, record in records.items()])
    origin = frame["unique_id"].map(sources)
    is_linked = has_two_sources(corpus)
    frames = [part for _, part in frame.groupby(origin)] if is_linked else [frame]
    compared = [
        comparisons.ExactMatch(name).configure(term_frequency_adjustments=True)
        if frame[name].nunique() <= SHORT_VALUES
        else comparisons.JaroWinklerAtThresholds(name, [0.95, 0.88, 0.7]).configure(
            term_frequency_adjustments=True
        )
        for name in fields
    ]
    settings = SettingsCreator(
        link_type="link_only" if is_linked else "dedupe_only",
        comparisons=compared,
        blocking_rules_to_generate_predictions=["1=1"],
    )
    database = DuckDBAPI()
    linker = Linker([database.register(part) for part in frames], settings)
    training = linker.training
    shared = [name for name in fields if count_agreements(frames, name) >= LEAST_AGREEMENTS]
    specific = sorted(shared, key=lambda name: -frame[name].nunique())
    if specific:
        training.estimate_probability_two_random_records_match([block_on(specific[0])], recall=0.6)
    training.estimate_u_using_random_sampling(max_pairs=1e6, seed=1)
    trained = 0
    for name in specific:
        try:
            training.estimate_parameters_using_expectation_maximisation(
                block_on(name), record_sample_proportion=1.0
            )
        except (EMTrainingException, ValueError) as error:
            print(f"not trained with {name}: {error}", file=sys.stderr)
            continue
        trained += 1
        if trained == TRAINING_FIELDS:
            break
    predicted = linker.inference.predict(threshold_match_probability=MATCH_PROBABILITY)
    pairs = predicted.as_pandas_dataframe()
    write(out, zip(pairs["unique_id_l"], pairs["unique_id_r"], strict=True))


main(*sys.argv[1:])
