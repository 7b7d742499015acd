"""The command line and its completion, through `launch.main` in this process."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.fuzz.inputs import NASTY_TEXT, NUMBERS, words
from tests.fuzz.reader import Reader
from tests.fuzz.user import User

_KEYS = words(
    """shape shape.seq_len shape.batch shape.num_heads shape.head_dim_nope shape.seed
    shape.projection shape.name gpu gpu.name gpu.request recipe recipe.name recipe.fp8_dpa backend
    tolerance job benchmark benchmark.blocks benchmark.min_fprop_speedup cluster cluster.scheduler
    cluster.partition cluster.setup cluster.env cluster.env.A cluster.nice cluster.sbatch.time
    cluster.container.image cluster.dependency launch launch.points_per_job launch.time_min
    launch.memory_gib launch.share launch.point_time_limit_s launch.retries grid grid.axes wait
    tolerance. report watch interval_s lines compare.threshold compare.ignore every hydra.mode
    hydra.verbose hydra.searchpath nope shape@gpu a.b.c = gpu/x recipe@recipe _target_
    defaults hydra/help""",
    *("", "override shape"),
)
VALUES = (
    words(
        r"""tiny dsv3 h200 gb300 cpu mxfp8 bf16 te slurm dlcluster 128 1024,2048 a,b [a,b] [ { }
        {a:1} {a:{b:c}} ' " range(1,4) range(0,3,0.5) range(3,1) interval(1,2) choice(1,2) glob(*)
        glob(s*,exclude=s) sort(3,1) shuffle(1,2) tag(a,1) int(x) float(1e400) str(1) bool(2)
        json_str(1) extend_list(1) off null ${shape.batch} ${nope} ${oc.env:NOPE} ${oc.env:HOME}
        ${hydra:x} ${ ${shape} ${.} ${..a} \${a} ??? 1_000 0x10 001 1e3 +1 a=b a:b \ ~ true false
        quick none probe""",
        *("a b", "a\tb"),
    )
    | NUMBERS.map(str)
    | NASTY_TEXT
    | st.text(max_size=8)
)
_PREFIXES = st.sampled_from(["", "", "", "", "+", "++", "~"])
OVERRIDES = st.builds(lambda sign, key, value: f"{sign}{key}={value}", _PREFIXES, _KEYS, VALUES)
_VALID = words(
    """shape=tiny shape.seq_len=128,256 shape.batch=1,2 recipe=bf16,mxfp8 gpu=cpu gpu=h200,gb300
    shape=dsv3 backend=te cluster=local launch.retries=1 launch.points_per_job=3
    cluster.comment=${oc.env:HOME} grid=seq_len grid=none tolerance=seed benchmark=quick,off
    job=probe shape.seed=range(0,4) cluster.env={A:b} +cluster.env.B=1 cluster.setup=[a,b]
    +cluster.sbatch.x=y shape.rope_kernel=triton shape.num_heads=1 benchmark.blocks=10
    shape.name=me"""
)
_FLAGS = words(
    """--multirun -m --cfg --cfg=job job --info --info=all plugins --resolve --package -p --help -h
    --config-name --config-dir -cn=x --config-dir=/nope --nope - -- --- -x --run
    --config-path=. =x"""
)
_IDS = words(
    """latest 14 14_1 14_[0-2] 14.batch p-0001 s-nope local-1 99 14_[ 14_[2-1] p- s-../x here/
    gathered/ baseline/x x/y""",
    "9" * 30,
)
_PLAIN = (NASTY_TEXT | st.text(max_size=8)).filter(
    lambda word: "/" not in word and "~" not in word
)
_WORDS = {
    "plan": st.lists(OVERRIDES | OVERRIDES | _FLAGS | _PLAIN, max_size=3)
    | st.lists(_VALID, max_size=4, unique_by=lambda word: word.partition("=")[0]),
    "status": st.lists(_IDS | OVERRIDES | _PLAIN, max_size=4),
    "collect": st.lists(_IDS | _IDS | OVERRIDES | _PLAIN, max_size=4),
    "compare": st.lists(_IDS | _IDS | OVERRIDES | _PLAIN, max_size=4),
    "logs": st.lists(_IDS | OVERRIDES | _PLAIN, max_size=3),
}


def command_line_readers(user: User) -> list[Reader]:
    """Return the readers of what a user types."""
    commands = st.sampled_from(sorted(_WORDS)).flatmap(
        lambda verb: st.tuples(st.just(verb), _WORDS[verb])
    )
    return [
        Reader(
            "command line",
            commands,
            lambda command: user.run(command[0], *command[1]),
            60,
            ("plan", ["shape=tiny", "shape.seed=1,2"]),
        ),
        Reader(
            "completion",
            st.lists(OVERRIDES | _FLAGS | _IDS, max_size=3),
            user.complete,
            20,
            ["shape=ti"],
            "refuses nothing: an invalid line is completed by no word",
        ),
    ]
