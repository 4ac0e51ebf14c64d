"""What the series of a pool share, and which of them may change their behaviour."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.modeling.evidence import newest, noise
from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.change_points import ChangePrior, KnownSegments
from insitu.modeling.evidence.point_fits import PointFits
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import Function

LEAST_SHARE = 0.85  # of a least noise: levels are a factor of 1.5 apart
SMALLEST_PROBABILITY = 1e-12  # of a level that is possible


@dataclass(frozen=True, slots=True)
class Pool:
    """Series m that share what is learnt about noise and changes.

    members: (m,), their indices. levels: (L,), the noise levels worth computing. noise: (m, L),
    probability of each level, by the magnitude of the series. change_prior: how often they change.
    are_counts: whether they are visits, bytes or other whole numbers. newest_prior: how often their
    newest point leaves the law of the others. fits, segments: of a small pool, whose members were
    all learnt from, by position.
    """

    members: IntArray
    levels: FloatArray
    noise: FloatArray
    change_prior: ChangePrior
    are_counts: bool
    newest_prior: float = newest.OFF_PRIOR
    fits: PointFits | None = None
    segments: KnownSegments | None = None

    def select(self, positions: slice | IntArray) -> "Pool":
        """Return some of the members, numbered from 0."""
        selected = self.noise[positions]
        chosen = np.arange(len(self.noise))[positions]
        return replace(
            self,
            members=np.arange(len(selected)),
            noise=selected,
            fits=self.fits and self.fits.select(chosen),
            segments=self.segments and self.segments.select(chosen),
        )

    def forget_noise(self, positions: IntArray) -> "Pool":
        """Return a pool some of whose members (k,) are no independent evidence of their noise.

        Their distribution is that before any data; all levels of measured values stay.
        """
        of_all = np.zeros((len(self.members), len(noise.LEVELS)))
        of_all[:, np.searchsorted(noise.LEVELS, self.levels)] = self.noise
        of_all[positions] = noise.noise_prior(noise.LEVELS)
        return replace(self, levels=noise.LEVELS, noise=of_all, fits=None, segments=None)

    def with_least_noise(self, least: FloatArray) -> "Pool":
        """Return a pool whose members have at least this noise (m,), at the levels that are left.

        The highest level always stays.
        """
        is_possible = self.levels >= LEAST_SHARE * least[:, None]
        is_possible[:, -1] = True
        possible = np.where(is_possible, np.maximum(self.noise, SMALLEST_PROBABILITY), 0.0)
        return replace(self, noise=possible / possible.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class Suspects:
    """Series that may change: indices (k,) and the probability of their noise levels (k, L)."""

    rows: IntArray
    noise: FloatArray


def join_suspects(chunks: Sequence[Suspects]) -> Suspects:
    """Return the suspects of all chunks, numbered alike."""
    return Suspects(
        rows=np.concatenate([chunk.rows for chunk in chunks]),
        noise=np.concatenate([chunk.noise for chunk in chunks]),
    )


def no_answer(parameters: tuple[str, ...]) -> Answer:
    """Return the answer for a series without any measurement: the constant NaN."""
    return Answer((Function(parameters, np.nan),), (None,), np.nan, 1)
