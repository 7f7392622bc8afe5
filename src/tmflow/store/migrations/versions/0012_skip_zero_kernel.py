"""Allow the kernel `skip_zero`, which writes only where the gradient is not zero."""

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput
from tmflow.store.migrations import rebuild

revision = "0012"
down_revision = "0011"

BEFORE = "kernel IN ('plain', 'eigen', 'fused')"
AFTER = "kernel IN ('plain', 'eigen', 'fused', 'skip_zero')"


def upgrade() -> None:
    _replace_check(BEFORE, AFTER)


def downgrade() -> None:
    spec = sa.table("spec", sa.column("kernel"))
    held = sa.select(sa.func.count()).select_from(spec).where(spec.c.kernel == "skip_zero")
    if op.get_bind().execute(held).scalar_one():
        raise BadInput("revision 0011 cannot hold the kernel skip_zero, which some specs here have.")
    _replace_check(AFTER, BEFORE)


def _replace_check(before: str, after: str) -> None:
    if op.get_context().dialect.name == "sqlite":
        rebuild("spec", [(before, after)])
        return
    name = op.f("ck_spec_kernel_valid")
    op.drop_constraint(name, "spec")
    op.create_check_constraint(name, "spec", after)
