"""The output of a node that decides where the run goes."""

from enum import Enum
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

K = TypeVar("K", bound=Enum)


class Route(BaseModel, Generic[K]):
    """A decision between the members of one enum, for `wf.route`.

    Subclass `Route[Next]` to carry more fields beside the decision.

    Attributes:
        route: the member whose case is taken.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    route: K
