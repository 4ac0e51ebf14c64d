"""Any well-formed message, for hypothesis."""

from hypothesis import strategies as st

from insitu.wire import messages as m

INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
COUNTS = st.integers(0, (1 << 63) - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def hellos(draw):
    size = draw(st.integers(1, m.MAX_RANKS))
    names = draw(st.lists(NAMES.filter(bool), max_size=4, unique=True))
    return m.Hello(
        schema=draw(INTEGERS),
        run=draw(st.text("0123456789abcdef", min_size=32, max_size=32)),
        token=draw(NAMES),
        node=draw(NAMES),
        incarnation=draw(COUNTS),
        size=size,
        ranks=tuple(draw(st.lists(st.integers(0, size - 1), max_size=5))),
        started_ns=draw(COUNTS),
        configuration=draw(NAMES),
        columns=tuple(
            m.Column(
                name,
                draw(NAMES),
                draw(st.sampled_from(["total", "level", "place"])),
                draw(st.sampled_from(["u8", "f8"])),
            )
            for name in names
        ),
        is_relay=draw(st.booleans()),
    )


@st.composite
def paths(draw):
    count = draw(st.integers(0, 4))
    words = st.binary(min_size=4 * count, max_size=4 * count)
    texts = st.lists(NAMES, min_size=count, max_size=count).map(tuple)
    first = draw(st.integers(0, m.MAX_ROWS - count))
    return m.Paths(first, draw(words), draw(texts), draw(texts), draw(words))


@st.composite
def groups(draw):
    size, rows = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    columns = draw(st.lists(st.integers(0, m.MAX_METRICS - 1), max_size=3, unique=True))

    def binary(length):
        return draw(st.binary(min_size=length, max_size=length))

    return m.Group(
        binary(4 * size),
        binary(4 * rows),
        binary(8 * size),
        tuple(columns),
        tuple(binary(8 * size * rows) for _ in columns),
    )


@st.composite
def sketches(draw):
    def buckets(column):
        count = draw(st.integers(0, 3))
        sizes = (count * size for size in m.BUCKET_BYTES.values())
        return m.Buckets(column, *(draw(st.binary(min_size=size, max_size=size)) for size in sizes))

    columns = draw(st.lists(st.integers(0, m.MAX_METRICS - 1), max_size=3, unique=True))
    ranks = draw(st.integers(0, m.MAX_RANKS))
    return m.Sketches(
        draw(INTEGERS),
        draw(INTEGERS),
        ranks,
        draw(st.integers(0, ranks)),
        tuple(buckets(column) for column in columns),
    )


@st.composite
def collectives(draw):
    count = draw(st.integers(0, 3))
    sizes = {name: count * size for name, size in m.COLLECTIVES_BYTES.items()}
    columns = {name: draw(st.binary(min_size=size, max_size=size)) for name, size in sizes.items()}
    trips = draw(st.integers(0, 2)) * m.TRIP_BYTES
    started = {name: bytes(count * size) for name, size in m.STARTED_BYTES.items()}
    return m.Collectives(
        **columns,
        is_steady=draw(st.booleans()),
        listener=draw(NAMES),
        trips=draw(st.binary(min_size=trips, max_size=trips)),
        **{name: column for name, column in started.items() if draw(st.booleans())},
    )


@st.composite
def point_to_point(draw):
    count = draw(st.integers(0, 3))
    sizes = {name: count * size for name, size in m.MESSAGES_BYTES.items()}
    return m.PointToPoint(
        **{name: draw(st.binary(min_size=size, max_size=size)) for name, size in sizes.items()}
    )


@st.composite
def intervals(draw):
    def columns(sizes):
        count = draw(st.integers(0, 3))
        lengths = {name: count * size for name, size in sizes.items()}
        return {name: draw(st.binary(min_size=n, max_size=n)) for name, n in lengths.items()}

    return m.Intervals(
        **columns(m.INTERVALS_BYTES),
        **columns(m.PROFILE_BYTES),
        **columns({"mpi_rows": 4}),
        threshold_ns=draw(COUNTS),
        is_sampled=draw(st.booleans()),
    )


ENDS = st.builds(m.RankEnd, INTEGERS, INTEGERS, st.booleans())
MESSAGES = st.one_of(
    hellos(),
    paths(),
    st.builds(m.Digest, st.integers(1, m.MAX_ROWS), st.binary(min_size=16, max_size=16)),
    st.builds(m.Totals, INTEGERS, INTEGERS, st.lists(groups(), max_size=3).map(tuple)),
    sketches(),
    st.builds(
        m.Bye,
        INTEGERS,
        st.lists(ENDS, max_size=3).map(tuple),
        INTEGERS,
        NAMES,
        st.lists(st.tuples(NAMES, NAMES, NAMES), max_size=2).map(tuple),
        collectives(),
        point_to_point(),
        intervals(),
    ),
    st.builds(m.Welcome, NAMES, INTEGERS, INTEGERS, INTEGERS),
    st.builds(m.Ack, NAMES, INTEGERS, INTEGERS, st.booleans(), INTEGERS, INTEGERS),
    st.builds(m.Reject, INTEGERS, NAMES),
    st.builds(m.Halt, NAMES),
)
