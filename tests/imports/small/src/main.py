import os
import pathlib

import tomli_w

word = pathlib.Path("/app/word").read_text().strip()
print(tomli_w.dumps({"word": word, "style": os.environ["STYLE"]}))
