"""Nothing is carried that is not understood, and what is not carried is named."""

from pathlib import Path

import pytest

from lumicontainer.importing.read import name_for

from .conftest import Import, notes, rows


@pytest.mark.slow
def test_a_file_is_tracked_by_its_whole_name(dockerfile: Import) -> None:
    draft = dockerfile(
        "RUN curl -fsSL -o '/tmp/the install.sh' https://a.example/install.sh && \\\n"
        "  bash '/tmp/the install.sh' && install -d /opt/a && echo install >/opt/b\n"
        "RUN wget -q https://a.example/tool-1.2.tar.gz && touch tool-1.2 tool",
    )
    assert [(outcome, text) for _, outcome, text in rows(draft)] == [
        ("not carried", "curl -fsSL -o '/tmp/the install.sh' https://a.example/install.sh"),
        ("not carried", "bash '/tmp/the install.sh'"),
        ("carried", "install -d /opt/a"),
        ("carried", "echo install >/opt/b"),
        ("not carried", "wget -q https://a.example/tool-1.2.tar.gz"),
        ("carried", "touch tool-1.2 tool"),
    ]


@pytest.mark.parametrize(
    "later",
    [
        "RUN tar xf /src/t.tgz -C /opt && /opt/t/configure",
        "RUN cd /src && tar xzf t.tgz && cd t && make install",
        "COPY none /src/lib\nWORKDIR /src/lib\nRUN make",
        "COPY none /opt/src\nWORKDIR /opt/src\nRUN make",
        "RUN tar xf /src/t.tgz -C /opt/src && cd /opt/src && make",
        "RUN /opt/out/bin/program --version",
        "RUN cp /opt/out/bin/program /usr/local/bin/ && program",
        "RUN VERSION=$(cat /opt/out/v) && echo $VERSION >/opt/v",
        "ENV OUT_DIR=/opt/out",
        "COPY --from=0 /x /opt/x\nRUN sort /opt/x/y",
        "COPY none.sh /opt/bin/\nRUN /opt/bin/none.sh",
    ],
)
def test_a_line_that_needs_what_is_not_carried_is_not_carried(
    dockerfile: Import, later: str
) -> None:
    draft = dockerfile(
        "RUN curl -o /src/t.tgz https://a.example/t.tgz && "
        f"mkdir /src/out && /src/t.tgz --prefix=/opt/out >/src/out/log\n{later}"
    )
    outcomes = [outcome for line, outcome, text in rows(draft) if line > 2 and text != "cd /src"]
    assert set(outcomes) == {"not carried"}
    assert draft.environment == {}


@pytest.mark.parametrize(
    "command",
    [
        "ln -s /opt/a/lib/python3.11/site-packages/b /opt/b",
        "bash /opt/a/condense.sh",
        "make -C /opt/a clean -j2",
    ],
)
def test_nothing_is_dropped_for_a_part_of_its_words(dockerfile: Import, command: str) -> None:
    assert rows(dockerfile(f"RUN {command}")) == [(2, "carried", command)]


@pytest.mark.parametrize(
    "command",
    [
        "pip install a || pip install b",
        "xargs -n 1 pip install </tmp/list",
        "for p in $LIST; do pip install $p; done",
        "pip install $(cat /tmp/list)",
    ],
)
def test_packages_in_another_form_are_missing(dockerfile: Import, command: str) -> None:
    draft = dockerfile(f"RUN {command}")
    assert ({*draft.python}, draft.script) == (set(), [])
    assert [each.missing for each in draft.missing()] == [command]


@pytest.mark.parametrize("place", ["aws-ofi-rccl", "/opt/src"])
def test_a_download_that_a_layer_replaces_is_not_needed_by_what_builds_it(
    dockerfile: Import, place: str
) -> None:
    draft = dockerfile(
        f"RUN git clone https://github.com/ROCm/aws-ofi-rccl {place} && cd {place} && "
        f"./configure --prefix=/opt/plugin && make install && cd .. && rm -rf {place}\n"
        "RUN wget https://a.example/libfabric-1.15.2.tar.gz && tar xf libfabric-1.15.2.tar.gz && "
        "cd libfabric-1.15.2 && make install\n"
        "ENV LD_LIBRARY_PATH=/opt/plugin/lib:$LD_LIBRARY_PATH"
    )
    assert draft.layers == {"rccl-plugin", "libfabric"}
    assert {outcome for _, outcome, _ in rows(draft)} == {"replaced", "not needed", "carried"}
    assert (draft.missing(), draft.script, draft.environment) == ([], [], {})


def test_a_stage_of_rocm_is_the_layer(imported: Import) -> None:
    draft = imported(
        "Dockerfile",
        "FROM rocm/dev-ubuntu-22.04 AS gpu\n"
        "RUN git clone https://github.com/aws/aws-ofi-nccl /src && cd /src && "
        "./configure --prefix=/opt/net && make install\n"
        "RUN make -C /opt/own\n"
        "FROM ubuntu:22.04\n"
        "COPY --from=gpu /opt/rocm /opt/rocm\n"
        "COPY --from=gpu /opt/net /opt/net\n"
        "COPY --from=0 /opt/own /opt/own\n"
        "ENV PATH=/opt/rocm/bin:$PATH\n",
    )
    assert {"rocm", "rccl-plugin"} <= draft.layers
    assert [each.missing for each in draft.missing()] == ["/opt/own of 0"]
    assert draft.path == ["/opt/rocm/bin"]


def test_packages_are_installed_wherever_the_command_runs(dockerfile: Import) -> None:
    draft = dockerfile(
        "RUN git clone https://a.example/b/tool /app\nWORKDIR /app\n"
        "RUN apt-get update && pip install polars -r requirements.txt && make && pip install -e .",
    )
    assert [*draft.python] == ["polars"]
    assert [each.missing for each in draft.missing()] == ["https://a.example/b/tool"]


@pytest.mark.slow
def test_what_lumi_and_apptainer_set_is_known(imported: Import) -> None:
    draft = imported(
        "a.def",
        "Bootstrap: localimage\n"
        "From: /appl/local/containers/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n"
        "%post\n"
        "    . /.singularity.d/env/10-docker2singularity.sh\n"
        "    $WITH_CONDA; pip install polars\n"
        "    bash -c '$WITH_CONDA; pip install rich'\n"
        "    echo 'export A=b' >>$SINGULARITY_ENVIRONMENT\n"
        "    echo $NOT_SET >/opt/a\n",
    )
    assert draft.layers == {"pytorch"}
    assert [*draft.python] == ["polars", "rich"]
    assert (draft.environment, draft.missing()) == ({"A": "b"}, [])


def test_a_mount_of_the_context_is_read_and_does_not_stay(dockerfile: Import) -> None:
    draft = dockerfile(
        "RUN --mount=type=bind,source=requirements.txt,target=/tmp/requirements.txt \\\n"
        "  --mount=type=cache,target=/root/.cache \\\n"
        "  pip install -r /tmp/requirements.txt\n"
        "RUN --mount=type=bind,target=/src make -C /src",
        **{"requirements.txt": "polars\n"},
    )
    assert [*draft.python] == ["polars"]
    assert [(outcome, text) for line, outcome, text in rows(draft) if line > 4] == [
        ("not carried", "make -C /src")
    ]


@pytest.mark.parametrize(
    ("start", "missing"),
    [
        ('CMD ["/opt/tool/bin/serve"]', "/opt/tool/bin/serve, which the file starts"),
        ("ENTRYPOINT vllm serve", "vllm, which the file starts"),
        ('CMD ["python3", "/opt/tool/train.py"]', "/opt/tool/train.py, which the file starts"),
    ],
)
def test_a_program_that_is_not_there_is_missing(
    dockerfile: Import, start: str, missing: str
) -> None:
    draft = dockerfile(f"RUN git clone https://a.example/b/tool /opt/tool\n{start}")
    assert [each.missing for each in draft.missing()] == ["https://a.example/b/tool", missing]


@pytest.mark.parametrize(
    ("image", "missing"),
    [
        ("vllm/vllm-openai:latest", "vLLM"),
        ("nvcr.io/nvidia/nemo:24.07", "NeMo"),
        ("example.org/own/image:1", "what the base image example.org/own/image:1 has"),
        ("$BASE", "what the base image $BASE has"),
    ],
)
def test_a_framework_of_a_base_image_is_missing(imported: Import, image: str, missing: str) -> None:
    draft = imported("Dockerfile", f"FROM {image}\n")
    assert [each.missing for each in draft.missing()] == [missing]


def test_a_start_is_not_what_prepares_it(imported: Import) -> None:
    text = "Bootstrap: docker\nFrom: debian\n%runscript\n$WITH_CONDA\nexec train\n"
    assert imported("a.def", text).lines[-1].note == "lumicontainer run mine.sif -- train"


def test_folders_of_lumi_are_not_in_a_build(dockerfile: Import) -> None:
    draft = dockerfile("RUN cp /scratch/project_1/weights.bin /opt/ && sha256sum /opt/weights.bin")
    assert [outcome for _, outcome, _ in rows(draft)] == ["not carried", "not carried"]
    assert len(draft.missing()) == 1


@pytest.mark.slow
def test_lines_run_where_a_variable_may_be_unset(dockerfile: Import) -> None:
    draft = dockerfile("ARG CHOICE\nRUN if [ -n $CHOICE ]; then id; fi")
    assert (draft.parameters, draft.missing()) == ({"CHOICE": ""}, [])


@pytest.mark.parametrize(
    "command",
    [
        "python -mpip install --foo bar m1",
        "python3 -m pipx install x",
        "python - <<EOF\nimport pip\npip.main(['install', 'x'])\nEOF",
        """python -c "import pip; pip._internal.main(['install', 'x'])\"""",
        """python -c "import torch; torch.hub.load('x', 'y')\"""",
        "alias p=pip && p install x",
        "conda-lock install conda-lock.yml",
        "eb OSU.eb",
        "perl -MCPAN -e 'install X'",
        "apt-get install -y python3-numpy",
    ],
)
def test_no_command_installs_what_nobody_pins(dockerfile: Import, command: str) -> None:
    draft = dockerfile(f"RUN {command}")
    assert "not carried" in {outcome for _, outcome, _ in rows(draft)}
    assert draft.missing()


@pytest.mark.parametrize("start", ["bash /opt/s/setup.sh", ". /opt/s/setup.sh", "/opt/s/setup.sh"])
def test_a_script_of_the_folder_that_installs_is_not_run(
    imported: Import, tmp_path: Path, start: str
) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s/setup.sh").write_text("# sets up\npip install sentencepiece\n")
    (tmp_path / "s/plain.sh").write_text("# pip install it\nmkdir -p /data\n")
    text = f"FROM debian\nCOPY s/ /opt/s/\nRUN {start}\nRUN bash /opt/s/plain.sh\n"
    draft = imported("Dockerfile", text)
    assert [each.missing for each in draft.missing()] == [start]
    assert notes(draft)[0].startswith("s/setup.sh installs or downloads")


@pytest.mark.slow
def test_a_variable_that_ends_with_path_is_known_to_later_lines(dockerfile: Import) -> None:
    draft = dockerfile("ENV APP_PATH=/srv/app\nWORKDIR $APP_PATH\nRUN mkdir $APP_PATH/x")
    assert notes(draft) == []
    assert "mkdir -p /srv/app\n" in draft.script


def test_what_is_installed_in_a_lost_folder_is_missing(dockerfile: Import) -> None:
    draft = dockerfile(
        "WORKDIR $NOT_KNOWN/x\nRUN if true; then pip install timm; fi\nRUN pip install -e .[a]"
    )
    assert "if true; then pip install timm; fi" in [each.missing for each in draft.missing()]


def test_alternatives_over_several_lines_are_read(dockerfile: Import) -> None:
    draft = dockerfile("RUN pip install einops \\\n && pip install rich \\\n || exit 1")
    assert (notes(draft), {*draft.python}) == ([], {"einops", "rich"})


def test_a_word_of_a_start_is_no_file_of_the_folder(dockerfile: Import) -> None:
    draft = dockerfile('WORKDIR $NOT_KNOWN/x\nCMD ["sleep", "infinity"]')
    assert "infinity" not in str([each.missing for each in draft.missing()])


@pytest.mark.parametrize(
    ("row", "place"),
    [("code /opt/", "/opt/code"), ("code /srv/x", "/srv/x"), ("code", "/code")],
)
def test_a_folder_of_a_definition_gets_where_cp_puts_it(
    imported: Import, tmp_path: Path, row: str, place: str
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/a.py").touch()
    draft = imported("a.def", f"Bootstrap: docker\nFrom: debian\n%files\n    {row}\n")
    assert f"mkdir -p {place}\n" in "".join(draft.script)


def test_an_extra_that_a_layer_has_is_that_layer(dockerfile: Import) -> None:
    draft = dockerfile("RUN pip install 'accelerate[deepspeed]' 'trl[peft,vllm]'")
    assert {*draft.python} == {"accelerate[deepspeed]", "trl[peft]"}
    assert "deepspeed" in {each.layer for each in draft.lines}
    assert [each.missing for each in draft.missing()] == ["vllm of trl[vllm]"]


def test_an_option_that_adds_nothing_is_not_missing(dockerfile: Import) -> None:
    draft = dockerfile("RUN pip install --only-binary :all: einops")
    assert (len(notes(draft)), draft.missing()) == (1, [])


@pytest.mark.parametrize(
    "command",
    [
        "mim install 'mmengine>=0.7'",
        "if true; then pyenv install 3.11; fi",
        "cd /x; opam install dune",
    ],
)
def test_a_program_that_installs_by_name_is_not_run(dockerfile: Import, command: str) -> None:
    draft = dockerfile(f"RUN {command}")
    assert draft.missing()
    assert "install" not in "".join(draft.script)


@pytest.mark.parametrize(
    "command", ["make install prefix=/x", "echo to install x", "ninja install x"]
)
def test_what_is_built_may_be_installed(dockerfile: Import, command: str) -> None:
    assert dockerfile(f"RUN {command}").missing() == []


def test_an_editable_folder_is_no_name_of_a_package(dockerfile: Import) -> None:
    text = "RUN pip install -e mypkg\nCOPY requirements.txt .\nRUN pip install -r requirements.txt"
    draft = dockerfile(text, **{"requirements.txt": "-e other_pkg\n--editable=third[x]\n"})
    assert not draft.python
    assert len(draft.missing()) == 3


def test_other_software_of_an_unknown_image_with_pytorch_is_missing(imported: Import) -> None:
    draft = imported("Dockerfile", "FROM acme/pytorch-train:2.1\n")
    assert "pytorch" in draft.layers
    assert "acme/pytorch-train" in draft.missing()[0].missing


def test_proxies_and_mirrors_are_the_machines(dockerfile: Import) -> None:
    text = (
        "ARG HTTP_PROXY=http://p:80\nENV https_proxy=http://p:80\n"
        "RUN sed -i 's/archive/mirror/' /etc/apt/sources.list && rm /etc/apt/sources.list.d/x.list"
    )
    draft = dockerfile(text)
    assert {outcome for _, outcome, _ in rows(draft)} == {"not needed"}


def test_a_python_of_conda_is_not_there(dockerfile: Import) -> None:
    text = (
        "RUN curl -O https://repo.example.org/Miniforge3-Linux-x86_64.sh "
        "&& bash Miniforge3-Linux-x86_64.sh -b -p /usr/local/mine\n"
        "RUN /usr/local/mine/bin/python x.py"
    )
    assert [each.missing for each in dockerfile(text).missing()] == [
        "/usr/local/mine/bin/python x.py"
    ]


@pytest.mark.parametrize(
    ("name", "of"), [("env1.yml", "folder"), ("2gpu.def", "folder"), ("gpu2.def", "gpu2")]
)
def test_a_recipe_has_a_name_that_a_layer_may_have(tmp_path: Path, name: str, of: str) -> None:
    assert name_for(tmp_path / "folder" / name) == of
