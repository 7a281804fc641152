"""A file of packages or of commands is read in bounded time, or refused in words."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lumicontainer.errors import INTERNAL, LumicontainerError
from lumicontainer.extending.reading.additions import read_additions
from lumicontainer.importing.draft import Draft, Goal
from lumicontainer.importing.read import reader_of
from lumicontainer.importing.writing import files_of
from lumicontainer.system.terminal import masking
from lumicontainer.system.terminal.output import hides_text

from ..unit.cpu import within

SECONDS = 30.0
"""More than 8 times what any of them takes."""
ZEROS = "0" * 64
PIP: list[str | bytes] = [
    "-r requirements.txt\nnumpy\n",
    "-r b.txt\nnumpy\n",
    "-c b.txt\nnumpy\n",
    "-r /etc/passwd\n",
    "-r /dev/zero\n",
    "-r pipe\n",
    "-r .\n",
    "-r https://a/b.txt\n",
    "-r ${HOME}/.ssh/id_rsa\n",
    "-r ../../../../../../etc/hostname\n",
    f"-r {'a' * 5000}\n",
    "-r a\0b\n",
    "-e loop\n",
    f"-e {'a/' * 40_000}\n",
    "-e link\n",
    "numpy==${SECRET_TOKEN}\n--index-url https://${HOME}@h/\n",
    "num\\\npy==1.\\\n26\n",
    "numpy\\",
    "numpy \\\n # c\n ==1\n",
    "numpy\n" * 1_000_000,
    "\n" * 1_000_000,
    "-r b.txt\n" * 20_000,
    "num\0py\n\0\n",
    b"\xff\xfen\0u\0m\0p\0y\0\n\0",
    b"\xfe\xff\0n\0u\0m\0p\0y",
    b"\xff\xfe\0\0n\0\0\0",
    "\ufeffnumpy\n",
    b"# \xe9\nnumpy\n",
    b"# -*- coding: rot13 -*-\nahzcl\n",
    b"# -*- coding: zlib_codec -*-\nx\n",
    b"# -*- coding: undefined -*-\nx\n",
    b"num\xed\xa0\x80py\n",
    "\x1b]0;x\x07numpy\x1b[2J\n",
    "num\u202epy\n",
    "numpy\rscipy\r",
    "numpy\x85scipy\u2028torch\n",
    f"numpy; {'(' * 3000}os_name=='a'{')' * 3000}\n",
    f"numpy; {' and '.join(['os_name==1'] * 3000)}",
    f"numpy[{','.join(f'e{number}' for number in range(9000))}]\n",
    f"numpy{','.join(['>=1'] * 9000)}\n",
    f"numpy=={'1.' * 20_000}1\n",
    f"numpy==1+{'a.' * 20_000}a\n",
    f"numpy==1 --hash=sha256:{ZEROS}{' ' * 50_000}x",
    "numpy==1 --hash=sha256:zz\n--hash=\"\n-e 'unclosed\n",
    "--pre\n--no-binary :all:\n-f .\n-e .\n--config-settings a=b\n",
    "a @ https://h/\x1b[31m.whl\na @ file:///etc/passwd\na @ git+file:///etc\n",
    "a @ git+ext::sh -c touch\na @ git+https://-oProxy/x\n",
    "a @ git+https://h/x@--upload-pack=touch\n",
    "a @ git+https://h/x#subdirectory=../../etc\n",
    f"git+https://h/x#egg={'a' * 70_000}\n",
    "-\n--\n-x\n=\n@\n;\n#\n[\n]\na @\n@ b\na[\na(b)\na>=1,\na;\n",
    "\u017fklearn\n\U0001d427umpy\nNumPy\nNUM.PY\n",
    "$(touch x)\n`id`\na;rm -rf /\na|b\n{{x}}\n{% x %}\n%s%n\n",
    "https://\nhttp://[::1\nhttps://h:99999999/x.whl\nhg+https://h/x\nfile:x\n//h/x\n",
]
NESTED = "".join(
    f"{chr(98 + level)}: &{chr(98 + level)} [{','.join(['*' + chr(97 + level)] * 9)}]\n"
    for level in range(9)
)
CONDA: list[str | bytes] = [
    f"a: &a [x,x,x,x,x,x,x,x,x]\n{NESTED}dependencies: *j\n",
    "dependencies: &a [*a]\n",
    "dependencies: !!python/object/apply:os.system ['touch canary']\n",
    "dependencies: [!!python/name:os.system '', !!binary AAAA, !!set {a}]\n",
    "dependencies: [2001-01-01, 1e999, .nan, 0x10, 1_000, ~, yes, '']\n",
    "dependencies:\n- pip: numpy\n- pip: {a: b}\n- pip: [[a], 1, null]\n- {pip: [a], x: []}\n",
    "---\ndependencies: [numpy]\n---\ndependencies: [scipy]\n",
    f"dependencies: {'[' * 5000}{']' * 5000}",
    "".join(f"{' ' * level}a:\n" for level in range(3000)),
    "dependencies:\n" + "- numpy\n" * 100_000,
    f"dependencies: ['{'a' * 900_000}']\n",
    'dependencies: ["num\\x1bpy", "a\\0b", "a\\nb", "\\ud800"]\n',
    b"\xff\xfed\0",
    b"dependencies: [\xff]\n",
    "dependencies:\n" + "".join(f"- &a{number} x\n" for number in range(20_000)),
    'dependencies:\n- pip: [-r /etc/passwd, -r pipe, -e ., git+https://h/x, "a\\nb"]\n',
    'dependencies: ["a::b::c", "::", "x[version=\'>1\']", "x=", "=1", "x=1=b=c", "*"]\n',
    f'dependencies: ["{chr(39) * 800_000}"]\n',
    f"dependencies: [{':' * 100_000}]\n",
    "? " * 20_000,
    "? {a: b}\n: c\n",
    f"dependencies: [{'9' * 100_000}, 1:{'59:' * 20_000}59]\n",
]
LOCK = "lock-version = '1.0'\n[[packages]]\nname = 'a'\nversion = '1'\n"
FILE = f"hashes = {{ sha256 = '{ZEROS}' }}"
TOML: list[str | bytes] = [
    LOCK,
    "lock-version = '1.0'\npackages = {}\n",
    "lock-version = '1.0'\npackages = [1, 'a', [], {}]\n",
    "lock-version = 1\n",
    LOCK.replace("'a'", "'../../x'"),
    LOCK.replace("'1'", '"1\\ntorch==0"'),
    f"{LOCK}wheels = [1, {{}}]\n",
    f"{LOCK}wheels = [{{ url = 'http://h/a-1-py3-none-any.whl', {FILE} }}]\n",
    f'{LOCK}wheels = [{{ url = "https://h/\\u001b[31ma-1-py3-none-any.whl", {FILE} }}]\n',
    f"{LOCK}wheels = [{{ name = '../../x.whl', url = 'https://h/x', {FILE} }}]\n",
    f"{LOCK}archive = {{ path = '../../../etc/passwd', {FILE} }}\n",
    f"{LOCK}archive = {{ path = 'pipe', {FILE} }}\n",
    f'{LOCK}archive = {{ path = "a\\u0000b", {FILE} }}\n',
    f'{LOCK}directory = {{ path = "a\\u0000b" }}\n',
    f"{LOCK}directory = {{ path = '/' }}\n",
    f"{LOCK}directory = {{ path = '{'a/' * 9000}' }}\n",
    f"{LOCK}directory = []\n",
    f"{LOCK}vcs = {{ type = 'git', url = '--upload-pack=x', commit-id = 'x' }}\n",
    f"{LOCK}marker = 'x'\n",
    f"{LOCK}marker = \"{'(' * 2000}os_name=='a'{')' * 2000}\"\n",
    LOCK + "[[packages]]\nname='a'\nversion='1'\n" * 20_000,
    f"a{'.a' * 100_000} = 1\n",
    f"a = {'[' * 5000}",
    f"a = {'{a=' * 3000}",
    b"a = '\xff'\n",
    f"lock-version = {'9' * 10_000}\n",
    "[project]\ndependencies = [1, {}, 'a\\n']\noptional-dependencies = 1\n",
    "[dependency-groups]\na = [{ include-group = 'b' }]\nb = [{ include-group = 'a' }]\n",
    "[tool.poetry.dependencies]\npython = 1\na = { git = 1 }\nb = { path = '/etc' }\nc = [{}]\n",
    "[tool.uv.sources]\na = { path = '/etc' }\n[project]\ndependencies = ['a']\n",
]
DEBIAN = "FROM debian\n"
DOCKER: list[str | bytes] = [
    "",
    "RUN a\n",
    DEBIAN + "RUN a\n" * 100_000,
    DEBIAN + "# a\n" * 100_000,
    "ARG A=1\n" * 100_000 + DEBIAN,
    f"{DEBIAN}RUN <<EOF\na\n",
    f"{DEBIAN}RUN {' '.join(f'<<E{number}' for number in range(3000))}\n",
    f"{DEBIAN}COPY <<EOF ../../../../canary\na\nEOF\n",
    f"{DEBIAN}COPY <<../../x /y\na\n../../x\n",
    f"{DEBIAN}RUN <<EOF bash <<X\n{'a' * 9000}\nEOF\nX\n",
    "# escape=`\nFROM debian\nRUN a `\n b\n",
    DEBIAN + "RUN " + "'\"" * 15_000,
    DEBIAN + "RUN " + "bash -c '" * 3000,
    DEBIAN + "RUN echo " + "$(" * 15_000,
    f"{DEBIAN}RUN {'{ ' * 900}a;{' }' * 900}\n",
    f"{DEBIAN}RUN {'( ' * 900}a{' )' * 900}\n",
    f"{DEBIAN}RUN {'if a; then ' * 900}b;{' fi;' * 900}\n",
    f"{DEBIAN}RUN {'for a in b; do ' * 900}c;{' done;' * 900}\n",
    f"{DEBIAN}RUN pip install {'{a,b}' * 30} && mkdir {{1..99999999}}\n",
    f"{DEBIAN}COPY {'*' * 2000} /x\n",
    f"{DEBIAN}COPY {'[' * 9000}\n",
    f"{DEBIAN}CMD {'[' * 20_000}{']' * 20_000}\n",
    f"{DEBIAN}COPY /etc/passwd ../../../etc/passwd link pipe loop /x/\nADD . /x\n",
    f"{DEBIAN}ENV A\nENV =b\nENV A='\nENV A=\"$\nENV 1A=b\nENV LD_PRELOAD=/x\n",
    f"{DEBIAN}ENV {' '.join(f'A{n}=$A{n - 1}x' for n in range(4000))}\n",
    f"{DEBIAN}ENV A={'${B:-' * 9000}x{'}' * 9000}\n",
    "FROM b AS a\nFROM a AS b\n",
    f"FROM {'a/' * 9000}\n",
    f"{DEBIAN}RUN a\0b\n",
    "FROM debian\rRUN a\r",
    b"\xff\xfeF\0R\0O\0M\0",
    b"FROM debian\nRUN \xff\xfe\n",
    f"{DEBIAN}RUN echo \x1b[2J\x1b]0;x\x07\n",
    f"{DEBIAN}RUN echo \u202e x\nRUN echo a\rb\n",
    f"{DEBIAN}RUN apt-get install -y ./x.deb 'a b' $(x) a=1:2~3 c+ d- ^e 'f\ng'\n",
    f"{DEBIAN}RUN pip install -r /etc/passwd -r pipe 'a;b' . git+https://h/x --target /x\n",
    f"{DEBIAN}RUN git clone --upload-pack=x https://h/y && git clone -c a=b ext::sh x\n",
    f"{DEBIAN}RUN :(){{ :|:& }};:\n",
]
DOCKER_HEAD = "Bootstrap: docker\nFrom: debian\n"
DEFINITION: list[str | bytes] = [
    "",
    f"{DOCKER_HEAD}%post\n{'a' * 66_000}\n",
    DOCKER_HEAD + "%post\n" + "a\n" * 100_000,
    DOCKER_HEAD * 3000,
    "Bootstrap: localimage\nFrom: pipe\n",
    "Bootstrap: localimage\nFrom: /etc/passwd\n",
    "Bootstrap: \x1b[2J\nFrom: x\n",
    f"{DOCKER_HEAD}%files\n/etc/passwd\n../../x /y\npipe /x\nlink /x\nloop\n\x1b /x\n",
    DOCKER_HEAD + "%files\n" + "a /b\n" * 20_000,
    f"{DOCKER_HEAD}%arguments\nA={{{{A}}}}\nB={{{{C}}}}\nC={{{{B}}}}\n%post\n{{{{A}}}}{{{{B}}}}\n",
    f"{DOCKER_HEAD}%setup\ntouch canary\n%pre\ntouch canary\n",
    f"{DOCKER_HEAD}%post -c /bin/python\nimport os\n%POST\n%\n%%\n% post\n%apprun ../x\nb\n",
    DOCKER_HEAD + "%post\n" + "\"$(echo '" * 3000,
    f"{DOCKER_HEAD}%post\necho \x1b[2K\n",
]
FORMATS: dict[str, list[str | bytes]] = {
    "requirements.txt": PIP,
    "environment.yml": CONDA,
    "pyproject.toml": TOML,
    "pylock.toml": TOML,
    "Dockerfile": DOCKER,
    "a.def": DEFINITION,
}
CASES = [(name, number) for name, texts in FORMATS.items() for number in range(len(texts))]


@pytest.fixture(autouse=True)
def _no_secrets() -> Iterator[None]:
    yield
    masking._hidden.clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a pipe, a link out of it, and a circle of links."""
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "loop").symlink_to("loop")
    (folder / "b.txt").write_text("-r requirements.txt\nscipy\n")
    monkeypatch.chdir(folder)
    return folder


def imported(folder: Path, name: str) -> Mapping[str, str]:
    """Return the scripts and documents that a file becomes."""
    draft = Draft(folder, Goal("cpu", "debian bookworm", "3.11"), "mine")
    reader_of(Path(name))(draft, name)
    files = files_of(draft, name, ["python"], [], "debian")
    own = {each: file.content.decode() for each, file in files.items()}
    return {each: text for each, text in own.items() if "/files/" not in each}


def write(folder: Path, name: str, number: int) -> set[Path]:
    """Write a file; return all files that are there."""
    text = FORMATS[name][number]
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return {*folder.parent.rglob("*")}


@pytest.mark.parametrize(("name", "number"), CASES)
def test_an_imported_file_is_read_or_refused(folder: Path, name: str, number: int) -> None:
    before = write(folder, name, number)
    try:
        with within(SECONDS):
            files = imported(folder, name)
    except LumicontainerError as error:
        assert error.code != INTERNAL
    else:
        assert not any(map(hides_text, files.values()))
        assert "root:x:0" not in "".join(files.values())
    assert {*folder.parent.rglob("*")} == before


@pytest.mark.parametrize(
    ("name", "number"), [each for each in CASES if each[0].endswith((".txt", ".yml", ".toml"))]
)
def test_a_file_of_added_packages_is_read_or_refused(folder: Path, name: str, number: int) -> None:
    before = write(folder, name, number)
    try:
        with within(SECONDS):
            added = read_additions([], [folder / name], [])
    except LumicontainerError as error:
        assert error.code != INTERNAL
    else:
        assert not any(map(hides_text, added.lines))
        assert "root:x:0" not in "".join(added.lines)
    assert {*folder.parent.rglob("*")} == before
