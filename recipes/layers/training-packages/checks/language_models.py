# /// check
# summary: the packages for language models can be imported, and data sets can be made
# level: full
# timeout_seconds: 300
# hint: rebuild the layer training-packages
# ///

import sys

import datasets
import evaluate
import peft
import sentencepiece
import trl

for package in (datasets, evaluate, peft, sentencepiece, trl):
    print(package.__name__, package.__version__)
rows = datasets.Dataset.from_dict({"text": ["one", "two"]})
if rows[1]["text"] != "two":
    sys.exit("datasets gives another row than the one that it was given")
