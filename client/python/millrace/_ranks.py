"""This process's rank and the number of ranks, as launchers and torch tell them."""

from __future__ import annotations

import os
import sys
from typing import Any

from millrace._values import shown
from millrace.errors import ArgumentError, InvalidArgumentError


def of_torch() -> tuple[int, int] | None:
    """Of torch.distributed, when the program has initialised it."""
    # Only a torch that the program has imported: a loader does not import it to ask.
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return int(distributed.get_rank()), int(distributed.get_world_size())


def _of_environment() -> tuple[int, int] | None:
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if not rank and not world_size:  # not set, or empty
        return None
    if not rank or not world_size:
        raise InvalidArgumentError(
            "only one of the environment variables RANK and WORLD_SIZE is set; set both as torchrun "
            "does, or give rank= and world_size=")
    try:
        return int(rank), int(world_size)
    except ValueError:
        raise InvalidArgumentError(
            f"the environment variables RANK={rank!r} and WORLD_SIZE={world_size!r} are not two "
            "numbers; set both as torchrun does, or give rank= and world_size=") from None


def find(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """(rank, number of ranks): the arguments, else torch.distributed when the program has
    initialised it, else RANK and WORLD_SIZE of the environment, else (0, 1).

    Raises:
      InvalidArgumentError: one of the two is missing, or the rank is not below the number.
    """
    if (rank is None) != (world_size is None):
        raise InvalidArgumentError("rank= and world_size= belong together: give both or neither")
    if rank is None or world_size is None:
        rank, world_size = of_torch() or _of_environment() or (0, 1)
    if not 0 <= rank < world_size:
        raise InvalidArgumentError(
            f"rank {rank} of {world_size} ranks: ranks count from 0 to world_size - 1")
    return rank, world_size


def of_mesh(mesh: Any) -> tuple[int, int]:
    """(rank, number of ranks) along a torch DeviceMesh of one dimension.

    Raises:
      ArgumentError: no DeviceMesh of one dimension.
      InvalidArgumentError: this process is not in it.
    """
    if not all(hasattr(mesh, name) for name in ("ndim", "mesh_dim_names", "get_coordinate", "size")):
        raise ArgumentError(
            f"device_mesh={shown(mesh)}: expected the dimension of a torch DeviceMesh over which the data "
            "is split, device_mesh=mesh[\"dp\"]")
    if mesh.ndim != 1:
        raise ArgumentError(
            f"device_mesh has the dimensions {', '.join(mesh.mesh_dim_names or ()) or mesh.ndim}: "
            "give the one over which the data is split, for example device_mesh=mesh[\"dp\"]; make "
            "one of several with mesh[\"dp_replicate\", \"dp_shard\"]._flatten(), or give dp_rank= "
            "and dp_world=")
    place = mesh.get_coordinate()
    if place is None:
        raise InvalidArgumentError(
            "device_mesh does not contain this process: make the loader only in processes of the "
            "mesh")
    return int(place[0]), int(mesh.size())
