"""Claims: the probability that the leading term of an answer is right.

The posterior chooses and predicts. The probability of its choice depends on the prior of the
constant beside a term more than on anything else: with few points, a power alone and a constant
beside another power fit equally well. So a claim is the posterior under the mean of two priors, and
must be probable under both to be probable.
"""

import numpy as np

from insitu.modeling.evidence.hypothesis_space import CONSTANT_PRIOR, ONE_TERM_PRIOR
from insitu.modeling.evidence.marginal import LOG_RANGE, VISIBLE, invisible_prior
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.evidence.normal_equations import UNSEEN_TERM_SHARE
from insitu.modeling.measurement import FloatArray

SHARE_THAT_MATTERS = 0.02  # of the largest value; a smaller term does not make a constant wrong
SMALLEST_LEVEL = 1e-300  # of noise, where its logarithm is taken


def probability_of_constant(agreement: FloatArray, sigma: FloatArray) -> FloatArray:
    """Return the probability that a series answered with a constant has no term that matters.

    The posterior of a constant contains terms that are too small to be visible, because the prior
    of a share reaches down to MIN_SHARE: it is the probability that no term is visible. Here the
    prior of a share is log-uniform between SHARE_THAT_MATTERS and 1.

    Args:
        agreement: posterior of the constant. sigma: noise of one measurement, of the same shape.
    """
    with_unseen = CONSTANT_PRIOR + UNSEEN_TERM_SHARE * ONE_TERM_PRIOR * invisible_prior(sigma)
    log_range = -np.log(SHARE_THAT_MATTERS)
    unseen_share = (np.log(np.maximum(VISIBLE * sigma, SMALLEST_LEVEL)) + log_range) / log_range
    unseen = ONE_TERM_PRIOR * np.clip(unseen_share, 0.0, 1.0)

    constant = agreement * CONSTANT_PRIOR / with_unseen
    hidden = agreement * unseen / with_unseen
    visible = (1 - agreement) * LOG_RANGE / log_range
    return np.asarray(constant / np.maximum(constant + hidden + visible, SMALLEST_LEVEL))


def weigh_constants_evenly(
    weights: FloatArray, constant_shares: FloatArray, grows: BoolArray, sigma: FloatArray
) -> FloatArray:
    """Return the posterior under the mean of two priors of the constant beside growing terms.

    Fits and evidence assume the first: its largest share s of a value is log-uniform, so that a
    constant is invisible in about every other function. Under the second, s is uniform between 0
    and 1, which its density exceeds by s · LOG_RANGE, and hardly any constant is invisible. Neither
    is known. The evidence is the mean of both, and so is the posterior, in proportion.

    Args:
        weights: (s, k), posterior under the first prior. constant_shares: (s, k), the largest share
            of the constant of each hypothesis in a value, 0 where it has none.
        grows: (s, k), whether the hypothesis has a term. sigma: (s,), noise.
    """
    visible = (1 + LOG_RANGE * np.clip(constant_shares, 0.0, 1.0)) / 2
    invisible = (1 + VISIBLE * sigma / invisible_prior(sigma)) / 2
    factor = np.where(constant_shares > 0, visible, invisible[:, None])

    revised = weights * np.where(grows, factor, 1.0)
    total = revised.sum(axis=1, keepdims=True)
    return np.asarray(revised / np.maximum(total, SMALLEST_LEVEL))
