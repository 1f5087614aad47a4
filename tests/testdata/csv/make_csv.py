"""Writes the tables beside this file with the CSV writers of pandas, polars and duckdb: what the tests
of csv: read.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install pandas==3.1.1 polars==2.1.0 duckdb==2.0.1
    /tmp/venv/bin/python make_csv.py

Each has the same rows: names of files with commas, quotes, spaces and letters beyond ASCII, a class, a
whole number, a number, and boxes (in polars as text: its writer has no lists). pandas_corners.csv has
one box a row in four columns, pandas.tsv has tabs.
"""

import os

import duckdb
import pandas
import polars

FILES = ["photos/a 1.jpg", "photos/b, \"two\".jpg", "photos/\u00fc.jpg", "photos/d.jpg"]
CLASSES = ["ship", "planet, small", "ship", "asteroid"]
COUNTS = [3, 0, 12, 7]
SCORES = [0.5, 1.0, -2.25, 1e-3]
BOXES = [[[10.0, 20.0, 30.0, 40.5]], [], [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]],
         [[0.0, 0.0, 16.0, 8.0]]]

os.chdir(os.path.dirname(os.path.abspath(__file__)))
columns = {"file": FILES, "class": CLASSES, "count": COUNTS, "score": SCORES, "boxes": BOXES}
frame = pandas.DataFrame(columns)
frame.to_csv("pandas.csv", index=False)
frame.to_csv("pandas.tsv", index=False, sep="\t")
corners = [boxes[0] if boxes else [0.0, 0.0, 1.0, 1.0] for boxes in BOXES]
pandas.DataFrame({"file": FILES, "class": CLASSES,
                  **{name: [box[i] for box in corners] for i, name in enumerate(("x1", "y1", "x2", "y2"))}}
                 ).to_csv("pandas_corners.csv", index=False)
polars.DataFrame({**columns, "boxes": [str(boxes) for boxes in BOXES]}).write_csv("polars.csv")
duckdb.from_df(frame).write_csv("duckdb.csv")
