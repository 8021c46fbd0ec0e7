"""places_test.py - what is built once is built again where it came from elsewhere"""

from freehold_lab.places import configure, must


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
