"""How long something takes, as a person says it."""


def duration(seconds: float) -> str:
    """Return seconds as a person says them: `42 s`, `3 min 05 s`, `2 h 10 min`, `3 d 4 h`.

    >>> duration(185)
    '3 min 05 s'
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
