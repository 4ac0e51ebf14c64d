"""Models as the compressed bytes in the column `body` of campaign.db.

Since format 5, a body is BODY_5, a byte that is 1 where a class has the law of the mean, and
compressed MessagePack. Formats 3 and 4 have compressed JSON, which begins with 0x78; earlier ones
have text.
"""

import json
import zlib
from typing import Any

import msgpack

from insitu.modeling.base import MEAN_LAW, Model

MAX_BODY_BYTES = 1 << 24  # of one model, uncompressed; the largest that was seen has 20 kB
BODY_5 = 5  # the first byte
BODY_LEVEL = 1  # of zlib; level 6 saves 7 % of the bytes and takes half as much time again

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


class StoredModel(Model):
    """A model that is unpacked when an attribute of it is first used.

    Most of the models of a large campaign are neither printed nor predicted with. A subclass,
    because everything that takes a model takes it.
    """

    __slots__ = ("body",)
    body: bytes  # not set in a copy with other values

    @classmethod
    def of_body(cls, body: bytes) -> "StoredModel":
        """Return the model of an intact body of format 5."""
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
    packer = zlib.compressobj(BODY_LEVEL, zdict=DICTIONARY_5)
    head = bytes((BODY_5, _has_mean_law(model)))
    return head + packer.compress(msgpack.packb(model.to_dict())) + packer.flush()


def unpack_body(body: str | bytes) -> Model:
    """Return the model from its body.

    Args:
        body: intact as far as its checksum shows; rows of the first format have none.

    Raises:
        ValueError: the bytes are damaged.
    """
    if isinstance(body, bytes) and body[:1] == bytes((BODY_5,)):
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
        if body[:1] == bytes((BODY_5,)):
            unpacker = zlib.decompressobj(zdict=DICTIONARY_5)
            data = msgpack.unpackb(unpacker.decompress(body[2:], MAX_BODY_BYTES))
        else:
            unpacker = zlib.decompressobj(zdict=DICTIONARY_3)
            data = json.loads(unpacker.decompress(body, MAX_BODY_BYTES))
    except zlib.error as error:
        raise ValueError(f"not zlib: {error}") from error
    return Model.from_dict(data)
