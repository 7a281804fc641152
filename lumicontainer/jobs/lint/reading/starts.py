"""Read how a command starts a program: srun, a container's engine, a launcher, a shell."""

import re
from collections.abc import Callable, Sequence

from lumicontainer.constants import ENGINES
from lumicontainer.jobs.lint.reading import options
from lumicontainer.jobs.lint.reading.model import (
    ENGINE,
    ENTRY,
    LAUNCHER,
    SHELL,
    SRUN,
    ScriptCommand,
    Start,
    StartedProgram,
    Word,
)
from lumicontainer.jobs.lint.reading.options import OptionTable, split_options

_SHELLS = ("bash", "sh", "zsh", "dash")
_WRAPPERS = ("exec", "time", "nohup", "command", "env", "stdbuf", "nice", "setsid", "catchsegv")
_VALUED_WRAPPERS = ("timeout", "numactl", "taskset")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PYTHON = re.compile(r"python[0-9.]*")
_MODULES = {"torch.distributed.run": options.TORCHRUN, "torch.distributed.launch": options.TORCHRUN}
_ACCELERATE = "accelerate.commands.launch"
_LAUNCHERS = {"torchrun": options.TORCHRUN, "deepspeed": options.DEEPSPEED}
IMAGE = re.compile(r".*\.(sif|simg|sqsh|squashfs)")


def read_launch(command: ScriptCommand) -> Start:
    """Return how a command starts its program."""
    reader = _Reader(command.words)
    while reader.words and reader.read_part():
        pass
    return Start(command, tuple(reader.parts), reader.image, tuple(reader.words))


class _Reader:
    def __init__(self, words: Sequence[Word]) -> None:
        self.words = list(words)
        self.parts: list[StartedProgram] = []
        self.image: Word | None = None

    def read_part(self) -> bool:
        """Take one program off the words; return whether another one may follow."""
        name = self.words[0].text.rpartition("/")[2]
        readers: dict[str, Callable[[], bool]] = {
            "srun": lambda: self._take(SRUN, options.SRUN),
            "lumi-entry": self._take_entry,
            "accelerate": self._take_accelerate,
            **dict.fromkeys(ENGINES, self._take_engine),
            **dict.fromkeys(_SHELLS, self._take_shell),
            **dict.fromkeys((*_WRAPPERS, *_VALUED_WRAPPERS), self._drop_wrapper),
        }
        if name in readers:
            return readers[name]()
        if name in _LAUNCHERS:
            return self._take(LAUNCHER, _LAUNCHERS[name])
        if _PYTHON.fullmatch(name):
            return self._take_module()
        if _ASSIGNMENT.match(self.words[0].text):
            self.words.pop(0)
            return True
        return self._drop_script()

    def _take(self, kind: str, table: OptionTable, skipped: int = 1) -> bool:
        word = self.words[skipped - 1]
        read, used, complete = split_options(self.words[skipped:], table)
        self.parts.append(StartedProgram(kind, word, read, complete))
        del self.words[: skipped + used]
        # A launcher's program is the program; lumi-entry may be followed by a launcher.
        return kind != LAUNCHER

    def _take_entry(self) -> bool:
        self._take(ENTRY, options.ENTRY)
        if self.words and self.words[0].text == "-m":
            module = self.words[1].text if len(self.words) > 1 else ""
            return self._take(LAUNCHER, _MODULES[module], 2) if module in _MODULES else False
        return True

    def _take_accelerate(self) -> bool:
        if len(self.words) < 2 or self.words[1].text != "launch":
            return False
        return self._take(LAUNCHER, options.ACCELERATE, 2)

    def _take_engine(self) -> bool:
        word, verb = self.words[0], next((w.text for w in self.words[1:] if w.text[:1] != "-"), "")
        if verb not in ("exec", "run"):
            return False
        del self.words[: [each.text for each in self.words].index(verb) + 1]
        read, used, complete = split_options(self.words, options.ENGINE)
        self.parts.append(StartedProgram(ENGINE, word, read, complete))
        del self.words[:used]
        if self.words:
            self._take_image()
        return True

    def _take_image(self) -> None:
        # Options may stand in a variable that is not known: the image is named like one.
        names = [index for index, each in enumerate(self.words[:3]) if IMAGE.fullmatch(each.text)]
        index = names[0] if names and not self.words[0].is_known else 0
        self.image = self.words[index]
        del self.words[: index + 1]

    def _take_shell(self) -> bool:
        word, rest = self.words[0], self.words[1:]
        text = _command_text(rest)
        self.parts.append(StartedProgram(SHELL, word, (), complete=True, script=text))
        if text:
            self.words = []
            return False
        self.words = [each for each in rest if not each.text.startswith("-")]
        return False

    def _drop_wrapper(self) -> bool:
        name = self.words.pop(0).text.rpartition("/")[2]
        while self.words and self.words[0].text.startswith("-"):
            self.words.pop(0)
        if name in ("timeout", "taskset") and self.words:
            self.words.pop(0)
        return bool(self.words)

    def _drop_script(self) -> bool:
        """Drop a script of the user's that starts the engine: ``./select_gpu singularity exec``."""
        engines = [index for index, each in enumerate(self.words) if each.text in ENGINES]
        if not engines or not self.parts:
            return False
        del self.words[: engines[0]]
        return True

    def _take_module(self) -> bool:
        for index, word in enumerate(self.words[1:], start=1):
            if word.text == "-m" and index + 1 < len(self.words):
                module = self.words[index + 1].text
                if module in _MODULES:
                    return self._take(LAUNCHER, _MODULES[module], index + 2)
                if module == _ACCELERATE:
                    return self._take(LAUNCHER, options.ACCELERATE, index + 2)
                return False
            if not word.text.startswith("-"):
                return False
        return False


def _command_text(words: Sequence[Word]) -> Word | None:
    """Return the script behind ``-c`` of a shell."""
    for index, word in enumerate(words):
        if not word.text.startswith("-"):
            return None
        if not word.text.startswith("--") and "c" in word.text:
            return words[index + 1] if index + 1 < len(words) else None
    return None
