"""Writes albumentations.json with the installed Albumentations (2.0.8), or compares.

    python3 record_albumentations.py [--compare]    # in this folder; needs albumentations and torch
"""

import json
import sys

import albumentations
import albumentations_composes
from albumentations.pytorch import ToTensorV2

recorded = {name: albumentations_composes.record(compose) for name, compose in
            albumentations_composes.composes(albumentations, ToTensorV2).items()}
# A compose a line.
text = "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(compose, sort_keys=True)}"
                          for name, compose in sorted(recorded.items())) + "\n}\n"
if sys.argv[1:] == ["--compare"]:
    with open("albumentations.json", encoding="utf-8") as file:
        if file.read() != text:
            sys.exit(f"Albumentations {albumentations.__version__} has other objects than "
                     "albumentations.json: write it anew, and look at what has changed")
    print(f"albumentations.json is what Albumentations {albumentations.__version__} has")
else:
    with open("albumentations.json", "w", encoding="utf-8") as file:
        file.write(text)
