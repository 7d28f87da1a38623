"""The order of ids, as an expression of Spark."""

from pyspark.sql import Column
from pyspark.sql import functions as f

from nearkin.stages.cluster.id_order import LEAD, NO_NUMBER

WHOLE_NUMBER = r"^-?[0-9]+(?:#|\z)"
DIGITS = "^-?0*([0-9]*)"


def id_order(id: Column) -> Column:
    """Returns values that compare as `nearkin.stages.cluster.id_order.sort_ids` compares ids."""
    digits = f.regexp_extract(id, DIGITS, 1)
    size = f.length(digits)
    lead = f.when(size == 0, f.lit("0")).otherwise(f.substring(digits, 1, LEAD))
    value = lead.cast(f"decimal({LEAD + 1},0)")
    is_negative = id.startswith("-")
    is_number = id.rlike(WHOLE_NUMBER) & (~is_negative | (size <= LEAD))
    signed_size = f.when(is_negative, -size - 1).otherwise(size)
    signed_value = f.when(is_negative, -value).otherwise(value)
    return f.struct(
        f.when(is_number, signed_size).otherwise(NO_NUMBER).alias("size"),
        f.when(is_number, signed_value).otherwise(f.lit(0)).alias("lead"),
        id.alias("id"),
    )
