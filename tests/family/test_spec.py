"""Specs of families: folders whose names contain the separators, long names, several families."""

import pytest
from conftest import finished, tiny

import lookahead
from lookahead import ModelError
from lookahead.family.sources import locations
from lookahead.family.spec import families, members


@pytest.fixture
def folders(tmp_path, monkeypatch):
    for name in ("c++/target", "c++/draft", "a,b/target", "a, b", "x"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_may_contain_the_separators(folders):
    assert members("c++/target") == ["c++/target"]
    assert members("c++/target+c++/draft") == ["c++/target", "c++/draft"]
    assert members(" c++/target + x + org/name") == ["c++/target", "x", "org/name"]
    assert families("pocket,c++/target+x") == ["pocket", "c++/target+x"]
    assert families("a,b/target,pocket") == ["a,b/target", "pocket"]
    assert families("a,b/target+c++/draft, a, b") == ["a,b/target+c++/draft", "a, b"]
    assert families("pocket,smol,pocket") == ["pocket", "smol"]
    assert list(locations("c++/target+c++/draft").values()) == ["c++/target", "c++/draft"]


def test_a_spec_is_split_unless_it_names_a_folder(folders):
    assert members("org/a+org/b") == ["org/a", "org/b"]
    assert members("a++b") == ["a", "", "b"]
    assert families("p,b") == ["p", "b"]


BAD = ["n" * 5000, "n" * 5000 + "/x", "a\0b", "++", "+x", "", " ", "x,", "./", "..", None, 5, ["pocket"]]


@pytest.mark.parametrize("spec", BAD, ids=lambda spec: repr(spec)[:9])
def test_bad_names_are_refused(folders, spec):
    with pytest.raises(ModelError):
        lookahead.load(spec)


@pytest.mark.models
def test_a_family_with_long_names_can_race(tmp_path):
    folder = tmp_path / ("long" * 40) / ("name" * 40)
    folder.mkdir(parents=True)
    models = lookahead.load(tiny("llama", folder), dtype="float32")
    assert len(models.spec) > 300
    trace = finished(lookahead.race(models, "Once", ["naive", "ngram"], max_new_tokens=4))
    assert lookahead.Trace.from_json(trace.to_json()).models.spec == models.spec
