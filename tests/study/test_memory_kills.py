"""The kernel's counters of processes killed for memory."""

from study.memory_kills import memory_kills


def test_the_first_counter_that_exists_is_read(tmp_path):
    container, machine = tmp_path / "memory.events", tmp_path / "vmstat"
    machine.write_text("nr_free_pages 5\noom_kill 7\n", encoding="ascii")
    assert memory_kills((container, machine)) == 7
    container.write_text("oom 4\noom_kill 2\noom_group_kill 0\n", encoding="ascii")
    assert memory_kills((container, machine)) == 2


def test_a_system_that_does_not_count_has_none(tmp_path):
    assert memory_kills((tmp_path / "nothing",)) == 0
