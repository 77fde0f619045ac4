"""The cores that a process may use: those of the machine, or fewer in a container."""

from math import inf

import pytest

from lookahead.core import processor


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, inf),
        ({"cpu.max": "max 100000\n"}, inf),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "10000 100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, inf),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ({"cpu/cpu.cfs_quota_us": "nonsense\n", "cpu/cpu.cfs_period_us": "100000\n"}, inf),
    ],
    ids=str,
)
def test_a_container_may_have_fewer_than_its_machine(tmp_path, monkeypatch, files, cores):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    processor.container.cache_clear()
    assert processor.container(tmp_path) == cores
    processor.container.cache_clear()
    monkeypatch.setattr(processor, "CGROUP", tmp_path)
    monkeypatch.setattr(processor.os, "sched_getaffinity", lambda pid: range(3), raising=False)
    assert processor.cores() == min(3, cores)
    processor.container.cache_clear()
