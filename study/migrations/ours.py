"""Which things in a shared database belong to this schema: Optuna's tables do not."""

from study.schema import Base


def ours(name: str | None, kind: str, parents: object) -> bool:  # noqa: ARG001
    """Tell whether Alembic may compare or change it; the signature is Alembic's."""
    return kind != "table" or name in Base.metadata.tables
