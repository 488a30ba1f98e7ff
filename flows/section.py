"""What all sections of a job have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Section"]


class Section(BaseModel):
    """
    A section of a job: unknown keys and numbers that are not finite are refused.

    The line below a key says what it means; the reference is made from these lines.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)
