"""Forms of public files by which an image lacked something that no report named."""

import pytest

from lumicontainer.importing.draft import Draft

from .conftest import Import, rows


def missing(draft: Draft) -> list[str]:
    return [each.missing for each in draft.missing()]


def outcomes(draft: Draft) -> dict[str, str]:
    return {text: outcome for _, outcome, text in rows(draft)}


@pytest.mark.parametrize(
    "command",
    [
        "uv pip sync --system list.txt",
        "~/.local/bin/uv pip install -r list.txt",
        "./bin/micromamba install -y polars",
    ],
)
def test_an_installer_from_another_place_installs_the_same(
    dockerfile: Import, command: str
) -> None:
    copies = "COPY --from=ghcr.io/astral-sh/uv:latest /uv /usr/local/bin/uv\nCOPY list.txt ."
    draft = dockerfile(f"{copies}\nRUN {command}", **{"list.txt": "polars\n"})
    assert (list(draft.python), missing(draft)) == (["polars"], [])


@pytest.mark.parametrize(
    "command",
    ["uv tool install ruff", "uv run --with rich app", "tox -e py311", "nox", "rye x", "cpanm X"],
)
def test_a_tool_that_installs_by_itself_leaves_something_missing(
    dockerfile: Import, command: str
) -> None:
    draft = dockerfile(f"COPY --from=ghcr.io/astral-sh/uv /uv /uvx /bin/\nRUN {command}")
    assert (missing(draft), draft.script) == ([command], [])


@pytest.mark.parametrize(
    ("package", "outcome"),
    [
        ("nvidia-dali-cuda120", "not carried"),
        ("tensorrt", "not carried"),
        ("nvidia-cublas-cu12", "not needed"),
        ("ruamel.yaml", "carried"),
        ("environment.yaml", "not carried"),
    ],
)
def test_a_package_is_judged_by_its_whole_name(
    dockerfile: Import, package: str, outcome: str
) -> None:
    draft = dockerfile(f"RUN pip install {package}")
    assert outcomes(draft) == {package: outcome}
    assert missing(draft) == [package] * (outcome == "not carried")


@pytest.mark.parametrize(
    ("clone", "folder"),
    [
        ("git clone https://a.example/b/tool -b dev --depth 1", "tool"),
        ("git clone --depth=1 https://a.example/b/tool.git -j8 other", "other"),
        ("git -c a.b=c clone -b v2 git@a.example:b/tool.git", "tool"),
        ("git clone --recursive ssh://git@a.example/b/tool.git", "tool"),
    ],
)
def test_a_clone_is_lost_by_the_folder_that_git_makes(
    dockerfile: Import, clone: str, folder: str
) -> None:
    draft = dockerfile(f"RUN {clone} && make -C {folder}\nRUN cd {folder} && make")
    assert draft.script == []
    source = draft.to_pin[0]
    assert source["git"].startswith("https://a.example/b/tool")
    assert source["folder"] == folder


def test_an_archive_is_lost_where_a_pipe_unpacks_it(imported: Import) -> None:
    text = (
        "Bootstrap: docker\nFrom: debian\n%post\n"
        "    wget https://a.example/openmpi-5.0.tar.gz -O - | tar xz -C /tmp\n"
        "    cd /tmp/openmpi-5.0 && ./configure && make install\n"
        "    Rscript -e 'install.packages(\"x\")'\n"
    )
    draft = imported("a.def", text)
    assert "mpich" in draft.layers
    assert draft.script == []
    # What only runs in the folder of what a layer has is still wanted.
    assert missing(draft) == ["Rscript -e 'install.packages(\"x\")'"]


def test_a_program_that_calls_pip_leaves_something_missing(dockerfile: Import) -> None:
    call = 'import subprocess; subprocess.run(["pip", "install", "rich"])'
    draft = dockerfile(f"RUN python3 - <<END\n{call}\nEND")
    assert (len(missing(draft)), draft.script) == (1, [])


def test_a_variable_may_be_exported_behind_its_value(imported: Import) -> None:
    text = "Bootstrap: docker\nFrom: debian\n%environment\n    A=b; export A\n    C=d; export E\n"
    draft = imported("a.def", text)
    assert draft.environment == {"A": "b"}
    assert missing(draft) == ["C=d; export E"]


def test_the_packages_of_a_notebook_image_are_missing(imported: Import) -> None:
    draft = imported("Dockerfile", "FROM quay.io/jupyter/pytorch-notebook:latest\n")
    image = "what the base image quay.io/jupyter/pytorch-notebook:latest has"
    assert missing(draft) == [image]


@pytest.mark.parametrize(
    "value",
    [
        "/opt/a:$LD_LIBRARY_PATH",
        "${LD_LIBRARY_PATH}:/opt/a",
        "/opt/a${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",
        "/opt/a:${LD_LIBRARY_PATH:-}",
    ],
)
@pytest.mark.parametrize("form", ["Dockerfile", "a.def"])
def test_folders_are_put_before_those_that_a_variable_has(
    imported: Import, form: str, value: str
) -> None:
    heads = {"Dockerfile": "FROM debian\nENV ", "a.def": "Bootstrap: docker\nFrom: debian\n"}
    export = "" if form == "Dockerfile" else "%environment\nexport "
    draft = imported(form, f"{heads[form]}{export}LD_LIBRARY_PATH={value}\n")
    assert (draft.prepend, draft.environment) == ({"LD_LIBRARY_PATH": ["/opt/a"]}, {})
    assert missing(draft) == []


def test_folders_of_later_lines_come_first(dockerfile: Import) -> None:
    draft = dockerfile("ENV A_PATH=/a:$A_PATH\nENV A_PATH=/b:$A_PATH")
    assert draft.prepend == {"A_PATH": ["/b", "/a"]}


@pytest.mark.parametrize("text", ["A=$PATH", "A=$CONDA_PREFIX/x", "A_PATH=$NONE/lib:$A_PATH"])
def test_a_variable_of_the_base_image_has_no_known_value(dockerfile: Import, text: str) -> None:
    draft = dockerfile(f"ENV {text}")
    assert (draft.environment, draft.prepend, missing(draft)) == ({}, {}, [text])


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ('ENTRYPOINT ["conda", "run", "-n", "prod", "python", "x.py"]', "python x.py"),
        ('ENTRYPOINT ["/usr/bin/tini", "-g", "--", "python"]', "python"),
        ('ENTRYPOINT ["/opt/nvidia/nvidia_entrypoint.sh"]\nCMD ["python", "x.py"]', "python x.py"),
        ('ENTRYPOINT ["python"]\nCMD ["x.py"]', "python x.py"),
        ("CMD exec python x.py", "python x.py"),
        ("CMD cd /app && python x.py", "bash -c 'cd /app && python x.py'"),
        ("CMD exec python x.py --port $PORT", "bash -c 'exec python x.py --port $PORT'"),
        ('CMD ["uv", "run", "x.py"]', "python x.py"),
    ],
)
def test_a_start_can_be_pasted(dockerfile: Import, text: str, command: str) -> None:
    assert dockerfile(text).lines[-1].note == f"lumicontainer run mine.sif -- {command}"


def test_a_runscript_of_several_commands_is_no_start(imported: Import) -> None:
    text = 'Bootstrap: docker\nFrom: debian\n%runscript\n  cd /opt/a\n  exec python x.py "$@"\n'
    draft = imported("a.def", text)
    assert missing(draft) == ["%runscript"]


@pytest.mark.parametrize(
    ("added", "used"),
    [
        ("ADD https://a.example/b.git#v1 /opt/b", "/opt/b/run.sh"),
        ("ADD https://a.example/c.tar.gz /opt/c/", "ls /opt/c"),
        ("ADD model.tar.gz /opt/d/", "test -e /opt/d/x"),
    ],
)
def test_what_is_not_added_is_not_used(dockerfile: Import, added: str, used: str) -> None:
    draft = dockerfile(f"{added}\nRUN {used}")
    assert {*outcomes(draft).values()} == {"not carried"}


def test_a_checksum_of_a_download_pins_it(dockerfile: Import) -> None:
    draft = dockerfile(f"ADD --checksum=sha256:{'a' * 64} https://a.example/c.bin /opt/c.bin")
    assert draft.to_pin == [{"url": "https://a.example/c.bin", "file": "c.bin", "sha256": "a" * 64}]


@pytest.mark.parametrize(
    ("image", "layer"),
    [
        ("nvcr.io/nvidia/pytorch:24.06-py3", "pytorch"),
        ("huggingface/transformers-pytorch-gpu", "pytorch"),
        ("huggingface/transformers-pytorch-deepspeed-latest-gpu", "deepspeed"),
    ],
)
def test_a_base_with_many_packages_is_not_replaced_by_one(
    imported: Import, image: str, layer: str
) -> None:
    draft = imported("Dockerfile", f"FROM {image}\n")
    assert layer in draft.layers
    assert [each.partition(", such")[0] for each in missing(draft)] == ["other packages"]


@pytest.mark.parametrize(
    "file", ["$SINGULARITY_ENVIRONMENT", "/environment", '"/.singularity.d/env/91-own.sh"']
)
def test_a_variable_for_the_engine_is_one_of_the_layer(imported: Import, file: str) -> None:
    head = "Bootstrap: docker\nFrom: debian\n%post\n"
    draft = imported("a.def", f"{head}  echo 'export A=\"b\"' >> {file}\n")
    assert (draft.environment, draft.script) == ({"A": "b"}, [])
    draft = imported("a.def", f"{head}  cat << END >> {file}\nexport A=b\nEND\n")
    assert (draft.environment, draft.script) == ({}, [])
    assert len(missing(draft)) == 1


def test_packages_of_pip_in_a_list_of_conda_lock_are_carried(imported: Import) -> None:
    wheel = "https://a.example/hydra_core-1.3.2-py3-none-any.whl#sha256=aa"
    package = "https://a.example/conda-forge/noarch/polars-1.9.0-py311_0.conda#bb"
    draft = imported("list.txt", f"@EXPLICIT\n{package}\n# pip hydra-core @ {wheel}\n")
    assert list(draft.python) == ["polars==1.9.0", "hydra-core==1.3.2"]


@pytest.mark.parametrize(
    "definition", ["inst() { pip install $1; }", "function inst { pip install $1; }"]
)
def test_a_function_that_is_not_carried_is_not_called(dockerfile: Import, definition: str) -> None:
    draft = dockerfile(f"RUN {definition}; inst polars")
    assert (missing(draft), draft.script) == ([definition], [])


def test_the_installer_of_rocm_is_the_layer(dockerfile: Import) -> None:
    draft = dockerfile("RUN amdgpu-install -y --usecase=rocm")
    assert (draft.layers, draft.script) == ({"rocm"}, [])


def test_an_archive_may_hold_a_folder_of_a_shorter_name(dockerfile: Import) -> None:
    name = "julia-1.10.2-linux-x86_64.tar.gz"
    draft = dockerfile(
        f"RUN curl -LO https://a.example/{name} && tar -xzf {name} -C /opt\n"
        "RUN ln -s /opt/julia-1.10.2/bin/julia /usr/local/bin/julia"
    )
    assert (missing(draft), draft.script) == ([f"https://a.example/{name}"], [])


def test_a_requirement_is_carried_without_options_of_its_build(imported: Import) -> None:
    text = 'PyYAML==6.0.1 --config-settings="--global-option=--without-libyaml"\n'
    draft = imported("requirements.txt", text)
    assert (list(draft.python), missing(draft)) == (["PyYAML==6.0.1"], [])


@pytest.mark.parametrize(
    "unpack",
    [
        "archive/refs/tags/v1.2.tar.gz | tar xz && make -C tool-1.2",
        "archive/v1.2.tar.gz -o t.tgz && tar xf t.tgz && cd tool-1.2 && make",
        "archive/main.tar.gz | tar xz -C /opt && make -C /opt/tool-main",
    ],
)
def test_an_archive_of_github_holds_a_folder_of_the_repository(
    dockerfile: Import, unpack: str
) -> None:
    draft = dockerfile(f"RUN curl -fL https://github.com/a/tool/{unpack} install")
    assert (len(missing(draft)), draft.script) == (1, [])


def test_what_sets_openmpi_is_not_needed(dockerfile: Import) -> None:
    draft = dockerfile("ENV OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_MCA_btl_tcp_if_include=eth0")
    assert (draft.environment, missing(draft)) == ({}, [])


@pytest.mark.parametrize("build", ["mpi*", "*mpi_mpich*", "mpi_openmpi_py311"])
def test_a_build_for_mpi_is_no_package_of_pypi(imported: Import, build: str) -> None:
    draft = imported("environment.yml", f"dependencies: ['h5py>=3.9={build}', 'hdf5=*={build}']\n")
    assert [*draft.python, *draft.apt] == []
    assert len(draft.missing()) == 2


def test_a_build_without_mpi_is_taken_from_pypi(imported: Import) -> None:
    draft = imported("environment.yml", "dependencies: ['h5py=3.9=nompi_py311h1']\n")
    assert [*draft.python] == ["h5py==3.9"]


def test_a_package_that_is_to_be_compiled_is_missing(dockerfile: Import) -> None:
    draft = dockerfile("RUN HDF5_MPI=ON CC=mpicc pip install --no-binary=h5py h5py==3.11.0")
    assert missing(draft) == ["--no-binary h5py"]
    assert not dockerfile("RUN MPICC=mpicc pip install --no-binary=mpi4py mpi4py").missing()


@pytest.mark.parametrize(
    "line",
    [
        "RUN pip install -c /opt/limits.txt numpy",
        "RUN PIP_CONSTRAINT=/opt/limits.txt pip install numpy",
        "ENV PIP_CONSTRAINT=/opt/limits.txt",
    ],
)
def test_limits_of_versions_are_missing(dockerfile: Import, line: str) -> None:
    assert any("/opt/limits.txt" in each for each in missing(dockerfile(line)))
    assert not dockerfile("ENV PIP_CONSTRAINT=").missing()


def test_files_of_interactive_shells_set_no_variables_of_an_image(dockerfile: Import) -> None:
    draft = dockerfile("RUN echo 'export PATH=/opt/tools/bin:$PATH' >> ~/.bashrc")
    assert len(draft.missing()) == 1
    text = "RUN conda init bash && echo 'conda activate train' >>/root/.bashrc"
    draft = dockerfile(text)
    assert not draft.missing() and "bashrc" not in "".join(draft.script)


def test_a_command_among_requirements_is_called_one(imported: Import) -> None:
    draft = imported("requirements.txt", "pip install torch\nconda install numpy\n")
    assert {each.note.partition(";")[0] for each in draft.lines} == {"it is a command"}
