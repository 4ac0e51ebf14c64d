"""Extra-P on the series of growth.py; runs in an environment of its own, in which Extra-P is.

Reads a pickle of (modeler, points, values, target) from standard input and answers one of (terms,
prediction, change points, seconds) per series on standard output; of ("predict", modeler, points,
values, targets) the predictions at all targets.
"""

import pickle
import sys
import time
import warnings

try:
    from extrap.entities.coordinate import Coordinate
    from extrap.entities.measurement import Measurement
    from extrap.modelers.multi_parameter.multi_parameter_modeler import MultiParameterModeler
    from extrap.modelers.single_parameter.basic import SingleParameterModeler
    from extrap.modelers.single_parameter.refining import RefiningModeler
    from extrap.modelers.single_parameter.segmented import SegmentedModeler
except ImportError as error:
    sys.exit(f"growth_extrap: {error}; pass a Python that has Extra-P to --extrap of the caller")

MODELERS = {
    "basic": SingleParameterModeler,
    "refining": RefiningModeler,
    "segmented": SegmentedModeler,
    "several": MultiParameterModeler,
}


def exponents(simple_terms):
    alpha = sum(t.exponent for t in simple_terms if t.term_type == "polynomial")
    beta = sum(t.exponent for t in simple_terms if t.term_type == "logarithm")
    return float(alpha), float(beta)


def described(function, target):
    """Terms with the largest at the target first, as ((parameter, alpha, beta), ...)."""
    found = []
    for term in function.compound_terms:
        if hasattr(term, "parameter_term_pairs"):
            key = tuple((i, *exponents(t.simple_terms)) for i, t in term.parameter_term_pairs)
        else:
            key = ((0, *exponents(term.simple_terms)),)
        found.append((abs(float(term.evaluate(target))), key))
    return [key for _, key in sorted(found, reverse=True)]


def predictions(name, points, values, targets):
    """What Extra-P predicts at several targets, NaN where it makes no model."""
    answers = []
    for series in values:
        measured = [
            Measurement(Coordinate(*point), None, None, value)
            for point, value in zip(points, series, strict=True)
        ]
        model = MODELERS[name]().create_model(measured)
        function = model.hypothesis.function if model else None
        places = [target[0] if len(target) == 1 else target for target in targets]
        answers.append([float(function.evaluate(p)) if function else float("nan") for p in places])
    return answers


def main():
    task = pickle.load(sys.stdin.buffer)
    warnings.filterwarnings("ignore")
    if task[0] == "predict":
        pickle.dump(predictions(*task[1:]), sys.stdout.buffer)
        return
    name, points, values, target = task
    place = target[0] if len(target) == 1 else target
    answers = []
    for series in values:
        measured = [
            Measurement(Coordinate(*point), None, None, value)
            for point, value in zip(points, series, strict=True)
        ]
        start = time.process_time()
        model = MODELERS[name]().create_model(measured)
        seconds = time.process_time() - start
        cut = getattr(model, "changing_point", None) or getattr(model, "change_point", None)
        function = model.hypothesis.function
        if hasattr(function, "segments"):
            answers.append(([], float("nan"), str(cut) or "cut", seconds))
            continue
        answers.append((described(function, place), float(function.evaluate(place)), "", seconds))
    pickle.dump(answers, sys.stdout.buffer)


if __name__ == "__main__":
    main()
