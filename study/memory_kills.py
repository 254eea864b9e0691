"""How often the kernel has killed a process here because memory ran out.

A killed process cannot say why it died; a counter that has risen meanwhile does.
"""

from pathlib import Path

COUNTERS = (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat"))
"""Of a container, which sees its own kills only, and of the machine: the first that exists."""


def memory_kills(counters: tuple[Path, ...] = COUNTERS) -> int:
    """Return the count so far; 0 on a system that does not count."""
    for path in counters:
        try:
            lines = path.read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0
