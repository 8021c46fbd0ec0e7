"""places_test.py - what is built once is built again where it came from elsewhere"""

import pytest

from freehold_lab import progress
from freehold_lab.places import Failed, configure, must, watch


def project(folder, text):
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(made NONE)\n"
        f"file(WRITE ${{CMAKE_BINARY_DIR}}/said {text})\n")
    return folder


def test_a_build_folder_of_another_checkout_is_begun_anew(tmp_path):
    one, other = project(tmp_path / "one", "one"), project(tmp_path / "other", "other")
    build = tmp_path / "build"
    for source in (one, one, other):
        configure(source, build, "configuring")
        assert (build / "said").read_text() == source.name
        must(["cmake", "--build", build], "building")


def test_what_a_helper_says_of_its_progress_is_shown_and_what_it_prints_is_returned(capfd,
                                                                                    monkeypatch):
    script = "echo far 1 >&2; echo far 2 >&2; seq 100000"
    assert watch(["sh", "-c", script], "counting").splitlines()[-1] == "100000"
    assert capfd.readouterr().err == "far 1\n"      # and later ones now and then
    monkeypatch.setattr(progress, "EVERY", 0)
    watch(["sh", "-c", script], "counting")
    assert capfd.readouterr().err == "far 1\nfar 2\n"


@pytest.mark.parametrize("script, told", [("echo far >&2; echo no such file >&2; exit 1",
                                           "reading: no such file"),
                                          ("exit 3", "reading: no message"),
                                          ("echo far >&2; kill -9 $$", "reading: signal 9")])
def test_what_goes_wrong_in_a_helper_is_its_last_line(script, told):
    with pytest.raises(Failed) as failed:
        watch(["sh", "-c", script], "reading")
    assert str(failed.value) == told
