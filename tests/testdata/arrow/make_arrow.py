#!/usr/bin/env python3
"""Writes the files of this folder with pyarrow 26, polars 2.1, duckdb 2.0 and datasets 5.2.

    python3 make_arrow.py        # in this folder; needs those packages, pandas and Pillow

tests/server/storage/arrow/foreign_arrow_test.cc and
tests/server/storage/parquet/foreign_parquet_test.cc read them and have the same values.
"""

import io
import pathlib
import shutil

import datasets
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import PIL.Image

HERE = pathlib.Path(__file__).parent
ROWS = 7


def png(i):
    """A PNG file of 6 x 4 pixels."""
    buffer = io.BytesIO()
    PIL.Image.new("RGB", (6, 4), (i * 30, 0, 255 - i * 30)).save(buffer, "png")
    return buffer.getvalue()


def by_pyarrow():
    frame = pd.DataFrame({"text": [f"row {i}" for i in range(ROWS)],
                          "n": np.arange(ROWS, dtype=np.int16),
                          "x": np.arange(ROWS, dtype=np.float32) / 2})
    frame.to_feather(HERE / "pandas.feather")  # LZ4
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pa.feather.write_feather(table, str(HERE / "zstd.feather"), compression="zstd", chunksize=3)
    with pa.ipc.new_stream(str(HERE / "stream.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def by_polars():
    frame = pl.DataFrame({"text": [f"row {i}" for i in range(ROWS - 1)] + ["a text that is not inline"],
                          "n": list(range(ROWS)),
                          "x": [i / 2 for i in range(ROWS)],
                          "l": [[i] * i for i in range(ROWS)]})
    frame.write_ipc(HERE / "polars.arrow")
    frame.write_ipc(HERE / "polars_lz4.arrow", compression="lz4")
    frame.write_ipc_stream(HERE / "polars_stream.arrow")


def by_datasets():
    features = datasets.Features({
        "image": datasets.Image(),
        "label": datasets.ClassLabel(names=["cat", "dog", "eel"]),
        "text": datasets.Value("string"),
        "box": datasets.Sequence(datasets.Value("float32"), length=4),
        "tokens": datasets.Sequence(datasets.Value("int64")),
        "grid": datasets.Array2D(shape=(2, 3), dtype="int32"),
    })
    data = datasets.Dataset.from_dict({
        "image": [{"bytes": png(i), "path": None} for i in range(ROWS)],
        "label": [i % 3 for i in range(ROWS)],
        "text": [f"row {i}" for i in range(ROWS)],
        "box": [[i, 1, 2, 3] for i in range(ROWS)],
        "tokens": [[i] * i for i in range(ROWS)],
        "grid": [[[i, 1, 2], [3, 4, 5]] for i in range(ROWS)],
    }, features=features)
    for name in "saved", "splits":
        shutil.rmtree(HERE / name, ignore_errors=True)
    data.save_to_disk(str(HERE / "saved"), num_shards=2)
    small = data.select_columns(["label"]).select(range(3))
    datasets.DatasetDict(train=small, test=small).save_to_disk(str(HERE / "splits"))


def by_duckdb():
    shutil.rmtree(HERE / "hive", ignore_errors=True)
    duckdb.sql(f"""
        COPY (SELECT i AS n, i / 2.0 AS x, 2020 + i % 2 AS year,
                     CASE WHEN i < 3 THEN 'a b' ELSE 'c' END AS part
              FROM range({ROWS}) t(i) ORDER BY i)
        TO '{HERE}/hive' (FORMAT parquet, PARTITION_BY (year, part))""")


if __name__ == "__main__":
    by_pyarrow()
    by_polars()
    by_datasets()
    by_duckdb()
