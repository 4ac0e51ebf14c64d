"""Models as the compressed bytes in the column `body` of campaign.db.

Since format 6, a body is BODY_6, a byte that is 1 where a class has the law of the mean, compressed
MessagePack, and the numbers of the spreads, see `_pack_spread`. Format 5 has BODY_5, the same byte,
and everything as compressed MessagePack. Formats 3 and 4 have compressed JSON, which begins with
0x78; earlier ones have text.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import msgpack
import numpy as np

from insitu.modeling.base import MEAN_LAW, Model
from insitu.modeling.local_laws import LocalLaws
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.spread import Spread

MAX_BODY_BYTES = 1 << 24  # of one model, uncompressed; the largest that was seen has 20 kB
BODY_5, BODY_6 = 5, 6  # the first byte
PACKED_BYTES = 2  # of a number, those with its sign and exponent: the others are as good as random
BODY_LEVEL = 1  # of zlib; level 6 saves 6 % of the bytes and takes a sixth more time

# Where a model differs from this text, it is compressed. Part of formats 3 and 4: never change it.
DICTIONARY_3 = (
    b'"factors":[{"parameter":"n","exponent":"1/2","log":"1"}{"parameter":"p","exponent":"0",'
    b'"log":"0"}]}]}}],"exponential":"0.0,0.0,0.0,1.0,0.0,0.0,0.5,0.0,0.3333333333333333,'
    b"0.6666666666666666,1.3333333333333333,0.25,0.75,1.25,1.5,2.0,1.0,0.0,0.0,0.0],"
    b'"tails":[[0.0,0.0,0.0,0.0,0.0],[0.0,0.0,0.0,0.0,0.0]],"findings":[["not-modelled",'
    b'{"parameters":["p"],"modeler":"evidence","segments":[{"lower":null,"upper":null,"function":'
    b'{"parameters":["p"],"constant":0.0,"terms":[{"coefficient":1.0,"factors":[{"parameter":"p",'
    b'"exponent":"1","log":"0"}]}]}}],"quality":{"smape":0.0,"adjusted_r2":null,"rss":0.0},'
    b'"coordinates":[[2.0],[4.0],[8.0],[16.0],[32.0],[64.0],[128.0],[256.0],[512.0],[1024.0]],'
    b'"values":[0.0,1.0],"change_points":[],"spreads":[{"shape":[6,2,1,3],"exponents":[0.0,0.0,'
    b'0.0,0.0,0.0,0.0],"coefficients":[[0.0,0.0,0.0],[0.0,0.0]],"covariances":[[[0.0,0.0,0.0],'
    b"[0.0,0.0,0.0],[0.0,0.0,0.0]],[[0.0,0.0,0.0],[0.0,0.0,0.0],[0.0,0.0,0.0]]],"
    b'"weights":[0.9999,0.00001],"sigma":1e-06,"degrees":200.0}],"probability":0.9999,'
    b'"change_probabilities":[],"findings":[]}'
)


def _typical_body() -> bytes:
    """A model that other models resemble, as MessagePack. Part of format 5: never change it."""
    factors = [{"parameter": "n", "exponent": "1/2", "log": "1", "exponential": "1"}]
    factors.append({"parameter": "p", "exponent": "1", "log": "0"})
    exponents = [0.0] * 12 + [1 / 3, 0.0, 0.0, 2 / 3, 0.0, 0.0, 0.25, 0.75, 1.25, 1.5, 2.0]
    exponents += [0.5, 1.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    matrix = [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    spread = {
        "local": {"start": 0.0, "weights": [], "levels": [], "slopes": [], "decays": []},
        "tails": [[0.0] * 5],
        "is_led": True,
        "shape": [6, 2, 1, 3],
        "exponents": exponents,
        "coefficients": [[0.0, 1.0, 0.0]] * 2,
        "covariances": [matrix] * 2,
        "weights": [1.0, 0.0],
        "sigma": 0.0,
        "degrees": None,
        "drift": 0.0,
    }
    function = {
        "parameters": ["p"],
        "constant": 0.0,
        "terms": [{"coefficient": 1.0, "factors": factors}],
    }
    typical = {
        "findings": [["growth-uncertain", "the leading term has a probability of only ", ""]],
        "parameters": ["p"],
        "modeler": "evidence",
        "segments": [{"lower": None, "upper": None, "function": function}],
        "quality": {"smape": 0.0, "adjusted_r2": None, "rss": 0.0},
        "coordinates": [[2.0**exponent] for exponent in range(1, 11)],
        "values": [0.0, 1.0],
        "change_points": [],
        "spreads": [spread],
        "probability": 0.0,
        "change_probabilities": [],
        "back_tests": [[1024.0, 0.0, 0.0]],
    }
    return bytes(msgpack.packb(typical))


DICTIONARY_5 = _typical_body()


def _typical_structure() -> bytes:
    """What the compressed part of bodies resembles. Part of format 6: never change it."""
    factors = [{"parameter": "n", "exponent": "1/2", "log": "1", "exponential": "1"}]
    factors.append({"parameter": "p", "exponent": "1", "log": "0"})
    function = {
        "parameters": ["p"],
        "constant": 0.0,
        "terms": [{"coefficient": 1.0, "factors": factors}],
    }
    exponents = [[0.0, 1.0, 0.0], [0.5, 0.0, 0.0], [0.5, 1.0, 0.0], [1.0, 1.0, 0.0]]
    exponents += [[alpha, 0.0, 0.0] for alpha in (-1.0, 0.25, 0.75, 1.25, 1.5, 4 / 3, 5 / 3)]
    exponents += [[alpha, 0.0, 0.0] for alpha in (7 / 3, 2.5, 8 / 3, 3.0, 2.0, 2 / 3, 1 / 3, 0, 1)]
    spread = {
        "tails": 5,
        "local": [1024.0, 2],
        "is_led": True,
        "shape": [6, 2, 1, 3],
        "exponents": np.array(exponents, dtype="<f8").tobytes(),
        "is_symmetric": True,
        "present": b"\xaa\xaa",
        "sigma": 0.0,
        "degrees": None,
        "drift": 0.0,
    }
    uncertain = (
        "the leading term has a probability of only 25%; "
        "measure a larger scale or repeat measurements"
    )
    typical = {
        "findings": [["growth-uncertain", uncertain, ""]],
        "spreads": [spread],
        "parameters": ["p"],
        "modeler": "evidence",
        "segments": [{"lower": None, "upper": None, "function": function}],
        "quality": {"smape": 0.0, "adjusted_r2": None, "rss": 0.0},
        "coordinates": [[2.0**exponent] for exponent in range(1, 11)],
        "values": [0.0, 1.0],
        "change_points": [],
        "probability": 0.0,
        "change_probabilities": [],
        "back_tests": [[1024.0, 0.0, 0.0]],
    }
    return bytes(msgpack.packb(typical))


DICTIONARY_6 = _typical_structure()


class StoredModel(Model):
    """A model that is unpacked when an attribute of it is first used.

    Most of the models of a large campaign are neither printed nor predicted with. A subclass,
    because everything that takes a model takes it.
    """

    __slots__ = ("body",)
    body: bytes  # not set in a copy with other values

    @classmethod
    def of_body(cls, body: bytes) -> "StoredModel":
        """Return the model of an intact body of format 5 or 6."""
        model = object.__new__(cls)
        object.__setattr__(model, "body", body)
        return model

    def __reduce__(self) -> tuple[type[Model], tuple[object, ...]]:
        """Pickle the model itself."""
        return Model, tuple(getattr(self, field) for field in Model.__slots__)

    def __getattr__(self, name: str) -> Any:  # Any: of the attribute
        """Unpack everything; Python calls this for attributes that are not set."""
        if name not in Model.__slots__:
            raise AttributeError(name)
        model = _decode(self.body)
        for field in Model.__slots__:
            object.__setattr__(self, field, getattr(model, field))
        return getattr(self, name)


def pack_body(model: Model) -> bytes:
    """Return the body of a model."""
    body = _body_of(model)
    if body is not None:
        return body
    packer = zlib.compressobj(BODY_LEVEL, zdict=DICTIONARY_6)
    head = bytes((BODY_6, _has_mean_law(model)))
    structure, numbers = _separate_numbers(model)
    return head + packer.compress(msgpack.packb(structure)) + packer.flush() + numbers


def unpack_body(body: str | bytes) -> Model:
    """Return the model from its body.

    Args:
        body: intact as far as its checksum shows; rows of the first format have none.

    Raises:
        ValueError: the bytes are damaged.
    """
    if isinstance(body, bytes) and body[:1] in (bytes((BODY_5,)), bytes((BODY_6,))):
        return StoredModel.of_body(body)
    return _decode(body)


def has_mean_law(model: Model) -> bool:
    """Whether a class has the law of the mean over all ranks; `SeriesModel` has the same."""
    body = _body_of(model)
    return _has_mean_law(model) if body is None else bool(body[1])


def _body_of(model: Model) -> bytes | None:
    """The bytes that a model was read from, None for one that was fitted or changed."""
    return getattr(model, "body", None) if isinstance(model, StoredModel) else None


def _has_mean_law(model: Model) -> bool:
    return any(finding.code == MEAN_LAW for finding in model.findings)


def _decode(body: str | bytes) -> Model:
    if isinstance(body, str):
        return Model.from_dict(json.loads(body))

    try:
        if body[:1] == bytes((BODY_6,)):
            unpacker = zlib.decompressobj(zdict=DICTIONARY_6)
            data = msgpack.unpackb(unpacker.decompress(body[2:], MAX_BODY_BYTES))
            return _join_numbers(data, unpacker.unused_data)
        if body[:1] == bytes((BODY_5,)):
            unpacker = zlib.decompressobj(zdict=DICTIONARY_5)
            data = msgpack.unpackb(unpacker.decompress(body[2:], MAX_BODY_BYTES))
        else:
            unpacker = zlib.decompressobj(zdict=DICTIONARY_3)
            data = json.loads(unpacker.decompress(body, MAX_BODY_BYTES))
    except zlib.error as error:
        raise ValueError(f"not zlib: {error}") from error
    return Model.from_dict(data)


def _separate_numbers(model: Model) -> tuple[dict[str, Any], bytes]:
    """A model as MessagePack can hold it, without most bytes of the numbers of its spreads."""
    structure = model.to_dict(has_spreads=False)
    packed = [_pack_spread(spread) for spread in model.spreads]
    structure["spreads"] = [data for data, _ in packed]
    numbers = np.concatenate([np.zeros(0), *(numbers for _, numbers in packed)], dtype="<f8")
    by_byte = numbers.view(np.uint8).reshape(-1, 8)
    structure["high bytes"] = by_byte[:, -PACKED_BYTES:].T.tobytes()
    return structure, by_byte[:, :-PACKED_BYTES].tobytes()


def _join_numbers(structure: dict[str, Any], low_bytes: bytes) -> Model:
    """The model from what `_separate_numbers` returned."""
    high = np.frombuffer(structure["high bytes"], np.uint8).reshape(PACKED_BYTES, -1).T
    low = np.frombuffer(low_bytes, np.uint8).reshape(-1, 8 - PACKED_BYTES)
    numbers = np.concatenate([low, high], axis=1).view("<f8")[:, 0]
    spreads = []
    for data in structure["spreads"]:
        spread, numbers = _unpack_spread(data, numbers)
        spreads.append(spread)
    return Model.from_dict(structure, spreads=tuple(spreads))


def _pack_spread(spread: Spread) -> tuple[dict[str, Any], FloatArray]:
    """A spread as MessagePack can hold it, and the numbers of its arrays that are not zero.

    Covariances are symmetric, so half of them suffice; `present` has a bit for each number.
    """
    covariances = spread.covariances
    is_symmetric = covariances.tobytes() == covariances.transpose(0, 2, 1).tobytes()
    if is_symmetric:
        covariances = covariances[:, *_upper(covariances.shape[1])]
    arrays = [spread.coefficients, covariances, spread.weights]
    data = spread.to_dict(has_arrays=False)
    if spread.tails is not None:
        data["tails"] = spread.tails.shape[1]
        arrays.append(spread.tails)
    local = spread.local
    if isinstance(local, LocalLaws):
        data["local"] = [local.start, len(local.weights), local.ramp]
        arrays += [local.weights, local.levels, local.slopes, local.decays]
    numbers = np.concatenate([array.ravel() for array in arrays])
    is_present = numbers.view(np.int64) != 0  # minus zero is a number, too

    data["shape"] = spread.exponents.shape
    data["exponents"] = spread.exponents.astype("<f8").tobytes()
    data["is_symmetric"] = is_symmetric
    data["present"] = np.packbits(is_present).tobytes()
    return data, numbers[is_present]


def _unpack_spread(data: Mapping[str, Any], numbers: FloatArray) -> tuple[Spread, FloatArray]:
    """The spread from what `_pack_spread` returned, and the numbers (n,) that remain."""
    n_functions, size = data["shape"][0], data["shape"][1] + 1
    upper = _upper(size)
    n_covariances = len(upper[0]) if data["is_symmetric"] else size**2
    width, local = data.get("tails", 0), data.get("local", (0.0, 0))
    trend = local if isinstance(local, dict) else None
    start, n_laws, *ramp = local if trend is None else (0.0, 0)
    ends = [0]
    for length in (size, n_covariances, 1, width):
        ends.append(ends[-1] + n_functions * length)

    bits = np.unpackbits(np.frombuffer(data["present"], np.uint8), count=ends[-1] + 4 * n_laws)
    everything = np.zeros(len(bits))
    present = bits.nonzero()[0]
    everything[present] = numbers[: len(present)]  # a ValueError where some are missing

    coefficients, covariances, weights, tails = (
        everything[begin:end].reshape(n_functions, -1) for begin, end in pairwise(ends)
    )
    if data["is_symmetric"]:
        matrices = np.empty((n_functions, size, size))
        matrices[:, *upper] = matrices[:, *upper[::-1]] = covariances
    else:
        matrices = covariances.reshape(n_functions, size, size)
    arrays = {
        "exponents": np.frombuffer(data["exponents"], "<f8").reshape(data["shape"]),
        "coefficients": coefficients,
        "covariances": matrices,
        "weights": weights[:, 0],
    }
    spread = Spread.from_dict({**data, "tails": None, "local": trend}, arrays=arrays)
    if width:
        spread = replace(spread, tails=tails)
    if n_laws:
        laws = everything[ends[-1] :].reshape(4, -1)
        spread = replace(spread, local=LocalLaws(start, *laws, *ramp))
    return spread, numbers[len(present) :]


@cache
def _upper(size: int) -> tuple[IntArray, IntArray]:
    """The indices of a symmetric matrix that suffice."""
    return np.triu_indices(size)
