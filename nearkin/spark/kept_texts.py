"""The texts of the documents that a deduplication over Spark keeps."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.engine.spark.id_order import id_order
from nearkin.engine.spark.rereading import TextRows, to_texts
from nearkin.engine.spark.run import SparkRun
from nearkin.engine.spark.sources import FileSource
from nearkin.spark.numbered_rows import number_rows
from nearkin.texts.passages.documents import BYTES


def store_kept_texts(run: SparkRun) -> DataFrame:
    """Reads the kept documents of a run again, and returns an intermediate table of their texts.

    Returns:
        (number, doc, id, rank, bytes, text) of each document: its position in the corpus, its id
        in the inputs, its position in keep order, and its size. There is also `source` if the run
        has one.
    """
    documents = run.documents
    kept = run.clusters.where("kept").select("doc")
    if isinstance(run.source, FileSource):
        # Repeated ids have their places appended in the other tables, and not in the inputs.
        sketched = run.document_tables.table.where("reason IS NULL AND facts IS NULL")
        numbers = number_rows(sketched, "doc", "doc", "id")
    else:
        numbers = number_rows(documents, id_order(f.col("id")), "doc", "id")
    ranks = number_rows(documents.join(kept, "doc", "left_semi"), "sort", "doc")
    ranks = ranks.withColumnRenamed("number", "rank")
    texts = run.document_tables.read_again(kept, TextRows(run.request, to_texts))
    rows = texts.join(numbers, "doc").join(ranks, "doc")
    columns = ["number", "doc", "id", "rank", f.octet_length("text").cast("long").alias(BYTES)]
    if run.options.source is not None:
        rows = rows.join(documents.select("doc", "source"), "doc")
        columns.append("source")
    return run.tables.keep(rows.select(*columns, "text"), "kept-texts")
