"""Runs splink as its tutorial does: Jaro-Winkler levels for each field, trained without labels.

All pairs are compared, so that no pair is lost to a blocking rule. The parameters are estimated by
random sampling and by expectation maximisation, which needs records that agree in a field.
"""

import logging
import sys

import pandas as pd
import splink.comparison_library as comparisons
from record_pairs import field_names, has_two_sources, read_column, read_records
from shared import write
from splink import Linker, SettingsCreator, block_on
from splink.backends.duckdb import DuckDBAPI

MATCH_PROBABILITY = 0.95
SHORT_VALUES = 12
"""The number of distinct values up to which a field is compared for equality alone."""


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
    frame = pd.DataFrame(
        [{"unique_id": id, "origin": sources[id], **record} for id, record in records.items()]
    )
    is_linked = has_two_sources(corpus)
    rule = "l.origin <> r.origin" if is_linked else "1=1"
    compared = [
        comparisons.ExactMatch(name).configure(term_frequency_adjustments=True)
        if frame[name].nunique() <= SHORT_VALUES
        else comparisons.JaroWinklerAtThresholds(name, [0.95, 0.88, 0.7]).configure(
            term_frequency_adjustments=True
        )
        for name in fields
    ]
    settings = SettingsCreator(
        link_type="dedupe_only",
        comparisons=compared,
        blocking_rules_to_generate_predictions=[rule],
    )
    linker = Linker(DuckDBAPI().register(frame), settings)
    training = linker.training
    specific = sorted(fields, key=lambda name: -frame[name].nunique())
    training.estimate_probability_two_random_records_match([block_on(specific[0])], recall=0.6)
    training.estimate_u_using_random_sampling(max_pairs=1e6, seed=1)
    for name in specific[:3]:
        training.estimate_parameters_using_expectation_maximisation(
            block_on(name), record_sample_proportion=1.0
        )
    predicted = linker.inference.predict(threshold_match_probability=MATCH_PROBABILITY)
    pairs = predicted.as_pandas_dataframe()
    write(out, zip(pairs["unique_id_l"], pairs["unique_id_r"], strict=True))


main(*sys.argv[1:])
