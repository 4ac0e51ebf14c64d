"""How large a value of a parameter may be so that a further run does not take far too long."""

import math

from insitu.modeling.measurement import FloatArray

TOO_LONG = 1000.0  # times as long as the largest run; a fifth power over 4 times the value is about
LONGER = 10.0  # times as long, of the run that takes the place of one that is too long


def limit_to_affordable(x: FloatArray, seconds: FloatArray, wanted: float) -> float:
    """Return `wanted`, or a smaller value beyond the measured ones if its run takes far too long.

    Times continue to grow with the power that they have between the last two values. Times that
    grow by themselves ever faster, as 2^n does, do so between few whole values already.

    Args:
        x: (n,), measured values of the parameter, ascending.
        seconds: (n,), the run times.
        wanted: larger than all of x.

    Returns:
        A whole number where all of x are.
    """
    if len(x) < 2 or x[-2] <= 0 or not (seconds[-1] > seconds[-2] > 0):
        return wanted
    power = math.log(seconds[-1] / seconds[-2]) / math.log(x[-1] / x[-2])
    if power * math.log(wanted / x[-1]) <= math.log(TOO_LONG):
        return wanted
    affordable = float(x[-1]) * math.pow(LONGER, 1.0 / power)
    if all(value.is_integer() for value in x.tolist()):
        return float(max(math.floor(affordable), int(x[-1]) + 1))
    return affordable
