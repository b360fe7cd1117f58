"""The HTML reports of `capacity model`, `plan` and `measure`: plots and their data as tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rlctl.capacity.layout.listpack import Form
from rlctl.capacity.measure.fleet import FleetMeasurement
from rlctl.capacity.models import claimed_bytes
from rlctl.capacity.plan import CapacityPlan, ShardMemory
from rlctl.capacity.predict import predict
from rlctl.capacity.published import Published
from rlctl.capacity.request import Algorithm, MemoryRequest
from rlctl.capacity.server_memory import growth_rate
from rlctl.files.mistakes import printable
from rlctl.reports.drawing import INK, LINE, SERIES, Drawing, drawing, size_words
from rlctl.reports.page import Chapter, Table, page

_LOGS = (Algorithm.ROLLING_WINDOW, Algorithm.ROLLING_RING, Algorithm.CONCURRENT)
_LIMITS = sorted({round(10 ** (step / 12)) for step in range(40)} | {127, 128, 129, 130, 2000})
_TIMES = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))
_SOURCES = {"samples": "from two readings of each primary", "uptime": "on average since the servers started"}
_PARTS = (
    *("data", "table_doubling", "cluster_slots", "replication_backlog", "client_buffers", "baseline"),
    *("fragmentation", "copy_on_write"),
)


def model_page(found: Published, base: MemoryRequest, states: Mapping[str, int]) -> str:
    """The page of `capacity model`: published and predicted bytes of each algorithm."""
    where = f"{found.server}, {found.allocator} size classes"
    head = ("source", "algorithm", "encoding", "limit", "users", "claimed B/user", "real B/user", "ratio", "real total")
    rows = [
        (
            *(row.claim.source, row.claim.algorithm.value, row.claim.encoding, str(row.claim.limit)),
            *(str(row.claim.users), str(row.claim.bytes_per_user), f"{row.truth.bytes_per_user:.0f}"),
            *(f"{row.ratio:.1f}", size_words(row.truth.total_bytes)),
        )
        for row in found.rows
    ]
    return page(
        "rlctl capacity model",
        "Rate-limit memory: published figures and real servers",
        f"Growth of used_memory for each user at the full limit, on {where}. Data only, without reserve.",
        [
            Chapter(
                title="Logs and leases, by limit",
                text="Solid: the scripts of this release. Dashed: the published model. At the step a sorted set "
                "becomes a skip list. A ring with four bytes for each request has no such step.",
                svg=_logs_plot(base, states),
            ),
            Chapter(
                title="Buckets and counters",
                text="Their size does not depend on the limit. Most of it is the key, its expiry and the tables.",
                svg=_counters_plot(base, states),
            ),
            Chapter(title="All published figures", text=where, table=Table(head=head, rows=rows, numbers_from=3)),
        ],
    )


def plan_page(found: CapacityPlan) -> str:
    """The page of `capacity plan`: the memory of a server by parts and by users."""
    first = found.mix.requests[0]
    lost = found.after_losing_one
    head = ("part", "all shards up", "after losing one")
    rows = [
        (name.replace("_", " "), size_words(value), size_words(lost.to_json()[name]) if lost else "-")
        for name, value in found.per_shard.to_json().items()
        if name != "users"
    ]
    return page(
        "rlctl capacity plan",
        f"Capacity plan: {found.mix.users} users on {found.shards} shards",
        f"{found.servers} servers, {first.server}, {first.allocator} size classes, maxmemory "
        f"{found.worst.maxmemory // 2**20}mb, RAM of each server {size_words(found.ram)}.",
        [
            Chapter(
                title="Where a server's memory goes",
                text="The lower bar must fit: it shows the same users after the loss of a shard.",
                svg=_parts_plot(found),
                table=Table(head=head, rows=rows),
            ),
            Chapter(
                title="Memory by users",
                text="Memory of a server as the number of users grows. Tables double in steps.",
                svg=_growth_plot(found),
            ),
        ],
    )


def measure_page(found: FleetMeasurement) -> str:
    """The page of `capacity measure`: the growth of the fleet's memory, and the bytes of its users."""
    head = ("rule", "algorithm", "keys", "+-", "MEMORY USAGE", "real B/user", "+-", "predicted", "total")
    rows = [
        (
            *(
                printable(row.name.rule or "(no rule)"),
                row.name.algorithm or "-",
                f"{row.keys.value:.0f}",
                f"{row.keys.error:.0f}",
            ),
            *(f"{row.memory_usage:.1f}", f"{row.bytes.value:.1f}" if row.bytes else "-"),
            *(f"{row.bytes.error:.1f}" if row.bytes else "-", f"{row.predicted:.1f}" if row.predicted else "-"),
            size_words(row.total_bytes) if row.total_bytes is not None else "unknown",
        )
        for row in found.rows
    ]
    missing = (
        f" Shards that were not read: {', '.join(map(str, found.missing_shards))}." if found.missing_shards else ""
    )
    return page(
        "rlctl capacity measure",
        f"Capacity of {found.name}",
        f"{len(found.nodes)} servers read.{missing}",
        [
            *_fill_chapters(found),
            Chapter(
                title="Bytes for each user",
                text="MEMORY USAGE, the real bytes of a key, and the prediction.",
                svg=_rules_plot(found) if found.rows else "",
                table=Table(head=head, rows=rows, numbers_from=2),
            ),
        ],
    )


def _logs_plot(base: MemoryRequest, states: Mapping[str, int]) -> str:
    with drawing(
        "logs", "Bytes for each user by limit, published models and the scripts of this release", height_in=5.0
    ) as plot:
        for algorithm, colour in zip(_LOGS, SERIES, strict=False):
            asked = replace(base, algorithm=algorithm, key_length=20, member=_member(base, algorithm))
            real = [predict(replace(asked, limit=limit), states).bytes_per_user for limit in _LIMITS]
            plot.axes.plot(_LIMITS, real, color=colour, linewidth=2, label=f"{algorithm}, real")
        for algorithm, colour in ((_LOGS[0], SERIES[0]), (_LOGS[2], SERIES[2])):
            claimed = [claimed_bytes(algorithm, limit) for limit in _LIMITS]
            factor = claimed_bytes(algorithm, 1)
            label = f"{algorithm}, claimed {factor} x limit"
            plot.axes.plot(_LIMITS, claimed, color=colour, linewidth=1.4, linestyle="--", label=label)
        cap = base.zset_max_listpack_entries
        plot.axes.axvline(cap + 0.5, color=LINE, linewidth=1)
        plot.axes.annotate(
            f"listpack cap {cap}", (cap, 1), xycoords=("data", "axes fraction"), xytext=(-6, -10),
            textcoords="offset points", ha="right", color=INK,
        )  # fmt: skip
        _log_axes(plot)
        plot.axes.set_xlabel("limit: requests in the window, or leases held")
        plot.axes.set_ylabel("bytes for each user")
        plot.axes.legend(loc="upper left")
        return plot.svg()


def _log_axes(plot: Drawing) -> None:
    plot.axes.set_xscale("log")
    plot.axes.set_yscale("log")
    plot.axes.xaxis.set_major_formatter(lambda value, _position: f"{value:g}")
    plot.axes.minorticks_off()
    plot.axes.yaxis.set_major_formatter(_size)


def _member(base: MemoryRequest, algorithm: Algorithm) -> Form:
    return Form(name="text:36") if algorithm is Algorithm.CONCURRENT else base.member


def _counters_plot(base: MemoryRequest, states: Mapping[str, int]) -> str:
    algorithms = [algorithm for algorithm in Algorithm if not algorithm.is_log]
    real = [predict(replace(base, algorithm=one, key_length=20), states).bytes_per_user for one in algorithms]
    claimed = [float(claimed_bytes(one, 1)) for one in algorithms]
    with drawing(
        "counters",
        "Bytes for each user of buckets and counters, published models and the scripts of this release",
        height_in=3.6,
    ) as plot:
        _pairs(plot, [one.value for one in algorithms], {"claimed": claimed, "real": real})
        plot.axes.set_ylabel("bytes for each user")
        return plot.svg()


def _pairs(plot: Drawing, names: Sequence[str], series: Mapping[str, Sequence[float]]) -> None:
    """Draw grouped bars with their values on top."""
    width = 0.8 / len(series)
    for number, ((label, values), colour) in enumerate(zip(series.items(), SERIES, strict=False)):
        at = [place + (number - (len(series) - 1) / 2) * width for place in range(len(names))]
        bars = plot.axes.bar(at, values, width * 0.92, color=colour, label=label)
        plot.axes.bar_label(bars, fmt=lambda value: f"{value:.0f}", color=INK)
    plot.axes.set_xticks(range(len(names)), names)
    plot.axes.legend(loc="upper left", bbox_to_anchor=(0, 1.14), ncols=len(series))


def _parts_plot(found: CapacityPlan) -> str:
    lost = found.after_losing_one
    shards: list[tuple[str, ShardMemory]] = [("all shards up", found.per_shard)]
    shards += [("after losing one", lost)] if lost else []
    with drawing("parts", "Where a server's memory goes", height_in=3.2) as plot:
        starts = [0.0] * len(shards)
        for number, part in enumerate(_PARTS):
            values = [float(shard.to_json()[part]) for _label, shard in shards]
            alpha = 1.0 if number < len(SERIES) else 0.45
            colour = SERIES[number % len(SERIES)]
            labels = [label for label, _shard in shards]
            plot.axes.barh(labels, values, left=starts, color=colour, label=part.replace("_", " "), alpha=alpha)
            starts = [start + value for start, value in zip(starts, values, strict=True)]
        if found.given_ram is not None:
            plot.axes.axvline(found.given_ram, color=INK, linewidth=1.4, linestyle="--", label="RAM given")
        plot.axes.grid(visible=False, axis="y")
        plot.axes.invert_yaxis()
        plot.axes.xaxis.set_major_formatter(_size)
        _legend_below(plot)
        return plot.svg()


def _growth_plot(found: CapacityPlan) -> str:
    counts = [max(1, found.mix.users * step // 40) for step in range(1, 61)]
    plans = [replace(found, mix=found.mix.with_users(count)) for count in counts]
    with drawing("growth", "Memory of one server by users in the fleet") as plot:
        users = [one.mix.users for one in plans]
        plot.axes.plot(users, [one.per_shard.total for one in plans], color=SERIES[0], linewidth=2, label="all shards")
        if found.shards > 1:
            totals = [one.worst.total for one in plans]
            plot.axes.plot(users, totals, color=SERIES[1], linewidth=2, label="after losing one")
        plot.axes.axhline(found.ram, color=INK, linewidth=1.2, linestyle="--", label="RAM")
        plot.axes.axvline(found.mix.users, color=LINE, linewidth=1.2, label="planned users")
        plot.axes.xaxis.set_major_formatter(lambda value, _position: f"{value / 1e6:g} M")
        plot.axes.set_xlabel("users in the fleet")
        plot.axes.set_ylim(bottom=0)
        plot.axes.yaxis.set_major_formatter(_size)
        _legend_below(plot)
        return plot.svg()


def _fill_plot(found: FleetMeasurement) -> str:
    started_s = min(readings[0].at_s for readings in found.series.values())
    with drawing("fill", "Used memory of each primary over time") as plot:
        for number, (name, readings) in enumerate(sorted(found.series.items())):
            at = [reading.at_s - started_s for reading in readings]
            used = [reading.counted_bytes for reading in readings]
            colour = SERIES[number % len(SERIES)]
            plot.axes.plot(at, used, color=colour, linewidth=2, marker="o", markersize=3, label=name)
        plot.axes.set_xlabel("seconds since the first reading")
        plot.axes.set_ylabel("memory that counts against maxmemory")
        plot.axes.yaxis.set_major_formatter(_size)
        _legend_below(plot)
        return plot.svg()


def _rules_plot(found: FleetMeasurement) -> str:
    rows = [row for row in found.rows if row.name.rule is not None]
    series: dict[str, Sequence[float]] = {"MEMORY USAGE": [row.memory_usage for row in rows]}
    if all(row.bytes is not None for row in rows):
        series["real"] = [row.bytes.value for row in rows if row.bytes]
    if all(row.predicted is not None for row in rows):
        series["predicted"] = [row.predicted for row in rows if row.predicted is not None]
    with drawing("rules", "Bytes for each user of each rule: MEMORY USAGE, real, predicted", height_in=3.6) as plot:
        _pairs(plot, [printable(str(row.name.rule)) for row in rows], series)
        plot.axes.set_ylabel("bytes for each user")
        return plot.svg()


def _outlook_plot(found: FleetMeasurement, full_in_s: float) -> str:
    unit, size = next(pair for pair in _TIMES if full_in_s >= pair[1] or pair[1] == 1)
    most_s = full_in_s * 1.3
    with drawing(
        "outlook", "Used memory of each primary until the first one is full, at the current growth rate", height_in=3.6
    ) as plot:
        for number, (name, readings) in enumerate(sorted(found.series.items())):
            first, last = readings[0], readings[-1]
            rate = growth_rate(first, last)
            used = [last.counted_bytes, last.counted_bytes + rate * most_s]
            plot.axes.plot([0, most_s / size], used, color=SERIES[number % len(SERIES)], linewidth=2, label=name)
        full = min(readings[-1].maxmemory_bytes for readings in found.series.values())
        plot.axes.axhline(full, color=INK, linewidth=1.2, linestyle="--", label="maxmemory")
        plot.axes.set_xlabel(f"{unit} from now")
        plot.axes.set_ylim(bottom=0)
        plot.axes.yaxis.set_major_formatter(_size)
        _legend_below(plot)
        return plot.svg()


def _fill_chapters(found: FleetMeasurement) -> Iterator[Chapter]:
    yield Chapter(
        title="Fill over time",
        text="Readings of INFO during the measurement.",
        svg=_fill_plot(found) if found.series else "",
    )
    flow = found.forecast
    full_in_s = flow.full_in_s if flow else None
    svg = _outlook_plot(found, full_in_s) if full_in_s else ""
    yield Chapter(title="Until it is full", text=" ".join(_outlook_sentences(found)), svg=svg)


def _legend_below(plot: Drawing) -> None:
    # The legend is below the axes, because inside the axes it could cover a line.
    figure = plot.axes.get_figure(root=True)
    assert figure is not None
    figure.legend(loc="outside lower center", ncols=5)


def _size(value: float, _position: float) -> str:
    return size_words(value)


def _outlook_sentences(found: FleetMeasurement) -> Iterator[str]:
    flow = found.forecast
    if flow is None:
        yield "The growth rate is unknown: not every primary could be read twice."
        return
    yield f"The fleet grows by {size_words(flow.bytes_per_s)} a second ({_SOURCES[flow.source]})."
    if flow.full_in_s is None:
        yield "No shard is filling towards its maxmemory."
    else:
        unit, size = next(pair for pair in _TIMES if flow.full_in_s >= pair[1] or pair[1] == 1)
        yield f"At that rate the first shard is full in {flow.full_in_s / size:.1f} {unit}."
