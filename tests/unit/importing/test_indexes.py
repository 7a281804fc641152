"""Indexes of packages, and packages without a name, are not left out in silence."""

import pytest

from lumicontainer.errors import InputError

from .conftest import Import, notes

URL = "https://packages.example.org/simple"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (f"ENV PIP_EXTRA_INDEX_URL={URL}", f"--extra-index-url {URL}"),
        (f"ENV UV_DEFAULT_INDEX={URL}", f"--default-index {URL}"),
        (f"ARG PIP_INDEX_URL={URL}", f"--index-url {URL}"),
        (f"RUN pip config set global.index-url {URL}", f"--index-url {URL}"),
        (f"RUN pip3 config --user set install.extra_index_url {URL}", f"--extra-index-url {URL}"),
        (f"RUN pip config --global set global.index-url {URL}", f"--index-url {URL}"),
        (f"RUN PIP_INDEX_URL={URL} pip install rich", f"--index-url {URL}"),
        (f"RUN env UV_INDEX={URL} uv pip install rich", f"--index {URL}"),
        (f"RUN export PIP_INDEX_URL={URL}", f"--index-url {URL}"),
        ("RUN export PIP_FIND_LINKS=/wheels", "--find-links /wheels"),
        ("RUN export PIP_INDEX_URL=$(cat /url)", "export PIP_INDEX_URL=$(cat /url)"),
        (
            "RUN pip config set global.index-url $NOT_SET",
            "pip config set global.index-url $NOT_SET",
        ),
    ],
)
def test_an_index_is_missing_however_it_is_set(dockerfile: Import, text: str, missing: str) -> None:
    draft = dockerfile(f"{text}\nRUN pip install polars")
    assert [each.missing for each in draft.missing()] == [missing]
    assert "polars" in draft.python


def test_an_index_of_a_copied_stage_is_missing(imported: Import) -> None:
    draft = imported(
        "Dockerfile",
        f"FROM debian AS first\nENV PIP_INDEX_URL={URL}\nRUN pip install polars\n"
        "FROM debian\nCOPY --from=first /opt/venv /opt/venv\n",
    )
    assert [*draft.python] == ["polars"]
    assert f"--index-url {URL}" in [each.missing for each in draft.missing()]


@pytest.mark.parametrize(
    "text",
    [
        "ENV PIP_NO_CACHE_DIR=1 UV_LINK_MODE=copy PIP_NO_INDEX=0",
        "ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cu121",
        "ARG PIP_INDEX_URL",
        "RUN pip config set global.timeout 60",
    ],
)
def test_a_setting_that_chooses_no_other_index_is_not_needed(dockerfile: Import, text: str) -> None:
    draft = dockerfile(text)
    assert {each.outcome for each in draft.lines[1:]} == {"not needed"}


@pytest.mark.parametrize(
    "text",
    [
        "ENV PIP_INDEX_URL={}",
        "ARG PIP_INDEX_URL={}",
        "RUN pip config set global.index-url {}",
        "RUN PIP_INDEX_URL={} pip install polars",
    ],
)
def test_the_password_of_an_index_is_not_shown(dockerfile: Import, text: str) -> None:
    draft = dockerfile(text.format("https://u:pw@packages.example.org/simple"))
    assert [each.missing for each in draft.missing()] == [f"--index-url {URL}"]
    assert not any("pw@" in each.text for each in draft.lines)


@pytest.mark.parametrize(
    "command",
    ["pip install --dry-run polars", "uv pip install --dry-run rich", "apt-get install -s jq"],
)
def test_a_dry_run_installs_nothing(dockerfile: Import, command: str) -> None:
    draft = dockerfile(f"RUN {command}")
    assert (draft.python, draft.apt, draft.missing()) == ({}, {}, [])


@pytest.mark.parametrize(
    ("argument", "command"),
    [
        ("PKG", "pip install $PKG"),
        ("PKG", 'pip install "$PKG"'),
        ("PKG", "pip install -U pip ${PKG}"),
        ("PKG", "pip install polars $PKG"),
        ("PKG=''", "apt-get install -y $PKG"),
        ("PKG", "$PKG"),
    ],
)
def test_a_package_without_a_name_is_missing(
    dockerfile: Import, argument: str, command: str
) -> None:
    draft = dockerfile(f"ARG {argument}\nRUN {command}")
    assert [each.missing for each in draft.missing()] == [command]
    assert notes(draft)[-1] == (
        "PKG has no value: name what it stands for under 'packages' of the layer"
    )


def test_a_file_that_no_line_copies_is_not_read(dockerfile: Import) -> None:
    draft = dockerfile("RUN pip install -r requirements.txt", **{"requirements.txt": "polars\n"})
    assert notes(draft) == ["no line copies it into the image"]


PIP_CONF = (
    f"[global]\nindex_url = {URL}\nextra-index-url =\n  {URL}\n  https://u:pw@other.example\n"
)
UV_TOML = f'[[index]]\nname = "own"\nurl = "{URL}"\n[pip]\nfind-links = ["/wheels"]\n'
OF_PIP = [
    f"--index-url {URL}",
    f"--extra-index-url {URL}",
    "--extra-index-url https://other.example",
]
OF_UV = [f"--index {URL}", "--find-links /wheels"]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("COPY pip.conf /etc/pip.conf", OF_PIP),
        ("COPY pip.conf /root/.config/pip/", OF_PIP),
        ("COPY own /etc/pip.conf", OF_PIP),
        ("COPY own /tmp/own\nRUN cp /tmp/own /etc/pip.conf", OF_PIP),
        ("RUN --mount=type=bind,source=pip.conf,target=/etc/pip.conf pip install rich", OF_PIP),
        ("COPY uv.toml ./", OF_UV),
        ("COPY . /src", [*OF_PIP, *OF_UV]),
        ("RUN --mount=type=bind,source=.,target=/src pip install rich", [*OF_PIP, *OF_UV]),
        (f"COPY <<'EOF' /etc/pip.conf\n[global]\nindex-url = {URL}\nEOF", [f"--index-url {URL}"]),
    ],
)
def test_an_index_of_a_settings_file_is_missing(
    dockerfile: Import, text: str, missing: list[str]
) -> None:
    files = {"pip.conf": PIP_CONF, "own": PIP_CONF, "uv.toml": UV_TOML}
    draft = dockerfile(f"{text}\nRUN pip install polars", **files)
    assert sorted(each.missing for each in draft.missing()) == sorted(missing)
    assert "polars" in draft.python
    assert not any(b"index" in each.content for each in draft.files.values() if each.name != "own")


@pytest.mark.parametrize(
    "text",
    [
        "ENV PIP_CONFIG_FILE=/opt/own.conf",
        "ARG UV_CONFIG_FILE=/opt/own.toml",
        "RUN UV_CONFIG_FILE=/opt/own.toml uv pip install rich",
        "RUN uv pip install --config-file /opt/own.toml rich",
        f"RUN printf '[global]\\nindex-url = {URL}\\n' >/etc/pip.conf",
        f"RUN tee /etc/uv/uv.toml <<EOF\nindex-url = '{URL}'\nEOF",
        "RUN mv /opt/of-the-base /etc/pip.conf",
        "COPY pip.conf /etc/pip.conf",
    ],
)
def test_settings_that_are_not_read_are_missing(dockerfile: Import, text: str) -> None:
    draft = dockerfile(f"{text}\nRUN pip install polars", **{"pip.conf": "not settings"})
    assert len(draft.missing()) == 1
    assert "polars" in draft.python


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "ENV PIP_CONFIG_FILE=/dev/null",
        "COPY pip.conf /etc/pip.conf",
        "COPY own /opt/own\nRUN cp /opt/own /etc/pip.conf",
        "RUN echo '[global]\\ntimeout = 60' >/etc/pip.conf",
    ],
)
def test_settings_without_an_index_lack_nothing(dockerfile: Import, text: str) -> None:
    settings = "[global]\ntimeout = 60\nno-index = false\n"
    draft = dockerfile(text, **{"pip.conf": settings, "own": settings})
    assert draft.missing() == []


@pytest.mark.parametrize(
    "text",
    [
        '[[tool.uv.index]]\nname = "own"\nurl = "{}"\n',
        '[[tool.poetry.source]]\nname = "own"\nurl = "{}"\n',
        '[[tool.pdm.source]]\nurl = "{}"\n',
        '[tool.uv]\nindex = [{{url = "{}"}}]\n',
    ],
)
def test_an_index_of_a_project_is_missing(imported: Import, text: str) -> None:
    head = '[project]\nname = "mine"\ndependencies = ["polars"]\n'
    draft = imported("pyproject.toml", head + text.format(URL))
    assert [each.missing for each in draft.missing()] == [f"--index {URL}"]
    assert "polars" in draft.python


def test_another_index_of_a_lock_is_missing(imported: Import) -> None:
    rows = [("rich", "https://a.example/simple"), ("polars", "https://a.example/simple")]
    text = "".join(
        f'[[package]]\nname = "{name}"\nversion = "1"\nsource = {{ registry = "{index}" }}\n'
        for name, index in [*rows, ("own", URL)]
    )
    assert [each.missing for each in imported("uv.lock", text).missing()] == [f"--index {URL}"]


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ('{ git = "https://example.org/p.git", rev = "v1" }', "https://example.org/p.git"),
        ('{ url = "https://example.org/p.zip" }', "https://example.org/p.zip"),
        ("{ workspace = true }", "polars>1"),
        ('[{ path = "../polars" }]', "polars>1"),
    ],
)
def test_a_package_of_another_place_is_missing(imported: Import, source: str, missing: str) -> None:
    head = '[project]\nname = "m"\ndependencies = ["polars>1"]\n'
    text = f"{head}[tool.uv.sources]\nPolars = {source}\n"
    draft = imported("pyproject.toml", text)
    assert [each.missing for each in draft.missing()] == [missing]
    assert draft.python == {}


def test_a_package_from_another_index_is_missing(imported: Import) -> None:
    index = f'[[tool.uv.index]]\nname = "corp"\nurl = "{URL}"\nexplicit = true\n'
    sources = '[tool.uv.sources]\npolars = { index = "corp" }\ntorch = { index = "corp" }\n'
    head = '[project]\nname = "m"\ndependencies = ["polars", "torch"]\n'
    draft = imported("pyproject.toml", head + index + sources)
    assert [each.missing for each in draft.missing()] == ["polars", f"--index {URL}"]
    assert draft.layers == {"pytorch"}


@pytest.mark.parametrize("more", ["", 'dynamic = ["dependencies"]\n'])
def test_a_project_that_lists_no_dependencies_is_refused(imported: Import, more: str) -> None:
    with pytest.raises(InputError, match="names no dependencies"):
        imported("pyproject.toml", f'[project]\nname = "m"\n{more}')


LOCK = """
[[package]]
name = "own"
version = "1"
source = { editable = "." }
dependencies = [
    { name = "server", extra = ["standard"] }, { name = "wheel-of-ours" }, { name = "library" },
]
[package.optional-dependencies]
plots = [{ name = "plotly" }]
[package.dev-dependencies]
dev = [{ name = "pytest" }]
[[package]]
name = "server"
version = "2"
source = { registry = "https://a.example/simple" }
[package.optional-dependencies]
standard = [{ name = "httptools", extra = ["fast"] }]
unused = [{ name = "plotly" }]
[[package]]
name = "httptools"
version = "3"
source = { registry = "https://a.example/simple" }
[package.optional-dependencies]
fast = [{ name = "uvloop" }]
[[package]]
name = "uvloop"
version = "4"
source = { registry = "https://a.example/simple" }
[[package]]
name = "wheel-of-ours"
version = "5"
source = { path = "vendor/wheel_of_ours-5-py3-none-any.whl" }
[[package]]
name = "library"
version = "6"
source = { editable = "libs/library" }
[[package]]
name = "plotly"
version = "7"
source = { registry = "https://a.example/simple" }
[[package]]
name = "pytest"
version = "8"
source = { registry = "https://a.example/simple" }
"""


def test_extras_of_a_lock_are_followed_and_its_own_files_are_missing(imported: Import) -> None:
    draft = imported("uv.lock", LOCK)
    assert [*draft.python] == ["server==2", "httptools==3", "uvloop==4"]
    assert [each.missing for each in draft.missing()] == ["wheel-of-ours", "library"]
    left = [each.text for each in draft.lines if each.outcome == "not needed"]
    assert left == ["own", "own.plots", "own.dev"]
